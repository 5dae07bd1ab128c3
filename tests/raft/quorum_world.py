"""A quorum of one voter on a simulated disk, and its follower."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.broker.metadata.quorum_files import (
    METADATA_DIRECTORY,
    DiskQuorumFiles,
)
from penstock.broker.metadata.snapshot_files import (
    write_snapshot_now,
)
from penstock.broker.metadata.stored_log import open_stored_log
from penstock.raft.quorum import Quorum, QuorumSettings
from penstock.raft.replica import ReplicaSettings
from penstock.raft.snapshot import (
    MetadataSnapshotId,
    snapshot_batches,
)
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.testing.sim.disk import SimDisk
from penstock.world import DiskFailed

FIRST = MetadataSnapshotId(0, 0)
ME = QuorumVoter(1, b"d" * 16, (VoterEndpoint("CONTROLLER", "localhost", 9093),))


class Still:
    """A clock that stands still. Timers are refused; calls for later run at once."""

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def mono_ms(self) -> float:
        return 0.0

    def at(self, mono_ms: float, call: Any) -> Any:  # noqa: ARG002
        raise AssertionError("the quorum of one sets no timer")

    def soon(self, call: Any) -> None:
        call()

    def after_turn(self, call: Any) -> None:
        call()


@dataclass
class Watching:
    """A follower of the quorum, and all that the quorum has reported to it."""

    commits: list[int] = field(default_factory=list)
    losses: int = 0

    def gained(self) -> None: ...

    def lost(self) -> None:
        self.losses += 1

    def committed(self, offset: int) -> None:
        self.commits.append(offset)


def snapshot(
    disk: SimDisk,
    snapshot_id: MetadataSnapshotId = FIRST,
    values: Sequence[bytes] = (),
    voters: tuple[QuorumVoter, ...] = (ME,),
    kraft_version: int = 1,
) -> str:
    """Write a snapshot to the metadata directory; return its path."""
    disk.make_directory(METADATA_DIRECTORY)
    path = f"{METADATA_DIRECTORY}/{snapshot_id.file_name}"
    batches = snapshot_batches(
        snapshot_id,
        iter(values),
        timestamp_ms=5,
        now_ms=6,
        kraft_version=kraft_version,
        voters=voters,
    )
    write_snapshot_now(disk, path, batches)
    return path


class NoTransport:
    """A transport of a node without others."""

    def send(self, *request: object) -> None:
        raise AssertionError(f"the only voter sends nothing: {request}")


def make(disk: SimDisk, me: QuorumVoter = ME) -> tuple[Quorum, Watching, list[DiskFailed]]:
    """Return a quorum that has not started, its follower, and the failures it reports."""
    failures: list[DiskFailed] = []
    quorum = Quorum(
        DiskQuorumFiles(disk, Still(), open_stored_log(disk, METADATA_DIRECTORY, Still())),
        Still(),
        Still(),
        me,
        QuorumSettings(ReplicaSettings(cluster_id="")),
        NoTransport(),
        lambda _limit: 0,
        encode=bytes,
        decode=lambda data: data,
        failed=failures.append,
        diverged=_no_leader,
    )
    watching = Watching()
    quorum.follow(watching)
    return quorum, watching, failures


def _no_leader(text: str) -> None:
    raise AssertionError(f"the only voter follows nobody: {text}")


def records_of(quorum: Quorum) -> list[Any]:
    """Return all records of the snapshot and the log behind it."""
    reader = quorum.read()
    found: list[Any] = []
    while batches := reader.next_slice():
        for batch in batches:
            found += batch.records
    return found
