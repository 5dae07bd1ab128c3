"""flush.messages and flush.ms under log.durability=page-cache: which partition is synced when.

flush.messages is looked at with every append, as in Kafka: the one that makes it due is not
answered, nor seen by anybody, before the sync. flush.ms is no promise to those who write: a
partition that was written to is synced when its oldest unsynced record has that age, or at the
first look of log.flush.scheduler.interval.ms after that. Only partitions that wait for their time
are known here; one that nobody writes to costs nothing. Under fsync there is nothing to do.
"""

import heapq
from math import inf
from typing import TYPE_CHECKING

from penstock.log.config import UNBOUNDED

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition
    from penstock.world import Timer


class Flushing:
    """The partitions whose time will come, the soonest first."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._clock = broker.world.clock
        self._due: list[tuple[float, int, Partition]] = []
        self._order = 0
        self._timer: Timer | None = None
        self._timer_ms = inf
        self._began_ms = self._clock.mono_ms()
        interval_ms = broker.config.integer("log.flush.scheduler.interval.ms")
        self._interval_ms = interval_ms if 0 < interval_ms < UNBOUNDED else 0

    def __len__(self) -> int:
        return len(self._due)

    def written(self, partition: "Partition") -> None:
        """The oldest unsynced record of a partition has just been written."""
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
        self._timer = self._broker.world.timers.at(at, self._look)

    def _next_look(self, due_ms: float) -> float:
        """At the moment itself, or at the next look at all partitions, where those are set."""
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
                self._broker.touch()
        self._set_timer()
