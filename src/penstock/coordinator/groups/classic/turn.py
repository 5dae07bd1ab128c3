"""What one event leads to, collected while the event is worked on."""

from typing import Any

from penstock.coordinator.groups.classic.alarms import (
    AssignmentRefused,
    InitialDelayOver,
    JoinOver,
    RecordRefused,
    SessionOver,
    SyncOver,
    join_timer,
    session_timer,
    sync_timer,
)
from penstock.coordinator.groups.classic.group import ClassicGroup, ClassicMember, Waiting
from penstock.coordinator.groups.classic.replies import (
    NO_MEMBER_ID,
    join_refused,
    sync_refused,
)
from penstock.coordinator.records import Record
from penstock.effects import Answer, CancelTimer, Outcome, SetTimer, Ticket
from penstock.errors import KafkaError, RebalanceInProgress


def heard_of(group: ClassicGroup, member: ClassicMember) -> SetTimer:
    """Another session timeout for a member that lives."""
    return _watch(group, member, member.session_timeout_ms)


def _watch(group: ClassicGroup, member: ClassicMember, after_ms: int) -> SetTimer:
    member.alarm = SessionOver(group.group_id, member.member_id)
    return SetTimer(session_timer(group.group_id, member.member_id), after_ms, member.alarm)


def timers_of(group: ClassicGroup) -> list[CancelTimer]:
    """For when the group goes."""
    names = [session_timer(group.group_id, member_id) for member_id in group.pending]
    names += [session_timer(group.group_id, member_id) for member_id in group.members]
    if group.join_alarm is not None:
        names.append(join_timer(group.group_id))
    if group.sync_alarm is not None:
        names.append(sync_timer(group.group_id))
    return [CancelTimer(name) for name in names]


class Turn:
    """`ticket` is for whoever asked, if the answer has to wait."""

    def __init__(self, now_ms: int, ticket: Ticket) -> None:
        self.now_ms = now_ms
        self.reply: Any = None
        self._ticket = ticket
        self._parked: Ticket | None = None
        self._records: list[Record] = []
        self._if_refused: RecordRefused | AssignmentRefused | None = None
        self._timers: list[SetTimer | CancelTimer] = []
        self._answers: list[Answer] = []

    def outcome(self) -> Outcome:
        return Outcome(
            records=self._records,
            reply=self.reply,
            timers=self._timers,
            answers=self._answers,
            parked=self._parked,
            volatile=bool(self._records),
            if_refused=self._if_refused,
        )

    def write(self, group: ClassicGroup, record: Record) -> None:
        """What the group in memory is already. Refused, it is again what the log holds of it."""
        group.written = record
        self._records.append(record)
        self._if_refused = RecordRefused(group.group_id)

    def write_assignment(self, group: ClassicGroup, record: Record) -> None:
        """Refused, nobody has an assignment, and the group another rebalance."""
        self.write(group, record)
        self._if_refused = AssignmentRefused(group.group_id)

    @property
    def writes(self) -> bool:
        return bool(self._records)

    # Whoever waits

    def park_join(self, group: ClassicGroup, member_id: str, version: int) -> None:
        # A member that asks again has lost its first request; that one must not wait for ever.
        self.refuse_join(group, member_id, RebalanceInProgress, member_id)
        group.joining[member_id] = self._park(version)

    def park_sync(self, group: ClassicGroup, member_id: str, version: int) -> None:
        self.refuse_sync(group, member_id, RebalanceInProgress)
        group.syncing[member_id] = self._park(version)

    def _park(self, version: int) -> Waiting:
        self._parked = self._ticket
        return Waiting(self._ticket, version)

    def answer(self, waiting: Waiting, reply: Any) -> None:
        self._answers.append(Answer(waiting.ticket, reply))

    def refuse_join(
        self,
        group: ClassicGroup,
        member_id: str,
        error: type[KafkaError],
        told_id: str = NO_MEMBER_ID,
    ) -> None:
        """If it waits for one. Without an id it will begin anew."""
        waiting = group.joining.pop(member_id, None)
        if waiting is not None:
            self.answer(waiting, join_refused(error, waiting.version, told_id))

    def refuse_sync(self, group: ClassicGroup, member_id: str, error: type[KafkaError]) -> None:
        waiting = group.syncing.pop(member_id, None)
        if waiting is not None:
            self.answer(waiting, sync_refused(error))

    # Timers

    def watch(
        self, group: ClassicGroup, member: ClassicMember, after_ms: int | None = None
    ) -> None:
        """Wait for the next sign of life: a session timeout, or as long as is said."""
        timeout_ms = member.session_timeout_ms if after_ms is None else after_ms
        self._timers.append(_watch(group, member, timeout_ms))

    def watch_pending(self, group: ClassicGroup, member_id: str, after_ms: int) -> None:
        alarm = group.pending[member_id] = SessionOver(group.group_id, member_id)
        self._timers.append(SetTimer(session_timer(group.group_id, member_id), after_ms, alarm))

    def unwatch(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.append(CancelTimer(session_timer(group.group_id, member_id)))

    def cancel_all(self, group: ClassicGroup) -> None:
        self._timers.extend(timers_of(group))

    def await_joins(self, group: ClassicGroup, after_ms: int) -> None:
        self._await_joins(group, after_ms, JoinOver(group.group_id))

    def await_first_joins(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._await_joins(group, delay_ms, InitialDelayOver(group.group_id, delay_ms, remaining_ms))

    def _await_joins(
        self, group: ClassicGroup, after_ms: int, alarm: InitialDelayOver | JoinOver
    ) -> None:
        group.join_alarm = alarm
        self._timers.append(SetTimer(join_timer(group.group_id), after_ms, alarm))

    def stop_awaiting_joins(self, group: ClassicGroup) -> None:
        if group.join_alarm is not None:
            group.join_alarm = None
            self._timers.append(CancelTimer(join_timer(group.group_id)))

    def await_syncs(self, group: ClassicGroup, after_ms: int) -> None:
        group.sync_alarm = SyncOver(group.group_id)
        self._timers.append(SetTimer(sync_timer(group.group_id), after_ms, group.sync_alarm))

    def stop_awaiting_syncs(self, group: ClassicGroup) -> None:
        if group.sync_alarm is not None:
            group.sync_alarm = None
            self._timers.append(CancelTimer(sync_timer(group.group_id)))
