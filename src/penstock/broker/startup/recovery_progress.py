"""Progress of opening the logs of a node, for the terminal and for /status.

After a clean stop the logs open in moments; after a kill the end of every log is read.
"""

from collections.abc import Callable, Iterator

from penstock.broker.progress import TaskProgress
from penstock.world import Clock


def _ignore(_progress: TaskProgress) -> None:
    """Do nothing."""


class RecoveryProgress:
    """Progress of one start. `watch` is called at every step, and at the end."""

    def __init__(self, clock: Clock) -> None:
        self.watch: Callable[[TaskProgress], None] = _ignore
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
        """Note the log that is opened next."""
        self._where = where

    def scanned(self, size: int) -> None:
        """Count bytes that recovery has read and checked."""
        self._scanned_bytes += size
        self.watch(self._now())

    def opened(self) -> None:
        self._done += 1
        self.watch(self._now())

    def end(self) -> None:
        """Note that all logs are open, or offline."""
        self._under_way = False
        self._done = self._total
        self.watch(self._now())

    def _now(self) -> TaskProgress:
        return TaskProgress(
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

    def progress(self) -> Iterator[TaskProgress]:
        if self._under_way:
            yield self._now()
