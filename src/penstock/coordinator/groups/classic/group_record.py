"""A generation of a classic group as the record that Kafka keeps of it, and back."""

from collections.abc import Iterable, Mapping

from penstock.coordinator.groups.classic.generation import (
    ClassicGeneration,
    ClassicMember,
    OfferedProtocol,
)
from penstock.coordinator.records import CoordinatorRecord
from penstock.model import NO_TIMESTAMP
from penstock.wire.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata

NO_REBALANCE_TIMEOUT = -1


def record_of(
    group_id: str,
    generation: ClassicGeneration,
    members: Iterable[ClassicMember] | None = None,
    *,
    is_led: bool = True,
) -> CoordinatorRecord:
    """Return the record of a generation, with `members` instead of its own if given.

    Unless `is_led`, the record names no leader: a rebalance has yet to assign the partitions.
    """
    since_ms, leader_id = generation.since_ms, generation.leader_id
    return CoordinatorRecord(
        GroupMetadataKey(group=group_id),
        GroupMetadataValue(
            protocol_type=generation.protocol_type,
            generation=generation.number,
            protocol=generation.protocol_name,
            leader=leader_id if is_led else None,
            current_state_timestamp=NO_TIMESTAMP if since_ms is None else since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(generation.protocol_name),
                    assignment=member.assignment,
                )
                for member in (generation.members.values() if members is None else members)
            ],
        ),
    )


def generation_of(
    value: GroupMetadataValue, known: Mapping[str, ClassicMember] | None = None
) -> ClassicGeneration:
    """Return the generation of a record.

    A record keeps the chosen protocol alone. The other protocols come from `known` members.
    """
    since_ms = value.current_state_timestamp
    return ClassicGeneration(
        value.generation,
        value.protocol_type,
        value.protocol,
        value.leader,
        [_member(each, value.protocol or "", known or {}) for each in value.members],
        None if since_ms == NO_TIMESTAMP else since_ms,
        is_led=bool(value.leader or not value.members),
    )


def _member(
    stored: MemberMetadata, protocol_name: str, known: Mapping[str, ClassicMember]
) -> ClassicMember:
    chosen = OfferedProtocol(protocol_name, stored.subscription)
    before = known.get(stored.member_id)
    offered = () if before is None else before.protocols
    timeout_ms = stored.rebalance_timeout
    if timeout_ms == NO_REBALANCE_TIMEOUT:
        timeout_ms = stored.session_timeout
    return ClassicMember(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        # Older logs may hold timeouts below zero, as clients sent them.
        rebalance_timeout_ms=max(timeout_ms, 0),
        session_timeout_ms=max(stored.session_timeout, 0),
        protocols=offered if chosen in offered else (chosen,),
        assignment=stored.assignment,
    )
