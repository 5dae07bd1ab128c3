"""Writes the files of a segment that takes no more appends.

The steps run off the loop, in this order: the log first, the producer snapshot of its end last.
Where the snapshot exists, recovery trusts the log and the indexes of the whole segment. An index
without a snapshot may remain from a clean stop or from before a truncation. Where the snapshot is
missing, recovery rebuilds the segment.

A segment that leaves the log meanwhile is still written, and its files go afterwards: later
segments need the producer snapshot of its end. If the disk is full, the segment goes unwritten, and
the snapshot follows once there is room.
"""

from typing import TYPE_CHECKING

from penstock.log.checkpoints import format_epochs
from penstock.log.directory import EPOCHS_FILE, INDEX, SNAPSHOT, TIME_INDEX, TXN_INDEX, segment_file
from penstock.log.files import Step
from penstock.log.segment import ActiveSegment, ClosedSegment
from penstock.world import DiskFailed, DiskFull, Done

if TYPE_CHECKING:
    from penstock.log.log import Log


def persist_segment(
    log: "Log",
    closed: ClosedSegment,
    old: ActiveSegment,
    *,
    cut: bool,
    producers: bytes | None = None,
) -> None:
    """Queue the files of `closed`. `cut` trims preallocated bytes; `producers` is the snapshot at
    the segment's end, if the log goes on after that."""
    disk, chores, file = log.disk, _SegmentChores(log, closed), old.file
    if cut:
        chores.add(lambda done: file.truncate(old.size, done))
    chores.add(lambda done: file.sync(lambda failure: done(_final(failure))))
    if old.aborted:
        chores.replace(closed.path(TXN_INDEX), bytes(old.aborted))
    else:  # an index may remain from before a truncation
        chores.add(lambda done: disk.remove(closed.path(TXN_INDEX), done))
    chores.replace(closed.path(TIME_INDEX), bytes(old.times.data))
    chores.replace(f"{log.directory}/{EPOCHS_FILE}", format_epochs(log.epochs.entries()))
    chores.replace(closed.path(INDEX), old.index.to_bytes())
    snapshot = segment_file(log.directory, closed.end_offset, SNAPSHOT)
    at_end = log.producers.to_snapshot() if producers is None else producers
    chores.replace(snapshot, at_end)
    log.snapshots.append(closed.end_offset)
    log.owed_snapshots[closed.end_offset] = at_end

    def written() -> None:
        log.owed_snapshots.pop(closed.end_offset, None)
        for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
            log.files.drop(closed.path(suffix))  # the cached file may be a replaced one
        closed.memory = None
        if closed.when_written is None:
            log.segment_closed()
            return
        closed.when_written()
        if chores.given_up and closed.end_offset in log.snapshots:
            log.chores.replace(snapshot, at_end)

    log.chores.then(written)


class _SegmentChores:
    """The chores of one segment. If the disk is full and the segment leaves, the remaining ones are
    dropped."""

    def __init__(self, log: "Log", closed: ClosedSegment) -> None:
        self._disk = log.disk
        self._chores = log.chores
        self._closed = closed
        self.given_up = False

    def replace(self, path: str, data: bytes) -> None:
        self.add(lambda done: self._disk.replace(path, data, done))

    def add(self, step: Step) -> None:
        def unless_given_up(done: Done) -> None:
            def ended(failure: DiskFailed | None) -> None:
                if isinstance(failure, DiskFull) and self._closed.when_written is not None:
                    self.given_up = True
                    failure = None
                done(failure)

            if self.given_up:
                done(None)
            else:
                step(ended)

        self._chores.add(unless_given_up)


def _final(failure: DiskFailed | None) -> DiskFailed | None:
    """Turn DiskFull of a sync into DiskFailed: a second sync may succeed although the bytes are
    gone."""
    return DiskFailed(str(failure)) if isinstance(failure, DiskFull) else failure
