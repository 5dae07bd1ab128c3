"""Who leads each partition, as last heard, and whether a topic is still the one it was.

A topic's id is remembered from the first time it is heard, unless it was given: a topic that is
deleted and created again under the same name is noticed, and never mistaken for the old one.
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


class Leader(NamedTuple):
    """The zero id stands for a server that has none."""

    node_id: int
    epoch: int
    topic_id: bytes


class Leaders:
    """What metadata says, per partition."""

    def __init__(self, nodes: Nodes, topic_ids: Mapping[str, bytes] | None = None) -> None:
        self._nodes = nodes
        self._topic_ids = dict(topic_ids or {})
        self._topics: dict[str, TopicDescription | KafkaError] = {}

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask about these; CannotReach if nobody answers."""
        names = list(dict.fromkeys(topics))
        if names:
            self._topics.update(ask_topics(self._nodes, names))

    def topic_id(self, topic: str) -> bytes:
        return self._topic_ids.get(topic, ZERO_ID)

    def find(self, partition: TopicPartition) -> Leader | KafkaError:
        """Its leader, or why there is none; TopicRecreated if the name has moved on."""
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
        return Leader(found.leader, found.leader_epoch, known)

    def absence(self, partition: TopicPartition) -> TopicMissing | PartitionMissing:
        """What to raise for a partition that stays unknown."""
        topic = self._topics.get(partition.topic)
        if isinstance(topic, TopicDescription) and _partition(topic, partition.partition) is None:
            return PartitionMissing(partition, len(topic.partitions))
        return TopicMissing(partition)


def is_absence(error: KafkaError) -> bool:
    """Whether the server says that there is no such thing, which may also mean: not yet."""
    return isinstance(error, UnknownTopicOrPartition | UnknownTopicId | InvalidTopic)


def _partition(topic: TopicDescription, index: int) -> PartitionDescription | None:
    return next((each for each in topic.partitions if each.partition == index), None)
