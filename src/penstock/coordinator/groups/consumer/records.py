"""The records of a consumer group, as Kafka writes them."""

from collections.abc import Iterable, Iterator

from penstock.coordinator.groups.classic.generation import OfferedProtocol
from penstock.coordinator.groups.consumer.assignors.spec import Assignment
from penstock.coordinator.groups.consumer.member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
    Owned,
)
from penstock.coordinator.records import CoordinatorRecord
from penstock.wire.records.group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from penstock.wire.structures import TopicIdPartitions


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's own fields."""
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=each.name, metadata=each.metadata)
                for each in member.classic.protocols
            ],
        )
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=classic,
        ),
    )


def classic_side(stored: ClassicMemberMetadata | None) -> ClassicSide | None:
    """Return the classic protocol's part of a member; None if the record lists no protocols, its
    default."""
    if stored is None or not stored.supported_protocols:
        return None
    return ClassicSide(
        max(stored.session_timeout_ms, 0),
        tuple(OfferedProtocol(each.name, each.metadata) for each in stored.supported_protocols),
    )


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's epoch, state and partitions."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=int(member.state),
            assigned_partitions=_listed(member.assigned),
            partitions_pending_revocation=_listed(member.revoking),
        ),
    )


def _listed(owned: Owned) -> list[TopicPartitions]:
    listed = []
    for topic_id in sorted(owned):
        epochs = sorted(owned[topic_id].items())
        listed.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=[partition for partition, _ in epochs],
                assignment_epochs=[epoch for _, epoch in epochs],
            )
        )
    return listed


def owned_from(listed: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    """Return the owned partitions with their epochs. Records of servers before 4.3 have none: the
    member's epoch is used."""
    owned: dict[bytes, dict[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        owned.setdefault(each.topic_id, {}).update(zip(each.partitions, epochs, strict=True))
    return owned


def state_from(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicIdPartitions(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
                for topic_id in sorted(assignment)
            ]
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def regex_record(
    group_id: str, regex: str, topics: Iterable[str], timestamp_ms: int
) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        # The version is the offset of the metadata that was searched. This coordinator neither
        # knows nor needs it; zero is older than any offset to a server that does.
        ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=0, timestamp=timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    )


def member_tombstones(group_id: str, member_id: str) -> Iterator[CoordinatorRecord]:
    """Yield the tombstones of a member, the record of its identity last."""
    yield CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    )
    yield CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    )
    yield CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))
