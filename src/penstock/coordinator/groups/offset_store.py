"""The committed offsets of one coordinator partition, and those that wait for a transaction.

A partition may hold a million of them, so an offset is a plain tuple with the indexes named below.
The garbage collector stops visiting exact tuples of plain values, but never named tuples. Names,
ids and times that many offsets share are kept once.

Invariants: no inner dictionary is empty. `_pending_producers` lists exactly the producers with a
pending offset of a topic partition. Replay alone changes anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from penstock.coordinator.records import CoordinatorRecord
from penstock.model import NO_LEADER_EPOCH, ZERO_ID
from penstock.wire.records.group import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

# offset, leader epoch, metadata, time of the commit, own time of expiry (or -1), topic id (or 0)
Stored = tuple[int, int, str, int, int, bytes]
OFFSET: Final = 0
LEADER_EPOCH: Final = 1
METADATA: Final = 2
COMMITTED_MS: Final = 3
EXPIRES_MS: Final = 4
TOPIC_ID: Final = 5

NO_EXPIRY: Final = -1
# Names and ids that are kept once; beyond this number some offsets have objects of their own.
SHARED_MAX: Final = 10_000
_NEWEST: Final = 2**63

T = TypeVar("T", str, bytes)
_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class _PendingCommit(NamedTuple):
    """An offset of an open transaction, and its order among all such commits.

    A commit that was written later may count earlier; the older one must not come back then.
    """

    order: int
    stored: Stored
    overtaken: bool = False


def _share(shared: dict[T, T], value: T) -> T:
    # Topics come and go. Clearing all costs less than counting the uses of each.
    if len(shared) >= SHARED_MAX:
        shared.clear()
    shared[value] = value
    return value


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the record that removes an offset at replay, committed or pending."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


class OffsetStore:
    """Offsets by group, topic and partition."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, Stored]]] = {}
        self._pending: dict[int, dict[tuple[str, str, int], _PendingCommit]] = {}  # by producer id
        # By group, then by topic and partition: producer ids.
        self._pending_producers: dict[str, dict[tuple[str, int], dict[int, None]]] = {}
        self._order = 0
        self._names: dict[str, str] = {}
        self._ids: dict[bytes, bytes] = {}
        self._last_ms = -1

    # Questions

    def get(self, group_id: str, topic: str, partition: int) -> Stored | None:
        return self.of_topic(group_id, topic).get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, Stored]]:
        """Return the committed offsets of a group, as a view."""
        return self._committed.get(group_id, _NOTHING)

    def of_topic(self, group_id: str, topic: str) -> Mapping[int, Stored]:
        found: Mapping[int, Stored] = self.of_group(group_id).get(topic, _NOTHING)
        return found

    def groups(self) -> list[str]:
        """Return the groups that have committed offsets."""
        return list(self._committed)

    def topics_of(self, group_id: str) -> list[str]:
        """Return the topics of which a group has committed offsets."""
        return list(self.of_group(group_id))

    def count(self, group_id: str) -> int:
        """Return the number of offsets that a group has committed."""
        return sum(map(len, self.of_group(group_id).values()))

    def has_offsets(self, group_id: str) -> bool:
        return group_id in self._committed

    def has_pending(self, group_id: str) -> bool:
        """Return whether an open transaction has pending offsets of this group."""
        return group_id in self._pending_producers

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        partitions_of_group = self._pending_producers.get(group_id)
        return partitions_of_group is not None and (topic, partition) in partitions_of_group

    def pending_partitions(self) -> Iterator[tuple[str, str, int]]:
        """Yield group, topic and partition of each pending offset."""
        for group_id, partitions_of_group in self._pending_producers.items():
            for topic, partition in partitions_of_group:
                yield group_id, topic, partition

    def committed_and_pending(self, group_id: str, topic: str, partition: int) -> Iterator[Stored]:
        """Yield the committed offset of a topic partition, and its pending offsets."""
        committed = self.get(group_id, topic, partition)
        if committed is not None:
            yield committed
        for producer_id in self._producers_of(group_id, topic, partition):
            yield self._pending[producer_id][group_id, topic, partition].stored

    def _producers_of(self, group_id: str, topic: str, partition: int) -> Iterable[int]:
        producers: Iterable[int]
        producers = self._pending_producers.get(group_id, _NOTHING).get((topic, partition), ())
        return producers

    def tombstones_of(self, group_id: str) -> list[CoordinatorRecord]:
        """Return tombstones for every offset of a group, committed or pending."""
        committed = self.of_group(group_id)
        records = [
            tombstone(group_id, topic, partition)
            for topic, partitions in committed.items()
            for partition in partitions
        ]
        records += [
            tombstone(group_id, topic, partition)
            for topic, partition in self._pending_producers.get(group_id, ())
            if partition not in self.of_topic(group_id, topic)
        ]
        return records

    # Replay

    def stored(self, value: OffsetCommitValue | LegacyOffsetCommitValue) -> Stored:
        """Return the value as the tuple that the store keeps."""
        committed_ms = value.commit_timestamp
        if committed_ms == self._last_ms:
            committed_ms = self._last_ms  # one object for the many offsets of one commit
        else:
            self._last_ms = committed_ms
        if isinstance(value, LegacyOffsetCommitValue):
            none = NO_LEADER_EPOCH
            return (value.offset, none, value.metadata, committed_ms, NO_EXPIRY, ZERO_ID)
        topic_id = value.topic_id
        return (
            value.offset,
            value.leader_epoch,
            value.metadata,
            committed_ms,
            value.expire_timestamp,
            self._ids.get(topic_id) or _share(self._ids, topic_id),
        )

    def commit(
        self,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | LegacyOffsetCommitValue,
    ) -> None:
        """Commit the offset of a record. Hot path: `put` in one step for a topic partition that has
        an offset already."""
        group_id, topic = key.group, key.topic
        try:
            partitions = self._committed[group_id][topic]
        except KeyError:
            self.put(group_id, topic, key.partition, self.stored(value))
            return
        partitions[key.partition] = self.stored(value)
        if group_id in self._pending_producers:
            self._overtake(group_id, topic, key.partition, _NEWEST)

    def put(
        self, group_id: str, topic: str, partition: int, stored: Stored, order: int = _NEWEST
    ) -> None:
        """Commit an offset. Offsets that are pending already will not overwrite it."""
        topics = self._committed.get(group_id)
        if topics is None:
            topics = self._committed[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[self._names.get(topic) or _share(self._names, topic)] = {}
        partitions[partition] = stored
        if group_id in self._pending_producers:
            self._overtake(group_id, topic, partition, order)

    def _overtake(self, group_id: str, topic: str, partition: int, order: int) -> None:
        for producer_id in self._pending_producers[group_id].get((topic, partition), ()):
            pending = self._pending[producer_id]
            each = pending[group_id, topic, partition]
            if each.order < order:
                pending[group_id, topic, partition] = each._replace(overtaken=True)

    def add_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, stored: Stored
    ) -> None:
        """Keep an offset until the transaction of this producer ends."""
        self._order += 1
        pending = self._pending.setdefault(producer_id, {})
        pending[group_id, topic, partition] = _PendingCommit(self._order, stored)
        partitions_of_group = self._pending_producers.setdefault(group_id, {})
        partitions_of_group.setdefault((topic, partition), {})[producer_id] = None

    def end(self, producer_id: int, *, committed: bool) -> None:
        """Commit the pending offsets of the producer's transaction, or drop them."""
        for (group_id, topic, partition), each in self._pending.pop(producer_id, {}).items():
            self._release(producer_id, group_id, topic, partition)
            if committed and not each.overtaken:
                self.put(group_id, topic, partition, each.stored, each.order)

    def _release(self, producer_id: int, group_id: str, topic: str, partition: int) -> None:
        partitions_of_group = self._pending_producers[group_id]
        producers = partitions_of_group[topic, partition]
        del producers[producer_id]
        if not producers:
            del partitions_of_group[topic, partition]
        if not partitions_of_group:
            del self._pending_producers[group_id]

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove the committed and the pending offsets of a topic partition."""
        topics = self._committed.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is not None and partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del topics[topic]
            if not topics:
                del self._committed[group_id]
        for producer_id in list(self._producers_of(group_id, topic, partition)):
            self._release(producer_id, group_id, topic, partition)
            pending = self._pending[producer_id]
            del pending[group_id, topic, partition]
            if not pending:
                del self._pending[producer_id]
