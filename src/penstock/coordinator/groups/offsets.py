"""Committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, and expiry.

The first commit of an unknown group makes a group without members. A commit inside a transaction
counts once the transaction is committed. The caller checks which topics exist. Here a topic is a
name, with an id that tells it from the next topic of that name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import GroupRequest, TopicsChanged
from penstock.coordinator.groups.classic.generation import CONSUMER_PROTOCOL, ClassicState
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.group import CoordinatedGroup, GroupCoordinatorState
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.offset_answers import group_offsets
from penstock.coordinator.groups.offset_expiry import (
    DeletionSweep,
    ExpirySweep,
    LeftoverSearch,
)
from penstock.coordinator.groups.offset_store import NO_EXPIRY, OffsetStore, tombstone
from penstock.coordinator.groups.timers import session_timer_name
from penstock.coordinator.records import CoordinatorRecord, EndMarker, PendingOffset
from penstock.effects import Outcome, SetTimer
from penstock.errors import (
    NONE,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
)
from penstock.model import ZERO_ID
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from penstock.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from penstock.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
)
from penstock.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from penstock.wire.records.group import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.wire.structures import PartitionError, TopicErrors

__all__ = ["OffsetRequests", "OffsetStore"]

DEAD: Final = ClassicState.DEAD.value
NO_RETENTION: Final = -1
LATEST_MS: Final = 2**63 - 1  # that a record can say
# From here on clients know that a group may not exist.
GROUP_ID_NOT_FOUND_FROM: Final = 9
CACHED_PARTITIONS_MAX: Final = 16_384
LAST_OF_ONE_UNIT: Final = "\uffff"
# In the other states a commit is rejected, or there are no members.
LISTENING: Final = (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)

CHECK_TIMER, EXPIRY_TIMER = "offset-check", "offset-expiry"
SEARCH_TIMER, DELETION_TIMER = "offset-search", "offset-deletion"


@dataclass(frozen=True, slots=True)
class CheckOffsets:
    """The event of the timer that looks for expired offsets."""


@dataclass(frozen=True, slots=True)
class ExpireMore:
    """The next slice of what expires."""


@dataclass(frozen=True, slots=True)
class SearchMore:
    """The next slice of what a load has brought, in search of what is left over."""


@dataclass(frozen=True, slots=True)
class ForgetMore:
    """The next slice of what deleted topics leave behind."""


CommittedPartition: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
OffsetTimer: TypeAlias = CheckOffsets | ExpireMore | SearchMore | ForgetMore


class OffsetRequests:
    """The offsets of one coordinator partition, as a part of its machine."""

    def __init__(
        self, state: GroupCoordinatorState, settings: GroupSettings, cluster: ClusterView
    ) -> None:
        self._state = state
        self._store = state.offsets
        self._settings = settings
        self._cluster = cluster
        self._expiry: ExpirySweep | None = None
        self._search = LeftoverSearch(state.offsets, cluster)
        self._deletion = DeletionSweep(state.offsets)

    # Commits

    def commit(self, call: GroupRequest, now_ms: int) -> Outcome:
        """Handle OffsetCommit. Its topics have a name, and their id where it is known."""
        message: OffsetCommitRequest = call.message
        epoch = message.generation_id_or_member_epoch
        group = self._state.groups.get(message.group_id)
        if group is not None:
            partitions = (
                (topic.topic_id, each.partition_index)
                for topic in message.topics
                for each in topic.partitions
                if self._metadata_error(each) == NONE
            )
            group.check_commit(call, epoch, partitions)
        elif epoch >= 0 and call.version >= GROUP_ID_NOT_FOUND_FROM:
            raise GroupIdNotFound(f"Group {message.group_id} not found.")
        elif epoch >= 0:
            raise IllegalGeneration(f"there is no group {message.group_id!r}, nor its generation")
        expires_ms = NO_EXPIRY
        if message.retention_time_ms != NO_RETENTION:
            expires_ms = min(now_ms + message.retention_time_ms, LATEST_MS)
        group_id = message.group_id
        response = OffsetCommitResponse()
        records = []
        new = tuple.__new__  # half the price of the named constructor, for each partition
        for topic in message.topics:
            name = topic.name
            answers: list[PartitionError] = []
            response.topics.append(
                OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=answers)
            )
            # A record with a time of expiry has a version without the id.
            topic_id = topic.topic_id if expires_ms == NO_EXPIRY else ZERO_ID
            for each in topic.partitions:
                index = each.partition_index
                if each.committed_metadata and (error_code := self._metadata_error(each)):
                    answers.append(_answer(index, error_code))
                    continue
                key, answer = _key_and_answer(group_id, name, index)
                answers.append(answer)
                value = _value(each, now_ms, topic_id, expires_ms)
                records.append(new(CoordinatorRecord, (key, value)))
        return Outcome(records, response, timers=_still_there(group, message.member_id))

    def commit_in_transaction(self, call: GroupRequest, now_ms: int) -> Outcome:
        """Handle TxnOffsetCommit: a commit that counts when the producer's transaction commits."""
        message: TxnOffsetCommitRequest = call.message
        ids = {topic.name: self._id_of(topic.name) for topic in message.topics}
        self._check_in_transaction(call, ids)
        producer = message.producer_id, message.producer_epoch
        response = TxnOffsetCommitResponse()
        records = []
        for topic in message.topics:
            answers = TopicErrors(name=topic.name)
            response.topics.append(answers)
            for each in topic.partitions:
                index = each.partition_index
                error_code = self._metadata_error(each) if each.committed_metadata else NONE
                answers.partitions.append(_answer(index, error_code))
                if error_code == NONE:
                    key, _answered = _key_and_answer(message.group_id, topic.name, index)
                    value = _value(each, now_ms, ids[topic.name], NO_EXPIRY)
                    records.append(PendingOffset(*producer, key, value))
        return Outcome(records, response)

    def _check_in_transaction(self, call: GroupRequest, ids: Mapping[str, bytes]) -> None:
        message: TxnOffsetCommitRequest = call.message
        epoch = message.generation_id
        group = self._state.groups.get(message.group_id)
        if group is None:
            if epoch >= 0:
                raise IllegalGeneration(f"there is no group {message.group_id!r}")
            return
        partitions = (
            (ids[topic.name], each.partition_index)
            for topic in message.topics
            for each in topic.partitions
            if self._metadata_error(each) == NONE
        )
        try:
            group.check_commit(call, epoch, partitions)
        except StaleMemberEpoch as error:
            # Transactional producers know of generations only.
            raise IllegalGeneration(error.message) from None

    def _id_of(self, topic: str) -> bytes:
        known = self._cluster.topic(topic)
        return ZERO_ID if known is None else known.topic_id

    def _metadata_error(self, committed: CommittedPartition) -> int:
        """Return the error code for a commit's metadata. Kafka counts UTF-16 units: one or two per
        character."""
        metadata = committed.committed_metadata or ""
        units = len(metadata)
        if not metadata.isascii():
            units += sum(character > LAST_OF_ONE_UNIT for character in metadata)
        too_large = units > self._settings.offset_metadata_bytes_max
        return OffsetMetadataTooLarge.code if too_large else NONE

    # Questions

    def fetch(self, call: GroupRequest) -> Outcome:
        """Handle OffsetFetch in the form of v8: groups, each with topics that have names."""
        message: OffsetFetchRequest = call.message
        state, stable = self._state, message.require_stable
        groups = [group_offsets(state, each, require_stable=stable) for each in message.groups]
        return Outcome(reply=OffsetFetchResponse(groups=groups))

    # Deletion

    def delete(self, call: GroupRequest) -> Outcome:
        """Handle OffsetDelete. Offsets of subscribed topics stay."""
        message: OffsetDeleteRequest = call.message
        group = self._state.groups.get(message.group_id)
        if group is None or group.state_name == DEAD:
            raise GroupIdNotFound(f"Group {message.group_id} not found.")
        if group.kind == "classic" and not (
            group.is_empty or group.protocol_type == CONSUMER_PROTOCOL
        ):
            raise NonEmptyGroup(f"nobody knows which topics {message.group_id!r} makes use of")
        response = OffsetDeleteResponse()
        records = []
        for topic in message.topics:
            used = group.is_subscribed_to(topic.name)
            error_code = GroupSubscribedToTopic.code if used else NONE
            partitions = [each.partition_index for each in topic.partitions]
            answers = [_answer(each, error_code) for each in partitions]
            response.topics.append(TopicErrors(name=topic.name, partitions=answers))
            if not used:
                group_id, name, offsets = message.group_id, topic.name, self._store
                records += [
                    tombstone(group_id, name, partition)
                    for partition in dict.fromkeys(partitions)
                    if any(offsets.committed_and_pending(group_id, name, partition))
                ]
        return Outcome(records, response)

    def topics_deleted(self, event: TopicsChanged) -> Outcome:
        """Start to remove the offsets of deleted topics. The next topic of that name has none."""
        if not event.deleted:
            return Outcome()
        # Offsets without an id are older than the next topic of that name, or as good as that.
        without_id = [(name, ZERO_ID) for name, _ in event.deleted]
        self._deletion.begin([*event.deleted, *without_id])
        return Outcome(timers=[SetTimer(DELETION_TIMER, 0, ForgetMore())])

    def _search_more(self) -> list[SetTimer]:
        """Look for offsets of topics that were deleted before this coordinator was loaded."""
        if self._search.next_slice():
            return [SetTimer(SEARCH_TIMER, 0, SearchMore())]
        if not self._search.found:
            return []
        self._deletion.begin(self._search.found)
        return [SetTimer(DELETION_TIMER, 0, ForgetMore())]

    def _forget_more(self) -> Outcome:
        records, more = self._deletion.next_slice()
        return Outcome(records, timers=[SetTimer(DELETION_TIMER, 0, ForgetMore())] if more else [])

    # Timers

    def loaded(self) -> Outcome:
        return Outcome(timers=[self._check_later(), *self._search_more()])

    def handle_timer(self, event: object, now_ms: int) -> Outcome | None:
        match event:
            case CheckOffsets():
                return self._check()
            case ExpireMore():
                return self._expire_more(now_ms)
            case SearchMore():
                return Outcome(timers=self._search_more())
            case ForgetMore():
                return self._forget_more()
            case _:
                return None

    def recover(self, event: object) -> Outcome | None:
        """Give up a slice that failed, until the next check. Return None for any other event."""
        if not isinstance(event, CheckOffsets | ExpireMore | SearchMore | ForgetMore):
            return None
        self._expiry = None
        return Outcome(timers=[self._check_later()])

    def _check_later(self) -> SetTimer:
        return SetTimer(CHECK_TIMER, self._settings.offsets_check_interval_ms, CheckOffsets())

    def _check(self) -> Outcome:
        """Start a sweep, and write no record: timers are lost if the log rejects the records of
        their outcome."""
        self._expiry = ExpirySweep(self._state, self._settings.offsets_retention_ms)
        timers = [self._check_later(), SetTimer(EXPIRY_TIMER, 0, ExpireMore())]
        if not self._deletion.is_over:
            self._deletion.begin()
            timers.append(SetTimer(DELETION_TIMER, 0, ForgetMore()))
        return Outcome(timers=timers)

    def _expire_more(self, now_ms: int) -> Outcome:
        if self._expiry is None:
            return Outcome()
        records, more = self._expiry.next_slice(now_ms)
        if not more:
            self._expiry = None
        return Outcome(records, timers=[SetTimer(EXPIRY_TIMER, 0, ExpireMore())] if more else [])

    # Replay

    def replay(self, record: CoordinatorRecord) -> None:
        """Replay a commit or its tombstone. Hot path: a load replays a million of them. The machine
        has checked the key's type already."""
        key: Any
        value: Any
        key, value = record
        if value is None:
            self._store.remove(key.group, key.topic, key.partition)
            return
        group_id = key.group
        if group_id not in self._state.groups:
            self._state.groups[group_id] = ClassicGroup(group_id)
        self._store.commit(key, value)

    def replay_pending(self, record: PendingOffset) -> None:
        """Replay a commit that counts when the transaction of its producer commits."""
        key, value = record.key, record.value
        if not isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            return  # transactions hold offsets only
        if value is None:
            self._store.remove(key.group, key.topic, key.partition)
            return
        if key.group not in self._state.groups:
            self._state.groups[key.group] = ClassicGroup(key.group)
        assert isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue), "an offset"
        stored = self._store.stored(value)
        self._store.add_pending(record.producer_id, key.group, key.topic, key.partition, stored)

    def replay_end(self, marker: EndMarker) -> None:
        self._store.end(marker.producer_id, committed=marker.committed)


# A member commits the same partitions again and again: parts of an answer without an error are
# made once, and never changed.


@lru_cache(maxsize=CACHED_PARTITIONS_MAX)
def _key_and_answer(
    group_id: str, topic: str, partition: int
) -> tuple[OffsetCommitKey, PartitionError]:
    """Return the key of a commit's record, and the answer to a commit without an error."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return key, _answer(partition, NONE)


@lru_cache(maxsize=CACHED_PARTITIONS_MAX)
def _answer(partition: int, error_code: int) -> PartitionError:
    return PartitionError(partition_index=partition, error_code=error_code)


def _value(
    committed: CommittedPartition,
    now_ms: int,
    topic_id: bytes,
    expires_ms: int,
) -> OffsetCommitValue:
    value: OffsetCommitValue = object.__new__(OffsetCommitValue)  # half the cost of its __init__
    value.offset = committed.committed_offset
    value.leader_epoch = committed.committed_leader_epoch
    value.metadata = committed.committed_metadata or ""
    value.commit_timestamp = now_ms
    value.expire_timestamp = expires_ms
    value.topic_id = topic_id
    return value


def _still_there(group: CoordinatedGroup | None, member_id: str) -> list[SetTimer]:
    """Return the renewed session timer of a classic member that commits.

    The timer keeps its event: if the log rejects the commit, the old timer serves as well. A
    consumer group's members send heartbeats instead.
    """
    if not isinstance(group, ClassicGroup) or group.state not in LISTENING:
        return []
    member = group.members.get(member_id)
    event = group.timers.get(session_timer_name(group.group_id, member_id))
    if member is None or event is None:
        return []
    return [SetTimer(event.name, member.session_timeout_ms, event)]
