"""The leader of each partition, from metadata, and whether its topic was recreated.

The first id of a topic is remembered, unless the caller gave one. If a topic is deleted and created
again under the same name, the new one is never mistaken for the old one.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.client.cluster.nodes import Nodes
from penstock.client.cluster.topics import ask_topics
from penstock.client.raw.outcomes import PartitionMissing, TopicMissing, TopicRecreated
from penstock.client.values import PartitionDescription, TopicDescription
from penstock.errors import (
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model import ZERO_ID, TopicPartition


class KnownLeader(NamedTuple):
    """The leader of a partition; the zero topic id stands for a server without topic ids."""

    node_id: int
    epoch: int
    topic_id: bytes


class Leaders:
    """The leaders of partitions, from metadata."""

    def __init__(self, nodes: Nodes, topic_ids: Mapping[str, bytes] | None = None) -> None:
        self._nodes = nodes
        self._topic_ids = dict(topic_ids or {})
        self._topics: dict[str, TopicDescription | KafkaError] = {}

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask for metadata of these topics. Raise CannotReach if no node answers."""
        names = list(dict.fromkeys(topics))
        if names:
            self._topics.update(ask_topics(self._nodes, names))

    def topic_id(self, topic: str) -> bytes:
        return self._topic_ids.get(topic, ZERO_ID)

    def find(self, partition: TopicPartition) -> KnownLeader | KafkaError:
        """Return the leader, or the reason why there is none. Raise TopicRecreated if the name
        belongs to another topic now."""
        topic = self._topics.get(partition.topic)
        if topic is None:
            return UnknownTopicOrPartition("it has not been asked about yet")
        if isinstance(topic, KafkaError):
            return topic
        known = self._topic_ids.setdefault(partition.topic, topic.topic_id)
        if topic.topic_id not in (known, ZERO_ID) and known != ZERO_ID:
            raise TopicRecreated(partition, known, topic.topic_id)
        found = _partition(topic, partition.partition)
        if found is None:
            return UnknownTopicOrPartition(f"it has {len(topic.partitions)} partitions")
        if found.leader < 0:
            return LeaderNotAvailable()
        return KnownLeader(found.leader, found.leader_epoch, known)

    def absence(self, partition: TopicPartition) -> TopicMissing | PartitionMissing:
        """Return the exception for a partition that stays unknown."""
        topic = self._topics.get(partition.topic)
        if isinstance(topic, TopicDescription) and _partition(topic, partition.partition) is None:
            return PartitionMissing(partition, len(topic.partitions))
        return TopicMissing(partition)


def is_absence(error: KafkaError) -> bool:
    """Return whether the error says "unknown", which may also mean "not yet"."""
    return isinstance(error, UnknownTopicOrPartition | UnknownTopicId | InvalidTopic)


def _partition(topic: TopicDescription, index: int) -> PartitionDescription | None:
    return next((each for each in topic.partitions if each.partition == index), None)
