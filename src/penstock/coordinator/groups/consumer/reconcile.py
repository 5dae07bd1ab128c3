"""One step of one member towards its target.

The member revokes partitions first, and its epoch stays until then. Then its epoch becomes the
target's, and free partitions are assigned. Partitions with other owners follow in later steps.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.coordinator.groups.consumer.assignors.spec import Assignment
from penstock.coordinator.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    Owned,
    ReportedPartitions,
)
from penstock.errors import FencedMemberEpoch

OwnerOf = Callable[[bytes, int], str | None]
_NOTHING: Collection[int] = ()


class Goal(NamedTuple):
    epoch: int
    assignment: Assignment
    subscribed: frozenset[bytes]  # the topics that the member wants, as far as they exist
    subscription_changed: bool  # just now


def reconcile(
    member: ConsumerMember,
    goal: Goal,
    owner_of: OwnerOf,
    reported: Sequence[ReportedPartitions] | None,
) -> ConsumerMember:
    """Return the member after this step, or the same member if there is none to take.

    `reported` are the partitions that the member reports to own, None if the request has none.
    """
    match member.state:
        case MemberState.STABLE if member.epoch == goal.epoch:
            return _drop_unsubscribed(member, goal, reported)
        case MemberState.UNREVOKED_PARTITIONS if _has_any(member.revoking, reported):
            return _drop_unsubscribed(member, goal, reported)
        case MemberState.UNKNOWN if reported is None or len(reported) > 0:
            raise FencedMemberEpoch(
                f"{member.member_id!r} is in a state of a newer server; it has to give up "
                "its partitions and rejoin"
            )
    return _towards(member, goal, owner_of, reported)


def _has_any(owned: Owned, reported: Sequence[ReportedPartitions] | None) -> bool:
    """Return whether the member may still own some of these."""
    if reported is None:
        return True
    return any(
        partition in owned.get(each.topic_id, _NOTHING)
        for each in reported
        for partition in each.partitions
    )


def _drop_unsubscribed(
    member: ConsumerMember, goal: Goal, reported: Sequence[ReportedPartitions] | None
) -> ConsumerMember:
    """Revoke topics that are no longer subscribed; the target for the others comes later."""
    dropped = [topic_id for topic_id in member.assigned if topic_id not in goal.subscribed]
    if not goal.subscription_changed or not dropped:
        return member
    assigned = {
        topic_id: partitions
        for topic_id, partitions in member.assigned.items()
        if topic_id in goal.subscribed
    }
    revoking = dict(member.revoking)
    for topic_id in dropped:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    if _has_any(revoking, reported):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
    return _moved(member, member.state, member.epoch, assigned, member.revoking)


def _towards(
    member: ConsumerMember,
    goal: Goal,
    owner_of: OwnerOf,
    reported: Sequence[ReportedPartitions] | None,
) -> ConsumerMember:
    assigned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions in member.assigned.items():
        wanted = _wanted(goal, topic_id)
        for partition, epoch in partitions.items():
            side = assigned if partition in wanted else revoking
            side.setdefault(topic_id, {})[partition] = epoch
    if revoking and _has_any(revoking, reported):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoking)
    unreleased = False
    for topic_id in goal.assignment:
        mine = assigned.get(topic_id, {})
        for partition in sorted(_wanted(goal, topic_id)):
            if partition in mine:
                continue
            # Partitions that this member was to give back are free: the member has done so by now.
            returned = partition in member.revoking.get(topic_id, _NOTHING)
            if returned or owner_of(topic_id, partition) is None:
                assigned.setdefault(topic_id, {})[partition] = goal.epoch
            else:
                unreleased = True
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return _moved(member, state, goal.epoch, assigned, {})


def _wanted(goal: Goal, topic_id: bytes) -> Collection[int]:
    if topic_id not in goal.subscribed:
        return _NOTHING
    return goal.assignment.get(topic_id, frozenset())


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Owned, revoking: Owned
) -> ConsumerMember:
    moved = replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking=revoking,
    )
    return member if moved == member else moved
