"""ConsumerGroupHeartbeat, v0-v1: how members join, stay, leave, and learn what they have.

Epoch 0 joins, -1 leaves, -2 is a static member that leaves for a while. A request is full when it
says everything; later ones say what has changed. v1: the member brings its id; regular
expressions.
"""

from dataclasses import replace

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerMember,
    Owned,
    partitions_of,
)
from penstock.coordinator.groups.consumer.member_resolution import (
    ResolvedMember,
    check_epoch,
    check_room,
    join,
    join_static,
    known_member,
    new_member_id,
    replacement_records,
)
from penstock.coordinator.groups.consumer.member_update import MemberUpdate, MemberUpdater
from penstock.coordinator.groups.consumer.outcome_builder import ConsumerOutcomeBuilder
from penstock.coordinator.groups.consumer.records import current_record
from penstock.coordinator.groups.consumer.timeouts import Timeouts
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.errors import InvalidRequest, UnsupportedAssignor
from penstock.wire.messages.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_ID_BROUGHT_FROM = 1
NO_TIMEOUT = -1
_BLANKS = "".join(map(chr, range(ord(" ") + 1)))  # as Java trims a text


def check_request(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raise InvalidRequest for a request that no group could accept."""
    epoch = request.member_epoch
    needs_id = version >= MEMBER_ID_BROUGHT_FROM or epoch > JOINING or epoch == LEAVING
    texts = {
        "MemberId": request.member_id if needs_id else None,
        "GroupId": request.group_id,
        "InstanceId": request.instance_id,
        "RackId": request.rack_id,
    }
    for name, text in texts.items():
        if text is not None and not text.strip(_BLANKS):
            raise InvalidRequest(f"{name} can't be empty.")
    if epoch == JOINING:
        _check_first(request)
    elif epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE:
        raise InvalidRequest("MemberEpoch is invalid.")


def check_assignor(request: ConsumerGroupHeartbeatRequest, offered: tuple[str, ...]) -> None:
    if request.server_assignor is not None and request.server_assignor not in offered:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(offered)}."
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequest(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


class Heartbeats:
    def __init__(self, settings: GroupSettings, updater: MemberUpdater, timeouts: Timeouts) -> None:
        self._settings = settings
        self._updater = updater
        self._timeouts = timeouts

    def heartbeat(
        self, group: ConsumerGroup, call: GroupRequest, builder: ConsumerOutcomeBuilder
    ) -> ConsumerGroupHeartbeatResponse:
        """Handle the heartbeat of a member that joins or stays."""
        request: ConsumerGroupHeartbeatRequest = call.message
        check_room(group, request.member_id, self._settings.consumer_size_max)
        member_id = request.member_id or new_member_id(call.seed)
        resolved = _resolve_member(group, member_id, request)
        builder.write_all(replacement_records(group, resolved))
        before, owned = resolved.member, request.topic_partitions
        wanted = _as_requested(before, call)
        if wanted.regex:
            group.may_describe = call.may_describe
        member = self._updater.update(
            group, MemberUpdate(before, wanted, resolved.replaced_id, owned), builder
        )
        if resolved.replaced_id is not None:
            builder.unwatch(group.group_id, resolved.replaced_id)
        if before.classic is not None:
            builder.rejoined(group.group_id, member_id)
            builder.synced(group.group_id, member_id)
        session_ms = self._timeouts.session_timeout_ms(group.group_id)
        builder.watch(group.group_id, member_id, session_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._timeouts.heartbeat_interval_ms(group.group_id),
        )
        changed = _changed(before.assigned, member.assigned)
        if changed or _is_full(request) or _misses(owned, member.assigned):
            response.assignment = _assignment(member.assigned)
        return response

    def leave_for_a_while(
        self, group: ConsumerGroup, member: ConsumerMember, builder: ConsumerOutcomeBuilder
    ) -> ConsumerGroupHeartbeatResponse:
        """Keep the partitions of a static member until its session expires; pending revocations
        count as done."""
        left = replace(member, epoch=LEAVING_FOR_A_WHILE, revoking={})
        builder.write(current_record(group.group_id, left))
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=LEAVING_FOR_A_WHILE
        )


def _resolve_member(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest
) -> ResolvedMember:
    if request.member_epoch == JOINING:
        if request.instance_id is None:
            return join(group, member_id)
        return join_static(group, member_id, request.instance_id, classic=False)
    member = known_member(group, member_id, request.instance_id)
    check_epoch(member, request.member_epoch, request.topic_partitions)
    return ResolvedMember(member)


def _as_requested(member: ConsumerMember, call: GroupRequest) -> ConsumerMember:
    """Return the member with the fields that the request sets."""
    request: ConsumerGroupHeartbeatRequest = call.message
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    topics = member.topics if names is None else frozenset(names)
    wanted = replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else max(timeout_ms, 0)
        ),
        assignor=request.server_assignor or member.assignor,
        topics=topics,
        regex=member.regex if regex is None else regex,
        client_id=call.client_id,
        client_host=call.client_host,
        classic=None,
    )
    return member if wanted == member else wanted


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request sets all fields, as after a join or a missed answer."""
    subscribed = (request.subscribed_topic_names, request.subscribed_topic_regex)
    return request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != NO_TIMEOUT
        and any(each is not None for each in subscribed)
        and request.topic_partitions is not None
    )


def _changed(before: Owned, after: Owned) -> bool:
    """Return whether the partitions differ, leaving epochs aside."""
    return before is not after and (
        before.keys() != after.keys()
        or any(before[topic_id].keys() != after[topic_id].keys() for topic_id in after)
    )


def _misses(reported: list[TopicPartitions] | None, assigned: Owned) -> bool:
    """Return whether a member reports fewer partitions than it was assigned.

    The member may be about to begin with them, or the answer with the assignment was lost.
    """
    if reported is None:
        return False
    has = partitions_of(reported)
    return any(
        partitions.keys() - has.get(topic_id, frozenset())
        for topic_id, partitions in assigned.items()
    )


def _assignment(owned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(owned[topic_id]))
            for topic_id in sorted(owned)
        ]
    )
