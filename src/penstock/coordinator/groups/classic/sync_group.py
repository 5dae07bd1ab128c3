"""SyncGroup, v0-v5, for classic groups: the leader brings the assignment, each member gets its own.

v3: static members.  v5: protocol type and name must be the group's.
"""

from dataclasses import replace

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic.generation import ClassicState, NextGeneration
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.classic.group_record import record_of
from penstock.coordinator.groups.classic.outcome_builder import ClassicOutcomeBuilder
from penstock.coordinator.groups.classic.replies import synced
from penstock.errors import InconsistentGroupProtocol, RebalanceInProgress
from penstock.wire.messages.k14_sync_group import SyncGroupRequest


def sync(group: ClassicGroup, call: GroupRequest, builder: ClassicOutcomeBuilder) -> None:
    message: SyncGroupRequest = call.message
    member_id = message.member_id
    group.check_member(member_id, message.group_instance_id)
    group.check_generation(message.generation_id)
    _check_protocol(group, message)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"the group {group.group_id!r} is rebalancing")
    group.unsynced.pop(member_id, None)
    if not group.unsynced:
        builder.stop_awaiting_syncs(group)
    if group.state is ClassicState.STABLE:
        builder.reply = synced(group, group.members[member_id].assignment)
        return
    following = group.change()
    builder.park_sync(following, member_id, call.version)
    if member_id == group.leader_id:
        _assign(group, following, message, builder)


def _check_protocol(group: ClassicGroup, message: SyncGroupRequest) -> None:
    for named, expected in (
        (message.protocol_type, group.protocol_type),
        (message.protocol_name, group.protocol_name),
    ):
        if named is not None and named != expected:
            raise InconsistentGroupProtocol(f"the group {group.group_id!r} uses {expected!r}")


def _assign(
    group: ClassicGroup,
    following: NextGeneration,
    message: SyncGroupRequest,
    builder: ClassicOutcomeBuilder,
) -> None:
    """Write the generation with its assignment, and answer the members that wait for it.

    A member that the leader left out gets an empty assignment.
    """
    assigned = {each.member_id: each.assignment for each in message.assignments}
    members = [
        replace(each, assignment=assigned.get(each.member_id, b""))
        for each in following.members.values()
    ]
    builder.write_assignment(group, record_of(group.group_id, following, members))
    for member in members:
        waiting = following.syncing.get(member.member_id)
        if waiting is not None:
            builder.answer(waiting, synced(group, member.assignment))
            # An expired session was ignored while the member waited.
            builder.watch(group, member)
