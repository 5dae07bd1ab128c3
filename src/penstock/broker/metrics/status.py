"""The pages for operators: /health/ready with reasons, and /status with directories and tasks."""

import sys
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.broker.metrics.snapshot import LogDirSnapshot
from penstock.release import VERSION

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
DUTIES_MAX = 1_000  # listed one by one
LISTED_MAX = 1_000  # partitions and directories that need an operator


def python_version() -> str:
    """Return the version of Python. The module `platform` would take milliseconds to load."""
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
        "started_ms": broker.world.process_stats().started_ms,
        "now_ms": now_ms,
        "stopping": broker.stopping,
        "directories": [_directory(LogDirSnapshot(each)) for each in broker.replicas.directories],
        "uncleanable": _uncleanable(broker)[:LISTED_MAX],
        "uncleanable_left_out": max(0, len(broker.cleaner.uncleanable) - LISTED_MAX),
        "strays": _strays(broker),
        "strays_left_out": max(0, _strays_count(broker) - LISTED_MAX),
        "duties": duties,
        "duties_left_out": left_out,
    }


def _uncleanable(broker: "Broker") -> list[Json]:
    """Return the partitions that compaction gave up, with reasons."""
    return [
        {"partition": str(each), "directory": each.directory.disk.root, "reason": reason}
        for each, reason in broker.cleaner.uncleanable.items()
    ]


def _strays(broker: "Broker") -> list[Json]:
    """Return stray directories as of the last look; ask for the next look."""
    found: list[Json] = []
    for directory in broker.replicas.directories:
        directory.strays_known = False
        some = directory.strays[: LISTED_MAX - len(found)]
        found += (f"{directory.disk.root}/{name}" for name in some)
    return found


def _strays_count(broker: "Broker") -> int:
    return sum(len(each.strays) for each in broker.replicas.directories)


def _directory(seen: LogDirSnapshot) -> Json:
    directory = seen.directory
    return {
        "path": directory.disk.root,
        "state": "failed" if directory.failed else "full" if directory.full else "works",
        "reason": str(directory.failed) if directory.failed else None,
        "partitions": len(directory.partitions),
        "free_bytes": seen.free_bytes,
        "total_bytes": seen.total_bytes,
    }


class Check(NamedTuple):
    """One condition; `reason` is empty if the condition holds."""

    name: str
    reason: str


def readiness(broker: "Broker | None") -> list[Check]:
    """Return all conditions. `broker` is None while the node opens its directories."""
    if broker is None:
        return [Check("started", "the node is starting")]
    started = "" if broker.ready else "the logs are being opened or recovered"
    stopping = "the node is stopping" if broker.stopping else ""
    working = [each for each in broker.replicas.directories if not each.failed]
    total = len(broker.replicas.directories)
    directories = "" if working else f"none of {total} log directories works"
    metadata = "" if broker.metadata.describe().leader_id >= 0 else "no controller is known"
    registered = broker.image.brokers.get(broker.node_id)
    is_fenced = registered is not None and registered.fenced
    fenced = "the controller has fenced this broker" if is_fenced else ""
    return [
        Check("started", started),
        Check("not_stopping", stopping),
        Check("metadata", metadata),
        Check("not_fenced", fenced),
        Check("directories", directories),
    ]
