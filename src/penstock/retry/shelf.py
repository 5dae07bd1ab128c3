"""Records of the ladder's topics that are not due yet, held per partition: pure.

A partition whose records are held is not read on, so what is held is bounded by what one step of
reading brings. Records of one partition leave in their order: whoever wrote them waits equally
long for each, so none is due before one that stands in front of it.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.client.records import Record
from penstock.model import TopicPartition

Raw = Record[bytes, bytes]


@dataclass(slots=True)
class Shelf:
    """Of one process."""

    _held: dict[TopicPartition, deque[tuple[int, Raw]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def places(self) -> list[TopicPartition]:
        """Partitions of which something is held."""
        return list(self._held)

    def holds(self, place: TopicPartition) -> bool:
        return place in self._held

    def put(self, record: Raw, due_ms: int) -> None:
        self._held.setdefault(record.place, deque()).append((due_ms, record))

    def take_due(self, now_ms: int) -> list[Raw]:
        """Those that are due, partition by partition."""
        due: list[Raw] = []
        for place, held in list(self._held.items()):
            while held and held[0][0] <= now_ms:
                due.append(held.popleft()[1])
            if not held:
                del self._held[place]
        return due

    def next_due_ms(self) -> int | None:
        """When the first falls due; None if nothing is held."""
        return min((held[0][0] for held in self._held.values()), default=None)

    def drop(self, places: Iterable[TopicPartition]) -> None:
        """These partitions went elsewhere."""
        for place in places:
            self._held.pop(place, None)
