"""Which offsets are forgotten, a slice at a time: those that expire, those of deleted topics.

An offset expires `offsets.retention.minutes` after its group lost its last member. If the group
never has members, or no member subscribes to the topic, the time counts from the commit. An offset
stays while a transaction holds another one for its partition. A group without members and without
offsets is removed too.

A sweep walks over all offsets in small slices. Each slice decides from the state of its moment, so
changes between two slices do no harm.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.groups.classic.generation import CONSUMER_PROTOCOL, ClassicState
from penstock.coordinator.groups.group import CoordinatedGroup, GroupCoordinatorState
from penstock.coordinator.groups.offset_store import (
    COMMITTED_MS,
    EXPIRES_MS,
    NO_EXPIRY,
    TOPIC_ID,
    OffsetStore,
    Stored,
    tombstone,
)
from penstock.coordinator.records import CoordinatorRecord
from penstock.model import ZERO_ID

# The offsets that one slice visits, and its writes by a careful estimate: 2 to 5 ms of work
# each, and a batch that is far from max.message.bytes.
SLICE_OFFSETS_MAX = 2_000
SLICE_BYTES_MAX = 128 * 1024
_TOMBSTONE_BYTES: Final = 32  # besides its names
_UTF8_BYTES_MAX: Final = 4  # of one character
STABLE: Final = ClassicState.STABLE.value


class Slice(NamedTuple):
    records: list[CoordinatorRecord]
    more: bool


class _Step(NamedTuple):
    """An offset to look at; without a topic: all of this group has been looked at."""

    group_id: str
    topic: str | None = None
    partition: int = -1


class _Room:
    """How much one slice may still do."""

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self._looks = SLICE_OFFSETS_MAX
        self._bytes = SLICE_BYTES_MAX

    def look(self) -> bool:
        """Count one look, and return whether the slice has room for another one."""
        self._looks -= 1
        return self._looks > 0 and self._bytes > 0

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        names = _UTF8_BYTES_MAX * (len(group_id) + len(topic))
        self._bytes -= names + _TOMBSTONE_BYTES
        self.records.append(tombstone(group_id, topic, partition))

    def forget_group(self, group: CoordinatedGroup) -> None:
        records = group.tombstones()
        names = _UTF8_BYTES_MAX * len(group.group_id)
        self._bytes -= len(records) * (names + _TOMBSTONE_BYTES)
        self.records += records


class ExpirySweep:
    """Once over all groups and all of their offsets."""

    def __init__(self, state: GroupCoordinatorState, retention_ms: int) -> None:
        self._state = state
        self._retention_ms = retention_ms
        self._steps = self._walk()

    def next_slice(self, now_ms: int) -> Slice:
        store = self._state.offsets
        room = _Room()
        forgotten: Counter[str] = Counter()  # in this slice, so still in the store
        for group_id, topic, partition in self._steps:
            group = self._state.groups.get(group_id)
            if group is None:
                pass  # gone since the walk began
            elif topic is None:
                if (
                    group.is_empty
                    and not store.has_pending(group_id)
                    and store.count(group_id) == forgotten[group_id]
                ):
                    room.forget_group(group)
            elif self._is_expired(group, topic, partition, now_ms):
                forgotten[group_id] += 1
                room.forget(group_id, topic, partition)
            if not room.look():
                return Slice(room.records, more=True)
        return Slice(room.records, more=False)

    def _walk(self) -> Iterator[_Step]:
        """Yield each offset, and each group after its offsets. The state changes between slices, so
        each list is copied when it is reached."""
        store = self._state.offsets
        for group_id in list(self._state.groups):
            for topic in store.topics_of(group_id):
                for partition in list(store.of_topic(group_id, topic)):
                    yield _Step(group_id, topic, partition)
            yield _Step(group_id)

    def _is_expired(self, group: CoordinatedGroup, topic: str, partition: int, now_ms: int) -> bool:
        store = self._state.offsets
        stored = store.get(group.group_id, topic, partition)
        if stored is None or store.is_pending(group.group_id, topic, partition):
            return False
        since_ms = expires_since(group, stored)
        if since_ms is None:
            return False
        if stored[EXPIRES_MS] != NO_EXPIRY:
            is_due = now_ms >= stored[EXPIRES_MS]
        else:
            is_due = now_ms - since_ms >= self._retention_ms
        return is_due and not group.is_subscribed_to(topic)


def expires_since(group: CoordinatedGroup, stored: Stored) -> int | None:
    """Return the beginning of an offset's retention without subscribers; None if it never ends."""
    if group.kind == "consumer" or not group.protocol_type:
        return stored[COMMITTED_MS]
    if group.is_empty:
        # Logs of old servers do not say when the last member left.
        since_ms = group.empty_since_ms
        return stored[COMMITTED_MS] if since_ms is None else since_ms
    if group.protocol_type == CONSUMER_PROTOCOL and group.state_name == STABLE:
        return stored[COMMITTED_MS]
    return None


class LeftoverSearch:
    """A walk over all offsets after a load, in search of those of deleted topics.

    A working coordinator is notified of deletions; this search finds those of the time before. A
    commit comes after its topic is in the image. The image here is no older than the one that made
    this node the leader. So a topic that is missing in the image is deleted. An offset without an
    id belongs to the present topic of that name, if there is one.
    """

    def __init__(self, store: OffsetStore, cluster: ClusterView) -> None:
        self._store = store
        self._cluster = cluster
        self._steps = self._walk()
        self._found: dict[tuple[str, bytes], None] = {}

    @property
    def found(self) -> tuple[tuple[str, bytes], ...]:
        """Return the topics of offsets whose id no topic of that name has."""
        return tuple(self._found)

    def next_slice(self) -> bool:
        """Look at a few more offsets, and return whether others are left."""
        for looks, (topic, topic_id) in enumerate(self._steps, 1):
            known = self._cluster.topic(topic)
            if known is None or topic_id not in (ZERO_ID, known.topic_id):
                self._found[topic, topic_id] = None
            if looks >= SLICE_OFFSETS_MAX:
                return True
        return False

    def _walk(self) -> Iterator[tuple[str, bytes]]:
        """Yield the topic of each offset and its id. Each list is copied when it is reached."""
        store = self._store
        for group_id, topic, partition in list(store.pending_partitions()):
            for stored in list(store.committed_and_pending(group_id, topic, partition)):
                yield topic, stored[TOPIC_ID]
        for group_id in store.groups():
            for topic in store.topics_of(group_id):
                for stored in list(store.of_topic(group_id, topic).values()):
                    yield topic, stored[TOPIC_ID]


class DeletionSweep:
    """Forgets the offsets of deleted topics, again and again until there are none.

    The log may reject a slice. The walk is over only when it has found nothing to remove,
    and `begin` starts it again. So a rejected append leaves no offset behind for the next topic of
    that name.
    """

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._deleted: dict[str, dict[bytes, None]] = {}
        self._steps: Iterator[_Step] = iter(())
        self._found = False

    @property
    def is_over(self) -> bool:
        return not self._deleted

    def begin(self, deleted: Iterable[tuple[str, bytes]] = ()) -> None:
        """Start again at the first group, for these topics and those still under way. The zero id
        stands for offsets without a topic id."""
        for name, topic_id in deleted:
            self._deleted.setdefault(name, {})[topic_id] = None
        self._steps = self._walk()
        self._found = False

    def next_slice(self) -> Slice:
        room = _Room()
        for group_id, topic, partition in self._steps:
            if topic is not None and self._is_meant(group_id, topic, partition):
                self._found = True
                room.forget(group_id, topic, partition)
            if not room.look():
                return Slice(room.records, more=True)
        if self._found:
            self.begin()  # the next walk sees whether all of it was written
        else:
            self._deleted.clear()
        return Slice(room.records, more=not self.is_over)

    def _walk(self) -> Iterator[_Step]:
        store = self._store
        pending = dict.fromkeys(
            each for each in store.pending_partitions() if each[1] in self._deleted
        )
        for group_id, topic, partition in pending:
            yield _Step(group_id, topic, partition)
        for group_id in store.groups():
            for topic in list(self._deleted):
                for partition in list(store.of_topic(group_id, topic)):
                    if (group_id, topic, partition) not in pending:
                        yield _Step(group_id, topic, partition)
            yield _Step(group_id)

    def _is_meant(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether the offset is of a deleted topic, not of a younger one with that name."""
        deleted = self._deleted[topic]
        return any(
            stored[TOPIC_ID] in deleted
            for stored in self._store.committed_and_pending(group_id, topic, partition)
        )
