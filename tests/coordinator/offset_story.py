"""The offsets of one coordinator partition, told as a story: events in, replies and records out.

The log is a list of batches in Kafka's own encoding; a restart reads them back. Time passes when
the story says so, and timers go off in order.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.coordinator.batches import decode, encode
from penstock.coordinator.cluster import TopicView
from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.classic import (
    ClassicGroup,
    ClassicMember,
    ClassicRequests,
    OfferedProtocol,
)
from penstock.coordinator.groups.classic.generation import ClassicGeneration
from penstock.coordinator.groups.group import GroupCoordinatorState, IdPartitions, Kind
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.machine import GroupRecord
from penstock.coordinator.groups.offsets import OffsetRequests, OffsetStore
from penstock.coordinator.records import CoordinatorRecord, EndMarker, PendingOffset
from penstock.effects import Outcome, SetTimer
from penstock.errors import KafkaError, StaleMemberEpoch
from penstock.model import ZERO_ID
from penstock.wire.batch import (
    ABORT_MARKER,
    COMMIT_MARKER,
    HEADER,
    build_marker,
)
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from penstock.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.wire.records.coordinator import GROUP_RECORDS
from penstock.wire.records.group import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS

Place = tuple[str, int]
Places = Mapping[Place, int]  # topic and partition: offset


class Topics:
    """A cluster whose topics the story makes and deletes."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicView] = {}

    def make(self, name: str, topic_id: bytes) -> None:
        self._topics[name] = TopicView(name, topic_id, (frozenset(),))

    def remove(self, name: str) -> None:
        del self._topics[name]

    def topic(self, name: str) -> TopicView | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicView | None:
        return next((each for each in self._topics.values() if each.topic_id == topic_id), None)

    def topic_names(self) -> Collection[str]:
        return self._topics

    def consumer_assignment_interval_ms(self) -> int:
        return 0

    def group_config(self, group_id: str) -> Mapping[str, str]:  # noqa: ARG002
        return {}


@dataclass
class Consumers:
    """A consumer group as far as offsets have to do with it."""

    group_id: str
    subscribed: tuple[str, ...] = ()
    is_empty: bool = False
    refusal: KafkaError | None = None
    stale: tuple[tuple[bytes, int], ...] = ()  # others have these partitions by now
    kind: Kind = "consumer"
    state_name: str = "Stable"
    protocol_type: str = "consumer"
    empty_since_ms: int | None = None
    forgotten: bool = False

    def check_commit(
        self, call: GroupRequest, epoch: int, partitions: IdPartitions | None = None
    ) -> None:
        del call, epoch
        if self.refusal is not None:
            raise self.refusal
        if any(each in self.stale for each in partitions or ()):
            raise StaleMemberEpoch("somebody else has it by now")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        del member_id, member_epoch
        if self.refusal is not None:
            raise self.refusal

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id))]


@dataclass
class Due:
    at_ms: float
    event: Any


@dataclass
class Story:
    settings: GroupSettings = field(default_factory=GroupSettings)
    now_ms: int = START_MS
    topics: Topics = field(default_factory=Topics)
    log: list[bytes] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)  # by the last event
    refuses: bool = False  # the log takes nothing
    timers: dict[str, Due] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """As after a crash: all that is known is what the log holds."""
        self.state = GroupCoordinatorState(OffsetStore())
        self.work = OffsetRequests(self.state, self.settings, self.topics)
        self._classic = ClassicRequests(self.state, self.settings)
        self.timers.clear()
        for batch in self.log:
            for record in decode(GROUP_RECORDS, batch, HEADER.unpack_from(batch)):
                self._replay(record)
        self._perform(self.work.loaded())

    @property
    def store(self) -> OffsetStore:
        return self.state.offsets

    # What happens

    def perform(self, outcome: Outcome | None) -> Any:
        """What the runtime would do with an outcome; its reply."""
        assert outcome is not None
        return self._perform(outcome)

    def _perform(self, outcome: Outcome) -> Any:
        assert not outcome.volatile, "offsets keep nothing that a refusal of the log could spoil"
        self.written = list(outcome.records)
        if outcome.records and self.refuses:
            self.written = []
            return None
        if outcome.records:
            self.log.append(self._encoded(outcome.records))
            for record in outcome.records:
                self._replay(record)
        for timer in outcome.timers:
            if isinstance(timer, SetTimer):
                self.timers[timer.name] = Due(self.now_ms + timer.after_ms, timer.event)
            else:
                self.timers.pop(timer.name, None)
        return outcome.reply

    def _encoded(self, records: Sequence[Any]) -> bytes:
        first = records[0]
        if isinstance(first, EndMarker):
            return build_marker(
                COMMIT_MARKER if first.committed else ABORT_MARKER,
                producer_id=first.producer_id,
                producer_epoch=first.producer_epoch,
                coordinator_epoch=first.coordinator_epoch,
                timestamp=self.now_ms,
            )
        return encode(records, self.now_ms)

    def _replay(self, record: GroupRecord) -> None:
        match record:
            case EndMarker():
                self.work.replay_end(record)
            case PendingOffset():
                self.work.replay_pending(record)
            case CoordinatorRecord(GroupMetadataKey() as key) if self._is_consumer(key.group):
                del self.state.groups[key.group]
            case CoordinatorRecord(GroupMetadataKey()):
                self._classic.replay(record)
            case CoordinatorRecord():
                self.work.replay(record)

    def _is_consumer(self, group_id: str) -> bool:
        return isinstance(self.state.groups.get(group_id), Consumers)

    def pass_time(self, ms: float) -> None:
        """Let timers go off in order until then; those without delay, at once."""
        end_ms = self.now_ms + ms
        while True:
            due = [(each.at_ms, name) for name, each in self.timers.items() if each.at_ms <= end_ms]
            if not due:
                break
            at_ms, name = min(due)
            self.now_ms = max(self.now_ms, int(at_ms))
            self.perform(self.work.handle_timer(self.timers.pop(name).event, self.now_ms))
        self.now_ms = int(end_ms)

    # Who takes part

    def consumers(self, group_id: str, *subscribed: str) -> Consumers:
        group = Consumers(group_id, subscribed)
        self.state.groups[group_id] = group
        return group

    def classic(
        self, group_id: str, *subscribed: str, protocol_type: str = "consumer"
    ) -> ClassicGroup:
        """A stable classic group of one member, m, in generation 5."""
        subscription = b"\x00\x00" + len(subscribed).to_bytes(4)
        for topic in subscribed:
            subscription += len(topic).to_bytes(2) + topic.encode()
        protocol = OfferedProtocol("range", subscription + bytes(4))
        member = ClassicMember("m", None, "", "", 60_000, 10_000, (protocol,))
        rest = ClassicGeneration(5, protocol_type, "range", "m", [member], self.now_ms)
        group = self.state.groups[group_id] = ClassicGroup(group_id, rest)
        return group

    # What clients ask

    def commit(
        self,
        group_id: str,
        places: Places,
        *,
        version: int = 9,
        member_id: str = "",
        epoch: int = -1,
        metadata: str | None = "",
        retention_ms: int = -1,
        leader_epoch: int = -1,
    ) -> dict[Place, int]:
        """Error codes by place."""
        message = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self._id_of(topic),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=places[topic, partition],
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                        for partition in partitions
                    ],
                )
                for topic, partitions in _by_topic(places).items()
            ],
        )
        reply = self._perform(self.work.commit(GroupRequest(message, version), self.now_ms))
        return _codes(reply)

    def commit_in_transaction(
        self,
        producer_id: int,
        group_id: str,
        places: Places,
        *,
        version: int = 5,
        member_id: str = "",
        epoch: int = -1,
        metadata: str | None = "",
    ) -> dict[Place, int]:
        message = TxnOffsetCommitRequest(
            transactional_id=f"t{producer_id}",
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=epoch,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=places[topic, partition],
                            committed_metadata=metadata,
                        )
                        for partition in partitions
                    ],
                )
                for topic, partitions in _by_topic(places).items()
            ],
        )
        call = GroupRequest(message, version)
        return _codes(self._perform(self.work.commit_in_transaction(call, self.now_ms)))

    def end(self, producer_id: int, *, committed: bool) -> None:
        self._perform(Outcome([EndMarker(producer_id, 0, 3, committed, True)]))

    def fetch(
        self, group_id: str, places: Iterable[Place] | None, *, stable: bool = False
    ) -> dict[Place, int]:
        """Committed offsets by place."""
        answer = self.fetch_group(group_id, places, stable=stable)
        assert answer.error_code == 0
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }

    def fetch_group(
        self,
        group_id: str,
        places: Iterable[Place] | None,
        *,
        stable: bool = False,
        topic_id: bytes = ZERO_ID,
    ) -> OffsetFetchResponseGroup:
        topics = None
        if places is not None:
            topics = [
                OffsetFetchRequestTopics(
                    name=topic, topic_id=topic_id, partition_indexes=partitions
                )
                for topic, partitions in _by_topic(places).items()
            ]
        message = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)],
            require_stable=stable,
        )
        reply = self._perform(self.work.fetch(GroupRequest(message, 9)))
        (answer,) = reply.groups
        assert isinstance(answer, OffsetFetchResponseGroup)
        return answer

    def delete(self, group_id: str, places: Iterable[Place]) -> dict[Place, int]:
        message = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteRequestPartition(partition_index=each) for each in partitions
                    ],
                )
                for topic, partitions in _by_topic(places).items()
            ],
        )
        reply = self._perform(self.work.delete(GroupRequest(message, 0)))
        assert isinstance(reply, OffsetDeleteResponse) and reply.error_code == 0
        return _codes(reply)

    def delete_topic(self, name: str, topic_id: bytes = ZERO_ID) -> None:
        self._perform(self.work.topics_deleted(TopicsChanged((name,), ((name, topic_id),))))

    def _id_of(self, topic: str) -> bytes:
        found = self.topics.topic(topic)
        return ZERO_ID if found is None else found.topic_id

    # What was written by the last event

    @property
    def values(self) -> list[OffsetCommitValue]:
        return [each.value for each in self.written if isinstance(each.value, OffsetCommitValue)]

    @property
    def tombstones(self) -> list[tuple[str, str, int]]:
        return [
            (each.key.group, each.key.topic, each.key.partition)
            for each in self.written
            if isinstance(each, CoordinatorRecord)
            and isinstance(each.key, OffsetCommitKey)
            and each.value is None
        ]


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics


def _codes(reply: Any) -> dict[Place, int]:
    if reply is None:
        return {}  # the log has refused it
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in reply.topics
        for each in topic.partitions
    }
