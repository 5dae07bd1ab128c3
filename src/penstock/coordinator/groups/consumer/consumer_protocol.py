"""The consumers' own protocol inside JoinGroup and SyncGroup, as far as a server speaks it."""

from collections.abc import Iterable, Mapping

from penstock.coordinator.cluster import ClusterView
from penstock.wire.codec import read_int16, write_versioned
from penstock.wire.messages.k68_consumer_group_heartbeat import TopicPartitions
from penstock.wire.primitives import Malformed
from penstock.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_consumer_protocol,
)
from penstock.wire.schema import schema_of


def subscription_in(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription. Raise Malformed if the bytes are none."""
    return read_consumer_protocol(ConsumerProtocolSubscription, metadata)


def owned_in(
    subscription: ConsumerProtocolSubscription, cluster: ClusterView
) -> list[TopicPartitions]:
    """Return the owned partitions of a subscription in the form of the consumer protocol."""
    return [
        TopicPartitions(topic_id=topic.topic_id, partitions=each.partitions)
        for each in subscription.owned_partitions
        if (topic := cluster.topic(each.topic)) is not None
    ]


def assignment_in(stored: bytes) -> ConsumerProtocolAssignment:
    """Return the stored assignment of a classic member; empty for a member that has just joined."""
    if not stored:
        return ConsumerProtocolAssignment()
    return read_consumer_protocol(ConsumerProtocolAssignment, stored)


def assignment_for(
    metadata: bytes, partitions: Mapping[bytes, Iterable[int]], cluster: ClusterView
) -> bytes:
    """Return an assignment in the version of the member's own metadata. Metadata of classic groups
    is opaque, and old logs hold any. Unreadable metadata gets the oldest version."""
    newest = schema_of(ConsumerProtocolAssignment).versions.last
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic.name, partitions=sorted(partitions[topic_id]))
            for topic_id in sorted(partitions)
            if (topic := cluster.topic_by_id(topic_id)) is not None
        ]
    )
    try:
        version = read_int16(metadata)
    except Malformed:
        version = 0
    return write_versioned(assignment, min(max(version, 0), newest))
