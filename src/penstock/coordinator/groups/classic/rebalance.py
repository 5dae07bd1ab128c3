"""From one generation of a classic group to the next.

prepare -> all members rejoin, or time is up -> complete: the generation begins, and its leader
assigns (sync_group.py). Members that have not rejoined by then are removed. A static member stays
until its session expires.
"""

from dataclasses import replace

from penstock.coordinator.groups.classic.generation import ClassicState
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.classic.group_record import record_of
from penstock.coordinator.groups.classic.outcome_builder import ClassicOutcomeBuilder
from penstock.coordinator.groups.classic.replies import joined
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.timers import InitialDelayExpired
from penstock.errors import RebalanceInProgress, UnknownMemberId

# Silent static members may ask for no time to rejoin. Without this limit the rebalance would be
# tried again at once, until their sessions expire.
SILENT_JOIN_WAIT_MS_MIN = 1_000


def prepare_or_complete(
    group: ClassicGroup, builder: ClassicOutcomeBuilder, settings: GroupSettings
) -> None:
    """Begin a rebalance after a change, or complete the running one if it can end."""
    if group.state is ClassicState.PREPARING_REBALANCE:
        maybe_complete(group, builder)
    else:
        prepare(group, builder, settings)


def prepare(group: ClassicGroup, builder: ClassicOutcomeBuilder, settings: GroupSettings) -> None:
    """Let all members rejoin. A group that was empty waits a little for more members."""
    following = group.change()
    if following.state is ClassicState.COMPLETING_REBALANCE:
        for member in list(following.members.values()):
            following.put(replace(member, assignment=b""))
            if member.member_id in following.syncing:
                builder.reject_sync(following, member.member_id, RebalanceInProgress)
                builder.watch(group, member)
    group.unsynced.clear()
    builder.stop_awaiting_syncs(group)
    following.prepare()
    if following.is_initial:
        delay_ms = settings.initial_rebalance_delay_ms
        remaining_ms = max(following.rebalance_timeout_ms - delay_ms, 0)
        builder.await_first_joins(group, delay_ms, remaining_ms)
    elif group.all_have_joined:
        complete(group, builder)
    else:
        builder.await_joins(group, following.rebalance_timeout_ms)


def initial_delay_expired(
    group: ClassicGroup,
    event: InitialDelayExpired,
    builder: ClassicOutcomeBuilder,
    settings: GroupSettings,
) -> None:
    """Wait on as long as members keep coming, up to the rebalance timeout."""
    following = group.change()
    if following.grew and event.remaining_ms:
        following.grew = False
        builder.await_first_joins(
            group,
            min(settings.initial_rebalance_delay_ms, event.remaining_ms),
            max(event.remaining_ms - event.delay_ms, 0),
        )
    else:
        complete(group, builder)


def maybe_complete(group: ClassicGroup, builder: ClassicOutcomeBuilder) -> None:
    """Complete if all members have joined, unless an initial delay is running."""
    if not group.change().is_initial and group.all_have_joined:
        complete(group, builder)


def complete(group: ClassicGroup, builder: ClassicOutcomeBuilder) -> None:
    """Make the members that have rejoined the next generation."""
    following = group.change()
    builder.stop_awaiting_joins(group)
    for member in list(following.members.values()):
        if member.member_id not in following.joining and member.instance_id is None:
            builder.unwatch(group, member.member_id)
            following.remove(member.member_id)
    if not following.elect_among_joined() and following.members:
        # All that is left are silent static members: their sessions expire, or they rejoin.
        wait_ms = max(following.rebalance_timeout_ms, SILENT_JOIN_WAIT_MS_MIN)
        builder.await_joins(group, wait_ms)
        return
    following.begin(builder.now_ms)
    group.unsynced = dict.fromkeys(following.members)
    if not following.members:
        builder.write(group, record_of(group.group_id, following))
        return
    for member in following.members.values():
        waiting = following.joining.pop(member.member_id, None)
        if waiting is not None:
            builder.answer(waiting, joined(group, member.member_id, waiting.version))
        builder.watch(group, member)
    builder.await_syncs(group, following.rebalance_timeout_ms)


def remove(group: ClassicGroup, member_id: str, builder: ClassicOutcomeBuilder) -> None:
    """Remove a member. The client behind a request that waits may join as a new member."""
    following = group.change()
    builder.unwatch(group, member_id)
    builder.reject_join(following, member_id, UnknownMemberId)
    builder.reject_sync(following, member_id, UnknownMemberId)
    following.remove(member_id)
    group.unsynced.pop(member_id, None)


def remove_pending(group: ClassicGroup, member_id: str, builder: ClassicOutcomeBuilder) -> None:
    builder.unwatch(group, member_id)
    del group.pending[member_id]


def session_expired(
    group: ClassicGroup, member_id: str, builder: ClassicOutcomeBuilder, settings: GroupSettings
) -> None:
    if member_id in group.pending:
        remove_pending(group, member_id, builder)
    else:
        waits = member_id in group.joining or member_id in group.syncing
        # A member that waits need not send heartbeats, but the join of a new member must end.
        if waits and member_id not in group.change().new_ids:
            return
        remove(group, member_id, builder)
        if group.state is not ClassicState.PREPARING_REBALANCE:
            prepare(group, builder, settings)
            return
    if group.state is ClassicState.PREPARING_REBALANCE and group.all_have_joined:
        complete(group, builder)


def sync_expired(
    group: ClassicGroup, builder: ClassicOutcomeBuilder, settings: GroupSettings
) -> None:
    """Remove members that have not asked for their assignment, and begin another rebalance."""
    if group.unsynced:
        for member_id in list(group.unsynced):
            remove(group, member_id, builder)
        prepare(group, builder, settings)
