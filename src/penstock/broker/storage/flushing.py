"""flush.messages and flush.ms under log.durability=page-cache: which partition is synced when.

As in Kafka, flush.messages applies to every append: the append that reaches it is answered, and
visible, only after the sync. flush.ms is no promise to producers: a partition is synced when its
oldest unsynced record has that age, or at the next tick of log.flush.scheduler.interval.ms. Only
partitions with unsynced records wait here; idle ones cost nothing. Under fsync nothing waits.
"""

import heapq
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from penstock.log.config import UNBOUNDED

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition
    from penstock.world import Clock, Timer, Timers


class FlushScheduler:
    """Partitions that wait for flush.ms, the soonest first."""

    def __init__(
        self, clock: "Clock", timers: "Timers", touch: Callable[[], None], interval_ms: int
    ) -> None:
        """Make an empty schedule. `touch` asks for a round of syncs at the end of the turn."""
        self._clock = clock
        self._timers = timers
        self._touch = touch
        self._due: list[tuple[float, int, Partition]] = []
        self._order = 0
        self._timer: Timer | None = None
        self._timer_ms = inf
        self._began_ms = self._clock.mono_ms()
        self._interval_ms = interval_ms if 0 < interval_ms < UNBOUNDED else 0

    def __len__(self) -> int:
        return len(self._due)

    def written(self, partition: "Partition") -> None:
        """Schedule the sync of a partition whose oldest unsynced record was just appended."""
        partition.flush_queued = True
        due_ms = self._clock.mono_ms() + partition.settings.flush_ms
        self._order += 1
        heapq.heappush(self._due, (due_ms, self._order, partition))
        self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due.clear()

    def _set_timer(self) -> None:
        at = self._next_look(self._due[0][0]) if self._due else inf
        if at >= self._timer_ms or at == inf:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = at
        self._timer = self._timers.at(at, self._look)

    def _next_look(self, due_ms: float) -> float:
        """Return the due time, or the next tick of log.flush.scheduler.interval.ms."""
        if not self._interval_ms:
            return due_ms
        looks = -(-(due_ms - self._began_ms) // self._interval_ms)
        return self._began_ms + looks * self._interval_ms

    def _look(self) -> None:
        self._timer = None
        self._timer_ms = inf
        now_ms = self._clock.mono_ms()
        while self._due and self._due[0][0] <= now_ms:
            _, _, partition = heapq.heappop(self._due)
            partition.flush_queued = False
            if partition.gone or partition.directory.failed or not partition.unsynced:
                continue
            if partition.settings.flush_ms < UNBOUNDED:
                partition.directory.wrote(partition)
                self._touch()
        self._set_timer()
