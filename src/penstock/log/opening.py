"""The opening of one log: what is known of it so far, and what is written down on the way.

What there is no room for beside the records is kept in memory and written when there is some, in
the order in which a roll would have. Until then the recovery point stays where it was: the next
start comes to the same by itself. Waits for the disk; for start only.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.log.checkpoints import format_epochs
from penstock.log.closing import persist
from penstock.log.config import LogConfig
from penstock.log.damage import Damaged, format_damaged, read_damaged
from penstock.log.directory import (
    DAMAGE_FILE,
    EPOCHS_FILE,
    INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    segment_file,
)
from penstock.log.epochs import LeaderEpochs
from penstock.log.log import Log, Recovery
from penstock.log.segment import ActiveSegment
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
    recovery: Recovery
    measured: bool  # its files are as long as they were at the stop
    sync_follows: bool
    scanned: Callable[[int], None] | None  # hears of bytes that were read and checked
    may_wait: bool  # what there is no room for
    owes: bool = False  # something that the next start could not find by itself
    # Closed segments, the last ones, whose files are owed; with the producers at their ends.
    unwritten: dict[int, tuple[ActiveSegment, bytes]] = field(default_factory=dict)

    def path(self, base_offset: int, suffix: str) -> str:
        return segment_file(self.directory, base_offset, suffix)

    def has(self, base_offset: int, suffix: str) -> bool:
        return f"{base_offset:020d}{suffix}" in self.names

    @contextmanager
    def if_there_is_room(self) -> Iterator[None]:
        """For what can be written later as well."""
        try:
            yield
        except DiskFull as failure:
            if not self.may_wait:
                raise
            self.recovery.full = failure
            self.owes = True

    def write_epochs(self) -> None:
        """Of a log of one segment all epochs were found in its batches, and would be again. So a
        disk without room for the file is no obstacle, and the file is not synced if there was none
        or the caller syncs all before anything is appended: thousands of small logs recover in
        seconds for that."""
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
            self.recovery.full = failure  # without it the next start finds the same

    def write_damaged(self, damaged: Collection[Damaged]) -> None:
        path = f"{self.directory}/{DAMAGE_FILE}"
        self.disk.replace_now(path, format_damaged(damaged))
        self.names.add(DAMAGE_FILE)

    def end_of(self, place: int) -> int:
        """Where the segment at `place` must end at the latest."""
        return self.bases[place + 1] if place + 1 < len(self.bases) else 2**63 - 1


def noted_damage(opening: Opening) -> list[Damaged]:
    if DAMAGE_FILE not in opening.names:
        return []
    return read_damaged(opening.disk, opening.directory)


def all_damaged(opening: Opening) -> list[Damaged]:
    """Those that this recovery has found, and those that an earlier one has."""
    noted = noted_damage(opening)
    damaged = sorted({*noted, *opening.recovery.corrupt})
    if damaged != noted:
        with opening.if_there_is_room():
            opening.write_damaged(damaged)
    elif not damaged and DAMAGE_FILE in opening.names:
        opening.disk.remove_now(f"{opening.directory}/{DAMAGE_FILE}")
    return damaged


def write_down(opening: Opening, segment: ActiveSegment, end_offset: int, producers: bytes) -> None:
    """What a roll writes of a segment. After the first one that there is no room for the others
    wait too: those that are not written come last, and a snapshot stands for all before it."""
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
    """For want of room as well it is never tried again: the second one may succeed although the
    bytes are gone."""
    try:
        file.sync_now()
    except DiskFull as failure:
        raise DiskFailed(str(failure)) from failure


def write_later(opening: Opening, log: Log, recovery_point: int) -> None:
    """In the order of the segments, as if they had just been closed. First what retention may make
    needless, and so frees: what waits for room must not be in its way."""
    log.recovery_point_max = recovery_point
    for closed in log.closed:
        if closed.base_offset in opening.unwritten:
            segment, producers = opening.unwritten[closed.base_offset]
            segment.file.park()
            persist(log, closed, segment, cut=False, producers=producers)
    log.snapshots = sorted(set(log.snapshots))
    if log.damaged:
        log.chores.replace(f"{log.directory}/{DAMAGE_FILE}", format_damaged(log.damaged))
    log.write_epochs()
    log.chores.then(log.free_recovery_point)
