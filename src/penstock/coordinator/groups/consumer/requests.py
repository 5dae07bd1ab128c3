"""Consumer groups, as a part of the machine of one coordinator partition."""

from dataclasses import replace
from typing import Any

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.classic import ClassicGroup
from penstock.coordinator.groups.consumer.classic_members import (
    ClassicMembers,
    leaving_members,
)
from penstock.coordinator.groups.consumer.describe import describe
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.heartbeat import (
    Heartbeats,
    check_assignor,
    check_request,
)
from penstock.coordinator.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerMember,
    MemberState,
)
from penstock.coordinator.groups.consumer.member_resolution import known_member
from penstock.coordinator.groups.consumer.member_update import MemberUpdater
from penstock.coordinator.groups.consumer.migration import Migration
from penstock.coordinator.groups.consumer.outcome_builder import (
    ConsumerOutcomeBuilder,
    RecordsRejected,
)
from penstock.coordinator.groups.consumer.replay import replay
from penstock.coordinator.groups.consumer.timeouts import Timeouts
from penstock.coordinator.groups.group import CoordinatedGroup, GroupCoordinatorState
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.timers import (
    REJECTED_RETRY_MS,
    ConsumerTimer,
    RegexUnresolved,
    RevocationExpired,
)
from penstock.coordinator.records import CoordinatorRecord, group_id_of
from penstock.effects import CancelTimer, Failure, Outcome, SetTimer
from penstock.errors import GroupIdNotFound, UnknownMemberId
from penstock.wire.messages.k11_join_group import JoinGroupRequest
from penstock.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


class ConsumerRequests:
    def __init__(
        self, state: GroupCoordinatorState, settings: GroupSettings, cluster: ClusterView
    ) -> None:
        self._state = state
        self._settings = settings
        self._cluster = cluster
        self._expected: dict[str, ConsumerTimer] = {}
        self._timeouts = Timeouts(settings, cluster)
        self._updater = MemberUpdater(settings, cluster, self._timeouts)
        self._heartbeats = Heartbeats(settings, self._updater, self._timeouts)
        self._migration = Migration(state, settings, cluster, self._updater)
        self._classic = ClassicMembers(settings, cluster, self._updater, self._migration)

    # ConsumerGroupHeartbeat

    def heartbeat(self, call: GroupRequest, now_ms: int) -> Outcome:
        request: ConsumerGroupHeartbeatRequest = call.message
        check_request(request, call.version)
        check_assignor(request, self._updater.assignors)
        builder = self._builder(now_ms)
        if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return builder.outcome(self._leave(request, builder))
        found = self._state.groups.get(request.group_id)
        if isinstance(found, ConsumerGroup):
            return builder.outcome(self._heartbeats.heartbeat(found, call, builder))
        if request.member_epoch != JOINING:
            raise _no_consumer_group(request.group_id, found)
        if isinstance(found, ClassicGroup):
            group = self._migration.begin_upgrade(found, builder)
            reply = self._heartbeats.heartbeat(group, call, builder)
            self._migration.end_upgrade(found, group, builder)
            return builder.outcome(reply)
        return builder.outcome(
            self._heartbeats.heartbeat(ConsumerGroup(request.group_id), call, builder)
        )

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, builder: ConsumerOutcomeBuilder
    ) -> ConsumerGroupHeartbeatResponse:
        group = self._group(request.group_id)
        member = known_member(group, request.member_id, request.instance_id)
        if request.member_epoch == LEAVING_FOR_A_WHILE:
            return self._heartbeats.leave_for_a_while(group, member, builder)
        self._remove(group, [member], builder)
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )

    def _group(self, group_id: str) -> ConsumerGroup:
        found = self._state.groups.get(group_id)
        if not isinstance(found, ConsumerGroup):
            raise _no_consumer_group(group_id, found)
        return found

    def _remove(
        self, group: ConsumerGroup, members: list[ConsumerMember], builder: ConsumerOutcomeBuilder
    ) -> None:
        leaving = [member.member_id for member in members]
        if not members:
            return
        if self._migration.may_downgrade(group, leaving):
            self._migration.downgrade(group, leaving, builder)
        else:
            self._updater.without(group, members, builder)

    def _builder(self, now_ms: int) -> ConsumerOutcomeBuilder:
        return ConsumerOutcomeBuilder(now_ms, self._expected)

    # ConsumerGroupDescribe

    def describe(self, call: GroupRequest) -> Outcome:
        request: ConsumerGroupDescribeRequest = call.message
        groups, assignors = self._state.groups, self._updater.assignors
        return Outcome(
            reply=ConsumerGroupDescribeResponse(
                groups=[
                    describe(each, groups.get(each), self._cluster, assignors)
                    for each in request.group_ids
                ]
            )
        )

    # Members of the classic protocol

    def classic_join(self, call: GroupRequest, now_ms: int) -> Outcome:
        request: JoinGroupRequest = call.message
        group = self._group(request.group_id)
        builder = self._builder(now_ms)
        if not group.members:
            if request.member_id:
                raise UnknownMemberId(f"{request.member_id!r} is in no group")
            return self._migration.join_empty(group, call, builder)
        return builder.outcome(self._classic.join(group, call, builder))

    def classic_sync(self, call: GroupRequest, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        return builder.outcome(
            self._classic.sync(self._group(call.message.group_id), call, builder)
        )

    def classic_heartbeat(self, call: GroupRequest, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        group = self._group(call.message.group_id)
        return builder.outcome(self._classic.heartbeat(group, call, builder))

    def classic_leave(self, call: GroupRequest, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        group = self._group(call.message.group_id)
        leaving, reply = leaving_members(group, call)
        self._remove(group, leaving, builder)
        return builder.outcome(reply)

    # Topics and timers

    def topics_changed(self, event: TopicsChanged, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        failures: list[Failure] = []
        names = tuple(dict.fromkeys((*event.names, *(name for name, _ in event.deleted))))
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup) and group.members:
                written = len(builder.records)
                try:
                    self._updater.topics_changed(group, names, builder)
                except Exception as problem:
                    del builder.records[written:]
                    group.stale = group.regexes_stale = True
                    subject = f"group {group.group_id!r}, notified of changed topics"
                    failures.append(Failure(subject, problem, "Its next heartbeat looks again."))
        return replace(builder.outcome(), failures=failures)

    def handle_timer(self, event: Any, now_ms: int) -> Outcome | None:
        """Handle an event of consumer groups; return None for any other."""
        if isinstance(event, RecordsRejected):
            return self._undo_rejected(event)
        if not isinstance(event, ConsumerTimer):
            return None
        if self._expected.get(event.name) is not event:
            return Outcome()
        del self._expected[event.name]
        group = self._state.groups.get(event.group_id)
        if not isinstance(group, ConsumerGroup):
            return Outcome()
        builder = ConsumerOutcomeBuilder(now_ms, self._expected, event)
        if isinstance(event, RegexUnresolved):
            group.may_describe = event.may_describe or group.may_describe
            self._updater.resolve_regexes(group, builder)
            return builder.outcome()
        member = group.members.get(event.member_id)
        if member is None or (isinstance(event, RevocationExpired) and member.epoch != event.epoch):
            return Outcome()
        self._remove(group, [member], builder)
        return builder.outcome()

    def _undo_rejected(self, rejected: RecordsRejected) -> Outcome:
        """Expect the timers of before the rejected records, but for members that showed life.

        An expired timer is started again. Groups need nothing: replay alone changes them.
        """
        timers = list(rejected.timers)
        for name, event in rejected.expected_before.items():
            if event is None:
                self._expected.pop(name, None)
            else:
                self._expected[name] = event
        if rejected.fired is not None:
            timers.append(SetTimer(rejected.fired.name, REJECTED_RETRY_MS, rejected.fired))
        for timer in timers:
            if isinstance(timer, SetTimer) and isinstance(timer.event, ConsumerTimer):
                self._expected[timer.name] = timer.event
        for group_id in dict.fromkeys(group_id_of(record.key) for record in rejected.records):
            group = self._state.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                group.stale = group.regexes_stale = True  # no record holds the refresh
        return Outcome(timers=timers)

    # Records

    def replay(self, record: CoordinatorRecord) -> None:
        replay(self._state.groups, record)

    def loaded(self, group: ConsumerGroup, now_ms: int, wait_ms_min: int = 0) -> Outcome:
        """Give every member a whole session, and the whole time for revocations.

        The next heartbeat looks for changed topics. Unresolved expressions are resolved after
        `wait_ms_min`.
        """
        builder = self._builder(now_ms)
        group.stale = group.regexes_stale = True
        for member in group.members.values():
            timeout_ms = self._timeouts.session_timeout_ms_of(group.group_id, member)
            builder.watch(group.group_id, member.member_id, max(timeout_ms, wait_ms_min))
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                builder.watch_revocation(group.group_id, member)
        if group.unresolved_regexes():
            builder.await_resolution(group.group_id, wait_ms_min)
        return builder.outcome()

    def restore(self, group: ConsumerGroup, now_ms: int) -> Outcome:
        """Cancel the timers of a group, and start them as after a load."""
        names = [name for name, each in self._expected.items() if each.group_id == group.group_id]
        for name in names:
            del self._expected[name]
        outcome = self.loaded(group, now_ms, REJECTED_RETRY_MS)
        return replace(outcome, timers=[*map(CancelTimer, names), *outcome.timers])


def _no_consumer_group(group_id: str, found: CoordinatedGroup | None) -> GroupIdNotFound:
    if found is None:
        return GroupIdNotFound(f"Group {group_id} not found.")
    return GroupIdNotFound(f"Group {group_id} is not a consumer group.")
