"""Offsets, epochs and snapshots of the metadata log, as the machine knows them.

LogView holds no bytes and reads no file. The machine changes it together with each effect on the
log, so the view is the log as it will be when all effects have been performed.
Invariants: epochs and their start offsets rise; start <= synced <= end.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from penstock.raft.snapshot import MetadataSnapshotId

BOOTSTRAP_SNAPSHOT = MetadataSnapshotId(0, 0)  # written by formatting; never leaves its node


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end of an epoch in a log. Tuples compare as logs do: by epoch, then by offset."""

    epoch: int
    end_offset: int


class StoredSnapshot(NamedTuple):
    """A complete snapshot on the disk, with the size of its file."""

    id: MetadataSnapshotId
    size_bytes: int


class LogView:
    """The metadata log of one replica, without its bytes."""

    def __init__(
        self,
        start_offset: int = 0,
        end_offset: int = 0,
        epochs: Sequence[EpochStart] = (),
        snapshots: Sequence[StoredSnapshot] = (),
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        # An earlier life may have written the log without syncing it.
        self.synced_offset = start_offset
        self.epochs = list(epochs)
        self.snapshots = sorted(snapshots)

    # -- questions

    @property
    def latest_snapshot(self) -> MetadataSnapshotId | None:
        return self.snapshots[-1].id if self.snapshots else None

    @property
    def earliest_snapshot(self) -> MetadataSnapshotId | None:
        return self.snapshots[0].id if self.snapshots else None

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last record; of an empty log, the epoch of its snapshot."""
        if self.epochs:
            return self.epochs[-1].epoch
        return self.snapshots[-1].id.epoch if self.snapshots else 0

    @property
    def end(self) -> EpochEnd:
        return EpochEnd(self.last_epoch, self.end_offset)

    def find_snapshot(self, snapshot_id: MetadataSnapshotId) -> StoredSnapshot | None:
        return next((each for each in self.snapshots if each.id == snapshot_id), None)

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the last record below `offset`."""
        index = bisect_right(self.epochs, offset - 1, key=lambda each: each.start_offset)
        if index:
            return self.epochs[index - 1].epoch
        covering = [each.id.epoch for each in self.snapshots if each.id.end_offset == offset]
        return covering[0] if covering else 0

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the end of the largest epoch up to `epoch`.

        A later epoch than the last one has the end of the log. Below the first epoch the answer
        is the start of the log, in the epoch of the snapshot there.
        """
        if not self.epochs or epoch >= self.epochs[-1].epoch:
            return self.end
        index = bisect_right(self.epochs, epoch, key=lambda each: each.epoch)
        following = self.epochs[index].start_offset
        if index:
            return EpochEnd(self.epochs[index - 1].epoch, following)
        earliest = self.earliest_snapshot
        if earliest is not None and following == earliest.end_offset:
            return EpochEnd(earliest.epoch, following)
        return EpochEnd(epoch, following)

    # -- changes

    def append(self, base_offset: int, end_offset: int, epoch: int) -> None:
        assert base_offset == self.end_offset, "batches follow each other without a gap"
        assert epoch >= self.last_epoch, "epochs never fall within a log"
        if not self.epochs or epoch > self.epochs[-1].epoch:
            self.epochs.append(EpochStart(epoch, base_offset))
        self.end_offset = end_offset

    def truncate(self, offset: int) -> None:
        """Drop all records from `offset` on."""
        assert self.start_offset <= offset <= self.end_offset, "truncation stays within the log"
        while self.epochs and self.epochs[-1].start_offset >= offset:
            self.epochs.pop()
        self.end_offset = offset
        self.synced_offset = min(self.synced_offset, offset)

    def cut(self, start_offset: int) -> None:
        """Drop all records below `start_offset`, which a snapshot holds."""
        assert start_offset <= self.end_offset, "the log still reaches its newest snapshot"
        while len(self.epochs) > 1 and self.epochs[1].start_offset <= start_offset:
            del self.epochs[0]
        if self.epochs and self.epochs[0].start_offset < start_offset < self.end_offset:
            self.epochs[0] = EpochStart(self.epochs[0].epoch, start_offset)
        elif start_offset == self.end_offset:
            self.epochs.clear()
        self.start_offset = max(self.start_offset, start_offset)
        self.synced_offset = max(self.synced_offset, start_offset)

    def begin_at(self, snapshot: StoredSnapshot) -> None:
        """Begin an empty log behind a snapshot, the only one from now on."""
        self.start_offset = self.end_offset = self.synced_offset = snapshot.id.end_offset
        self.epochs.clear()
        self.snapshots = [snapshot]


def continues_snapshot(log: LogView, snapshot_id: MetadataSnapshotId) -> bool:
    """Return whether a log found at start holds the record that a snapshot ends with.

    A crash can separate the installation of a snapshot from the replacement of the log. A log
    that ends earlier, or has another epoch there, has to begin again behind the snapshot.
    """
    end_offset, epoch = snapshot_id
    if log.start_offset > end_offset or log.end_offset < end_offset:
        return False
    if end_offset > log.start_offset:
        return log.epoch_before(end_offset) == epoch
    # A truncation that was not synced can come back behind the snapshot, with its old epoch.
    return not log.epochs or log.epochs[0].epoch >= epoch
