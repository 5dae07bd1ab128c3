"""Recovery of a group after an exception in our own code.

Before an event is handled, `before` notes the group and the requests that wait in it. If the
handling raises, `restore` returns the group to its records, and those requests are rejected. A
group that cannot be restored is set aside.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic import ClassicGroup, ClassicRequests
from penstock.coordinator.groups.classic.generation import WaitingRequest
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.outcome_builder import RecordsRejected
from penstock.coordinator.groups.consumer.requests import ConsumerRequests
from penstock.coordinator.groups.group import CoordinatedGroup, GroupCoordinatorState
from penstock.coordinator.groups.set_aside import NEXT_STEP, SetAsideGroup
from penstock.coordinator.groups.timers import (
    REJECTED_RETRY_MS,
    AssignmentRejected,
    GroupRecordRejected,
    GroupTimer,
)
from penstock.coordinator.records import group_id_of
from penstock.effects import Failure, Outcome
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k11_join_group import JoinGroupRequest
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest
from penstock.wire.messages.k14_sync_group import SyncGroupRequest
from penstock.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from penstock.wire.messages.k47_offset_delete import OffsetDeleteRequest
from penstock.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

NOTHING: Final[Mapping[str, WaitingRequest]] = {}
# The requests about one group; the others ask about many and change nothing, or delete them.
MEMBER_REQUESTS: Final = frozenset(
    (
        OffsetCommitRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        TxnOffsetCommitRequest,
        OffsetDeleteRequest,
        ConsumerGroupHeartbeatRequest,
    )
)
RESTORED: Final = "The group is what its log says again; its members ask again."


class GroupBefore(NamedTuple):
    """A group before an event."""

    group_id: str
    group: CoordinatedGroup | None
    joining: Mapping[str, WaitingRequest] = NOTHING
    syncing: Mapping[str, WaitingRequest] = NOTHING


def subjects_of(event: Any) -> Iterable[str]:
    """Return the ids of the groups that an event is about, and may change."""
    match event:
        case GroupRequest():  # first: nearly all events
            message = event.message
            return (message.group_id,) if type(message) in MEMBER_REQUESTS else ()
        case RecordsRejected():
            return dict.fromkeys(group_id_of(record.key) for record in event.records)
        case GroupTimer() | GroupRecordRejected() | AssignmentRejected():
            return (event.group_id,)
        case _:
            return ()


class GroupRecovery:
    def __init__(
        self, state: GroupCoordinatorState, classic: ClassicRequests, consumer: ConsumerRequests
    ) -> None:
        self._state = state
        self._classic = classic
        self._consumer = consumer

    def before(self, event: Any) -> list[GroupBefore]:
        return [self._before(group_id) for group_id in subjects_of(event)]

    def _before(self, group_id: str) -> GroupBefore:
        group = self._state.groups.get(group_id)
        if isinstance(group, ClassicGroup) and (group.joining or group.syncing):
            return GroupBefore(group_id, group, dict(group.joining), dict(group.syncing))
        return GroupBefore(group_id, group)

    def restore(
        self, notes: Iterable[GroupBefore], event: Any, problem: Exception, now_ms: int
    ) -> Iterator[Outcome]:
        """Yield what brings back each group that the event was about."""
        for note in notes:
            about = type(event.message if isinstance(event, GroupRequest) else event).__name__
            subject = f"group {note.group_id!r}, {about}"
            try:
                outcome = self._restored(note, now_ms)
            except Exception as worse:
                yield Outcome(failures=[self.set_aside(note.group_id, worse, note.group)])
            else:
                yield replace(outcome, failures=[Failure(subject, problem, RESTORED)])

    def _restored(self, note: GroupBefore, now_ms: int) -> Outcome:
        match note.group:
            case ClassicGroup() as group:
                joining, syncing = note.joining, note.syncing
                return self._classic.restore(group, joining, syncing, now_ms, REJECTED_RETRY_MS)
            case ConsumerGroup() as group:
                return self._consumer.restore(group, now_ms)
            case _:
                return Outcome()

    def set_aside(
        self, group_id: str, problem: Exception, group: CoordinatedGroup | None
    ) -> Failure:
        if not isinstance(group, SetAsideGroup):
            self._state.groups[group_id] = SetAsideGroup(group_id, problem, group)
        return Failure(f"group {group_id!r}, set aside", problem, NEXT_STEP)
