"""Partitions that need an operator: without a leader, or with replicas out of sync."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import KafkaError
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import PartitionDescription, TopicDescription

MIN_INSYNC = "min.insync.replicas"


class PartitionHealth(NamedTuple):
    """Partitions by what they lack; one may be in several lists. Those at min.insync.replicas miss
    replicas, and the loss of one more stops producers with acks=all."""

    without_leader: list[TopicPartition]
    under_min_isr: list[TopicPartition]
    at_min_isr: list[TopicPartition]
    under_replicated: list[TopicPartition]


def is_lagging(partition: "PartitionDescription") -> bool:
    """Return whether a partition has a leader, and replicas out of sync."""
    return partition.leader >= 0 and len(partition.in_sync) < len(partition.replicas)


def is_under_min_isr(partition: "PartitionDescription", min_insync: int) -> bool:
    """Return whether acks=all is rejected. A server asks for no more replicas than there are."""
    return len(partition.in_sync) < min(min_insync, len(partition.replicas))


def partition_health(
    topics: "Sequence[TopicDescription]", min_insync: Mapping[str, int]
) -> PartitionHealth:
    """Return the partitions that are not whole; `min_insync` is known for their topics."""
    health = PartitionHealth([], [], [], [])
    for topic in topics:
        needed = min_insync.get(topic.name)
        for each in topic.partitions:
            found = TopicPartition(topic.name, each.partition)
            if each.leader < 0:
                health.without_leader.append(found)
            if not is_lagging(each):
                continue
            health.under_replicated.append(found)
            if needed is None:
                continue
            if is_under_min_isr(each, needed):
                health.under_min_isr.append(found)
            elif len(each.in_sync) == min(needed, len(each.replicas)):
                health.at_min_isr.append(found)
    return health


def ask_health(admin: "Admin", topics: "Sequence[TopicDescription]") -> PartitionHealth:
    """Return the partitions that are not whole."""
    return partition_health(topics, ask_min_insync(admin, lagging_topics(topics)))


def lagging_topics(topics: "Sequence[TopicDescription]") -> list[str]:
    return [topic.name for topic in topics if any(map(is_lagging, topic.partitions))]


def ask_min_insync(admin: "Admin", names: Sequence[str]) -> dict[str, int]:
    """Return min.insync.replicas of topics; those that cannot be described are left out."""
    from penstock.client.values import Resource, ResourceType

    resources = {name: Resource(ResourceType.TOPIC, name) for name in names}
    if not resources:
        return {}
    described = admin.describe_configs(list(resources.values()), keys=[MIN_INSYNC])
    found: dict[str, int] = {}
    for name, resource in resources.items():
        values = described[resource]
        for each in () if isinstance(values, KafkaError) else values:
            if each.name == MIN_INSYNC and each.value is not None and each.value.isdecimal():
                found[name] = int(each.value)
    return found
