"""A classic group as the record that Kafka keeps of it, and back."""

from penstock.coordinator.groups.classic.group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    OfferedProtocol,
)
from penstock.coordinator.records import Record
from penstock.model import NO_TIMESTAMP
from penstock.wire.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata

NO_REBALANCE_TIMEOUT = -1


def record_of(group: ClassicGroup) -> Record:
    """The group as it is now."""
    return Record(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=_stored(group.state_since_ms),
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol_name),
                    assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        ),
    )


def birth_record(group: ClassicGroup) -> Record:
    """A new group, whoever is about to join it: none of them is in a generation yet."""
    return Record(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            generation=group.generation,
            protocol=None,
            leader=None,
            current_state_timestamp=_stored(group.state_since_ms),
        ),
    )


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group at rest: stable, or empty without members. Nobody waits."""
    group = ClassicGroup(group_id)
    if value.current_state_timestamp != NO_TIMESTAMP:
        group.state_since_ms = value.current_state_timestamp
    group.generation = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    for stored in value.members:
        # Of all that a member offered only the chosen protocol was kept.
        protocol = OfferedProtocol(value.protocol or "", stored.subscription)
        timeout_ms = stored.rebalance_timeout
        if timeout_ms == NO_REBALANCE_TIMEOUT:
            timeout_ms = stored.session_timeout
        group.add(
            ClassicMember(
                member_id=stored.member_id,
                instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                # Older logs may hold what a client sent below zero.
                rebalance_timeout_ms=max(timeout_ms, 0),
                session_timeout_ms=max(stored.session_timeout, 0),
                protocols=(protocol,),
                assignment=stored.assignment,
            )
        )
    if group.members:
        group.state = ClassicState.STABLE
        if value.leader in group.members:
            group.leader_id = value.leader
    group.learn_topics()
    return group


def _stored(timestamp_ms: int | None) -> int:
    return NO_TIMESTAMP if timestamp_ms is None else timestamp_ms
