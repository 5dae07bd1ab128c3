"""Requests to classic groups, and the timers that they set."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import Call
from penstock.coordinator.groups.classic import rebalance
from penstock.coordinator.groups.classic.alarms import (
    AssignmentRefused,
    InitialDelayOver,
    JoinOver,
    RecordRefused,
    SessionOver,
    SyncOver,
)
from penstock.coordinator.groups.classic.group import ClassicGroup, ClassicState, Waiting
from penstock.coordinator.groups.classic.joining import Joining
from penstock.coordinator.groups.classic.leaving import leave
from penstock.coordinator.groups.classic.replies import join_refused, sync_refused
from penstock.coordinator.groups.classic.storing import group_of
from penstock.coordinator.groups.classic.syncing import sync
from penstock.coordinator.groups.classic.turn import Turn, heard_of
from penstock.coordinator.groups.group import GroupState
from penstock.coordinator.groups.settings import GroupSettings
from penstock.coordinator.records import Record
from penstock.effects import Outcome
from penstock.errors import NONE, CoordinatorNotAvailable, RebalanceInProgress, UnknownMemberId
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.records.group import GroupMetadataKey, GroupMetadataValue


class ClassicWork:
    """Every kind of work is made of the same three; classic groups ask nothing of the cluster."""

    def __init__(
        self, state: GroupState, settings: GroupSettings, _cluster: ClusterView | None = None
    ) -> None:
        self._state = state
        self._settings = settings
        self._joining = Joining(state, settings)
        self._tickets = count()

    # Requests

    def join(self, call: Call, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        self._joining.join(call, turn)
        return turn.outcome()

    def sync(self, call: Call, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        sync(self._group(call.message.group_id), call, turn)
        return turn.outcome()

    def heartbeat(self, call: Call, now_ms: int) -> Outcome:  # noqa: ARG002
        message: HeartbeatRequest = call.message
        group = self._group(message.group_id)
        group.check_member(message.member_id, message.group_instance_id)
        group.check_generation(message.generation_id)
        rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        return Outcome(
            reply=HeartbeatResponse(error_code=RebalanceInProgress.code if rebalancing else NONE),
            timers=[heard_of(group, group.members[message.member_id])],
        )

    def leave(self, call: Call, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        found = self._state.groups.get(call.message.group_id)
        group = found if isinstance(found, ClassicGroup) else None
        turn.reply = leave(group, call, turn, self._settings)
        return turn.outcome()

    def _group(self, group_id: str) -> ClassicGroup:
        group = self._state.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberId(f"there is no classic group {group_id!r}")
        return group

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, ("classic", next(self._tickets)))

    # Timers

    def woken(self, event: Any, now_ms: int) -> Outcome | None:
        """None if this is no timer of a classic group."""
        if isinstance(event, RecordRefused):
            return self._take_back(event.group_id, now_ms)
        if isinstance(event, AssignmentRefused):
            return self._assign_again(event.group_id, now_ms)
        if not isinstance(event, SessionOver | InitialDelayOver | JoinOver | SyncOver):
            return None
        group = self._state.groups.get(event.group_id)
        if not isinstance(group, ClassicGroup) or not _is_expected(group, event):
            return Outcome()
        turn = self._turn(now_ms)
        match event:
            case SessionOver():
                rebalance.session_over(group, event.member_id, turn, self._settings)
            case InitialDelayOver():
                rebalance.initial_delay_over(group, event, turn, self._settings)
            case JoinOver():
                rebalance.complete(group, turn)
            case SyncOver():
                rebalance.sync_over(group, turn, self._settings)
        return turn.outcome()

    def _take_back(self, group_id: str, now_ms: int) -> Outcome:
        """The group is again what the log holds of it; whoever waits asks again. Its neighbours
        hear nothing of it."""
        group = self._state.groups.pop(group_id)
        assert isinstance(group, ClassicGroup), "only classic groups write so"
        return self.restore(group, {**group.joining}, {**group.syncing}, now_ms)

    def restore(
        self,
        group: ClassicGroup,
        joining: Mapping[str, Waiting],
        syncing: Mapping[str, Waiting],
        now_ms: int,
        session_ms_min: int = 0,
    ) -> Outcome:
        """Make the group what its record says, and tell those who wait to ask again."""
        turn = self._turn(now_ms)
        for member_id, waiting in joining.items():
            error = CoordinatorNotAvailable
            turn.answer(waiting, join_refused(error, waiting.version, member_id))
        for waiting in syncing.values():
            turn.answer(waiting, sync_refused(CoordinatorNotAvailable))
        turn.cancel_all(group)
        self._state.groups.pop(group.group_id, None)
        if group.stored is not None:
            self.replay(group.stored)
            restored = self._state.groups[group.group_id]
            assert isinstance(restored, ClassicGroup), "of a record of its own kind"
            for member in restored.members.values():
                turn.watch(restored, member, max(member.session_timeout_ms, session_ms_min))
        elif self._state.offsets.has_offsets(group.group_id):
            self._state.groups[group.group_id] = ClassicGroup(group.group_id)
        return turn.outcome()

    def _assign_again(self, group_id: str, now_ms: int) -> Outcome:
        """As Kafka has it: members keep their places, and begin another generation."""
        group = self._state.groups[group_id]
        assert isinstance(group, ClassicGroup), "only classic groups write so"
        turn = self._turn(now_ms)
        for member in group.members.values():
            member.assignment = b""
            turn.watch(group, member)
        rebalance.prepare(group, turn, self._settings)
        return turn.outcome()

    # Records

    def replay(self, record: Record) -> None:
        key, value = record.key, record.value
        assert isinstance(key, GroupMetadataKey)
        known = self._state.groups.get(key.group)
        if isinstance(known, ClassicGroup) and known.written is record:
            known.written = None  # we said so ourselves, and members may have moved on already
            known.stored = record
        elif isinstance(value, GroupMetadataValue):
            self._state.groups[key.group] = group = group_of(key.group, value)
            group.stored = record
        elif isinstance(known, ClassicGroup):
            known.state = ClassicState.DEAD
            del self._state.groups[key.group]

    def loaded(self, group: ClassicGroup, now_ms: int) -> Outcome:
        """Every member gets a whole session timeout to be heard of again."""
        turn = self._turn(now_ms)
        for member in group.members.values():
            turn.watch(group, member)
        if len(group.members) > self._settings.size_max:
            # The limit was lowered: the members that rejoin last have to go.
            rebalance.prepare(group, turn, self._settings)
        return turn.outcome()


def _is_expected(
    group: ClassicGroup, event: SessionOver | InitialDelayOver | JoinOver | SyncOver
) -> bool:
    if isinstance(event, SessionOver):
        member = group.members.get(event.member_id)
        expected = group.pending.get(event.member_id) if member is None else member.alarm
        return expected is event
    return event is (group.sync_alarm if isinstance(event, SyncOver) else group.join_alarm)
