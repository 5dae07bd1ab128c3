"""Consumer groups, as a part of the machine of one coordinator partition."""

from dataclasses import replace
from typing import Any

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import Call, TopicsChanged
from penstock.coordinator.groups.classic import ClassicGroup
from penstock.coordinator.groups.consumer.advance import Advance
from penstock.coordinator.groups.consumer.alarms import (
    REFUSED_RETRY_MS,
    Alarm,
    RegexUnresolved,
    RevocationOver,
)
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
from penstock.coordinator.groups.consumer.joining import known_member
from penstock.coordinator.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Member,
    MemberState,
)
from penstock.coordinator.groups.consumer.migration import Migration
from penstock.coordinator.groups.consumer.replay import replay
from penstock.coordinator.groups.consumer.timeouts import Timeouts
from penstock.coordinator.groups.consumer.turn import RecordsRefused, Turn
from penstock.coordinator.groups.group import Group, GroupState
from penstock.coordinator.groups.settings import GroupSettings
from penstock.coordinator.records import Record
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


class ConsumerWork:
    def __init__(self, state: GroupState, settings: GroupSettings, cluster: ClusterView) -> None:
        self._state = state
        self._settings = settings
        self._cluster = cluster
        self._alarms: dict[str, Alarm] = {}
        self._timeouts = Timeouts(settings, cluster)
        self._advance = Advance(settings, cluster, self._timeouts)
        self._heartbeats = Heartbeats(settings, self._advance, self._timeouts)
        self._migration = Migration(state, settings, cluster, self._advance)
        self._classic = ClassicMembers(settings, cluster, self._advance, self._migration)

    # ConsumerGroupHeartbeat

    def heartbeat(self, call: Call, now_ms: int) -> Outcome:
        request: ConsumerGroupHeartbeatRequest = call.message
        check_request(request, call.version)
        check_assignor(request, self._advance.assignors)
        turn = self._turn(now_ms)
        if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return turn.outcome(self._leave(request, turn))
        found = self._state.groups.get(request.group_id)
        if isinstance(found, ConsumerGroup):
            return turn.outcome(self._heartbeats.beat(found, call, turn))
        if request.member_epoch != JOINING:
            raise _no_consumer_group(request.group_id, found)
        if isinstance(found, ClassicGroup):
            group = self._migration.begin_upgrade(found, turn)
            reply = self._heartbeats.beat(group, call, turn)
            self._migration.end_upgrade(found, group, turn)
            return turn.outcome(reply)
        return turn.outcome(self._heartbeats.beat(ConsumerGroup(request.group_id), call, turn))

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, turn: Turn
    ) -> ConsumerGroupHeartbeatResponse:
        group = self._group(request.group_id)
        member = known_member(group, request.member_id, request.instance_id)
        if request.member_epoch == LEAVING_FOR_A_WHILE:
            return self._heartbeats.leave_for_a_while(group, member, turn)
        self._remove(group, [member], turn)
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )

    def _group(self, group_id: str) -> ConsumerGroup:
        found = self._state.groups.get(group_id)
        if not isinstance(found, ConsumerGroup):
            raise _no_consumer_group(group_id, found)
        return found

    def _remove(self, group: ConsumerGroup, members: list[Member], turn: Turn) -> None:
        leaving = [member.member_id for member in members]
        if not members:
            return
        if self._migration.may_downgrade(group, leaving):
            self._migration.downgrade(group, leaving, turn)
        else:
            self._advance.without(group, members, turn)

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, self._alarms)

    # ConsumerGroupDescribe

    def describe(self, call: Call, now_ms: int) -> Outcome:  # noqa: ARG002
        request: ConsumerGroupDescribeRequest = call.message
        groups, assignors = self._state.groups, self._advance.assignors
        return Outcome(
            reply=ConsumerGroupDescribeResponse(
                groups=[
                    describe(each, groups.get(each), self._cluster, assignors)
                    for each in request.group_ids
                ]
            )
        )

    # Members of the classic protocol

    def classic_join(self, call: Call, now_ms: int) -> Outcome:
        request: JoinGroupRequest = call.message
        group = self._group(request.group_id)
        turn = self._turn(now_ms)
        if not group.members:
            if request.member_id:
                raise UnknownMemberId(f"{request.member_id!r} is in no group")
            return self._migration.join_empty(group, call, turn)
        return turn.outcome(self._classic.join(group, call, turn))

    def classic_sync(self, call: Call, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        return turn.outcome(self._classic.sync(self._group(call.message.group_id), call, turn))

    def classic_heartbeat(self, call: Call, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        group = self._group(call.message.group_id)
        return turn.outcome(self._classic.heartbeat(group, call, turn))

    def classic_leave(self, call: Call, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        group = self._group(call.message.group_id)
        leaving, reply = leaving_members(group, call)
        self._remove(group, leaving, turn)
        return turn.outcome(reply)

    # What happens by itself

    def topics_changed(self, event: TopicsChanged, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        failures: list[Failure] = []
        names = tuple(dict.fromkeys((*event.names, *(name for name, _ in event.deleted))))
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup) and group.members:
                written = len(turn.records)
                try:
                    self._advance.topics_changed(group, names, turn)
                except Exception as problem:
                    del turn.records[written:]
                    group.stale = group.regexes_stale = True
                    subject = f"group {group.group_id!r}, told of other topics"
                    failures.append(Failure(subject, problem, "Its next heartbeat looks again."))
        return replace(turn.outcome(), failures=failures)

    def woken(self, event: Any, now_ms: int) -> Outcome | None:
        """None if this is no timer of a consumer group."""
        if isinstance(event, RecordsRefused):
            return self._take_back(event)
        if not isinstance(event, Alarm):
            return None
        if self._alarms.get(event.name) is not event:
            return Outcome()
        del self._alarms[event.name]
        group = self._state.groups.get(event.group_id)
        if not isinstance(group, ConsumerGroup):
            return Outcome()
        turn = Turn(now_ms, self._alarms, event)
        if isinstance(event, RegexUnresolved):
            self._advance.resolve_regexes(group, turn)
            return turn.outcome()
        member = group.members.get(event.member_id)
        if member is None or (isinstance(event, RevocationOver) and member.epoch != event.epoch):
            return Outcome()
        self._remove(group, [member], turn)
        return turn.outcome()

    def _take_back(self, refused: RecordsRefused) -> Outcome:
        """Groups are what the log holds of them: replay alone changes those. What is watched is
        as it was, but for whoever spoke, who lives; what nobody has asked for is tried again."""
        groups, timers = self._state.groups, list(refused.timers)
        for name, alarm in refused.alarms_before.items():
            if alarm is None:
                self._alarms.pop(name, None)
            else:
                self._alarms[name] = alarm
        if refused.fired is not None:
            timers.append(SetTimer(refused.fired.name, REFUSED_RETRY_MS, refused.fired))
        for timer in timers:
            if isinstance(timer, SetTimer) and isinstance(timer.event, Alarm):
                self._alarms[timer.name] = timer.event
        if refused.ended is not None:
            groups[refused.ended.group_id] = refused.ended
        # A classic group that was to go has a key of another kind, and nothing to find out.
        keys = (getattr(record.key, "group_id", "") for record in refused.records)
        for group_id in dict.fromkeys(keys):
            group = groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                group.stale = group.regexes_stale = True  # what was found out is in no record
        return Outcome(timers=timers)

    # Records

    def replay(self, record: Record) -> None:
        replay(self._state.groups, record)

    def loaded(self, group: ConsumerGroup, now_ms: int, wait_ms_min: int = 0) -> Outcome:
        """Every member gets a whole session to be heard of again, and all the time there is to
        give partitions back. What became of topics in the meantime is found out as it speaks.
        Unresolved expressions are resolved after `wait_ms_min`."""
        turn = self._turn(now_ms)
        group.stale = group.regexes_stale = True
        for member in group.members.values():
            timeout_ms = self._timeouts.session_timeout_ms_of(group.group_id, member)
            turn.watch(group.group_id, member.member_id, max(timeout_ms, wait_ms_min))
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                turn.watch_revocation(group.group_id, member)
        if group.unresolved_regexes():
            turn.await_resolution(group.group_id, wait_ms_min)
        return turn.outcome()

    def restore(self, group: ConsumerGroup, now_ms: int) -> Outcome:
        """Put the group back as its records have it, with timers as after a load."""
        self._state.groups[group.group_id] = group
        names = [name for name, each in self._alarms.items() if each.group_id == group.group_id]
        for name in names:
            del self._alarms[name]
        outcome = self.loaded(group, now_ms, REFUSED_RETRY_MS)
        return replace(outcome, timers=[*map(CancelTimer, names), *outcome.timers])


def _no_consumer_group(group_id: str, found: Group | None) -> GroupIdNotFound:
    if found is None:
        return GroupIdNotFound(f"Group {group_id} not found.")
    return GroupIdNotFound(f"Group {group_id} is not a consumer group.")
