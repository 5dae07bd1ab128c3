"""Collects the effects of one event on consumer groups while the event is handled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.coordinator.events import TopicVisibility
from penstock.coordinator.groups.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.groups.timers import (
    ConsumerSessionExpired,
    ConsumerSyncExpired,
    ConsumerTimer,
    RegexUnresolved,
    RejoinExpired,
    RevocationExpired,
)
from penstock.coordinator.records import CoordinatorRecord
from penstock.effects import CancelTimer, Outcome, SetTimer, TicketAnswer


@dataclass(frozen=True, slots=True)
class RecordsRejected:
    """The log rejected the records of an event.

    `expected_before` are the timers that the event has replaced or cancelled. `timers` are set in
    spite of the rejection: they belong to members that have shown life. `fired` is the timer whose
    expiry was the event.
    """

    records: Sequence[CoordinatorRecord]
    expected_before: Mapping[str, ConsumerTimer | None]
    timers: Sequence[SetTimer | CancelTimer]
    fired: ConsumerTimer | None


class ConsumerOutcomeBuilder:
    """`expected` holds the running timers of all groups by name, and outlives the builder. `fired`
    is the timer whose expiry is the event."""

    def __init__(
        self, now_ms: int, expected: dict[str, ConsumerTimer], fired: ConsumerTimer | None = None
    ) -> None:
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self._expected = expected
        self._expected_before: dict[str, ConsumerTimer | None] = {}
        self._fired = fired
        self._timers: list[SetTimer | CancelTimer] = []
        self._answers: list[TicketAnswer] = []

    def outcome(self, reply: Any = None) -> Outcome:
        return Outcome(
            records=self.records,
            reply=reply,
            timers=self._timers,
            answers=self._answers,
            volatile=bool(self.records),
            if_rejected=self._if_rejected() if self.records else None,
        )

    def _if_rejected(self) -> RecordsRejected:
        signs_of_life = [
            timer
            for timer in self._timers
            if isinstance(timer, SetTimer)
            and isinstance(timer.event, ConsumerSessionExpired)
            and self._expected_before.get(timer.name) is not None
        ]
        return RecordsRejected(self.records, self._expected_before, signs_of_life, self._fired)

    def write(self, record: CoordinatorRecord) -> None:
        self.records.append(record)

    def write_all(self, records: Iterable[CoordinatorRecord]) -> None:
        self.records.extend(records)

    def answer_all(self, answers: Iterable[TicketAnswer]) -> None:
        """Answer requests that wait under tickets."""
        self._answers.extend(answers)

    # Timers

    def add_timers(self, timers: Iterable[SetTimer | CancelTimer]) -> None:
        """Add timers of the classic group that the group replaces, or becomes."""
        self._timers.extend(timers)

    def watch(self, group_id: str, member_id: str, session_timeout_ms: int) -> None:
        self._set(ConsumerSessionExpired(group_id, member_id), session_timeout_ms)

    def watch_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Give a member with partitions to revoke its rebalance timeout for that."""
        event = RevocationExpired(group_id, member.member_id, member.epoch)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._set(event, member.rebalance_timeout_ms)
        else:
            self._cancel(event)

    def await_rejoin(self, group_id: str, member: ConsumerMember) -> None:
        """Start the rebalance timeout of a classic member, unless it is running."""
        event = RejoinExpired(group_id, member.member_id)
        if event.name not in self._expected:
            self._set(event, member.rebalance_timeout_ms)

    def rejoined(self, group_id: str, member_id: str) -> None:
        self._cancel(RejoinExpired(group_id, member_id))

    def await_sync(self, group_id: str, member_id: str, rebalance_timeout_ms: int) -> None:
        self._set(ConsumerSyncExpired(group_id, member_id), rebalance_timeout_ms)

    def synced(self, group_id: str, member_id: str) -> None:
        self._cancel(ConsumerSyncExpired(group_id, member_id))

    def await_resolution(
        self, group_id: str, after_ms: int = 0, may_describe: TopicVisibility | None = None
    ) -> None:
        """Ask for the event that resolves the expressions of a group, unless one is due."""
        event = RegexUnresolved(group_id, may_describe)
        if event.name not in self._expected:
            self._set(event, after_ms)

    def unwatch(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a member that leaves."""
        self._cancel(ConsumerSessionExpired(group_id, member_id))
        self._cancel(RevocationExpired(group_id, member_id, 0))
        self._cancel(RejoinExpired(group_id, member_id))
        self._cancel(ConsumerSyncExpired(group_id, member_id))

    def _set(self, event: ConsumerTimer, after_ms: int) -> None:
        name = event.name
        self._expected_before.setdefault(name, self._expected.get(name))
        self._expected[name] = event
        self._timers.append(SetTimer(name, after_ms, event))

    def _cancel(self, event: ConsumerTimer) -> None:
        name = event.name
        known = self._expected.pop(name, None)
        if known is not None:
            self._expected_before.setdefault(name, known)
            self._timers.append(CancelTimer(name))
