"""Logs that the cleaner looks at again later; the last time set for a log counts."""

import heapq
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition

OVERTAKEN_MAX = 64  # overtaken entries, beside as many as there are valid ones


class DeferredLooks:
    """A heap whose overtaken entries are dropped when they come up, or become too many."""

    def __init__(self) -> None:
        self._times: dict[Partition, int] = {}
        self._heap: list[tuple[int, int, Partition]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, partition: "Partition", at_ms: int) -> None:
        if self._times.get(partition) == at_ms:
            return
        self._times[partition] = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._order), partition))
        self._tidy()

    def forget(self, partition: "Partition") -> None:
        if self._times.pop(partition, None) is not None:
            self._tidy()

    def take_due(self, now_ms: int) -> "Iterator[Partition]":
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, partition = heapq.heappop(self._heap)
            if self._times.get(partition) == at_ms:
                del self._times[partition]
                yield partition

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._times) + OVERTAKEN_MAX:
            good = [each for each in self._heap if self._times.get(each[2]) == each[0]]
            heapq.heapify(good)
            self._heap = good
