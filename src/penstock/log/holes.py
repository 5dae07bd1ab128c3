"""Offsets that a log may lack, on record in a file of its directory.

Compaction and an accepted loss leave holes anywhere; an empty file stands for those. The log of a
follower has the holes of its leader. Each of them is on record before the batch behind it is
appended. A start takes a hole that is not on record for a lost segment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.log.directory import HOLES_FILE
from penstock.world import DiskFailed, DiskFull, Done

if TYPE_CHECKING:
    from penstock.log.log import Log

HOLES_MAX: Final = 1_000  # with more of them, offsets may be missing anywhere


class Hole(NamedTuple):
    """Offsets without records, from `first` up to `end`."""

    first: int
    end: int


class UnrecordedHoles(Exception):
    """Batches would leave holes that are not on record. Nothing is stored."""

    def __init__(self, holes: list[Hole]) -> None:
        super().__init__(f"{len(holes)} holes are not on record")
        self.holes = tuple(holes)


@dataclass(frozen=True, slots=True)
class Holes:
    """The holes on record."""

    known: tuple[Hole, ...] = ()
    anywhere: bool = False

    def cover(self, first: int, end: int) -> bool:
        return self.anywhere or any(each.first <= first and end <= each.end for each in self.known)

    def joined(self, holes: tuple[Hole, ...]) -> "Holes":
        known = self.known + holes
        return ANYWHERE if self.anywhere or len(known) > HOLES_MAX else Holes(known)

    def to_bytes(self) -> bytes:
        return b"" if self.anywhere else b"".join(b"%d %d\n" % each for each in self.known)

    @staticmethod
    def from_bytes(data: bytes) -> "Holes":
        """Return the holes of a file; an unreadable file may have named any."""
        try:
            known = tuple(Hole(*map(int, line.split())) for line in data.splitlines())
        except (ValueError, TypeError):
            return ANYWHERE
        return Holes(known) if known else ANYWHERE


NO_HOLES: Final = Holes()
ANYWHERE: Final = Holes(anywhere=True)


def record_holes(log: "Log", holes: tuple[Hole, ...], done: Done) -> None:
    """Put holes on record durably, then call `done`. A compacted log gets others anyway."""

    def record(next_chore: Callable[[DiskFailed | None], None]) -> None:
        wanted = ANYWHERE if log.config.compact else log.holes.joined(holes)

        def recorded(failure: DiskFailed | None) -> None:
            if failure is None:
                log.holes = wanted
            # The caller tries again on a full disk.
            next_chore(None if isinstance(failure, DiskFull) else failure)
            done(failure)

        log.disk.replace(f"{log.directory}/{HOLES_FILE}", wanted.to_bytes(), recorded)

    log.removals.add(record)  # where a swap of compacted segments writes the same file
