"""Takes in the records of consumer groups: the only thing that changes them."""

from dataclasses import replace

from penstock.coordinator.groups.consumer.group import (
    NO_TARGET_EPOCH,
    ConsumerGroup,
    ResolvedRegex,
)
from penstock.coordinator.groups.consumer.member import LEAVING, Member, partitions_of
from penstock.coordinator.groups.consumer.records import classic_side, owned_from, state_from
from penstock.coordinator.groups.group import Group
from penstock.coordinator.records import Record
from penstock.wire.records import group as kept


def replay(groups: dict[str, Group], record: Record) -> None:
    key = record.key
    group_id: str = key.group_id  # type: ignore[attr-defined]  # every key of these has it
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if record.value is None:
            return  # nothing to forget; or a classic group has taken its place already
        # A classic group that is still there has no record: it was made to hold offsets.
        group = groups[group_id] = ConsumerGroup(group_id)
    if isinstance(key, kept.ConsumerGroupMetadataKey) and record.value is None:
        del groups[group_id]
    else:
        apply(group, record)


def apply(group: ConsumerGroup, record: Record) -> None:
    """Everything but the end of the group itself."""
    match record:
        case Record(kept.ConsumerGroupMetadataKey(), kept.ConsumerGroupMetadataValue() as value):
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
            group.stale = False
        case Record(kept.ConsumerGroupPartitionMetadataKey(), value):
            group.has_partition_metadata = value is not None
        case Record(kept.ConsumerGroupMemberMetadataKey() as key, value):
            _member(group, key.member_id, value)
        case Record(kept.ConsumerGroupTargetAssignmentMetadataKey(), value):
            _target_epoch(group, value)
        case Record(kept.ConsumerGroupTargetAssignmentMemberKey() as key, value):
            _target(group, key.member_id, value)
        case Record(kept.ConsumerGroupCurrentMemberAssignmentKey() as key, value):
            _current(group, key.member_id, value)
        case Record(kept.ConsumerGroupRegularExpressionKey() as key, value):
            _regex(group, key.regular_expression, value)
        case _:
            raise AssertionError(f"no record of a consumer group: {record}")


def _member(group: ConsumerGroup, member_id: str, value: object) -> None:
    if not isinstance(value, kept.ConsumerGroupMemberMetadataValue):
        group.remove_member(member_id)
        return
    before = group.members.get(member_id) or Member(member_id)
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
                before or Member(member_id),
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
