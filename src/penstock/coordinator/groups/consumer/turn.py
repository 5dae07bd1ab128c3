"""What one event leads to, collected while the event is worked on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.coordinator.groups.consumer.alarms import (
    Alarm,
    MemberSilent,
    RegexUnresolved,
    RejoinOver,
    RevocationOver,
    SyncOver,
)
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.member import Member, MemberState
from penstock.coordinator.records import Record
from penstock.effects import Answer, CancelTimer, Outcome, SetTimer


@dataclass(frozen=True, slots=True)
class RecordsRefused:
    """No timer, but told in the same way: the log did not take the records of a turn. What the
    turn has changed besides, and what of it holds nevertheless."""

    records: Sequence[Record]
    alarms_before: Mapping[str, Alarm | None]
    timers: Sequence[SetTimer | CancelTimer]  # to be set even so: whoever spoke lives
    fired: Alarm | None  # what the turn was about, if nobody asked for it
    ended: ConsumerGroup | None  # a classic group has taken its place


class Turn:
    """`alarms` are those that are expected, by name: they outlive the turn. `fired` is the one
    that has led to it."""

    def __init__(self, now_ms: int, alarms: dict[str, Alarm], fired: Alarm | None = None) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.ended: ConsumerGroup | None = None
        self._alarms = alarms
        self._alarms_before: dict[str, Alarm | None] = {}
        self._fired = fired
        self._timers: list[SetTimer | CancelTimer] = []
        self._answers: list[Answer] = []

    def outcome(self, reply: Any = None) -> Outcome:
        return Outcome(
            records=self.records,
            reply=reply,
            timers=self._timers,
            answers=self._answers,
            volatile=bool(self.records),
            if_refused=self._if_refused() if self.records else None,
        )

    def _if_refused(self) -> RecordsRefused:
        signs_of_life = [
            timer
            for timer in self._timers
            if isinstance(timer, SetTimer)
            and isinstance(timer.event, MemberSilent)
            and self._alarms_before.get(timer.name) is not None
        ]
        return RecordsRefused(
            self.records, self._alarms_before, signs_of_life, self._fired, self.ended
        )

    def write(self, record: Record) -> None:
        self.records.append(record)

    def write_all(self, records: Iterable[Record]) -> None:
        self.records.extend(records)

    def answer_all(self, answers: Iterable[Answer]) -> None:
        """To those who wait under tickets."""
        self._answers.extend(answers)

    # Timers

    def add_timers(self, timers: Iterable[SetTimer | CancelTimer]) -> None:
        """Of the classic group that this one takes the place of, or leaves it to."""
        self._timers.extend(timers)

    def watch(self, group_id: str, member_id: str, session_timeout_ms: int) -> None:
        self._set(MemberSilent(group_id, member_id), session_timeout_ms)

    def watch_revocation(self, group_id: str, member: Member) -> None:
        """A member that has to give something back has its rebalance timeout for it."""
        alarm = RevocationOver(group_id, member.member_id, member.epoch)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._set(alarm, member.rebalance_timeout_ms)
        else:
            self._cancel(alarm)

    def await_rejoin(self, group_id: str, member: Member) -> None:
        """It was told so before, maybe: then its time is running."""
        alarm = RejoinOver(group_id, member.member_id)
        if alarm.name not in self._alarms:
            self._set(alarm, member.rebalance_timeout_ms)

    def rejoined(self, group_id: str, member_id: str) -> None:
        self._cancel(RejoinOver(group_id, member_id))

    def await_sync(self, group_id: str, member_id: str, rebalance_timeout_ms: int) -> None:
        self._set(SyncOver(group_id, member_id), rebalance_timeout_ms)

    def synced(self, group_id: str, member_id: str) -> None:
        self._cancel(SyncOver(group_id, member_id))

    def await_resolution(self, group_id: str, after_ms: int = 0) -> None:
        """Ask for the event that resolves the expressions of a group, unless one is due."""
        alarm = RegexUnresolved(group_id)
        if alarm.name not in self._alarms:
            self._set(alarm, after_ms)

    def unwatch(self, group_id: str, member_id: str) -> None:
        """It is no member any more."""
        self._cancel(MemberSilent(group_id, member_id))
        self._cancel(RevocationOver(group_id, member_id, 0))
        self._cancel(RejoinOver(group_id, member_id))
        self._cancel(SyncOver(group_id, member_id))

    def _set(self, alarm: Alarm, after_ms: int) -> None:
        name = alarm.name
        self._alarms_before.setdefault(name, self._alarms.get(name))
        self._alarms[name] = alarm
        self._timers.append(SetTimer(name, after_ms, alarm))

    def _cancel(self, alarm: Alarm) -> None:
        name = alarm.name
        known = self._alarms.pop(name, None)
        if known is not None:
            self._alarms_before.setdefault(name, known)
            self._timers.append(CancelTimer(name))
