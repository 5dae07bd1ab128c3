"""SyncGroup, v0-v5, for classic groups: the leader brings the assignment, everybody takes theirs.

v3: static members.  v5: protocol type and name must be the group's.
"""

from penstock.coordinator.events import Call
from penstock.coordinator.groups.classic.group import ClassicGroup, ClassicState
from penstock.coordinator.groups.classic.replies import synced
from penstock.coordinator.groups.classic.storing import record_of
from penstock.coordinator.groups.classic.turn import Turn
from penstock.errors import InconsistentGroupProtocol, RebalanceInProgress
from penstock.wire.messages.k14_sync_group import SyncGroupRequest


def sync(group: ClassicGroup, call: Call, turn: Turn) -> None:
    message: SyncGroupRequest = call.message
    member_id = message.member_id
    group.check_member(member_id, message.group_instance_id)
    group.check_generation(message.generation_id)
    _check_protocol(group, message)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"the group {group.group_id!r} is rebalancing")
    group.unsynced.pop(member_id, None)
    if not group.unsynced:
        turn.stop_awaiting_syncs(group)
    if group.state is ClassicState.STABLE:
        turn.reply = synced(group, group.members[member_id])
        return
    turn.park_sync(group, member_id, call.version)
    if member_id == group.leader_id:
        _assign(group, message, turn)


def _check_protocol(group: ClassicGroup, message: SyncGroupRequest) -> None:
    for said, is_so in (
        (message.protocol_type, group.protocol_type),
        (message.protocol_name, group.protocol_name),
    ):
        if said is not None and said != is_so:
            raise InconsistentGroupProtocol(f"the group {group.group_id!r} uses {is_so!r}")


def _assign(group: ClassicGroup, message: SyncGroupRequest, turn: Turn) -> None:
    """From here on the generation is at rest. Whom the leader left out has nothing to do."""
    assigned = {each.member_id: each.assignment for each in message.assignments}
    for member in group.members.values():
        member.assignment = assigned.get(member.member_id, b"")
    turn.write_assignment(group, record_of(group))
    for member in group.members.values():
        waiting = group.syncing.pop(member.member_id, None)
        if waiting is not None:
            turn.answer(waiting, synced(group, member))
            # Its session may have ended while it waited, which counted for nothing.
            turn.watch(group, member)
    group.move_to(ClassicState.STABLE, turn.now_ms)
