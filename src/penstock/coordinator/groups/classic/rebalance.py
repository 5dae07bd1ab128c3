"""From one generation of a classic group to the next.

prepare -> everybody rejoins, or time is up -> complete: a generation, and its leader assigns
(syncing.py). Who has not rejoined by then is out, static members excepted: those have until
their session ends.
"""

from penstock.coordinator.groups.classic.alarms import InitialDelayOver
from penstock.coordinator.groups.classic.group import ClassicGroup, ClassicMember, ClassicState
from penstock.coordinator.groups.classic.replies import joined
from penstock.coordinator.groups.classic.storing import record_of
from penstock.coordinator.groups.classic.turn import Turn
from penstock.coordinator.groups.settings import GroupSettings
from penstock.errors import RebalanceInProgress, UnknownMemberId

# Static members that ask for no time to rejoin, and are silent: how often to look after them.
# Without it the look would be repeated at once, until their sessions end.
SILENT_JOIN_WAIT_MS_MIN = 1_000


def prepare_or_complete(group: ClassicGroup, turn: Turn, settings: GroupSettings) -> None:
    """Something has changed: begin a rebalance, or see whether the running one can end."""
    if group.state is ClassicState.PREPARING_REBALANCE:
        maybe_complete(group, turn)
    else:
        prepare(group, turn, settings)


def prepare(group: ClassicGroup, turn: Turn, settings: GroupSettings) -> None:
    """Let everybody rejoin. A group that was empty waits a little for more members."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if member.member_id in group.syncing:
                turn.refuse_sync(group, member.member_id, RebalanceInProgress)
                turn.watch(group, member)
    group.unsynced.clear()
    turn.stop_awaiting_syncs(group)
    group.is_initial = group.is_empty
    group.grew = False
    group.move_to(ClassicState.PREPARING_REBALANCE, turn.now_ms)
    if group.is_initial:
        delay_ms = settings.initial_rebalance_delay_ms
        turn.await_first_joins(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    elif group.all_have_joined:
        complete(group, turn)
    else:
        turn.await_joins(group, group.rebalance_timeout_ms)


def initial_delay_over(
    group: ClassicGroup, event: InitialDelayOver, turn: Turn, settings: GroupSettings
) -> None:
    """Wait on as long as members keep coming, up to the rebalance timeout."""
    if group.grew and event.remaining_ms:
        group.grew = False
        turn.await_first_joins(
            group,
            min(settings.initial_rebalance_delay_ms, event.remaining_ms),
            max(event.remaining_ms - event.delay_ms, 0),
        )
    else:
        complete(group, turn)


def maybe_complete(group: ClassicGroup, turn: Turn) -> None:
    """If everybody is there; the first rebalance of an empty group has its fixed delay."""
    if not group.is_initial and group.all_have_joined:
        complete(group, turn)


def complete(group: ClassicGroup, turn: Turn) -> None:
    """Whoever has rejoined makes up the next generation."""
    turn.stop_awaiting_joins(group)
    for member in list(group.members.values()):
        if member.member_id not in group.joining and member.instance_id is None:
            turn.unwatch(group, member.member_id)
            group.remove(member.member_id)
    if not group.elect_among_joined() and group.members:
        # Only static members that are silent: their sessions will end, or they come back.
        turn.await_joins(group, max(group.rebalance_timeout_ms, SILENT_JOIN_WAIT_MS_MIN))
        return
    group.begin_generation(turn.now_ms)
    if group.is_empty:
        turn.write(group, record_of(group))
        return
    for member in group.members.values():
        waiting = group.joining.pop(member.member_id, None)
        if waiting is not None:
            turn.answer(waiting, joined(group, member.member_id, waiting.version))
        turn.watch(group, member)
        member.is_new = False
        group.unsynced[member.member_id] = None
    turn.await_syncs(group, group.rebalance_timeout_ms)


def dismiss(group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
    """Out of the group. Whoever still waits in its name learns that, and may begin anew."""
    turn.unwatch(group, member.member_id)
    turn.refuse_join(group, member.member_id, UnknownMemberId)
    turn.refuse_sync(group, member.member_id, UnknownMemberId)
    group.remove(member.member_id)


def dismiss_pending(group: ClassicGroup, member_id: str, turn: Turn) -> None:
    turn.unwatch(group, member_id)
    del group.pending[member_id]


def session_over(group: ClassicGroup, member_id: str, turn: Turn, settings: GroupSettings) -> None:
    """A member was silent for too long, or never joined with the id it was given."""
    member = group.members.get(member_id)
    if member is None:
        dismiss_pending(group, member_id, turn)
    else:
        member.alarm = None
        waits = member_id in group.joining or member_id in group.syncing
        # Who waits for us need not call; but a new member has no end of its join otherwise.
        if waits and not member.is_new:
            return
        dismiss(group, member, turn)
        if group.state is not ClassicState.PREPARING_REBALANCE:
            prepare(group, turn, settings)
            return
    if group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
        complete(group, turn)


def sync_over(group: ClassicGroup, turn: Turn, settings: GroupSettings) -> None:
    """Whoever has not asked for its assignment is out, and the others begin again."""
    group.sync_alarm = None
    if group.unsynced:
        for member_id in list(group.unsynced):
            dismiss(group, group.members[member_id], turn)
        prepare(group, turn, settings)
