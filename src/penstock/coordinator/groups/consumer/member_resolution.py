"""Resolves the member of a group that sent a request, or makes a new one.

A static member that returns keeps its partitions under its new member id.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.member import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    ConsumerMember,
    ReportedPartitions,
    covers,
)
from penstock.coordinator.groups.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from penstock.coordinator.records import CoordinatorRecord
from penstock.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from penstock.model import id_to_text


class ResolvedMember(NamedTuple):
    member: ConsumerMember
    replaced_id: str | None = None  # its old self


def new_member_id(seed: bytes) -> str:
    # Kafka's tools take a leading dash for an option; without its first bit no id begins so.
    return id_to_text(bytes([seed[0] & 0x7F]) + seed[1:])


def check_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        raise GroupMaxSizeReached(
            f"The consumer group has reached its maximum capacity of {size_max} members."
        )


def join(group: ConsumerGroup, member_id: str) -> ResolvedMember:
    """Return a dynamic member. A known one that rejoins has given up its partitions."""
    return ResolvedMember(group.members.get(member_id) or ConsumerMember(member_id))


def join_static(
    group: ConsumerGroup, member_id: str, instance_id: str, *, classic: bool
) -> ResolvedMember:
    """Return a static member. Under the consumer protocol its predecessor must have left."""
    old = group.static_member(instance_id)
    if old is None:
        return join(group, member_id)
    if not classic and old.classic is None and old.epoch != LEAVING_FOR_A_WHILE:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {old.member_id} member."
        )
    new = replace(old, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    return ResolvedMember(new, old.member_id)


def replacement_records(
    group: ConsumerGroup, resolved: ResolvedMember
) -> Iterator[CoordinatorRecord]:
    """Yield the records that replace the predecessor of a static member."""
    new, old_id = resolved
    if old_id is not None:
        yield from member_tombstones(group.group_id, old_id)
        yield member_record(group.group_id, new)
        yield target_record(group.group_id, new.member_id, group.target_of(old_id))
        yield current_record(group.group_id, new)


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return the member with these ids. Raise if there is none."""
    if instance_id is None:
        return group.member(member_id)
    found = group.static_member(instance_id)
    if found is None:
        raise UnknownMemberId(
            f"Member with instance id {instance_id} is not a member of group {group.group_id}."
        )
    if found.member_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{found.member_id}."
        )
    return found


def check_epoch(
    member: ConsumerMember, epoch: int, reported: Sequence[ReportedPartitions] | None
) -> None:
    """Raise unless the epoch is the member's.

    If the answer with the new epoch was lost, the member sends the previous one. That is accepted
    if the member reports no partition beyond its present ones.
    """
    if epoch == member.epoch:
        return
    repeats = epoch == member.previous_epoch and epoch < member.epoch
    if not repeats or reported is None or not covers(member.assigned, reported):
        size = "greater" if epoch > member.epoch else "smaller"
        raise FencedMemberEpoch(
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by "
            f"the group coordinator ({member.epoch}). The member must abandon all its partitions "
            "and rejoin."
        )
