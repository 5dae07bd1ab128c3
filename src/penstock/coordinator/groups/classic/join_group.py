"""JoinGroup, v0-v9, for classic groups.

v1: rebalance timeout of its own.  v4: a new dynamic member gets its id first and joins with it.
v5: static members.  v9: skip_assignment is set for a static leader that returns.
"""

from dataclasses import replace
from uuid import UUID

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic.generation import (
    CONSUMER_PROTOCOL,
    SUBSCRIPTION_BYTES_READ_MAX,
    ClassicGeneration,
    ClassicMember,
    ClassicState,
    OfferedProtocol,
    topics_in,
)
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.classic.group_record import record_of
from penstock.coordinator.groups.classic.outcome_builder import ClassicOutcomeBuilder
from penstock.coordinator.groups.classic.rebalance import (
    maybe_complete,
    prepare,
    prepare_or_complete,
    remove,
    remove_pending,
)
from penstock.coordinator.groups.classic.replies import (
    NO_MEMBER_ID,
    join_error,
    joined,
    joined_as_follower,
)
from penstock.coordinator.groups.group import GroupCoordinatorState
from penstock.coordinator.groups.group_settings import GroupSettings
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
# A new member cannot send heartbeats while it waits to join, and its client may have restarted as
# another member: after this time the client has to ask once more.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
PENDING_MEMBERS_MAX = 10_000


class ClassicJoin:
    def __init__(self, state: GroupCoordinatorState, settings: GroupSettings) -> None:
        self._state = state
        self._settings = settings

    def join(
        self,
        found: ClassicGroup | None,
        call: GroupRequest,
        builder: ClassicOutcomeBuilder,
        generation: int = 0,
    ) -> None:
        """Let a member join; without a group, begin one that follows `generation`."""
        message: JoinGroupRequest = call.message
        settings = self._settings
        shortest_ms, longest_ms = settings.session_timeout_ms_min, settings.session_timeout_ms_max
        if not shortest_ms <= message.session_timeout_ms <= longest_ms:
            self._reject(InvalidSessionTimeout, call, builder, message.member_id)
            return
        if found is None and message.member_id != NO_MEMBER_ID:
            self._reject(UnknownMemberId, call, builder, message.member_id)
            return
        group = found or self._begin_group(message.group_id, generation, builder)
        if not self._has_room(group, message):
            self._reject_for_size(group, call, builder)
        elif not group.supports(message.protocol_type, _offered(message)):
            self._reject(InconsistentGroupProtocol, call, builder, message.member_id)
        elif message.member_id == NO_MEMBER_ID:
            self._join_without_id(group, call, builder)
        else:
            self._join_with_id(group, call, builder)
        if found is None and not builder.writes:
            builder.write(group, record_of(group.group_id, group.rest))

    def _begin_group(
        self, group_id: str, generation: int, builder: ClassicOutcomeBuilder
    ) -> ClassicGroup:
        rest = ClassicGeneration(generation, since_ms=builder.now_ms)
        group = self._state.unborn = ClassicGroup(group_id, rest)
        return group

    # Limits

    def _has_room(self, group: ClassicGroup, message: JoinGroupRequest) -> bool:
        # A static member that returns stays a member, under any member id.
        known_id = group.static_ids.get(message.group_instance_id or "", message.member_id)
        match group.state:
            case ClassicState.PREPARING_REBALANCE:
                # Waiting members count: if the limit was lowered, the last to rejoin are rejected.
                return known_id in group.joining or len(group.joining) < self._settings.size_max
            case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
                return known_id in group.members or len(group.members) < self._settings.size_max
            case _:
                return True

    def _reject_for_size(
        self, group: ClassicGroup, call: GroupRequest, builder: ClassicOutcomeBuilder
    ) -> None:
        member_id = call.message.member_id
        if member_id in group.members:
            remove(group, member_id, builder)
        elif member_id in group.pending:
            remove_pending(group, member_id, builder)
        self._reject(GroupMaxSizeReached, call, builder)
        if group.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(group, builder)

    def _reject(
        self,
        error: type[KafkaError],
        call: GroupRequest,
        builder: ClassicOutcomeBuilder,
        member_id: str = NO_MEMBER_ID,
    ) -> None:
        builder.reply = join_error(error, call.version, member_id)

    # Without a member id

    def _join_without_id(
        self, group: ClassicGroup, call: GroupRequest, builder: ClassicOutcomeBuilder
    ) -> None:
        message: JoinGroupRequest = call.message
        instance_id = message.group_instance_id
        name = call.client_id if instance_id is None else instance_id
        member_id = f"{name}-{UUID(bytes=call.seed)}"
        if instance_id is not None:
            old_id = group.static_ids.get(instance_id)
            if old_id is None:
                self._add(group, member_id, call, builder)
            else:
                self._replace_static(group, old_id, member_id, call, builder)
        elif call.version < MEMBER_ID_REQUIRED_FROM:
            self._add(group, member_id, call, builder)
        elif len(group.pending) >= PENDING_MEMBERS_MAX:
            self._reject(GroupMaxSizeReached, call, builder)
        else:
            builder.watch_pending(group, member_id, message.session_timeout_ms)
            self._reject(MemberIdRequired, call, builder, member_id)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        call: GroupRequest,
        builder: ClassicOutcomeBuilder,
    ) -> None:
        message: JoinGroupRequest = call.message
        following = group.change()
        following.protocol_type = message.protocol_type  # the first member's; all have the same
        member = ClassicMember(
            member_id=member_id,
            instance_id=message.group_instance_id,
            client_id=call.client_id,
            client_host=call.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms_of(call),
            session_timeout_ms=message.session_timeout_ms,
            protocols=_offered(message),
        )
        following.add(member)
        group.pending.pop(member_id, None)
        builder.park_join(following, member_id, call.version)
        builder.watch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        prepare_or_complete(group, builder, self._settings)

    def _replace_static(
        self,
        group: ClassicGroup,
        old_id: str,
        new_id: str,
        call: GroupRequest,
        builder: ClassicOutcomeBuilder,
    ) -> None:
        """Give a static member that returns its new id, and fence requests under the old one."""
        leader_before, before = group.leader_id, group.members[old_id].protocols
        following = group.change()
        builder.unwatch(group, old_id)
        builder.reject_join(following, old_id, FencedInstanceId, old_id)
        builder.reject_sync(following, old_id, FencedInstanceId)
        member = _updated(following.replace_static(old_id, new_id), call)
        following.put(member)
        if old_id in group.unsynced:
            del group.unsynced[old_id]
            group.unsynced[new_id] = None
        builder.watch(group, member)
        if group.state is ClassicState.STABLE and _fits(following, before, member.protocols):
            self._resume(group, member, leader_before, call, builder)
            return
        builder.park_join(following, new_id, call.version)
        if group.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(group, builder)
        else:
            # The leader may be assigning to the old id right now, or its assignment does not
            # fit the new subscription.
            prepare(group, builder, self._settings)

    def _resume(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        leader_before: str | None,
        call: GroupRequest,
        builder: ClassicOutcomeBuilder,
    ) -> None:
        """Let a static member keep its assignment under its new id, without a rebalance."""
        builder.write(group, record_of(group.group_id, group.current))
        if call.version >= SKIP_ASSIGNMENT_FROM:
            builder.reply = joined(group, member.member_id, call.version)
            builder.reply.skip_assignment = member.member_id == group.leader_id
        else:
            # A member that reads its old id as the leader's does not assign.
            assert leader_before is not None, "a group with members has a leader"
            builder.reply = joined_as_follower(group, member.member_id, call.version)
            builder.reply.leader = leader_before

    # With a member id

    def _join_with_id(
        self, group: ClassicGroup, call: GroupRequest, builder: ClassicOutcomeBuilder
    ) -> None:
        message: JoinGroupRequest = call.message
        member_id = message.member_id
        if member_id in group.pending and message.group_instance_id is None:
            self._add(group, member_id, call, builder)
            return
        try:
            group.check_member(member_id, message.group_instance_id)
        except KafkaError as error:
            self._reject(type(error), call, builder, member_id)
            return
        member = group.members[member_id]
        unchanged = member.protocols == _offered(message)
        match group.state:
            case ClassicState.COMPLETING_REBALANCE if unchanged:
                # The client may have missed the answer.
                builder.reply = joined(group, member_id, call.version)
            case ClassicState.STABLE if unchanged and member_id != group.leader_id:
                builder.reply = joined_as_follower(group, member_id, call.version)
            case _:
                # A leader that joins again asks for a rebalance: topics may have changed.
                following = group.change()
                following.put(_updated(member, call))
                builder.park_join(following, member_id, call.version)
                prepare_or_complete(group, builder, self._settings)


def _updated(member: ClassicMember, call: GroupRequest) -> ClassicMember:
    message: JoinGroupRequest = call.message
    return replace(
        member,
        protocols=_offered(message),
        rebalance_timeout_ms=rebalance_timeout_ms_of(call),
        session_timeout_ms=message.session_timeout_ms,
    )


def _fits(
    generation: ClassicGeneration,
    before: tuple[OfferedProtocol, ...],
    now: tuple[OfferedProtocol, ...],
) -> bool:
    """Return whether the assignment stays valid after a member offers other protocols.

    The rest of a subscription (owned partitions, generation) differs after every restart.
    """
    if generation.choose_protocol() != generation.protocol_name:
        return False
    if generation.protocol_type != CONSUMER_PROTOCOL:
        return True
    was, is_now = (
        next(each.metadata for each in offers if each.name == generation.protocol_name)
        for offers in (before, now)
    )
    if was == is_now:
        return True
    if max(len(was), len(is_now)) > SUBSCRIPTION_BYTES_READ_MAX:
        return False  # another rebalance is safe, and shorter than a comparison
    topics, topics_now = topics_in(was), topics_in(is_now)
    return topics_now is None or sorted(topics_now.names) == sorted(topics.names if topics else ())


def _offered(message: JoinGroupRequest) -> tuple[OfferedProtocol, ...]:
    return tuple(OfferedProtocol(each.name, each.metadata) for each in message.protocols)


def rebalance_timeout_ms_of(call: GroupRequest) -> int:
    """Return the timeout that a member asks for; as in Kafka, a negative one counts as zero."""
    message: JoinGroupRequest = call.message
    if call.version < REBALANCE_TIMEOUT_FROM:
        return message.session_timeout_ms
    return max(message.rebalance_timeout_ms, 0)
