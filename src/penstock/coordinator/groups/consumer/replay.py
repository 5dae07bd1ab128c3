"""Replays the records of consumer groups. Nothing else changes their durable state."""

from dataclasses import replace
from typing import TypeAlias

from penstock.coordinator.groups.consumer.group import (
    NO_TARGET_EPOCH,
    ConsumerGroup,
    ResolvedRegex,
)
from penstock.coordinator.groups.consumer.member import LEAVING, ConsumerMember, partitions_of
from penstock.coordinator.groups.consumer.records import classic_side, owned_from, state_from
from penstock.coordinator.groups.group import CoordinatedGroup
from penstock.coordinator.records import CoordinatorRecord
from penstock.wire.records import group as kept

ConsumerGroupKey: TypeAlias = (
    kept.ConsumerGroupMetadataKey
    | kept.ConsumerGroupPartitionMetadataKey
    | kept.ConsumerGroupMemberMetadataKey
    | kept.ConsumerGroupTargetAssignmentMetadataKey
    | kept.ConsumerGroupTargetAssignmentMemberKey
    | kept.ConsumerGroupCurrentMemberAssignmentKey
    | kept.ConsumerGroupRegularExpressionKey
)


def replay(groups: dict[str, CoordinatedGroup], record: CoordinatorRecord) -> None:
    key = record.key
    assert isinstance(key, ConsumerGroupKey)
    group_id = key.group_id
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if record.value is None:
            return  # compaction has removed the records of the group
        # A classic group that is still there has no record: offsets made it.
        group = groups[group_id] = ConsumerGroup(group_id)
    if isinstance(key, kept.ConsumerGroupMetadataKey) and record.value is None:
        del groups[group_id]
    else:
        apply(group, record)


def apply(group: ConsumerGroup, record: CoordinatorRecord) -> None:
    """Apply a record to the group; the tombstone of the group itself is not one of them."""
    match record:
        case CoordinatorRecord(
            kept.ConsumerGroupMetadataKey(), kept.ConsumerGroupMetadataValue() as value
        ):
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
            group.stale = False
        case CoordinatorRecord(kept.ConsumerGroupPartitionMetadataKey(), value):
            group.has_partition_metadata = value is not None
        case CoordinatorRecord(kept.ConsumerGroupMemberMetadataKey() as key, value):
            _member(group, key.member_id, value)
        case CoordinatorRecord(kept.ConsumerGroupTargetAssignmentMetadataKey(), value):
            _target_epoch(group, value)
        case CoordinatorRecord(kept.ConsumerGroupTargetAssignmentMemberKey() as key, value):
            _target(group, key.member_id, value)
        case CoordinatorRecord(kept.ConsumerGroupCurrentMemberAssignmentKey() as key, value):
            _current(group, key.member_id, value)
        case CoordinatorRecord(kept.ConsumerGroupRegularExpressionKey() as key, value):
            _regex(group, key.regular_expression, value)
        case _:
            raise AssertionError(f"no record of a consumer group: {record}")


def _member(group: ConsumerGroup, member_id: str, value: object) -> None:
    if not isinstance(value, kept.ConsumerGroupMemberMetadataValue):
        group.remove_member(member_id)
        return
    before = group.members.get(member_id) or ConsumerMember(member_id)
    group.put_member(
        replace(
            before,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=max(value.rebalance_timeout_ms, 0),
            assignor=value.server_assignor,
            classic=classic_side(value.classic_member_metadata),
        )
    )


def _current(group: ConsumerGroup, member_id: str, value: object) -> None:
    before = group.members.get(member_id)
    if isinstance(value, kept.ConsumerGroupCurrentMemberAssignmentValue):
        group.put_member(
            replace(
                before or ConsumerMember(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=state_from(value.state),
                assigned=owned_from(value.assigned_partitions, value.member_epoch),
                revoking=owned_from(value.partitions_pending_revocation, value.member_epoch),
            )
        )
    elif before is not None:
        group.put_member(
            replace(before, epoch=LEAVING, previous_epoch=LEAVING, assigned={}, revoking={})
        )


def _target(group: ConsumerGroup, member_id: str, value: object) -> None:
    if isinstance(value, kept.ConsumerGroupTargetAssignmentMemberValue):
        group.target[member_id] = partitions_of(value.topic_partitions)
    else:
        group.target.pop(member_id, None)


def _target_epoch(group: ConsumerGroup, value: object) -> None:
    if isinstance(value, kept.ConsumerGroupTargetAssignmentMetadataValue):
        group.target_epoch = value.assignment_epoch
        group.target_timestamp_ms = value.assignment_timestamp
    else:
        group.target_epoch = NO_TARGET_EPOCH


def _regex(group: ConsumerGroup, regex: str, value: object) -> None:
    if isinstance(value, kept.ConsumerGroupRegularExpressionValue):
        group.put_regex(regex, ResolvedRegex(frozenset(value.topics), value.timestamp))
    else:
        group.remove_regex(regex)
