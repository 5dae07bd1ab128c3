"""The records of a coordinator partition.

The log holds three kinds of batches: plain ones, offsets of transactional producers, and the
markers that end transactions.
"""

from typing import NamedTuple

from penstock.wire.records import group, share_group, streams_group


class CoordinatorRecord(NamedTuple):
    """A key and its value from `wire.records`; no value is a tombstone."""

    key: object
    value: object | None = None


class PendingOffset(NamedTuple):
    """A record that counts once the transaction of its producer is committed."""

    producer_id: int
    producer_epoch: int
    key: object
    value: object | None = None


class UnreadableRecord(NamedTuple):
    """A record with a readable key, whose value cannot be read. Its replay raises Malformed."""

    key: object
    reason: str


class EndMarker(NamedTuple):
    """The end of a producer's transaction in a partition; as an event, the order to write it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transactions_v2: bool = False  # not stored: how strictly the log judges the epoch


def group_id_of(key: object) -> str:
    """Return the group of a key of __consumer_offsets. Old kinds of keys call it `group`."""
    match key:
        case group.LegacyOffsetCommitKey() | group.OffsetCommitKey() | group.GroupMetadataKey():
            return key.group
        case (
            group.ConsumerGroupMetadataKey()
            | group.ConsumerGroupPartitionMetadataKey()
            | group.ConsumerGroupMemberMetadataKey()
            | group.ConsumerGroupTargetAssignmentMetadataKey()
            | group.ConsumerGroupTargetAssignmentMemberKey()
            | group.ConsumerGroupCurrentMemberAssignmentKey()
            | group.ConsumerGroupRegularExpressionKey()
            | share_group.ShareGroupMemberMetadataKey()
            | share_group.ShareGroupMetadataKey()
            | share_group.ShareGroupTargetAssignmentMetadataKey()
            | share_group.ShareGroupTargetAssignmentMemberKey()
            | share_group.ShareGroupCurrentMemberAssignmentKey()
            | share_group.ShareGroupStatePartitionMetadataKey()
            | streams_group.StreamsGroupMetadataKey()
            | streams_group.StreamsGroupMemberMetadataKey()
            | streams_group.StreamsGroupTargetAssignmentMetadataKey()
            | streams_group.StreamsGroupTargetAssignmentMemberKey()
            | streams_group.StreamsGroupCurrentMemberAssignmentKey()
            | streams_group.StreamsGroupTopologyKey()
        ):
            return key.group_id
        case _:
            raise AssertionError(f"no key of a group: {key}")
