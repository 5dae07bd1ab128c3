"""The disk of one simulated replica: files as the process sees them, and their durable part.

A sync makes the changes durable that came before it. A loss of power keeps the durable part and
any number of the first changes after it. A kill keeps everything, but makes nothing durable.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from penstock.raft.log_view import (
    BOOTSTRAP_SNAPSHOT,
    EpochStart,
    LogView,
    StoredSnapshot,
    continues_snapshot,
)
from penstock.raft.quorum_state import QuorumState
from penstock.raft.snapshot import MetadataSnapshotId


class SimBatch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    data: bytes
    is_control: bool


Change = SimBatch | int  # an appended batch, or the offset of a truncation


class BatchLog:
    """Batches in a row."""

    __slots__ = ("batches", "start_offset")

    def __init__(self, start_offset: int = 0, batches: list[SimBatch] | None = None) -> None:
        self.start_offset = start_offset
        self.batches = batches or []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start_offset

    def index_of(self, offset: int) -> int:
        """Return the index of the batch that begins at `offset`, or of the next one."""
        return bisect_left(self.batches, offset, key=lambda batch: batch.base_offset)

    def batch_before(self, end_offset: int) -> SimBatch | None:
        """Return the batch that ends at `end_offset`."""
        index = self.index_of(end_offset) - 1
        if index >= 0 and self.batches[index].end_offset == end_offset:
            return self.batches[index]
        return None

    def apply(self, change: Change) -> None:
        if isinstance(change, int):
            del self.batches[self.index_of(change) :]
        elif change.base_offset >= self.start_offset:
            assert change.base_offset == self.end_offset, "batches follow each other"
            self.batches.append(change)

    def cut(self, start_offset: int) -> None:
        del self.batches[: self.index_of(start_offset)]
        self.start_offset = max(self.start_offset, start_offset)

    def copy(self) -> "BatchLog":
        return BatchLog(self.start_offset, list(self.batches))


class SimQuorumDisk:
    """The files of one replica: quorum-state, the log and snapshots."""

    def __init__(self) -> None:
        self.election: QuorumState | None = None
        self.durable_election: QuorumState | None = None
        self.log = BatchLog()
        self.durable_log = BatchLog()
        self.unsynced: list[Change] = []
        self.snapshots: dict[MetadataSnapshotId, bytes] = {}  # complete ones are durable

    # -- the log

    def append(self, batch: SimBatch) -> None:
        self.log.apply(batch)
        self.unsynced.append(batch)

    def truncate(self, offset: int) -> None:
        self.log.apply(offset)
        self.unsynced.append(offset)

    def sync(self, changes: int) -> None:
        """Make the first unsynced changes durable."""
        for change in self.unsynced[:changes]:
            self.durable_log.apply(change)
        del self.unsynced[:changes]

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Return whole batches from `offset` on, at least one."""
        index = self.log.index_of(offset)
        parts = [self.log.batches[index].data]
        size = len(parts[0])
        for batch in self.log.batches[index + 1 :]:
            size += len(batch.data)
            if size > bytes_max:
                break
            parts.append(batch.data)
        return b"".join(parts)

    # -- snapshots

    def cut(self, start_offset: int, forgotten: tuple[MetadataSnapshotId, ...]) -> None:
        for snapshot_id in forgotten:
            self.snapshots.pop(snapshot_id, None)
        self.log.cut(start_offset)
        self.durable_log.cut(start_offset)

    def begin_behind(self, snapshot_id: MetadataSnapshotId) -> None:
        """Replace the log by an empty one behind a snapshot, the only one from now on."""
        self.snapshots = {snapshot_id: self.snapshots[snapshot_id]}
        self.log = BatchLog(snapshot_id.end_offset)
        self.durable_log = BatchLog(snapshot_id.end_offset)
        self.unsynced.clear()

    # -- ends of a process

    def lose_power(self, random_below: Callable[[int], int]) -> None:
        self.sync(random_below(len(self.unsynced) + 1))
        self.unsynced.clear()
        self.log = self.durable_log.copy()
        self.election = self.durable_election

    def open_log(self) -> LogView:
        """Return the log as a start finds it; begin again behind a snapshot that it lacks."""
        view = self._view()
        latest = view.latest_snapshot
        if latest not in (None, BOOTSTRAP_SNAPSHOT) and not continues_snapshot(view, latest):
            self.begin_behind(latest)
            view = self._view()
        return view

    def _view(self) -> LogView:
        epochs: list[EpochStart] = []
        for batch in self.log.batches:
            if not epochs or batch.epoch > epochs[-1].epoch:
                epochs.append(EpochStart(batch.epoch, batch.base_offset))
        snapshots = [StoredSnapshot(key, len(data)) for key, data in self.snapshots.items()]
        return LogView(self.log.start_offset, self.log.end_offset, epochs, snapshots)
