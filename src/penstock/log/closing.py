"""What is written down of a segment that takes no more appends.

Off the loop, in this order: the log itself first, and the snapshot of its end last. That one
stands for the rest: where it is, recovery takes the log for durable and the indexes for those of
the whole segment. An index alone may be left from a clean stop or from before a truncation; where
it is missing, recovery rebuilds the segment.

A segment that leaves the log meanwhile is written down all the same, and its files go after that:
the snapshot of its end is all that is left to tell the producers of what follows. Only when there
is no room for that, it goes as it is, and the snapshot follows when there is.
"""

from typing import TYPE_CHECKING

from penstock.log.checkpoints import format_epochs
from penstock.log.directory import EPOCHS_FILE, INDEX, SNAPSHOT, TIME_INDEX, TXN_INDEX, segment_file
from penstock.log.files import Step
from penstock.log.segment import ActiveSegment, ClosedSegment
from penstock.world import DiskFailed, DiskFull, Done

if TYPE_CHECKING:
    from penstock.log.log import Log


def persist(
    log: "Log",
    closed: ClosedSegment,
    old: ActiveSegment,
    *,
    cut: bool,
    producers: bytes | None = None,
) -> None:
    """`cut` says that the file may have more room than it used; `producers` are those at its end,
    if that is not the end of the log."""
    disk, chores, file = log.disk, _OfASegment(log, closed), old.file
    if cut:
        chores.add(lambda done: file.truncate(old.size, done))
    chores.add(lambda done: file.sync(lambda failure: done(_final(failure))))
    if old.aborted:
        chores.replace(closed.path(TXN_INDEX), bytes(old.aborted))
    else:  # one may be left from before a truncation
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
            log.files.drop(closed.path(suffix))  # it may be a file that was replaced
        closed.memory = None
        if closed.when_written is None:
            log.segment_closed()
            return
        closed.when_written()
        if chores.given_up and closed.end_offset in log.snapshots:
            log.chores.replace(snapshot, at_end)

    log.chores.then(written)


class _OfASegment:
    """Chores that are given up, all that are left, if there is no room and the segment goes."""

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
    """A failed sync is never tried again, not even on a disk that was full: the second one may
    succeed although the bytes are gone."""
    return DiskFailed(str(failure)) if isinstance(failure, DiskFull) else failure
