"""One partition of __consumer_offsets: its groups, and the offsets committed by them.

A machine on the common runtime. Each kind of work has a file of its own; this one knows which.
Durable state changes by replay alone. What no record holds (who waits for a rebalance, when a
member was last heard of) is lost with the machine: its clients ask again.
"""

from dataclasses import replace
from typing import Any

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import Call, TopicsChanged, WriteMarker
from penstock.coordinator.groups.admin import AdminWork
from penstock.coordinator.groups.classic import ClassicWork
from penstock.coordinator.groups.consumer.work import ConsumerWork
from penstock.coordinator.groups.group import Group, GroupState
from penstock.coordinator.groups.offsets import OffsetStore, OffsetWork
from penstock.coordinator.groups.settings import GroupSettings
from penstock.coordinator.records import EndMarker, Pending, Record
from penstock.effects import Outcome
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
from penstock.wire.records import group as keys


class GroupCoordinator:
    """A machine (see machine.protocols)."""

    def __init__(self, settings: GroupSettings, cluster: ClusterView) -> None:
        self.state = GroupState(OffsetStore())
        self._offsets = OffsetWork(self.state, settings, cluster)
        self._classic = ClassicWork(self.state, settings, cluster)
        self._consumer = ConsumerWork(self.state, settings, cluster)
        self._admin = AdminWork(self.state)

    # Events

    def handle(self, event: Any, now_ms: int) -> Outcome:
        match event:
            case Call():
                return self._call(event, now_ms)
            case WriteMarker():
                return self._offsets.write_marker(event)
            case TopicsChanged():
                return self._topics_changed(event, now_ms)
            case _:  # one of our timers
                for work in (self._classic, self._consumer, self._offsets):
                    outcome = work.woken(event, now_ms)
                    if outcome is not None:
                        return outcome
                raise AssertionError(f"nobody handles {event}")

    def _call(self, call: Call, now_ms: int) -> Outcome:
        match call.message:
            case OffsetCommitRequest():
                return self._offsets.commit(call, now_ms)
            case OffsetFetchRequest():
                return self._offsets.fetch(call, now_ms)
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
                return self._classic.heartbeat(call, now_ms)
            case LeaveGroupRequest() if self._is_consumer(call.message.group_id):
                return self._consumer.classic_leave(call, now_ms)
            case LeaveGroupRequest():
                return self._classic.leave(call, now_ms)
            case ConsumerGroupHeartbeatRequest():
                return self._consumer.heartbeat(call, now_ms)
            case TxnOffsetCommitRequest():
                return self._offsets.commit_in_transaction(call, now_ms)
            case OffsetDeleteRequest():
                return self._offsets.delete(call, now_ms)
            case DescribeGroupsRequest():
                return self._admin.describe(call, now_ms)
            case ConsumerGroupDescribeRequest():
                return self._consumer.describe(call, now_ms)
            case ListGroupsRequest():
                return self._admin.list_all(call, now_ms)
            case DeleteGroupsRequest():
                return self._admin.delete(call, now_ms)
            case other:
                raise UnsupportedVersion(f"groups do not serve {type(other).__name__}")

    def _is_consumer(self, group_id: str) -> bool:
        group = self.state.groups.get(group_id)
        return group is not None and group.kind == "consumer"

    def _topics_changed(self, event: TopicsChanged, now_ms: int) -> Outcome:
        forgotten = self._offsets.topics_deleted(event)
        refreshed = self._consumer.topics_changed(event, now_ms)
        if_refused = refreshed.if_refused
        if if_refused is not None:
            # Offsets go whether or not the groups can follow.
            timers = [*forgotten.timers, *if_refused.timers]
            if_refused = replace(if_refused, timers=timers)
        return replace(
            refreshed, timers=[*forgotten.timers, *refreshed.timers], if_refused=if_refused
        )

    # Records

    def replay(self, record: Record | Pending | EndMarker) -> None:
        if type(record) is Record and type(record.key) is keys.OffsetCommitKey:
            self._offsets.replay(record)  # nearly all there is; a load may bring a million
            return
        match record:
            case EndMarker():
                self._offsets.replay_end(record)
            case Pending():
                self._offsets.replay_pending(record)
            case Record(keys.LegacyOffsetCommitKey()):
                self._offsets.replay(record)
            case Record(keys.GroupMetadataKey()):
                self._classic.replay(record)
            case _ if type(record.key).__name__.startswith("ConsumerGroup"):
                self._consumer.replay(record)
            case _:
                pass  # share and streams groups of a directory that Kafka wrote

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        pass

    def loaded(self, now_ms: int) -> Outcome:
        parts = [work.loaded(now_ms) for work in (self._classic, self._consumer, self._offsets)]
        return Outcome(
            records=[record for part in parts for record in part.records],
            timers=[timer for part in parts for timer in part.timers],
        )

    def group(self, group_id: str) -> Group | None:
        return self.state.groups.get(group_id)
