"""Which partitions of this member belong together: a source's, and those of its steps: pure.

A source partition is handled while this member owns the partitions of the same number in all its
retry topics. The range assignor assigns them together if topics have equally many partitions and
members subscribe alike. The consumer protocol may assign them one by one. While members have
different ladders, the partitions may have different owners for a while.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.model import TopicPartition


class SourcePartition(NamedTuple):
    """One partition of a source topic."""

    topic: str
    partition: int


class Ownership:
    """Partitions of this member; `together` has each source topic with its retry topics."""

    def __init__(self, together: Mapping[str, Iterable[str]]) -> None:
        self._together = {topic: (topic, *steps) for topic, steps in together.items()}
        self._source_of = {
            each: topic for topic, topics in self._together.items() for each in topics
        }
        self._owned: dict[TopicPartition, None] = {}
        self._whole: dict[SourcePartition, None] = {}

    @property
    def topics(self) -> list[str]:
        """Return all topics to subscribe to."""
        return list(self._source_of)

    def source_of(self, topic_partition: TopicPartition) -> SourcePartition:
        return SourcePartition(self._source_of[topic_partition.topic], topic_partition.partition)

    def topic_partitions(self, source: SourcePartition) -> list[TopicPartition]:
        """Return the partitions that a source partition needs; the source partition comes first."""
        return [TopicPartition(each, source.partition) for each in self._together[source.topic]]

    def gained(self, topic_partitions: Iterable[TopicPartition]) -> list[SourcePartition]:
        """Add partitions; return the source partitions that are complete now."""
        self._owned.update(dict.fromkeys(topic_partitions))
        whole = []
        for source in dict.fromkeys(map(self.source_of, self._owned)):
            if source not in self._whole and self._is_whole(source):
                self._whole[source] = None
                whole.append(source)
        return whole

    def lost(self, topic_partitions: Iterable[TopicPartition]) -> list[SourcePartition]:
        """Remove partitions; return the source partitions that are incomplete now."""
        for topic_partition in topic_partitions:
            self._owned.pop(topic_partition, None)
        broken = [each for each in self._whole if not self._is_whole(each)]
        for source in broken:
            del self._whole[source]
        return broken

    def is_whole(self, source: SourcePartition) -> bool:
        return source in self._whole

    @property
    def separated(self) -> list[TopicPartition]:
        """Return owned partitions that wait for others of their source partition."""
        return [each for each in self._owned if self.source_of(each) not in self._whole]

    def _is_whole(self, source: SourcePartition) -> bool:
        return all(
            topic_partition in self._owned for topic_partition in self.topic_partitions(source)
        )
