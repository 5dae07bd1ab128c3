"""Requests to classic groups, their timers, their records."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic import rebalance
from penstock.coordinator.groups.classic.generation import ClassicState, WaitingRequest
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.classic.group_record import generation_of
from penstock.coordinator.groups.classic.join_group import ClassicJoin
from penstock.coordinator.groups.classic.leave_group import leave
from penstock.coordinator.groups.classic.outcome_builder import (
    ClassicOutcomeBuilder,
    restart_session,
)
from penstock.coordinator.groups.classic.replies import join_error, sync_error
from penstock.coordinator.groups.classic.sync_group import sync
from penstock.coordinator.groups.group import GroupCoordinatorState
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.timers import (
    AssignmentRejected,
    ClassicEvent,
    ClassicTimer,
    GroupRecordRejected,
    InitialDelayExpired,
    JoinExpired,
    SessionExpired,
    SyncExpired,
)
from penstock.coordinator.records import CoordinatorRecord
from penstock.effects import Outcome
from penstock.errors import NONE, CoordinatorNotAvailable, RebalanceInProgress, UnknownMemberId
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.records.group import GroupMetadataKey, GroupMetadataValue


class ClassicRequests:
    def __init__(self, state: GroupCoordinatorState, settings: GroupSettings) -> None:
        self._state = state
        self._settings = settings
        self._join = ClassicJoin(state, settings)
        self._tickets = count()

    def join(self, call: GroupRequest, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        self._join.join(self._find(call.message.group_id), call, builder)
        return builder.outcome()

    def sync(self, call: GroupRequest, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        sync(self._group(call.message.group_id), call, builder)
        return builder.outcome()

    def heartbeat(self, call: GroupRequest) -> Outcome:
        message: HeartbeatRequest = call.message
        group = self._group(message.group_id)
        group.check_member(message.member_id, message.group_instance_id)
        group.check_generation(message.generation_id)
        rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        return Outcome(
            reply=HeartbeatResponse(error_code=RebalanceInProgress.code if rebalancing else NONE),
            timers=[restart_session(group, group.members[message.member_id])],
        )

    def leave(self, call: GroupRequest, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        group = self._find(call.message.group_id)
        builder.reply = leave(group, call, builder, self._settings)
        return builder.outcome()

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _group(self, group_id: str) -> ClassicGroup:
        group = self._find(group_id)
        if group is None:
            raise UnknownMemberId(f"there is no classic group {group_id!r}")
        return group

    def _builder(self, now_ms: int) -> ClassicOutcomeBuilder:
        return ClassicOutcomeBuilder(now_ms, ("classic", next(self._tickets)))

    # Timers and rejected records

    def handle_timer(self, event: Any, now_ms: int) -> Outcome | None:
        """Handle an event of classic groups; return None for any other."""
        if not isinstance(event, ClassicEvent):
            return None
        group = self._find(event.group_id)
        if group is None:
            return Outcome()  # a group that had no record before the rejected one, or is deleted
        if isinstance(event, GroupRecordRejected):
            return self.restore(group, group.joining, group.syncing, now_ms)
        builder = self._builder(now_ms)
        if isinstance(event, AssignmentRejected):
            self._rebalance_again(group, builder)
        elif group.timers.get(event.name) is event:
            del group.timers[event.name]
            self._expired(group, event, builder)
        return builder.outcome()

    def _expired(
        self, group: ClassicGroup, event: ClassicTimer, builder: ClassicOutcomeBuilder
    ) -> None:
        match event:
            case SessionExpired():
                rebalance.session_expired(group, event.member_id, builder, self._settings)
            case InitialDelayExpired():
                rebalance.initial_delay_expired(group, event, builder, self._settings)
            case JoinExpired():
                rebalance.complete(group, builder)
            case SyncExpired():
                rebalance.sync_expired(group, builder, self._settings)

    def _rebalance_again(self, group: ClassicGroup, builder: ClassicOutcomeBuilder) -> None:
        """Begin another rebalance, as Kafka does: the members stay."""
        for member in group.members.values():
            builder.watch(group, member)
        rebalance.prepare(group, builder, self._settings)

    def restore(
        self,
        group: ClassicGroup,
        joining: Mapping[str, WaitingRequest],
        syncing: Mapping[str, WaitingRequest],
        now_ms: int,
        session_ms_min: int = 0,
    ) -> Outcome:
        """Return the group to the generation of its record; members that wait ask again."""
        builder = self._builder(now_ms)
        for member_id, waiting in joining.items():
            error = CoordinatorNotAvailable
            builder.answer(waiting, join_error(error, waiting.version, member_id))
        for waiting in syncing.values():
            builder.answer(waiting, sync_error(CoordinatorNotAvailable))
        builder.cancel_all(group)
        group.forget_volatile()
        self._resume(group, builder, session_ms_min)
        return builder.outcome()

    # Records

    def replay(self, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        assert isinstance(key, GroupMetadataKey)
        group = self._find(key.group)
        if isinstance(value, GroupMetadataValue):
            group = group or self._newborn(key.group)
            group.replay(generation_of(value, group.members))
            self._state.groups[key.group] = group
        elif group is not None:
            del self._state.groups[key.group]

    def _newborn(self, group_id: str) -> ClassicGroup:
        unborn, self._state.unborn = self._state.unborn, None
        if unborn is None or unborn.group_id != group_id:
            return ClassicGroup(group_id)
        return unborn

    def loaded(self, group: ClassicGroup, now_ms: int) -> Outcome:
        builder = self._builder(now_ms)
        self._resume(group, builder)
        return builder.outcome()

    def _resume(
        self, group: ClassicGroup, builder: ClassicOutcomeBuilder, session_ms_min: int = 0
    ) -> None:
        """Give each member a whole session timeout, and begin a rebalance if one is due."""
        for member in group.members.values():
            builder.watch(group, member, max(member.session_timeout_ms, session_ms_min))
        # If the limit was lowered, the members that rejoin last are rejected.
        if len(group.members) > self._settings.size_max or not group.rest.is_led:
            rebalance.prepare(group, builder, self._settings)
