"""Which leader epoch began at which offset.

Invariant: epochs and start offsets both rise. Answers OffsetForLeaderEpoch, and tells a follower
where it parted from its leader.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

UNKNOWN = (-1, -1)


class LeaderEpochs:
    """In memory only; the log writes it down where a restart could not rebuild it."""

    __slots__ = ("epochs", "latest", "starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.epochs: list[int] = []
        self.starts: list[int] = []
        self.latest = -1
        for epoch, offset in entries:
            self.assign(epoch, offset)

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.starts, strict=True))

    def assign(self, epoch: int, offset: int) -> bool:
        """Note that an epoch begins; entries that contradict it go. False if nothing changed."""
        if epoch < 0 or offset < 0:
            return False
        if self.epochs and epoch == self.latest and offset >= self.starts[-1]:
            return False
        while self.epochs and (self.epochs[-1] >= epoch or self.starts[-1] >= offset):
            self.epochs.pop()
            self.starts.pop()
        self.epochs.append(epoch)
        self.starts.append(offset)
        self.latest = epoch
        return True

    def note(self, epoch: int, offset: int) -> None:
        """A batch at `offset` was written in `epoch`, which began there at the latest. What is
        known and contradicts that stays, unless the epoch is newer than all."""
        place = bisect_left(self.epochs, epoch)
        if place == len(self.epochs):
            self.assign(epoch, offset)
            return
        if epoch < 0 or (place and self.starts[place - 1] >= offset):
            return
        if self.epochs[place] == epoch:
            self.starts[place] = min(self.starts[place], offset)
        elif self.starts[place] > offset:
            self.epochs.insert(place, epoch)
            self.starts.insert(place, offset)

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch`, and where it ends; UNKNOWN if beyond us."""
        if epoch < 0:
            return UNKNOWN
        if epoch == self.latest:
            return epoch, log_end
        higher = bisect_right(self.epochs, epoch)
        if higher == len(self.epochs):
            return UNKNOWN
        if higher == 0:
            return epoch, self.starts[0]
        return self.epochs[higher - 1], self.starts[higher]

    def at(self, offset: int) -> int:
        """The epoch that an offset was written in; -1 if it is not known."""
        place = bisect_right(self.starts, offset)
        return self.epochs[place - 1] if place else -1

    def cut_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at or after `end_offset`."""
        keep = bisect_left(self.starts, end_offset)
        if keep == len(self.starts):
            return False
        del self.epochs[keep:], self.starts[keep:]
        self.latest = self.epochs[-1] if self.epochs else -1
        return True

    def cut_start(self, start_offset: int) -> bool:
        """Forget what ended before `start_offset`; the epoch in force there begins there."""
        gone = bisect_right(self.starts, start_offset)
        if gone == 0 or (gone == 1 and self.starts[0] == start_offset):
            return False
        self.starts[gone - 1] = start_offset
        del self.epochs[: gone - 1], self.starts[: gone - 1]
        return True

    def clear(self) -> None:
        self.epochs.clear()
        self.starts.clear()
        self.latest = -1
