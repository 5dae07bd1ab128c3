"""Fetch sessions (KIP-227): the partitions that a client watches, and those that changed.

A session costs only its changes. Appends and watermark moves mark a watched partition dirty, and an
incremental fetch looks at dirty partitions only. A fetch without a session uses a FetchSet alone.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.broker.fetch.replica_fetch import NO_REPLICA, replica_of
from penstock.broker.sliced_work import Slices, Work
from penstock.credentials.principal import Caller
from penstock.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from penstock.replication.follower_progress import FetchContact
from penstock.wire.messages.k01_fetch import FetchPartition, FetchRequest

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition

T = TypeVar("T")

SESSIONLESS_EPOCH = -1
FIRST_EPOCH = 0
EPOCH_MAX = 0x7FFFFFFF
TOPIC_IDS = 13
PARTITIONS_PER_SLICE = 100
TOPICS_PER_SLICE = 500  # without partitions
# Of all sessions of a node, some 400 bytes each. A client beyond fetches without a session.
SESSION_PARTITIONS_MAX = 100_000
SESSION_EVICTION_MS = 120_000  # without a fetch: another session may take the slot

TopicKey = str | bytes  # the name, or from v13 the id


class ParkedFetch(Protocol):
    """A fetch that waits for records of its set."""

    def reconsider_soon(self) -> None:
        """Look again at the end of this turn."""
        ...

    def answer(self) -> None:
        """Answer with what there is."""
        ...


class WatchedPartition:
    """One partition that a client fetches, with the offsets last sent for the partition."""

    __slots__ = (
        "_set",
        "checked",
        "index",
        "partition",
        "sent_high_watermark",
        "sent_log_start",
        "topic",
        "wanted",
    )

    def __init__(self, fetch_set: "FetchSet", topic: TopicKey, wanted: FetchPartition) -> None:
        self._set = fetch_set
        self.topic = topic
        self.index = wanted.partition
        self.wanted = wanted
        self.partition: Partition | None = None
        self.sent_high_watermark = -1
        self.sent_log_start = -1
        self.checked: object = None  # the check of access that the partition has passed

    def partition_changed(self) -> None:
        """Mark the partition dirty: its offsets moved."""
        self._set.mark_dirty(self)

    def watermark_moved(self) -> None:
        """Mark the partition dirty for the next answer to a follower; no fetch ends by that."""
        if not self._set.closed:
            self._set.dirty[self] = None

    def isr_changed(self) -> None:
        """Let the next fetch of a follower that is out of sync propose to join."""
        partition, fetch_set = self.partition, self._set
        if partition is not None and not fetch_set.closed:
            if fetch_set.replica_id not in partition.leader.isr:
                fetch_set.outside[self] = None

    def watch(self, partition: "Partition | None") -> None:
        if self._set.closed:
            return
        if partition is not self.partition:
            self.unwatch()
            self.partition = partition
        if partition is None:
            return
        if self._set.contact is None:
            partition.watchers[self] = None
        else:
            partition.replica_watchers[self] = None

    def unwatch(self) -> None:
        partition = self.partition
        if partition is None:
            return
        contact = self._set.contact
        if contact is None:
            partition.watchers.pop(self, None)
        else:
            self._set.outside.pop(self, None)
            partition.replica_watchers.pop(self, None)
            partition.leader.forget_session(self._set.replica_id, contact)


class FetchSet:
    """The partitions of one session, or of one fetch without a session."""

    __slots__ = (
        "access",
        "changes",
        "closed",
        "contact",
        "counted",
        "dirty",
        "epoch",
        "fetching",
        "outside",
        "replica_id",
        "session_id",
        "used_at_ms",
        "uses_ids",
        "watched",
    )

    def __init__(self, session_id: int, uses_ids: bool) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.uses_ids = uses_ids
        self.watched: dict[tuple[TopicKey, int], WatchedPartition] = {}
        self.dirty: dict[WatchedPartition, None] = {}
        self.changes = 0  # of partitions, counted since the beginning
        self.used_at_ms = 0.0
        self.closed = False
        self.counted = 0  # of its partitions, among those of all sessions
        self.fetching: ParkedFetch | None = None  # the fetch that waits on this set, if one does
        self.contact: FetchContact | None = None  # of a follower
        self.replica_id = NO_REPLICA
        self.outside: dict[WatchedPartition, None] = {}  # where the follower is not in sync
        self.access: object = None  # the caller, and the generation of the rules that holds

    def arrive(self, replica_id: int, now_ms: float) -> None:
        """Note a fetch of a follower: its clean partitions are caught up at this time."""
        self.replica_id = replica_id
        if self.contact is None:
            self.contact = FetchContact(now_ms)
        elif self.contact.arrive(now_ms):
            self.dirty.update(dict.fromkeys(self.watched.values()))

    def check_as(self, caller: Caller, generation: int) -> None:
        """Have all partitions checked again, unless caller and rules are those of the last
        check."""
        access = caller, generation
        if self.access != access:
            self.access = access

    def mark_dirty(self, watched: WatchedPartition) -> None:
        self.dirty[watched] = None
        self.changes += 1
        if self.fetching is not None:
            self.fetching.reconsider_soon()

    def is_long(self, request: FetchRequest) -> bool:
        """Return whether a request, or what has changed in this set, is too much for one slice."""
        changed = len(self.dirty)
        added = (len(topic.partitions) for topic in request.topics)
        removed = (len(topic.partitions) for topic in request.forgotten_topics_data)
        for partitions in chain(added, removed):
            changed += 1 + partitions
            if changed > PARTITIONS_PER_SLICE:
                return True
        return False

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
        for topic in request.topics:
            self._add(topic.topic_id if self.uses_ids else topic.topic, topic.partitions)
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if self.uses_ids else forgotten.topic
            self._forget(key, forgotten.partitions)

    def update_in_slices(self, request: FetchRequest) -> Slices[None]:
        """Do the same for many partitions."""
        for number, topic in enumerate(request.topics):
            key: TopicKey = topic.topic_id if self.uses_ids else topic.topic
            for some in parts_of(topic.partitions):
                self._add(key, some)
                yield None
            if not number % TOPICS_PER_SLICE:
                yield None
        for number, forgotten in enumerate(request.forgotten_topics_data):
            key = forgotten.topic_id if self.uses_ids else forgotten.topic
            for indexes in parts_of(forgotten.partitions):
                self._forget(key, indexes)
                yield None
            if not number % TOPICS_PER_SLICE:
                yield None

    def _add(self, key: TopicKey, partitions: Sequence[FetchPartition]) -> None:
        if self.closed:
            return
        for wanted in partitions:
            place = (key, wanted.partition)
            watched = self.watched.get(place)
            if watched is None:
                watched = self.watched[place] = WatchedPartition(self, key, wanted)
            else:
                watched.wanted = wanted
            self.dirty[watched] = None

    def _forget(self, key: TopicKey, indexes: Sequence[int]) -> None:
        for index in indexes:
            gone = self.watched.pop((key, index), None)
            if gone is not None:
                gone.unwatch()
                self.dirty.pop(gone, None)

    def close(self) -> None:
        """Unwatch all partitions. Set and partitions refer to each other: without this call, memory
        would stay until a full collection."""
        self.closed = True
        self.fetching = None
        self.dirty.clear()
        for watched in self.watched.values():
            watched.unwatch()
        self.watched.clear()

    def close_in_slices(self) -> Slices[None]:
        """Do the same for many partitions."""
        while len(self.watched) > PARTITIONS_PER_SLICE:
            for _ in range(PARTITIONS_PER_SLICE):
                self.watched.popitem()[1].unwatch()
            yield None
        self.close()


def _partitions(request: FetchRequest) -> int:
    return sum(len(topic.partitions) for topic in request.topics)


def parts_of(items: list[T]) -> Iterator[list[T]]:
    """Yield the items in parts, each for one slice."""
    for first in range(0, len(items), PARTITIONS_PER_SLICE):
        yield items[first : first + PARTITIONS_PER_SLICE]


class FetchSessions:
    """All sessions of a node, bounded. A new session replaces the least recently used stale one."""

    def __init__(
        self,
        slots: int,
        eviction_ms: int,
        draw_id: Callable[[], int],
        begin: Callable[[Work], None],
    ) -> None:
        """Make room for `slots` sessions. `begin` runs work that may take longer than a turn."""
        self._begin = begin
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._draw_id = draw_id
        self.evictions = 0
        self._partitions = 0  # of all sessions
        self._sessions: dict[int, FetchSet] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, version: int, now_ms: float) -> tuple[FetchSet, bool]:
        """Return the set to fetch from, and whether the answer has changes only. The set is not
        updated with the request yet. A session belongs to consumers, or to one follower: its
        partitions watch either the high watermark or the end of the log."""
        uses_ids = version >= TOPIC_IDS
        replica = replica_of(request, version)
        replica_id = NO_REPLICA if replica is None else replica.replica_id
        session_id, epoch = request.session_id, request.session_epoch
        if version < 7 or epoch in (SESSIONLESS_EPOCH, FIRST_EPOCH):
            self._end(session_id)
            wanted = version >= 7 and epoch == FIRST_EPOCH and self._has_room(request)
            fetch_set = FetchSet(self._new_id(now_ms) if wanted else 0, uses_ids)
            fetch_set.replica_id = replica_id
            if fetch_set.session_id:
                fetch_set.used_at_ms = now_ms
                fetch_set.counted = _partitions(request)
                self._partitions += fetch_set.counted
                self._sessions[fetch_set.session_id] = fetch_set
            return fetch_set, False
        session = self._sessions.get(session_id)
        if session is None or session.replica_id != replica_id:
            raise FetchSessionIdNotFound
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch
        if session.uses_ids != uses_ids:
            raise FetchSessionTopicIdError
        if not self._keeps(session, request):
            raise FetchSessionIdNotFound
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.used_at_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session, True

    def _has_room(self, request: FetchRequest) -> bool:
        """Return whether the partitions of one more session fit, by its first request."""
        return self._partitions + _partitions(request) <= SESSION_PARTITIONS_MAX

    def _keeps(self, session: FetchSet, request: FetchRequest) -> bool:
        """Count the partitions of a session and of its request. End a session that grows beyond the
        limit; return whether the session stays."""
        before = len(session.watched)
        added = max(0, _partitions(request) - before)  # at least; mostly it names known ones
        grown = before + added - session.counted
        session.counted += grown
        self._partitions += grown
        if grown <= 0 or self._partitions <= SESSION_PARTITIONS_MAX:
            return True
        self._end(session.session_id)
        return False

    def _new_id(self, now_ms: float) -> int:
        """Return an unused id, or 0 without a free slot: the client then fetches without a
        session."""
        if len(self._sessions) >= self._slots:
            oldest_id = next(iter(self._sessions), None)
            if oldest_id is None:
                return 0
            if now_ms - self._sessions[oldest_id].used_at_ms < self._eviction_ms:
                return 0
            self.evictions += 1
            self._end(oldest_id)
        while True:
            session_id = self._draw_id()
            if session_id and session_id not in self._sessions:
                return session_id

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.counted
            self.close(session)

    def close(self, fetch_set: FetchSet) -> None:
        """Unwatch the partitions of a set, in slices if there are many."""
        if len(fetch_set.watched) > PARTITIONS_PER_SLICE:
            fetch_set.closed = True
            fetch_set.fetching = None
            fetch_set.dirty.clear()
            self._begin(fetch_set.close_in_slices())
        else:
            fetch_set.close()

    def describe(self) -> dict[str, Any]:
        partitions = sum(len(session.watched) for session in self._sessions.values())
        return {"sessions": len(self._sessions), "partitions": partitions}
