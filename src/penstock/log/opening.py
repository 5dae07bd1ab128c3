"""The opening of one log: the state found so far, and the files that it writes.

Files that a full disk rejects stay in memory and are written later, in the order of a roll. Until
then the recovery point stays, so the next start finds the same state. Waits for the disk; for start
only.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.log.checkpoints import format_epochs
from penstock.log.config import LogConfig
from penstock.log.corrupt_batches import Damaged, format_damaged, read_damaged
from penstock.log.directory import (
    DAMAGE_FILE,
    EPOCHS_FILE,
    HOLES_FILE,
    INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    segment_file,
)
from penstock.log.epochs import LeaderEpochs
from penstock.log.holes import ANYWHERE, Holes
from penstock.log.log import Log, LogRecovery
from penstock.log.segment import ActiveSegment
from penstock.log.segment_close import persist_segment
from penstock.world import Disk, DiskFailed, DiskFull, File


@dataclass(slots=True)
class Opening:
    """The state of one opening."""

    disk: Disk
    directory: str
    config: LogConfig
    now_ms: int
    recovery_point: int
    salvage: bool
    names: set[str]
    bases: list[int]
    epochs: LeaderEpochs
    recovery: LogRecovery
    measured: bool  # the files have the sizes of the clean stop
    sync_follows: bool
    scanned: Callable[[int], None] | None  # receives the number of bytes read and checked
    may_wait: bool  # files that a full disk rejects may be written later
    recorded_holes: Holes
    any_hole: bool  # offsets may be missing anywhere before later ones
    owes: bool = False  # a later start could not rebuild some unwritten file
    owes_mark: bool = False  # the log may lack offsets, and no file tells that yet
    # The last closed segments with unwritten files, and the producers at their ends.
    unwritten: dict[int, tuple[ActiveSegment, bytes]] = field(default_factory=dict)

    def path(self, base_offset: int, suffix: str) -> str:
        return segment_file(self.directory, base_offset, suffix)

    def has(self, base_offset: int, suffix: str) -> bool:
        return f"{base_offset:020d}{suffix}" in self.names

    @contextmanager
    def if_there_is_room(self) -> Iterator[None]:
        """Run a write that may be postponed if the disk is full."""
        try:
            yield
        except DiskFull as failure:
            if not self.may_wait:
                raise
            self.recovery.full = failure
            self.owes = True

    def write_epochs(self) -> None:
        """Write the epochs found in the batches.

        A log of one segment has all epochs in its batches, so the file is optional there. If the
        disk is full, the file is skipped. Without an old file, or if the caller syncs afterwards,
        the file is not synced: so thousands of small logs recover in seconds.
        """
        path = f"{self.directory}/{EPOCHS_FILE}"
        data = format_epochs(self.epochs.entries())
        if len(self.bases) > 1:
            with self.if_there_is_room():
                self.disk.replace_now(path, data)
            return
        try:
            if self.sync_follows or EPOCHS_FILE not in self.names:
                self.disk.put_now(path, data)
            else:
                self.disk.replace_now(path, data)
        except DiskFull as failure:
            self.recovery.full = failure  # the next start finds the same epochs

    def mark_holes(self) -> None:
        """Mark the log as one that may lack offsets. On a full disk the mark is written later."""
        self.any_hole = True
        if not self.recorded_holes.anywhere:
            put = self.disk.replace_now if self.salvage else self.disk.put_now
            try:
                put(f"{self.directory}/{HOLES_FILE}", ANYWHERE.to_bytes())
                self.recorded_holes = ANYWHERE
            except DiskFull as failure:
                self.recovery.full = failure
                self.owes_mark = True

    def may_lack(self, first: int, end: int) -> bool:
        """Return whether the log may lack the offsets from `first` up to `end`."""
        return self.any_hole or self.recorded_holes.cover(first, end)

    def write_damaged(self, damaged: Collection[Damaged]) -> None:
        path = f"{self.directory}/{DAMAGE_FILE}"
        self.disk.replace_now(path, format_damaged(damaged))
        self.names.add(DAMAGE_FILE)

    def end_of(self, number: int) -> int:
        """Return the limit of segment `number`: the base offset of the next one."""
        return self.bases[number + 1] if number + 1 < len(self.bases) else 2**63 - 1


def listed_damage(opening: Opening) -> list[Damaged]:
    if DAMAGE_FILE not in opening.names:
        return []
    return read_damaged(opening.disk, opening.directory)


def all_damaged(opening: Opening) -> list[Damaged]:
    """Return the damaged batches of this recovery and of earlier ones."""
    noted = listed_damage(opening)
    damaged = sorted({*noted, *opening.recovery.corrupt})
    if damaged != noted:
        with opening.if_there_is_room():
            opening.write_damaged(damaged)
    elif not damaged and DAMAGE_FILE in opening.names:
        opening.disk.remove_now(f"{opening.directory}/{DAMAGE_FILE}")
    return damaged


def write_closed_segment(
    opening: Opening, segment: ActiveSegment, end_offset: int, producers: bytes
) -> None:
    """Write the files that a roll writes. After the first failure all later segments wait too,
    because a snapshot vouches for all segments before it."""
    segment.finish()
    with opening.if_there_is_room():
        if not opening.unwritten:
            write_indexes(opening, segment)
            opening.disk.replace_now(opening.path(end_offset, SNAPSHOT), producers)
            opening.names.add(f"{end_offset:020d}{SNAPSHOT}")
            return
    opening.unwritten[segment.base_offset] = segment, producers


def write_indexes(opening: Opening, segment: ActiveSegment) -> None:
    segment.finish()
    base, disk = segment.base_offset, opening.disk
    if segment.aborted:
        disk.replace_now(opening.path(base, TXN_INDEX), bytes(segment.aborted))
        opening.names.add(f"{base:020d}{TXN_INDEX}")
    elif opening.has(base, TXN_INDEX):
        disk.remove_now(opening.path(base, TXN_INDEX))
        opening.names.discard(f"{base:020d}{TXN_INDEX}")
    sync_now(segment.file)
    disk.replace_now(opening.path(base, TIME_INDEX), bytes(segment.times.data))
    disk.replace_now(opening.path(base, INDEX), segment.index.to_bytes())


def sync_now(file: File) -> None:
    """Sync a file; raise DiskFailed even for a full disk. A second sync may succeed although the
    bytes are gone."""
    try:
        file.sync_now()
    except DiskFull as failure:
        raise DiskFailed(str(failure)) from failure


def queue_unwritten_files(opening: Opening, log: Log, recovery_point: int) -> None:
    """Queue the files that a full disk rejected."""
    if opening.owes:
        _queue_recovered_files(opening, log, recovery_point)
    if opening.owes_mark:
        _queue_hole_mark(log)


def _queue_recovered_files(opening: Opening, log: Log, recovery_point: int) -> None:
    """Queue the unwritten files in the order of the segments, as after a roll. Segments come first:
    retention may delete them, which frees room for the rest."""
    log.recovery_point_max = recovery_point
    for closed in log.closed:
        if closed.base_offset in opening.unwritten:
            segment, producers = opening.unwritten[closed.base_offset]
            segment.file.park()
            persist_segment(log, closed, segment, cut=False, producers=producers)
    log.snapshots = sorted(set(log.snapshots))
    if log.damaged:
        log.chores.replace(f"{log.directory}/{DAMAGE_FILE}", format_damaged(log.damaged))
    log.write_epochs()
    log.chores.then(log.free_recovery_point)


def _queue_hole_mark(log: Log) -> None:
    """Queue the mark that a full disk rejected. A kill before takes a log with holes offline."""

    def marked() -> None:
        log.holes = ANYWHERE

    log.chores.replace(f"{log.directory}/{HOLES_FILE}", ANYWHERE.to_bytes())
    log.chores.then(marked)
