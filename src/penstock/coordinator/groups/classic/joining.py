"""JoinGroup, v0-v9, for classic groups.

v1: rebalance timeout of its own.  v4: a new dynamic member is told its id and joins with it.
v5: static members.  v9: a static leader that returns is told to leave the assignment alone.
"""

from uuid import UUID

from penstock.coordinator.events import Call
from penstock.coordinator.groups.classic.group import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    ClassicMember,
    ClassicState,
    OfferedProtocol,
    topics_in,
)
from penstock.coordinator.groups.classic.rebalance import (
    dismiss,
    dismiss_pending,
    maybe_complete,
    prepare,
    prepare_or_complete,
)
from penstock.coordinator.groups.classic.replies import (
    NO_MEMBER_ID,
    join_refused,
    joined,
    joined_as_follower,
)
from penstock.coordinator.groups.classic.storing import birth_record, record_of
from penstock.coordinator.groups.classic.turn import Turn
from penstock.coordinator.groups.group import GroupState
from penstock.coordinator.groups.settings import GroupSettings
from penstock.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    KafkaError,
    MemberIdRequired,
    UnknownMemberId,
)
from penstock.wire.messages.k11_join_group import JoinGroupRequest

REBALANCE_TIMEOUT_FROM = 1
MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
# A new member cannot send heartbeats while it waits to join, and its client may have gone and
# come again as another member: after this time it has to ask once more.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
PENDING_MEMBERS_MAX = 10_000


class Joining:
    def __init__(self, state: GroupState, settings: GroupSettings) -> None:
        self._state = state
        self._settings = settings

    def join(self, call: Call, turn: Turn, generation: int = 0) -> None:
        """`generation` is the last one of what a new group takes the place of."""
        message: JoinGroupRequest = call.message
        settings = self._settings
        shortest_ms, longest_ms = settings.session_timeout_ms_min, settings.session_timeout_ms_max
        if not shortest_ms <= message.session_timeout_ms <= longest_ms:
            self._refuse(InvalidSessionTimeout, call, turn, message.member_id)
            return
        found = self._state.groups.get(message.group_id)
        if found is None and message.member_id != NO_MEMBER_ID:
            self._refuse(UnknownMemberId, call, turn, message.member_id)
            return
        group = found or ClassicGroup(message.group_id, turn.now_ms, generation)
        assert isinstance(group, ClassicGroup), "consumer groups have a way of their own"
        self._state.groups[message.group_id] = group
        if not self._has_room(group, message):
            self._turn_away(group, call, turn)
        elif not group.supports(message.protocol_type, _offered(message)):
            self._refuse(InconsistentGroupProtocol, call, turn, message.member_id)
        elif message.member_id == NO_MEMBER_ID:
            self._join_anew(group, call, turn)
        else:
            self._join_again(group, call, turn)
        if found is None and not turn.writes:
            turn.write(group, birth_record(group))

    # Who may come in

    def _has_room(self, group: ClassicGroup, message: JoinGroupRequest) -> bool:
        # A static member that returns takes the place it has, whatever id it comes with.
        known_id = group.static_ids.get(message.group_instance_id or "", message.member_id)
        match group.state:
            case ClassicState.PREPARING_REBALANCE:
                # Those who wait count, so that the last to rejoin have to go if the limit sank.
                return known_id in group.joining or len(group.joining) < self._settings.size_max
            case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
                return known_id in group.members or len(group.members) < self._settings.size_max
            case _:
                return True

    def _turn_away(self, group: ClassicGroup, call: Call, turn: Turn) -> None:
        member_id = call.message.member_id
        if member_id in group.members:
            dismiss(group, group.members[member_id], turn)
        elif member_id in group.pending:
            dismiss_pending(group, member_id, turn)
        self._refuse(GroupMaxSizeReached, call, turn)
        if group.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(group, turn)

    def _refuse(
        self, error: type[KafkaError], call: Call, turn: Turn, member_id: str = NO_MEMBER_ID
    ) -> None:
        turn.reply = join_refused(error, call.version, member_id)

    # Without a member id

    def _join_anew(self, group: ClassicGroup, call: Call, turn: Turn) -> None:
        message: JoinGroupRequest = call.message
        instance_id = message.group_instance_id
        name = call.client_id if instance_id is None else instance_id
        member_id = f"{name}-{UUID(bytes=call.seed)}"
        if instance_id is not None:
            old_id = group.static_ids.get(instance_id)
            if old_id is None:
                self._add(group, member_id, call, turn)
            else:
                self._take_over(group, old_id, member_id, call, turn)
        elif call.version < MEMBER_ID_REQUIRED_FROM:
            self._add(group, member_id, call, turn)
        elif len(group.pending) >= PENDING_MEMBERS_MAX:
            self._refuse(GroupMaxSizeReached, call, turn)
        else:
            turn.watch_pending(group, member_id, message.session_timeout_ms)
            self._refuse(MemberIdRequired, call, turn, member_id)

    def _add(self, group: ClassicGroup, member_id: str, call: Call, turn: Turn) -> None:
        message: JoinGroupRequest = call.message
        if group.state is ClassicState.PREPARING_REBALANCE and group.is_initial:
            group.grew = True
        group.protocol_type = message.protocol_type  # the first member's; the others have the same
        member = ClassicMember(
            member_id=member_id,
            instance_id=message.group_instance_id,
            client_id=call.client_id,
            client_host=call.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms_of(call),
            session_timeout_ms=message.session_timeout_ms,
            protocols=_offered(message),
            is_new=True,
        )
        group.add(member)
        turn.park_join(group, member_id, call.version)
        turn.watch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        prepare_or_complete(group, turn, self._settings)

    def _take_over(
        self, group: ClassicGroup, old_id: str, new_id: str, call: Call, turn: Turn
    ) -> None:
        """A static member has returned: its old self, wherever it waits, is fenced."""
        leader_before, before = group.leader_id, group.members[old_id].protocols
        turn.unwatch(group, old_id)
        turn.refuse_join(group, old_id, FencedInstanceId, old_id)
        turn.refuse_sync(group, old_id, FencedInstanceId)
        member = group.replace_static(old_id, new_id)
        self._update(group, member, call)
        turn.watch(group, member)
        if group.state is ClassicState.STABLE and _fits(group, before, member.protocols):
            self._resume(group, member, leader_before, call, turn)
            return
        turn.park_join(group, new_id, call.version)
        if group.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(group, turn)
        else:
            # The leader may be assigning to the old id right now, which nobody would get; or
            # what it has assigned does not fit any more.
            prepare(group, turn, self._settings)

    def _resume(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        leader_before: str | None,
        call: Call,
        turn: Turn,
    ) -> None:
        """No rebalance: it keeps its assignment, under its new id."""
        group.learn_topics()
        turn.write(group, record_of(group))
        if call.version >= SKIP_ASSIGNMENT_FROM:
            turn.reply = joined(group, member.member_id, call.version)
            turn.reply.skip_assignment = member.member_id == group.leader_id
        else:
            # Told that its old self leads, it does not assign what nobody would listen to.
            assert leader_before is not None, "who has members has a leader"
            turn.reply = joined_as_follower(group, member.member_id, call.version)
            turn.reply.leader = leader_before

    # With a member id

    def _join_again(self, group: ClassicGroup, call: Call, turn: Turn) -> None:
        message: JoinGroupRequest = call.message
        member_id = message.member_id
        if member_id in group.pending and message.group_instance_id is None:
            self._add(group, member_id, call, turn)
            return
        try:
            group.check_member(member_id, message.group_instance_id)
        except KafkaError as error:
            self._refuse(type(error), call, turn, member_id)
            return
        member = group.members[member_id]
        unchanged = member.protocols == _offered(message)
        match group.state:
            case ClassicState.COMPLETING_REBALANCE if unchanged:
                # It may have missed the answer.
                turn.reply = joined(group, member_id, call.version)
            case ClassicState.STABLE if unchanged and member_id != group.leader_id:
                turn.reply = joined_as_follower(group, member_id, call.version)
            case _:
                # A leader that joins again asks for a rebalance: topics may have changed.
                self._update(group, member, call)
                turn.park_join(group, member_id, call.version)
                prepare_or_complete(group, turn, self._settings)

    def _update(self, group: ClassicGroup, member: ClassicMember, call: Call) -> None:
        message: JoinGroupRequest = call.message
        group.update(
            member, _offered(message), rebalance_timeout_ms_of(call), message.session_timeout_ms
        )


def _fits(
    group: ClassicGroup, before: tuple[OfferedProtocol, ...], now: tuple[OfferedProtocol, ...]
) -> bool:
    """Whether what was assigned stays right after a member offers something else.

    The rest of a subscription (owned partitions, generation) is different after every restart.
    """
    if group.choose_protocol() != group.protocol_name:
        return False
    if group.protocol_type != CONSUMER_PROTOCOL:
        return True
    was, is_now = (
        next(topics_in(each.metadata) for each in offers if each.name == group.protocol_name)
        for offers in (before, now)
    )
    return is_now is None or sorted(is_now) == sorted(was or ())


def _offered(message: JoinGroupRequest) -> tuple[OfferedProtocol, ...]:
    return tuple(OfferedProtocol(each.name, each.metadata) for each in message.protocols)


def rebalance_timeout_ms_of(call: Call) -> int:
    """What a member asks for; Kafka takes less than nothing too, as nothing."""
    message: JoinGroupRequest = call.message
    if call.version < REBALANCE_TIMEOUT_FROM:
        return message.session_timeout_ms
    return max(message.rebalance_timeout_ms, 0)
