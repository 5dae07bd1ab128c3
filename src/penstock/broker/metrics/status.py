"""What /status says: the node, its directories, what is wrong with their partitions, and where its
long duties are. Values for JSON."""

import sys
from typing import TYPE_CHECKING, TypeAlias

from penstock.broker.metrics.seen import DirectorySeen
from penstock.release import VERSION

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
DUTIES_MAX = 1_000  # told one by one
TOLD_MAX = 1_000  # of what needs somebody's hand


def python_version() -> str:
    """`platform` has one that takes milliseconds to load."""
    return ".".join(map(str, sys.version_info[:3]))


def status(broker: "Broker") -> dict[str, Json]:
    now_ms = broker.world.clock.wall_ms()
    duties: list[Json] = []
    left_out = 0
    for reporter in broker.reporters:
        for each in reporter.progress():
            if len(duties) < DUTIES_MAX:
                duties.append({**each._asdict()})
            else:
                left_out += 1
    return {
        "version": VERSION,
        "python": python_version(),
        "node_id": broker.node_id,
        "cluster_id": broker.metadata.cluster_id,
        "started_ms": broker.world.vitals().started_ms,
        "now_ms": now_ms,
        "stopping": broker.stopping,
        "directories": [_directory(DirectorySeen(each)) for each in broker.hosting.directories],
        "uncleanable": _uncleanable(broker)[:TOLD_MAX],
        "uncleanable_left_out": max(0, len(broker.cleaning.uncleanable) - TOLD_MAX),
        "strays": _strays(broker),
        "strays_left_out": max(0, _strays_count(broker) - TOLD_MAX),
        "duties": duties,
        "duties_left_out": left_out,
    }


def _uncleanable(broker: "Broker") -> list[Json]:
    """Partitions that compaction has given up, and why."""
    return [
        {"partition": str(each), "directory": each.directory.disk.root, "reason": reason}
        for each, reason in broker.cleaning.uncleanable.items()
    ]


def _strays(broker: "Broker") -> list[Json]:
    """Directories of partitions that the cluster does not place here, as they were when somebody
    last looked; the next look is soon."""
    found: list[Json] = []
    for directory in broker.hosting.directories:
        directory.strays_known = False
        some = directory.strays[: TOLD_MAX - len(found)]
        found += (f"{directory.disk.root}/{name}" for name in some)
    return found


def _strays_count(broker: "Broker") -> int:
    return sum(len(each.strays) for each in broker.hosting.directories)


def _directory(seen: DirectorySeen) -> Json:
    directory = seen.directory
    return {
        "path": directory.disk.root,
        "state": "failed" if directory.failed else "full" if directory.full else "works",
        "reason": str(directory.failed) if directory.failed else None,
        "partitions": len(directory.partitions),
        "free_bytes": seen.free_bytes,
        "total_bytes": seen.total_bytes,
    }
