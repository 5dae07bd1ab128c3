"""How far the opening of a node's logs is: for the terminal of whoever waits for it.

After a clean stop that is a matter of moments; after a kill the end of every log is read.
"""

from collections.abc import Callable, Iterator

from penstock.broker.progress import Progress
from penstock.world import Clock


def _nobody(_progress: Progress) -> None:
    """Nobody looks."""


class Recovering:
    """Of one start. `watch` is called at every step, and a last time when all is done."""

    def __init__(self, clock: Clock) -> None:
        self.watch: Callable[[Progress], None] = _nobody
        self._clock = clock
        self._since_ms = 0
        self._done = 0
        self._total = 0
        self._scanned_bytes = 0
        self._where = ""
        self._under_way = False

    def begin(self, partitions: int) -> None:
        self._since_ms = self._clock.wall_ms()
        self._done, self._total = 0, partitions
        self._under_way = True

    def open(self, where: str) -> None:
        """This log is next."""
        self._where = where

    def scanned(self, size: int) -> None:
        """So much more of it was read and checked."""
        self._scanned_bytes += size
        self.watch(self._now())

    def opened(self) -> None:
        self._done += 1
        self.watch(self._now())

    def end(self) -> None:
        """Everything that can be opened is."""
        self._under_way = False
        self._done = self._total
        self.watch(self._now())

    def _now(self) -> Progress:
        return Progress(
            "recover",
            self._where,
            self._done,
            self._total,
            "partitions",
            self._since_ms,
            f"{self._scanned_bytes} bytes scanned",
        )

    @property
    def scanned_bytes(self) -> int:
        return self._scanned_bytes

    def progress(self) -> Iterator[Progress]:
        if self._under_way:
            yield self._now()
