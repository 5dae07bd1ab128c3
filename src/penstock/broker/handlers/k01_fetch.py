"""Fetch, v4-v18: long poll, sessions, records by sendfile.

Below the minimum of bytes the request is parked until partitions it watches move or its time is
up. Offsets between the high watermark and the log end wait like a long poll; only outside the log
are they out of range. A follower gets records up to the end of the log (fetch/replica_fetch.py).
v13: topic ids.  v16: errors name the leader with its endpoint (KIP-951).  On a controller listener:
the metadata log, for controllers and brokers.

A partition is checked once for a caller and a generation of the rules of access, and again before
an answer with it leaves. A follower without permission moves nothing.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.fetch.replica_fetch import (
    check_replica,
    let_join,
    note_arrival,
    replica_of,
)
from penstock.broker.fetch.sessions import (
    PARTITIONS_PER_SLICE,
    FetchSet,
    WatchedPartition,
    parts_of,
)
from penstock.broker.metadata.current_leader import find_leader
from penstock.broker.request import ClientRequest, failed
from penstock.broker.sliced_work import Slices
from penstock.errors import (
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from penstock.security.permissions import CLUSTER_ACTION, READ_TOPIC
from penstock.wire.fetch_answer import (
    NO_TAGS,
    PartitionAnswer,
    Tagged,
    fetch_answer,
    fetch_answer_in_slices,
)
from penstock.wire.messages.k01_fetch import FetchRequest
from penstock.wire.structures import NodeEndpoint
from penstock.world import Cold, DiskFailed, FileRange, Part, Timer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions.partition import Partition

SENDFILE_BYTES_MIN = 64 * 1024  # below this a read and one joined send is cheaper
READ_BYTES_MAX = 512 * 1024  # so much of one answer is read, the rest leaves by sendfile
READ_COMMITTED = 1
NO_EPOCH = -1
COLD_WAIT_MS_MIN = 1_000  # records that must come from disk are worth this wait at least
TAGS_FROM = 12
FETCH = 1
Topics = list[tuple[str | bytes, list[PartitionAnswer]]]  # of an answer
# Errors that clients expect; as in Kafka, only other errors count as failed requests.
EXPECTED_OF_FETCH = frozenset(
    error.code
    for error in (
        OffsetOutOfRange,
        UnknownTopicOrPartition,
        NotLeaderOrFollower,
        FencedLeaderEpoch,
        UnknownLeaderEpoch,
        KafkaStorageError,
    )
)


def handle(broker: "Broker", request: ClientRequest, message: FetchRequest) -> Slices[None] | None:
    now_ms = broker.world.clock.mono_ms()
    try:
        fetch_set, incremental = broker.sessions.find(message, request.api_version, now_ms)
    except KafkaError as error:
        _reject(request, error, message.session_id)
        return None
    fetching = PendingFetch(broker, request, message, fetch_set, incremental)
    fetching.arrive(now_ms)
    if fetch_set.is_long(message):
        return fetching.begin_in_slices(now_ms)
    fetching.begin(now_ms)
    return None


def handle_on_controller(broker: "Broker", request: ClientRequest, message: FetchRequest) -> None:
    """Give a fetch of the metadata log to the quorum, which answers it."""
    broker.metadata.receive(message, request.reply)


def _reject(request: ClientRequest, error: KafkaError, session_id: int = 0) -> None:
    """Answer with the error of a session."""
    kept = session_id if isinstance(error, FetchSessionTopicIdError) else 0
    parts = fetch_answer(request.api_version, request.correlation_id, error.code, kept, [])
    request.reply_frame(parts)


class PendingFetch:
    """One fetch from its arrival to its answer."""

    __slots__ = (
        "_answers",
        "_arriving",
        "_broker",
        "_bytes",
        "_bytes_max",
        "_caller_may_follow",
        "_changed_meanwhile",
        "_checks_access",
        "_failed",
        "_incremental",
        "_leaders",
        "_looking",
        "_message",
        "_over",
        "_queued",
        "_read_bytes",
        "_replica",
        "_request",
        "_set",
        "_timer",
        "_warming",
    )

    def __init__(
        self,
        broker: "Broker",
        request: ClientRequest,
        message: FetchRequest,
        fetch_set: FetchSet,
        incremental: bool,
    ) -> None:
        self._broker = broker
        self._request = request
        self._message = message
        self._set = fetch_set
        self._incremental = incremental
        self._replica = replica_of(message, request.api_version)
        self._arriving = self._replica is not None  # its progress is noted at the first look
        self._checks_access = broker.access.enabled
        self._caller_may_follow = self._replica is None or broker.access.allows_on_cluster(
            request, CLUSTER_ACTION
        )
        self._bytes_max = min(message.max_bytes, broker.settings.fetch_bytes_max)
        if self._replica is None and broker.throttle.limits_fetch:
            self._bytes_max = broker.throttle.fetch_bytes(request.connection, self._bytes_max)
        self._answers: dict[WatchedPartition, PartitionAnswer] = {}
        self._leaders: dict[int, NodeEndpoint] = {}  # of partitions that moved
        self._bytes = 0
        self._read_bytes = 0
        self._failed = False
        self._warming = 0
        self._timer: Timer | None = None
        self._queued = False
        self._looking = False  # in slices
        self._changed_meanwhile = False
        self._over = False  # answered, or about to be, or the peer has gone

    def arrive(self, now_ms: float) -> None:
        """Note the arrival of a follower's fetch."""
        if self._replica is not None and self._caller_may_follow:
            self._set.arrive(self._replica.replica_id, now_ms)

    def begin(self, now_ms: float) -> None:
        """Read the watched partitions; answer, or wait for more records."""
        self._set.update(self._message)
        # A client that pipelines expects to see what it wrote before.
        self._broker.append_watched(self._set)
        changes = self._set.changes
        self._look_at(list(self._set.dirty))
        self._answer_or_wait(now_ms)
        if not self._over and self._set.changes != changes:
            # The arrival of a follower commits records, and a coordinator here answers with others.
            self.reconsider_soon()

    def begin_in_slices(self, now_ms: float) -> Slices[None]:
        """Do the same for many partitions."""
        try:
            yield from self._set.update_in_slices(self._message)
            self._message.topics = []  # the set has them, and lets go of them one by one
            self._broker.append_watched(self._set)
            yield from self._look_in_slices()
        except GeneratorExit:  # the peer has gone
            self._abandon()
            raise
        if self._set.closed:  # by another fetch of the client, between two slices
            self._over = True
            _reject(self._request, FetchSessionIdNotFound())
            return
        self._answer_or_wait(now_ms)
        if not self._over:
            self.reconsider_soon()  # a partition may have moved between two slices

    def _answer_or_wait(self, now_ms: float) -> None:
        self._arriving = False
        if self._set.outside and self._replica is not None and self._caller_may_follow:
            let_join(self._set, self._replica, now_ms, self._broker.isr_changes)
        if self._set.fetching is not None:
            # A second fetch on a session: the client waits no longer for the first one.
            self._set.fetching.answer()
        wait_ms = self._message.max_wait_ms
        if self._satisfied() or (wait_ms <= 0 and not self._warming):
            self.answer()
            return
        self._set.fetching = self
        self._broker.request_metrics.parked_fetches += 1
        self._timer = self._broker.world.timers.at(
            now_ms + (max(wait_ms, COLD_WAIT_MS_MIN) if self._warming else wait_ms),
            lambda: self._request.run(self._answer_late),
        )
        connection = self._request.connection
        connection.on_closed.append(self._abandon)
        connection.on_drain.append(self.answer)

    def _satisfied(self) -> bool:
        if self._failed:
            return True
        if self._warming:
            return False
        return self._bytes >= self._message.min_bytes

    def reconsider_soon(self) -> None:
        if self._looking:
            self._changed_meanwhile = True
        elif not self._queued:
            self._queued = True
            self._broker.reconsider(lambda: self._request.run(self.reconsider))

    def reconsider(self) -> None:
        """Look again at partitions that moved; called at the end of a turn."""
        self._queued = False
        if self._over:
            return
        if len(self._set.dirty) > PARTITIONS_PER_SLICE:
            self._looking = True
            self._broker.sliced_work.begin(self._reconsider_in_slices())
            return
        self._look_at(list(self._set.dirty))
        if self._satisfied():
            self.answer()

    def _reconsider_in_slices(self) -> Slices[None]:
        self._changed_meanwhile = False
        try:
            yield from self._look_in_slices()
        except Exception as error:
            failed(self._request.connection, FETCH, self._request.api_version, error)
            return
        self._looking = False
        if self._over:
            return
        if self._satisfied():
            self.answer()
        elif self._changed_meanwhile:
            self.reconsider_soon()

    def _look_in_slices(self) -> Slices[None]:
        for some in parts_of(list(self._set.dirty)):
            self._look_at([each for each in some if each in self._set.dirty])
            yield None
            if self._over:
                return

    def _look_at(self, watched_ones: list[WatchedPartition]) -> None:
        dirty = self._set.dirty
        self._note_access()
        for watched in watched_ones:
            before = self._answers.get(watched)
            if before is not None:
                self._bytes -= _size(before.records)
                if not isinstance(before.records, FileRange):
                    self._read_bytes -= len(before.records)
            try:
                answer = self._read(watched)
            except Cold as cold:
                self._warm(watched, cold)
                continue
            self._answers[watched] = answer
            size = _size(answer.records)
            self._bytes += size
            if answer.error_code or answer.tags is not NO_TAGS:
                self._failed = True
            elif not size and watched.wanted.fetch_offset >= self._upper(watched, answer):
                del dirty[watched]  # else it has records that did not fit this time

    def _upper(self, watched: WatchedPartition, answer: PartitionAnswer) -> int:
        """Return the end of the records that this reader may see."""
        if self._replica is not None:
            return watched.partition.log.end_offset if watched.partition is not None else 0
        if self._message.isolation_level == READ_COMMITTED:
            return answer.last_stable_offset
        return answer.high_watermark

    def _warm(self, watched: WatchedPartition, cold: Cold) -> None:
        """Have a worker read cold records from the disk; other partitions do not wait."""
        self._set.dirty.pop(watched, None)
        self._answers.pop(watched, None)
        self._warming += 1

        def warmed(failure: DiskFailed | None) -> None:
            self._warming -= 1
            partition = watched.partition
            if failure is not None and partition is not None and not partition.gone:
                partition.directory.fail(failure)
            watched.partition_changed()

        self._broker.request_metrics.cold_reads += 1
        cold.file.warm(cold.position, cold.size, warmed)

    def _read(self, watched: WatchedPartition) -> PartitionAnswer:
        partition: Partition | None = None
        try:
            if self._checks_access:
                self._check_access(watched)
            epoch = watched.wanted.current_leader_epoch
            partition = self._broker.find(watched.topic, watched.index, epoch)
            watched.watch(partition)
            return self._read_partition(partition, watched)
        except KafkaError as error:
            if partition is None:
                watched.watch(None)
            return self._error(watched, error)
        except DiskFailed as failure:
            assert partition is not None, "only what was found is read"
            partition.directory.fail(failure)
            return self._error(watched, KafkaStorageError(str(failure)))

    def _note_access(self) -> None:
        if self._checks_access:
            self._set.check_as(self._request.caller, self._broker.access.generation)

    def _check_access(self, watched: WatchedPartition) -> None:
        """Raise TopicAuthorizationFailed for a partition that the caller may not read. The unknown
        id of a topic is an error of its own."""
        if watched.checked is self._set.access:
            return
        access, request, topic = self._broker.access, self._request, watched.topic
        name = topic if isinstance(topic, str) else self._broker.image.topic_names.get(topic)
        if self._replica is not None:
            allowed = access.allows_on_cluster(request, CLUSTER_ACTION)
        else:
            allowed = name is None or access.allows(request, READ_TOPIC, name)
        if not allowed:
            raise TopicAuthorizationFailed
        if name is not None:  # an id that is unknown here may be known at the next look
            watched.checked = self._set.access

    def _drop_denied(self) -> None:
        """Replace answers that were found under earlier rules of access, and are denied now."""
        self._note_access()
        for watched in self._answers:
            try:
                self._check_access(watched)
            except TopicAuthorizationFailed as error:
                self._answers[watched] = self._error(watched, error)

    def _read_partition(self, partition: "Partition", watched: WatchedPartition) -> PartitionAnswer:
        partition.fetches += 1
        wanted = watched.wanted
        leader, log = partition.leader, partition.log
        if self._replica is not None:
            check_replica(partition, self._replica)
        tags = NO_TAGS
        if wanted.last_fetched_epoch != NO_EPOCH:
            diverging = partition.epoch_end(wanted.last_fetched_epoch)
            if diverging[1] < 0:
                raise OffsetOutOfRange(f"{partition} knows no epoch {wanted.last_fetched_epoch}")
            if wanted.fetch_offset < log.start_offset:
                raise OffsetOutOfRange(f"{partition} begins at {log.start_offset}")
            if diverging[0] != wanted.last_fetched_epoch or diverging[1] < wanted.fetch_offset:
                tags = Tagged(diverging_epoch=diverging).encode()
                high_watermark = leader.high_watermark
                stable = log.stable_offset(high_watermark)
                return PartitionAnswer(
                    wanted.partition, 0, high_watermark, stable, log.start_offset, None, b"", tags
                )
        if self._replica is not None:
            self._note_arrival(partition, watched)
        high_watermark = leader.high_watermark
        stable = log.stable_offset(high_watermark)
        committed_only = self._message.isolation_level == READ_COMMITTED
        upper = stable if committed_only else high_watermark
        if self._replica is not None:
            upper = log.end_offset  # a leader waits for its followers, not for its own disk
        records, aborted = self._records(partition, watched, upper, committed_only)
        return PartitionAnswer(
            wanted.partition, 0, high_watermark, stable, log.start_offset, aborted, records
        )

    def _records(
        self, partition: "Partition", watched: WatchedPartition, upper: int, committed_only: bool
    ) -> tuple[Part, list[tuple[int, int]] | None]:
        wanted, log = watched.wanted, partition.log
        limit = min(wanted.partition_max_bytes, self._bytes_max - self._bytes)
        found = log.read(
            wanted.fetch_offset,
            max(0, limit),
            upper_offset=upper,
            min_one_batch=self._bytes == 0,
        )
        if found.file is None or not found.size:
            return b"", [] if committed_only else None
        aborted = None
        if committed_only:
            aborted = log.aborted_transactions(wanted.fetch_offset, upper)
        if found.size < SENDFILE_BYTES_MIN and self._read_bytes < READ_BYTES_MAX:
            self._read_bytes += found.size
            return found.file.read(found.position, found.size), aborted
        found.file.probe(found.position, found.size)
        return FileRange(found.file, found.position, found.size), aborted

    def _note_arrival(self, partition: "Partition", watched: WatchedPartition) -> None:
        wanted = watched.wanted
        if not partition.log.start_offset <= wanted.fetch_offset <= partition.log.end_offset:
            raise OffsetOutOfRange(f"{partition} has no offset {wanted.fetch_offset}")
        if self._arriving and self._replica is not None:
            now_ms = self._broker.world.clock.mono_ms()
            note_arrival(partition, self._replica, watched, self._set, now_ms)

    def _error(self, watched: WatchedPartition, error: KafkaError) -> PartitionAnswer:
        tags = NO_TAGS
        moved = isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch)
        if moved and self._request.api_version >= TAGS_FROM:
            listener = self._request.connection.listener.name
            leader = find_leader(self._broker.image, listener, watched.topic, watched.index)
            if leader is not None:
                tags = Tagged(current_leader=leader[:2]).encode()
                if leader.endpoint is not None:
                    self._leaders[leader.leader_id] = leader.endpoint
        return PartitionAnswer(watched.wanted.partition, error.code, -1, -1, -1, None, b"", tags)

    # -- ending

    def _answer_late(self) -> None:
        """Answer because the time is up. A high watermark that moved meanwhile ends no fetch of a
        follower, but goes along."""
        if self._replica is not None and not self._over and not self._looking:
            self._look_at(list(self._set.dirty)[:PARTITIONS_PER_SLICE])
        self.answer()

    def answer(self) -> None:
        """Answer with the records found so far; with none if the client has fetched too much."""
        if self._over:
            return
        if self._checks_access:
            self._drop_denied()
        if self._replica is None and self._broker.throttle.limits_fetch and self._is_throttled():
            return
        reported = self._reported()
        self._end()
        topics: Topics = []
        if len(reported) > PARTITIONS_PER_SLICE:
            self._request.connection.hold()
            self._broker.sliced_work.begin(self._answer_in_slices(reported, topics))
            return
        self._report(reported, topics)
        request, session_id = self._request, self._set.session_id
        request.reply_frame(
            fetch_answer(
                request.api_version,
                request.correlation_id,
                0,
                session_id,
                topics,
                list(self._leaders.values()),
            )
        )

    def _is_throttled(self) -> bool:
        """Answer without records if the client has to wait; else count those that it gets."""
        request, throttle = self._request, self._broker.throttle
        wait_ms = throttle.fetch_wait_ms(request.connection)
        if not wait_ms:
            throttle.fetched(request.connection, self._bytes)
            return False
        for watched in self._answers:
            self._set.dirty[watched] = None  # with its news
        self._end()
        throttle.mute(request.connection, wait_ms)
        parts = fetch_answer(
            request.api_version,
            request.correlation_id,
            0,
            self._set.session_id,
            [],
            throttle_ms=wait_ms,
        )
        request.reply_frame(parts)
        return True

    def _answer_in_slices(self, reported: list[WatchedPartition], topics: Topics) -> Slices[None]:
        request = self._request
        try:
            for some in parts_of(reported):
                self._report(some, topics)
                yield None
            parts = yield from fetch_answer_in_slices(
                request.api_version,
                request.correlation_id,
                0,
                self._set.session_id,
                topics,
                list(self._leaders.values()),
            )
            request.reply_frame(parts)
            yield from _free_in_slices(reported, *(answers for _, answers in topics))
        except Exception as error:
            failed(request.connection, FETCH, request.api_version, error)
        finally:
            request.connection.release()

    def _report(self, reported: list[WatchedPartition], topics: Topics) -> None:
        """Add these partitions to the topics of the answer."""
        for watched in reported:
            answer = self._answers.pop(watched, None) or self._nothing_yet(watched)
            watched.sent_high_watermark = answer.high_watermark
            watched.sent_log_start = answer.log_start_offset
            if (size := _size(answer.records)) and watched.partition is not None:
                watched.partition.bytes_out += size
            if answer.error_code:
                self._count_error(watched, answer.error_code)
            if topics and topics[-1][0] == watched.topic:
                topics[-1][1].append(answer)
            else:
                topics.append((watched.topic, [answer]))

    def _count_error(self, watched: WatchedPartition, code: int) -> None:
        self._broker.request_metrics.failed(FETCH, code)
        if watched.partition is not None and code not in EXPECTED_OF_FETCH:
            watched.partition.failed_fetches += 1

    def _reported(self) -> list[WatchedPartition]:
        if not self._incremental:
            return list(self._set.watched.values())
        reported = []
        for watched, answer in self._answers.items():
            moved = (
                answer.high_watermark != watched.sent_high_watermark
                or answer.log_start_offset != watched.sent_log_start
            )
            has_news = answer.error_code or _size(answer.records) or answer.tags is not NO_TAGS
            if has_news or moved:
                reported.append(watched)
            if has_news and watched in self._set.dirty:
                # Behind the others next time, so that a busy partition does not starve them.
                del self._set.dirty[watched]
                self._set.dirty[watched] = None
        return reported

    def _nothing_yet(self, watched: WatchedPartition) -> PartitionAnswer:
        """Return an answer without records: a worker still reads them from the disk."""
        self._set.dirty[watched] = None
        partition = watched.partition
        if partition is None:
            return self._error(watched, KafkaStorageError())
        if self._checks_access:
            try:
                self._check_access(watched)
            except TopicAuthorizationFailed as error:
                return self._error(watched, error)
        high_watermark = partition.leader.high_watermark
        stable = partition.log.stable_offset(high_watermark)
        return PartitionAnswer(
            watched.index, 0, high_watermark, stable, partition.log.start_offset, None, b""
        )

    def _abandon(self) -> None:
        """End the fetch without an answer: the peer has gone."""
        if not self._over:
            self._request.answered = True
            self._end(closing=True)

    def _end(self, *, closing: bool = False) -> None:
        self._over = True
        if self._timer is not None:
            self._broker.request_metrics.parked_fetches -= 1
            self._timer.cancel()
            self._timer = None
            if not closing:
                self._request.connection.on_closed.remove(self._abandon)
                self._request.connection.on_drain.remove(self.answer)
        if self._set.fetching is self:
            self._set.fetching = None
        if not self._set.session_id:
            self._broker.sessions.close(self._set)


def _free_in_slices(*lists: list[Any]) -> Slices[None]:
    """Empty the lists of an answer: 300,000 partitions freed at once would hold up the loop."""
    for each in lists:
        while each:
            del each[-PARTITIONS_PER_SLICE:]
            yield None


def _size(records: Part) -> int:
    return records.size if isinstance(records, FileRange) else len(records)
