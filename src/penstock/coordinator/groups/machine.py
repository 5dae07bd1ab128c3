"""One partition of __consumer_offsets: its groups, and the offsets committed by them.

A machine on the common runtime, which dispatches requests and records to the files beside it.
Durable state changes by replay alone. The volatile part (requests that wait for a rebalance,
session timers) is lost with the machine: clients ask again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.admin import AdminRequests
from penstock.coordinator.groups.classic import ClassicGroup, ClassicRequests
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.outcome_builder import RecordsRejected
from penstock.coordinator.groups.consumer.replay import ConsumerGroupKey
from penstock.coordinator.groups.consumer.requests import ConsumerRequests
from penstock.coordinator.groups.group import CoordinatedGroup, GroupCoordinatorState
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.offsets import OffsetRequests, OffsetStore, OffsetTimer
from penstock.coordinator.groups.recovery import GroupBefore, GroupRecovery
from penstock.coordinator.groups.set_aside import SetAsideGroup
from penstock.coordinator.groups.timers import ClassicEvent, ConsumerTimer
from penstock.coordinator.records import (
    CoordinatorRecord,
    EndMarker,
    PendingOffset,
    UnreadableRecord,
    group_id_of,
)
from penstock.effects import Failure, Outcome
from penstock.errors import UnsupportedVersion
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k09_offset_fetch import OffsetFetchRequest
from penstock.wire.messages.k11_join_group import JoinGroupRequest
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest
from penstock.wire.messages.k14_sync_group import SyncGroupRequest
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest
from penstock.wire.messages.k16_list_groups import ListGroupsRequest
from penstock.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from penstock.wire.messages.k42_delete_groups import DeleteGroupsRequest
from penstock.wire.messages.k47_offset_delete import OffsetDeleteRequest
from penstock.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.primitives import Malformed
from penstock.wire.records import group as keys

OFFSET_KEYS: Final = (keys.OffsetCommitKey, keys.LegacyOffsetCommitKey)
OffsetKey: TypeAlias = keys.OffsetCommitKey | keys.LegacyOffsetCommitKey

GroupEvent: TypeAlias = (
    GroupRequest
    | EndMarker
    | TopicsChanged
    | ClassicEvent
    | ConsumerTimer
    | RecordsRejected
    | OffsetTimer
)
GroupRecord: TypeAlias = CoordinatorRecord | PendingOffset | EndMarker | UnreadableRecord
# A reply is the response to its request, one of many classes.
GroupOutcome: TypeAlias = Outcome[GroupEvent, GroupRecord, object]


class GroupCoordinator:
    """A Machine[GroupEvent, GroupRecord, object]."""

    def __init__(self, settings: GroupSettings, cluster: ClusterView) -> None:
        self.state = GroupCoordinatorState(OffsetStore())
        self._offsets = OffsetRequests(self.state, settings, cluster)
        self._classic = ClassicRequests(self.state, settings)
        self._consumer = ConsumerRequests(self.state, settings, cluster)
        self._admin = AdminRequests(self.state)
        self._recovery = GroupRecovery(self.state, self._classic, self._consumer)
        self._before: Sequence[GroupBefore] = ()  # the groups that the last event was about
        # By key, until a later commit or tombstone replaces them.
        self._unreadable_offsets: dict[tuple[type, str, str, int], UnreadableRecord] = {}

    # Events

    def handle(self, event: GroupEvent, now_ms: int) -> GroupOutcome:
        self._before = self._recovery.before(event)
        self.state.unborn = None
        match event:
            case GroupRequest():
                return self._call(event, now_ms)
            case EndMarker():
                return Outcome([event])  # though nothing is held here: the log must know it too
            case TopicsChanged():
                return self._topics_changed(event, now_ms)
            case _:  # one of our timers
                for work in (self._classic, self._consumer, self._offsets):
                    outcome = work.handle_timer(event, now_ms)
                    if outcome is not None:
                        return outcome
                raise AssertionError(f"no part handles {event}")

    def _call(self, call: GroupRequest, now_ms: int) -> GroupOutcome:
        for before in self._before:
            if isinstance(before.group, SetAsideGroup):
                raise before.group.rejection
        match call.message:
            case OffsetCommitRequest():
                return self._offsets.commit(call, now_ms)
            case OffsetFetchRequest():
                return self._offsets.fetch(call)
            case JoinGroupRequest() if self._is_consumer(call.message.group_id):
                return self._consumer.classic_join(call, now_ms)
            case JoinGroupRequest():
                return self._classic.join(call, now_ms)
            case SyncGroupRequest() if self._is_consumer(call.message.group_id):
                return self._consumer.classic_sync(call, now_ms)
            case SyncGroupRequest():
                return self._classic.sync(call, now_ms)
            case HeartbeatRequest() if self._is_consumer(call.message.group_id):
                return self._consumer.classic_heartbeat(call, now_ms)
            case HeartbeatRequest():
                return self._classic.heartbeat(call)
            case LeaveGroupRequest() if self._is_consumer(call.message.group_id):
                return self._consumer.classic_leave(call, now_ms)
            case LeaveGroupRequest():
                return self._classic.leave(call, now_ms)
            case ConsumerGroupHeartbeatRequest():
                return self._consumer.heartbeat(call, now_ms)
            case TxnOffsetCommitRequest():
                return self._offsets.commit_in_transaction(call, now_ms)
            case OffsetDeleteRequest():
                return self._offsets.delete(call)
            case DescribeGroupsRequest():
                return self._admin.describe(call)
            case ConsumerGroupDescribeRequest():
                return self._consumer.describe(call)
            case ListGroupsRequest():
                return self._admin.list_all(call)
            case DeleteGroupsRequest():
                return self._admin.delete(call)
            case other:
                raise UnsupportedVersion(f"groups do not serve {type(other).__name__}")

    def _is_consumer(self, group_id: str) -> bool:
        group = self.state.groups.get(group_id)
        return group is not None and group.kind == "consumer"

    def _topics_changed(self, event: TopicsChanged, now_ms: int) -> GroupOutcome:
        forgotten = self._offsets.topics_deleted(event)
        refreshed = self._consumer.topics_changed(event, now_ms)
        if_rejected = refreshed.if_rejected
        if if_rejected is not None:
            # Offsets go whether or not the groups can follow.
            timers = [*forgotten.timers, *if_rejected.timers]
            if_rejected = replace(if_rejected, timers=timers)
        return replace(
            refreshed, timers=[*forgotten.timers, *refreshed.timers], if_rejected=if_rejected
        )

    # Records

    def replay(self, record: GroupRecord) -> None:
        if type(record) is CoordinatorRecord and type(record.key) is keys.OffsetCommitKey:
            self._offsets.replay(record)  # nearly all there is; a load may bring a million
            if self._unreadable_offsets:
                self._replace_unreadable_offset(record.key)
            return
        match record:
            case UnreadableRecord(keys.OffsetCommitKey() | keys.LegacyOffsetCommitKey() as key):
                # A later commit may replace it: `loaded` sets the group aside if none does.
                self._unreadable_offsets[_offset_name(key)] = record
            case UnreadableRecord():
                raise Malformed(record.reason)
            case CoordinatorRecord() if self._is_of_set_aside(record):
                pass
            case EndMarker():
                self._offsets.replay_end(record)
            case PendingOffset():
                self._offsets.replay_pending(record)
            case CoordinatorRecord(keys.LegacyOffsetCommitKey() as key):
                self._offsets.replay(record)
                self._replace_unreadable_offset(key)
            case CoordinatorRecord(keys.GroupMetadataKey()):
                self._classic.replay(record)
            case CoordinatorRecord(key) if isinstance(key, ConsumerGroupKey):
                self._consumer.replay(record)
            case _:
                pass  # share and streams groups of a directory that Kafka wrote

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        pass

    def loaded(self, now_ms: int) -> GroupOutcome:
        failures: list[Failure] = []
        parts = []
        for group in list(self.state.groups.values()):
            try:
                parts.append(self._loaded(group, now_ms))
            except Exception as problem:
                failures.append(self._recovery.set_aside(group.group_id, problem, group))
        for record in self._unreadable_offsets.values():
            failures.append(self.set_aside(record, Malformed(record.reason)))
        parts.append(self._offsets.loaded())
        return Outcome(
            records=[record for part in parts for record in part.records],
            timers=[timer for part in parts for timer in part.timers],
            failures=failures,
        )

    def _loaded(self, group: CoordinatedGroup, now_ms: int) -> GroupOutcome:
        match group:
            case ClassicGroup():
                return self._classic.loaded(group, now_ms)
            case ConsumerGroup():
                return self._consumer.loaded(group, now_ms)
            case _:
                return Outcome()

    # Recovery

    def recover(self, event: GroupEvent, problem: Exception, now_ms: int) -> GroupOutcome:
        if not self._before:
            about = type(event.message if isinstance(event, GroupRequest) else event).__name__
            failure = Failure(about, problem, "It has changed nothing, and may be sent again.")
            outcome = self._offsets.recover(event) or Outcome()
            return replace(outcome, failures=[failure])
        parts = list(self._recovery.restore(self._before, event, problem, now_ms))
        return Outcome(
            timers=[timer for part in parts for timer in part.timers],
            answers=[answer for part in parts for answer in part.answers],
            failures=[failure for part in parts for failure in part.failures],
        )

    def set_aside(self, record: GroupRecord, problem: Exception) -> Failure:
        if isinstance(record, EndMarker):
            subject = f"the end of a transaction of producer {record.producer_id}"
            return Failure(subject, problem, "Offsets that it committed may be missing.")
        group_id = group_id_of(record.key)
        failure = self._recovery.set_aside(group_id, problem, self.state.groups.get(group_id))
        group = self.state.groups[group_id]
        assert isinstance(group, SetAsideGroup), "the recovery has set it aside"
        if isinstance(record, UnreadableRecord):
            group.add_key(record.key)  # of an offset too: no other part knows that key
        elif not isinstance(record.key, OFFSET_KEYS):
            group.replay(CoordinatorRecord(record.key, record.value))
        return failure

    def _is_of_set_aside(self, record: CoordinatorRecord) -> bool:
        """Return whether a record belongs to a group set aside, and note it there."""
        group_id = group_id_of(record.key)
        group = self.state.groups.get(group_id)
        if not isinstance(group, SetAsideGroup) or isinstance(record.key, OFFSET_KEYS):
            return False
        if group.is_replaced_by(record):
            del self.state.groups[group_id]
            return False
        self._note_record(group, record)
        return True

    def _note_record(self, group: SetAsideGroup, record: CoordinatorRecord) -> None:
        """Note a record of a group set aside. Without a key left, serve the group again."""
        if not group.replay(record):
            del self.state.groups[group.group_id]
            if self.state.offsets.has_offsets(group.group_id):
                self.state.groups[group.group_id] = ClassicGroup(group.group_id)

    def _replace_unreadable_offset(self, key: OffsetKey) -> None:
        """Forget an unreadable offset whose key has a later commit or tombstone."""
        unreadable = self._unreadable_offsets.pop(_offset_name(key), None)
        group = self.state.groups.get(key.group)
        if unreadable is not None and isinstance(group, SetAsideGroup):
            self._note_record(group, CoordinatorRecord(unreadable.key))

    def group(self, group_id: str) -> CoordinatedGroup | None:
        return self.state.groups.get(group_id)


def _offset_name(key: OffsetKey) -> tuple[type, str, str, int]:
    return type(key), key.group, key.topic, key.partition
