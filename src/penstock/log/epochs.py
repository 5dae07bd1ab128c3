"""The start offset of each leader epoch.

Invariant: epochs and start offsets both rise. Answers OffsetForLeaderEpoch, and finds the offset
where a follower diverged from its leader.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

UNKNOWN = (-1, -1)


class LeaderEpochs:
    """The epochs in memory; the log writes the file where a restart could not rebuild them."""

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
        """Note the start of an epoch and drop contradicting entries. Return whether anything
        changed."""
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
        """Note a batch of `epoch` at `offset`: the epoch began there at the latest. Known entries
        win over a contradiction, unless the epoch is newer than all."""
        index = bisect_left(self.epochs, epoch)
        if index == len(self.epochs):
            self.assign(epoch, offset)
            return
        if epoch < 0 or (index and self.starts[index - 1] >= offset):
            return
        if self.epochs[index] == epoch:
            self.starts[index] = min(self.starts[index], offset)
        elif self.starts[index] > offset:
            self.epochs.insert(index, epoch)
            self.starts.insert(index, offset)

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch` and its end offset; UNKNOWN for a newer
        epoch."""
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
        """Return the epoch of an offset; -1 if unknown."""
        index = bisect_right(self.starts, offset)
        return self.epochs[index - 1] if index else -1

    def cut_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at or after `end_offset`; return whether any did."""
        keep = bisect_left(self.starts, end_offset)
        if keep == len(self.starts):
            return False
        del self.epochs[keep:], self.starts[keep:]
        self.latest = self.epochs[-1] if self.epochs else -1
        return True

    def cut_start(self, start_offset: int) -> bool:
        """Forget epochs that ended before `start_offset`; the current one now begins there. Return
        whether anything changed."""
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
