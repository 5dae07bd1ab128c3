"""Records of the ladder's topics that are not due yet, held per partition: pure.

A partition with held records is paused, so one fetch bounds the records held. Records of one
partition leave in their order: all of them wait equally long, so the first is due first.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.client.records import Record
from penstock.model import TopicPartition

Raw = Record[bytes, bytes]


@dataclass(slots=True)
class DelayQueue:
    """Held records of one process."""

    _held: dict[TopicPartition, deque[tuple[int, Raw]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """Return the partitions with held records."""
        return list(self._held)

    def holds(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._held

    def put(self, record: Raw, due_ms: int) -> None:
        self._held.setdefault(record.place, deque()).append((due_ms, record))

    def take_due(self, now_ms: int) -> list[Raw]:
        """Remove and return the records that are due, partition by partition."""
        due: list[Raw] = []
        for topic_partition, held in list(self._held.items()):
            while held and held[0][0] <= now_ms:
                due.append(held.popleft()[1])
            if not held:
                del self._held[topic_partition]
        return due

    def next_due_ms(self) -> int | None:
        """Return the time at which the first record is due; None if the queue is empty."""
        return min((held[0][0] for held in self._held.values()), default=None)

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Forget the records of partitions that moved to another member."""
        for topic_partition in topic_partitions:
            self._held.pop(topic_partition, None)
