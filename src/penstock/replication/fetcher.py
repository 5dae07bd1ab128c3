"""All partitions that this node follows from one leader: the next Fetch, and the answer's steps.

One request is in flight at a time. An incremental request names new partitions and those with a
moved offset, and forgets those that cannot be fetched now: removed, busy, delayed or failed. Only
changed partitions are looked at, so idle ones cost nothing.
Reads no clock and no socket; the shell sends the request, and performs the steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from penstock.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from penstock.replication.fetch_session import LeaderSession
from penstock.replication.follower import BACKOFF_MS, FollowerState, PartitionFollower
from penstock.replication.follower_steps import Append, FollowerStep
from penstock.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

# The session is over, and the next request makes another one at once.
SESSION_ERRORS = (FetchSessionIdNotFound.code, InvalidFetchSessionEpoch.code)

FollowedKey: TypeAlias = tuple[bytes, int]  # topic id and partition
StepOf: TypeAlias = tuple[PartitionFollower, FollowerStep]


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """Settings of the fetches of one node; Kafka's names begin with `replica.fetch`."""

    replica_id: int
    wait_ms_max: int = 500
    bytes_min: int = 1
    response_bytes_max: int = 10 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    backoff_ms: float = BACKOFF_MS


class FollowedPartition:
    """A partition of the fetcher, and what the leader's session has of it."""

    __slots__ = ("follower", "in_session", "last_epoch", "leader_epoch", "log_start", "offset")

    def __init__(self, follower: PartitionFollower, *, in_session: bool = False) -> None:
        self.follower = follower
        self.in_session = in_session
        self.forget_question()

    def forget_question(self) -> None:
        """Name the partition in the next request, also if the session has the same question."""
        self.offset = self.last_epoch = self.leader_epoch = self.log_start = -1

    def ask(self, bytes_max: int) -> FetchPartition | None:
        """Return the question about this partition; None if the session has the same one."""
        follower = self.follower
        log = follower.log
        offset, log_start = log.end_offset, log.start_offset
        last_epoch, leader_epoch = follower.last_fetched_epoch, follower.leader_epoch
        if (
            offset == self.offset
            and leader_epoch == self.leader_epoch
            and log_start == self.log_start
            and last_epoch == self.last_epoch
        ):
            return None
        self.offset, self.log_start = offset, log_start
        self.last_epoch, self.leader_epoch = last_epoch, leader_epoch
        return FetchPartition(
            partition=follower.partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=log_start,
            partition_max_bytes=bytes_max,
        )


class ReplicaFetcher:
    """The fetches from one leader. `broker_epoch` is that of this node's present registration."""

    def __init__(self, leader_id: int, settings: FetcherSettings, broker_epoch: int) -> None:
        self.leader_id = leader_id
        self.broker_epoch = broker_epoch
        self.in_flight = False
        self.resume_ms = 0.0  # no request before this time
        self._settings = settings
        self._session = LeaderSession()
        self._partitions: dict[FollowedKey, FollowedPartition] = {}
        self._changed: dict[FollowedKey, FollowedPartition] = {}
        self._delayed: dict[FollowedKey, FollowedPartition] = {}
        self._removed: dict[FollowedKey, None] = {}  # still in the leader's session
        self._session_size = 0  # followed partitions in the leader's session
        self._asked = 0  # partitions of the last full request

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def followers(self) -> Iterator[PartitionFollower]:
        """Yield the followed partitions."""
        return (each.follower for each in self._partitions.values())

    # -- partitions

    def add(self, follower: PartitionFollower) -> None:
        """Fetch a partition from now on. An answer in flight does not concern it."""
        key = (follower.topic_id, follower.partition)
        in_session = key in self._removed
        self._removed.pop(key, None)
        self._session_size += in_session
        assert key not in self._partitions, "a partition is followed once"
        self._partitions[key] = self._changed[key] = FollowedPartition(
            follower, in_session=in_session
        )

    def remove(self, topic_id: bytes, partition: int) -> PartitionFollower | None:
        """Fetch a partition no longer; return it, None if it is not followed here."""
        key = (topic_id, partition)
        entry = self._partitions.pop(key, None)
        self._changed.pop(key, None)
        self._delayed.pop(key, None)
        if entry is None:
            return None
        if entry.in_session:
            self._session_size -= 1
            self._removed[key] = None
        return entry.follower

    def registered(self, broker_epoch: int) -> None:
        """Fetch in the epoch of a new registration. A full request tells the leader about all
        partitions: those that a session does not name again keep the epoch of their last fetch."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self._session.restart()

    def changed(self, follower: PartitionFollower) -> None:
        """Look at a partition for the next request: a step is finished, a question is answered, or
        the leader epoch or the log start has changed."""
        key = (follower.topic_id, follower.partition)
        entry = self._partitions.get(key)
        if entry is not None and entry.follower is follower:
            self._changed[key] = entry

    # -- requests

    def next_request(self, now_ms: float) -> FetchRequest | None:
        """Return the next request; None while one is in flight, after a failure, or without a
        partition that can be fetched."""
        if self.in_flight or now_ms < self.resume_ms:
            return None
        for key, entry in list(self._delayed.items()):
            if entry.follower.is_ready(now_ms):
                del self._delayed[key]
                self._changed[key] = entry
        if self._session.is_full:
            named = self._full(now_ms)
            forgotten: list[ForgottenTopic] = []
        else:
            named, forgotten = self._increment(now_ms)
        if not forgotten and not self._session_size:
            return None
        self.in_flight = True
        settings = self._settings
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=settings.replica_id, replica_epoch=self.broker_epoch
            ),
            max_wait_ms=settings.wait_ms_max,
            min_bytes=settings.bytes_min,
            max_bytes=settings.response_bytes_max,
            session_id=self._session.session_id,
            session_epoch=self._session.epoch,
            topics=named,
            forgotten_topics_data=forgotten,
        )

    def next_look_ms(self) -> float | None:
        """Return the time at which a delay ends first; None without a delay."""
        ends = [each.follower.until_ms for each in self._delayed.values()]
        return max(self.resume_ms, min(ends)) if ends else None

    def _full(self, now_ms: float) -> list[FetchTopic]:
        self._changed.clear()
        self._removed.clear()
        named: dict[bytes, FetchTopic] = {}
        self._session_size = 0
        for key, entry in self._partitions.items():
            entry.forget_question()
            entry.in_session = self._is_ready(key, entry, now_ms)
            if entry.in_session:
                self._session_size += 1
                self._name(named, key, entry)
        self._asked = self._session_size
        return list(named.values())

    def _increment(self, now_ms: float) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        named: dict[bytes, FetchTopic] = {}
        forgotten: dict[bytes, ForgottenTopic] = {}
        for key in self._removed:
            _forget(forgotten, key)
        self._removed.clear()
        for key, entry in self._changed.items():
            if self._is_ready(key, entry, now_ms):
                self._session_size += not entry.in_session
                entry.in_session = True
                self._name(named, key, entry)
            elif entry.in_session:
                self._session_size -= 1
                entry.in_session = False
                entry.forget_question()
                _forget(forgotten, key)
        self._changed.clear()
        return list(named.values()), list(forgotten.values())

    def _is_ready(self, key: FollowedKey, entry: FollowedPartition, now_ms: float) -> bool:
        if entry.follower.is_ready(now_ms):
            self._delayed.pop(key, None)
            return True
        if entry.follower.state is FollowerState.DELAYED:
            self._delayed[key] = entry
        return False

    def _name(
        self, named: dict[bytes, FetchTopic], key: FollowedKey, entry: FollowedPartition
    ) -> None:
        question = entry.ask(self._settings.partition_bytes_max)
        if question is not None:
            topic = named.get(key[0])
            if topic is None:
                topic = named[key[0]] = FetchTopic(topic_id=key[0])
            topic.partitions.append(question)

    # -- answers

    def answered(self, response: FetchResponse, now_ms: float) -> list[StepOf]:
        """Return the steps of an answer, in the leader's order."""
        self.in_flight = False
        was_full = self._session.is_full
        # A full answer without partitions under a throttle asks to come again later.
        throttled = was_full and bool(response.throttle_time_ms) and not response.responses
        if throttled:
            self.resume_ms = now_ms + response.throttle_time_ms
        is_complete = not throttled and self._is_complete(response, was_full=was_full)
        if not self._session.accept(response, is_complete=is_complete):
            if response.error_code and response.error_code not in SESSION_ERRORS:
                self.resume_ms = now_ms + self._settings.backoff_ms
            return []
        steps: list[StepOf] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                entry = self._partitions.get(key)
                if entry is not None:
                    self._take(key, entry, data, now_ms, steps)
        return steps

    def _take(
        self,
        key: FollowedKey,
        entry: FollowedPartition,
        data: PartitionData,
        now_ms: float,
        steps: list[StepOf],
    ) -> None:
        self._changed[key] = entry
        step = entry.follower.answered(entry.offset, entry.leader_epoch, data, now_ms)
        if step is None:
            entry.forget_question()  # the leader may think that its records have arrived
            return
        if isinstance(step, Append) and len(step.records):
            # Partitions that have sent records go behind those that have not, as with Kafka.
            self._partitions[key] = self._partitions.pop(key)
        steps.append((entry.follower, step))

    def _is_complete(self, response: FetchResponse, *, was_full: bool) -> bool:
        count = 0
        for topic in response.responses:
            for data in topic.partitions:
                count += 1
                key = (topic.topic_id, data.partition_index)
                entry = self._partitions.get(key)
                known = key in self._removed or (entry is not None and entry.in_session)
                if not known:
                    return False
        return not was_full or count == self._asked

    def failed(self, now_ms: float) -> None:
        """Note a request without an answer: the next one is full, after a delay."""
        self.in_flight = False
        self._session.restart()
        self.resume_ms = now_ms + self._settings.backoff_ms


def _forget(forgotten: dict[bytes, ForgottenTopic], key: FollowedKey) -> None:
    topic = forgotten.get(key[0])
    if topic is None:
        topic = forgotten[key[0]] = ForgottenTopic(topic_id=key[0])
    topic.partitions.append(key[1])
