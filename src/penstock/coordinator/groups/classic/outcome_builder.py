"""Collects the effects of one event on a classic group while the event is handled."""

from typing import Any

from penstock.coordinator.groups.classic.generation import (
    ClassicMember,
    NextGeneration,
    WaitingRequest,
)
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.classic.replies import NO_MEMBER_ID, join_error, sync_error
from penstock.coordinator.groups.timers import (
    AssignmentRejected,
    ClassicTimer,
    GroupRecordRejected,
    InitialDelayExpired,
    JoinExpired,
    SessionExpired,
    SyncExpired,
    session_timer_name,
)
from penstock.coordinator.records import CoordinatorRecord
from penstock.effects import CancelTimer, Outcome, SetTimer, Ticket, TicketAnswer
from penstock.errors import KafkaError, RebalanceInProgress


def start_timer(group: ClassicGroup, event: ClassicTimer, after_ms: int) -> SetTimer:
    """Expect the event, and return the effect that brings it."""
    group.timers[event.name] = event
    return SetTimer(event.name, after_ms, event)


def restart_session(group: ClassicGroup, member: ClassicMember) -> SetTimer:
    """Give a member that has shown life another session timeout."""
    event = SessionExpired(group.group_id, member.member_id)
    return start_timer(group, event, member.session_timeout_ms)


def cancel_timers(group: ClassicGroup) -> list[CancelTimer]:
    return [CancelTimer(name) for name in group.timers]


class ClassicOutcomeBuilder:
    """`ticket` is for the request of this event, if its answer has to wait."""

    def __init__(self, now_ms: int, ticket: Ticket) -> None:
        self.now_ms = now_ms
        self.reply: Any = None
        self._ticket = ticket
        self._parked: Ticket | None = None
        self._records: list[CoordinatorRecord] = []
        self._if_rejected: GroupRecordRejected | AssignmentRejected | None = None
        self._timers: list[SetTimer | CancelTimer] = []
        self._answers: list[TicketAnswer] = []

    def outcome(self) -> Outcome:
        return Outcome(
            records=self._records,
            reply=self.reply,
            timers=self._timers,
            answers=self._answers,
            parked=self._parked,
            volatile=bool(self._records),
            if_rejected=self._if_rejected,
        )

    def write(self, group: ClassicGroup, record: CoordinatorRecord) -> None:
        """Write the group's record. If the log rejects it, the group returns to its rest."""
        self._records.append(record)
        self._if_rejected = GroupRecordRejected(group.group_id)

    def write_assignment(self, group: ClassicGroup, record: CoordinatorRecord) -> None:
        """Write the group's record. If the log rejects it, another rebalance begins."""
        self._records.append(record)
        self._if_rejected = AssignmentRejected(group.group_id)

    @property
    def writes(self) -> bool:
        return bool(self._records)

    # Requests that wait

    def park_join(self, generation: NextGeneration, member_id: str, version: int) -> None:
        # A member that asks again has lost its first request, which must not wait for ever.
        self.reject_join(generation, member_id, RebalanceInProgress, member_id)
        generation.joining[member_id] = self._park(version)

    def park_sync(self, generation: NextGeneration, member_id: str, version: int) -> None:
        self.reject_sync(generation, member_id, RebalanceInProgress)
        generation.syncing[member_id] = self._park(version)

    def _park(self, version: int) -> WaitingRequest:
        self._parked = self._ticket
        return WaitingRequest(self._ticket, version)

    def answer(self, waiting: WaitingRequest, reply: Any) -> None:
        self._answers.append(TicketAnswer(waiting.ticket, reply))

    def reject_join(
        self,
        generation: NextGeneration,
        member_id: str,
        error: type[KafkaError],
        known_id: str = NO_MEMBER_ID,
    ) -> None:
        """Answer a join that waits. A client that gets no `known_id` joins as a new member."""
        waiting = generation.joining.pop(member_id, None)
        if waiting is not None:
            self.answer(waiting, join_error(error, waiting.version, known_id))

    def reject_sync(
        self, generation: NextGeneration, member_id: str, error: type[KafkaError]
    ) -> None:
        waiting = generation.syncing.pop(member_id, None)
        if waiting is not None:
            self.answer(waiting, sync_error(error))

    # Timers

    def watch(
        self, group: ClassicGroup, member: ClassicMember, after_ms: int | None = None
    ) -> None:
        """Expect a sign of life within the session timeout, or within `after_ms`."""
        timeout_ms = member.session_timeout_ms if after_ms is None else after_ms
        self._start(group, SessionExpired(group.group_id, member.member_id), timeout_ms)

    def watch_pending(self, group: ClassicGroup, member_id: str, after_ms: int) -> None:
        group.pending[member_id] = None
        self._start(group, SessionExpired(group.group_id, member_id), after_ms)

    def unwatch(self, group: ClassicGroup, member_id: str) -> None:
        self._cancel(group, session_timer_name(group.group_id, member_id))

    def await_joins(self, group: ClassicGroup, after_ms: int) -> None:
        self._start(group, JoinExpired(group.group_id), after_ms)

    def await_first_joins(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._start(group, InitialDelayExpired(group.group_id, delay_ms, remaining_ms), delay_ms)

    def stop_awaiting_joins(self, group: ClassicGroup) -> None:
        self._cancel(group, JoinExpired(group.group_id).name)

    def await_syncs(self, group: ClassicGroup, after_ms: int) -> None:
        self._start(group, SyncExpired(group.group_id), after_ms)

    def stop_awaiting_syncs(self, group: ClassicGroup) -> None:
        self._cancel(group, SyncExpired(group.group_id).name)

    def cancel_all(self, group: ClassicGroup) -> None:
        self._timers.extend(cancel_timers(group))
        group.timers.clear()

    def _start(self, group: ClassicGroup, event: ClassicTimer, after_ms: int) -> None:
        self._timers.append(start_timer(group, event, after_ms))

    def _cancel(self, group: ClassicGroup, name: str) -> None:
        if group.timers.pop(name, None) is not None:
            self._timers.append(CancelTimer(name))
