"""Which partitions of this member belong together: a source's, and those of its steps: pure.

A partition of a source can be worked on once this member has the partitions of the same number of
all its steps, too, and until it loses one of them. The range assignor gives them together where
topics have equally many partitions and members subscribe alike; the consumer protocol may bring
them one by one, and while a group rolls to another ladder they may be apart for a while.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.model import TopicPartition


class Source(NamedTuple):
    """One partition of a source topic."""

    topic: str
    partition: int


class Ownership:
    """`together`: each source topic with the topics of its steps."""

    def __init__(self, together: Mapping[str, Iterable[str]]) -> None:
        self._together = {topic: (topic, *steps) for topic, steps in together.items()}
        self._source_of = {
            each: topic for topic, topics in self._together.items() for each in topics
        }
        self._owned: dict[TopicPartition, None] = {}
        self._whole: dict[Source, None] = {}

    @property
    def topics(self) -> list[str]:
        """All that has to be subscribed to."""
        return list(self._source_of)

    def source_of(self, place: TopicPartition) -> Source:
        return Source(self._source_of[place.topic], place.partition)

    def places(self, source: Source) -> list[TopicPartition]:
        """What has to be owned for a source partition; itself comes first."""
        return [TopicPartition(each, source.partition) for each in self._together[source.topic]]

    def gained(self, places: Iterable[TopicPartition]) -> list[Source]:
        """Source partitions that are whole now."""
        self._owned.update(dict.fromkeys(places))
        whole = []
        for source in dict.fromkeys(map(self.source_of, self._owned)):
            if source not in self._whole and self._is_whole(source):
                self._whole[source] = None
                whole.append(source)
        return whole

    def lost(self, places: Iterable[TopicPartition]) -> list[Source]:
        """Source partitions that are whole no more."""
        for place in places:
            self._owned.pop(place, None)
        broken = [each for each in self._whole if not self._is_whole(each)]
        for source in broken:
            del self._whole[source]
        return broken

    def is_whole(self, source: Source) -> bool:
        return source in self._whole

    @property
    def apart(self) -> list[TopicPartition]:
        """Owned and not to be worked on: others that belong to them are missing."""
        return [each for each in self._owned if self.source_of(each) not in self._whole]

    def _is_whole(self, source: Source) -> bool:
        return all(place in self._owned for place in self.places(source))
