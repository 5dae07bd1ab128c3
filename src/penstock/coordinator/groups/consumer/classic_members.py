"""Members of the classic protocol inside a consumer group, while it migrates.

JoinGroup takes such a member one step on, as a heartbeat does for others. SyncGroup returns its
assignment. Heartbeat asks the member to rejoin when another step is due. The member's generation is
its epoch. No such member is a leader, since the coordinator assigns.
"""

from dataclasses import replace

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic.generation import OfferedProtocol
from penstock.coordinator.groups.classic.join_group import rebalance_timeout_ms_of
from penstock.coordinator.groups.classic.replies import join_error
from penstock.coordinator.groups.consumer.consumer_protocol import (
    assignment_for,
    owned_in,
    subscription_in,
)
from penstock.coordinator.groups.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from penstock.coordinator.groups.consumer.member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
)
from penstock.coordinator.groups.consumer.member_resolution import (
    ResolvedMember,
    check_room,
    join,
    join_static,
    known_member,
    new_member_id,
    replacement_records,
)
from penstock.coordinator.groups.consumer.member_update import MemberUpdate, MemberUpdater
from penstock.coordinator.groups.consumer.migration import Migration
from penstock.coordinator.groups.consumer.outcome_builder import ConsumerOutcomeBuilder
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.errors import (
    NONE,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from penstock.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.wire.primitives import Malformed
from penstock.wire.records.consumer_protocol import ConsumerProtocolSubscription

MANY_LEAVE_FROM = 3
MEMBER_ID_REQUIRED_FROM = 4
SUBSCRIPTION_BYTES_MAX = 1024 * 1024  # of all protocols: as much as a record holds by default


class ClassicMembers:
    def __init__(
        self,
        settings: GroupSettings,
        cluster: ClusterView,
        updater: MemberUpdater,
        migration: Migration,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._updater = updater
        self._migration = migration

    # JoinGroup

    def join(
        self, group: ConsumerGroup, call: GroupRequest, builder: ConsumerOutcomeBuilder
    ) -> JoinGroupResponse:
        request: JoinGroupRequest = call.message
        self._check_join(group, request)
        if not request.member_id and request.group_instance_id is None:
            if call.version >= MEMBER_ID_REQUIRED_FROM:
                return join_error(MemberIdRequired, call.version, new_member_id(call.seed))
        subscription = _subscription(request)
        resolved = _resolve_member(group, call)
        wanted = _as_requested(resolved.member, call, subscription)
        update = MemberUpdate(
            resolved.member, wanted, resolved.replaced_id, owned_in(subscription, self._cluster)
        )
        static = group.static_member(request.group_instance_id)
        if static is not None and self._migration.may_become_classic(group, static):
            member = self._downgrade(group, update, builder)
        else:
            builder.write_all(replacement_records(group, resolved))
            member = self._updater.update(group, update, builder)
            self._watch(group, update, builder)
        assert member.classic is not None, "the request came from a classic member"
        return JoinGroupResponse(
            member_id=member.member_id,
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=member.classic.protocols[0].name,
        )

    def _check_join(self, group: ConsumerGroup, request: JoinGroupRequest) -> None:
        limits = self._settings
        shortest_ms, longest_ms = limits.session_timeout_ms_min, limits.session_timeout_ms_max
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            raise InvalidSessionTimeout(
                f"a session timeout of {request.session_timeout_ms} ms; "
                f"{shortest_ms} to {longest_ms} are allowed"
            )
        if limits.migration_policy == "disabled":
            raise InconsistentGroupProtocol(
                f"{group.group_id!r} is a consumer group, and groups do not migrate here"
            )
        check_room(group, request.member_id, limits.consumer_size_max)
        if not _supports(group, request):
            raise InconsistentGroupProtocol(
                f"no protocol of the member is known to all classic members of {group.group_id!r}"
            )

    def _downgrade(
        self, group: ConsumerGroup, update: MemberUpdate, builder: ConsumerOutcomeBuilder
    ) -> ConsumerMember:
        changed = update.names_changed or update.regex_changed
        self._migration.downgrade_with(group, update.member, builder, rebalance=changed)
        # The generation of the classic group is the epoch of this one.
        return replace(update.member, epoch=group.epoch)

    def _watch(
        self, group: ConsumerGroup, update: MemberUpdate, builder: ConsumerOutcomeBuilder
    ) -> None:
        member = update.member
        assert member.classic is not None, "the request came from a classic member"
        if update.replaced_id is not None:
            builder.unwatch(group.group_id, update.replaced_id)
        builder.rejoined(group.group_id, member.member_id)
        builder.watch(group.group_id, member.member_id, member.classic.session_timeout_ms)
        builder.await_sync(group.group_id, member.member_id, member.rebalance_timeout_ms)

    # SyncGroup and Heartbeat

    def sync(
        self, group: ConsumerGroup, call: GroupRequest, builder: ConsumerOutcomeBuilder
    ) -> SyncGroupResponse:
        request: SyncGroupRequest = call.message
        member = known_member(group, request.member_id, request.group_instance_id)
        classic = _classic_side(member)
        _check_generation(member, request.generation_id)
        _check_protocol(classic, request)
        behind = member.epoch < _newest_epoch(group)
        if behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
            # A newer target exists. A member with partitions to revoke revokes them first.
            builder.await_rejoin(group.group_id, member)
            return SyncGroupResponse(error_code=RebalanceInProgress.code)
        builder.synced(group.group_id, member.member_id)
        builder.watch(group.group_id, member.member_id, classic.session_timeout_ms)
        metadata = classic.protocols[0].metadata
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_for(metadata, member.assigned, self._cluster),
        )

    def heartbeat(
        self, group: ConsumerGroup, call: GroupRequest, builder: ConsumerOutcomeBuilder
    ) -> HeartbeatResponse:
        request: HeartbeatRequest = call.message
        member = known_member(group, request.member_id, request.group_instance_id)
        classic = _classic_side(member)
        _check_generation(member, request.generation_id)
        builder.watch(group.group_id, member.member_id, classic.session_timeout_ms)
        if not _has_another_step(group, member):
            return HeartbeatResponse(error_code=NONE)
        builder.await_rejoin(group.group_id, member)
        return HeartbeatResponse(error_code=RebalanceInProgress.code)


# LeaveGroup


def leaving_members(
    group: ConsumerGroup, call: GroupRequest
) -> tuple[list[ConsumerMember], LeaveGroupResponse]:
    """Return the members that leave, of both protocols, and the answer."""
    request: LeaveGroupRequest = call.message
    identities = request.members
    if call.version < MANY_LEAVE_FROM:
        identities = [MemberIdentity(member_id=request.member_id)]
    leaving: dict[str, ConsumerMember] = {}
    answers: list[MemberResponse] = []
    for each in identities:
        answer = MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id)
        answers.append(answer)
        try:
            member = _named(group, each)
        except KafkaError as error:
            answer.error_code = error.code
        else:
            leaving[member.member_id] = member
    if call.version < MANY_LEAVE_FROM:
        return list(leaving.values()), LeaveGroupResponse(error_code=answers[0].error_code)
    return list(leaving.values()), LeaveGroupResponse(members=answers)


def _named(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is not None and not identity.member_id:
        found = group.static_member(identity.group_instance_id)
        if found is None:
            raise UnknownMemberId(f"no member has the id {identity.group_instance_id!r}")
        return found
    return known_member(group, identity.member_id, identity.group_instance_id)


def _resolve_member(group: ConsumerGroup, call: GroupRequest) -> ResolvedMember:
    request: JoinGroupRequest = call.message
    instance_id = request.group_instance_id
    member_id = request.member_id or new_member_id(call.seed)
    if instance_id is None:
        return join(group, member_id)
    if not request.member_id:
        return join_static(group, member_id, instance_id, classic=True)
    return ResolvedMember(known_member(group, member_id, instance_id))


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Return whether all classic members of the group support one of the protocols."""
    if request.protocol_type != CONSUMER_PROTOCOL or not request.protocols:
        return False
    known = [
        {protocol.name for protocol in member.classic.protocols}
        for member in group.members.values()
        if member.classic is not None
    ]
    return any(all(each.name in names for names in known) for each in request.protocols)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Return the subscription of the first protocol; clients send the same one with each.

    Raise InconsistentGroupProtocol if any of them is malformed: a downgrade may choose it.
    """
    if sum(len(each.metadata) for each in request.protocols) > SUBSCRIPTION_BYTES_MAX:
        raise InconsistentGroupProtocol("the subscription is too long")
    try:
        first, *_others = [subscription_in(each.metadata) for each in request.protocols]
    except Malformed as error:
        raise InconsistentGroupProtocol(f"the subscription is malformed: {error}") from None
    return first


def _as_requested(
    member: ConsumerMember, call: GroupRequest, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    request: JoinGroupRequest = call.message
    wanted = replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms_of(call),
        topics=frozenset(subscription.topics),
        regex="",
        client_id=call.client_id,
        client_host=call.client_host,
        classic=ClassicSide(
            request.session_timeout_ms,
            tuple(OfferedProtocol(each.name, each.metadata) for each in request.protocols),
        ),
    )
    return member if wanted == member else wanted


def _classic_side(member: ConsumerMember) -> ClassicSide:
    if member.classic is None:
        raise UnknownMemberId(f"{member.member_id!r} speaks the consumer protocol")
    return member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise IllegalGeneration(
            f"{member.member_id!r} is in generation {member.epoch}, not {generation}"
        )


def _check_protocol(classic: ClassicSide, request: SyncGroupRequest) -> None:
    for given, configured in (
        (request.protocol_type, CONSUMER_PROTOCOL),
        (request.protocol_name, classic.protocols[0].name),
    ):
        if given is not None and given != configured:
            raise InconsistentGroupProtocol(f"the member uses {configured!r}, not {given!r}")


def _has_another_step(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether the member has to rejoin to take a step."""
    if member.epoch < _newest_epoch(group) or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member)


def _newest_epoch(group: ConsumerGroup) -> int:
    """Return the epoch that classic members are to reach.

    The next heartbeat of a member of the consumer protocol computes a new target. Without such a
    member, a classic member has to rejoin for it.
    """
    if any(member.classic is None for member in group.members.values()):
        return group.target_epoch
    return group.epoch


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return any(
        partition not in member.assigned.get(topic_id, ())
        and group.owner(topic_id, partition) is not None
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
    )
