"""Sends ready record batches to the leaders of their partitions until they are acknowledged.

Promises, per partition: batches are stored in the order of `send`. Those with a producer id and
sequence numbers are stored once, whatever connections and leaders do; others at least once. All
of it within `delivery_timeout_ms`: then, or when a server refuses a batch for good, the writer has
failed, says so with an exception of outcomes.py, and takes nothing more.

One thread: answers are looked at in `send` and `flush`, nowhere else.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from penstock.client.cluster.nodes import Nodes
from penstock.client.raw.lane import IN_FLIGHT_MAX, Batch, Lane
from penstock.client.raw.leaders import Leader, Leaders, is_absence
from penstock.client.raw.outcomes import (
    BatchTooLarge,
    DeliveryTimedOut,
    NotAuthorized,
    ProducerReplaced,
    SequenceBroken,
    WriteRefused,
)
from penstock.client.raw.produce_parts import PRODUCE_KEY, TOPIC_IDS, TopicBatches, produce_parts
from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated, Pending
from penstock.client.transport.sockets import wait_for_any
from penstock.errors import (
    BrokerNotAvailable,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordListTooLarge,
    TopicAuthorizationFailed,
    UnknownServerError,
    from_code,
)
from penstock.model import ZERO_ID, TopicPartition
from penstock.wire.messages.k00_produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.primitives import Buffer

REQUEST_BYTES_MAX = 1024 * 1024  # as Kafka's max.request.size; a larger batch goes alone
UNACKNOWLEDGED_BYTES_MAX = 32 * 1024 * 1024  # as Kafka's buffer.memory
ANSWER_GRACE_MS = 5_000  # a server says by itself that its time is up
MISSING_MS_MAX = 10_000  # a topic that no server knows: news of it may be under way
NO_OFFSET = -1


class Acknowledged(NamedTuple):
    """What a partition has stored; the offset is -1 where a server did not tell it."""

    records: int
    batches: int
    last_offset: int


class _Flight(NamedTuple):
    """A Produce under way."""

    connection: Connection
    pending: Pending
    deadline: float
    names: dict[bytes, str]
    batches: list[tuple[Lane, Batch]]


class BatchWriter:
    """Sends ready record batches to their leaders: in order per partition, at most five requests
    under way per connection, repeated where that is safe."""

    def __init__(
        self,
        nodes: Nodes,
        *,
        acks: int = -1,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        transactional_id: str | None = None,
        version_max: int | None = None,
    ) -> None:
        """Below transaction version 2 a transactional writer needs `version_max=11`, and its
        partitions added to the transaction before they are sent to (transacting.py)."""
        if acks not in (-1, 0, 1):
            raise ValueError(f"acks={acks}: it is -1, 0 or 1")
        self.acknowledged: dict[TopicPartition, Acknowledged] = {}
        self._nodes = nodes
        self._acks = acks
        self._request_timeout_ms = request_timeout_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._transactional_id = transactional_id
        self._version_max = version_max
        self._leaders = Leaders(nodes)
        self._lanes: dict[TopicPartition, Lane] = {}
        self._busy: dict[TopicPartition, Lane] = {}  # those with batches, the longest first
        self._flights: dict[Connection, list[_Flight]] = {}
        self._unacknowledged_bytes = 0
        self._failure: BaseException | None = None

    def send(self, partition: TopicPartition, batch: Buffer, records: int) -> None:
        """Take a batch; waits while too much is under way. The batch is not copied: it must stay
        as it is until `flush`."""
        self._check()
        deadline = time.monotonic() + self._delivery_timeout_ms / 1000
        lane = self._lanes.setdefault(partition, Lane(partition))
        ready = Batch(memoryview(batch).cast("B"), records, deadline)
        lane.waiting.append(ready)
        self._busy[partition] = lane
        self._unacknowledged_bytes += len(ready.data)
        self._work(0)
        while self._unacknowledged_bytes > UNACKNOWLEDGED_BYTES_MAX:
            self._work(None)

    def flush(self) -> None:
        """Wait until everything is acknowledged; raises what went wrong, also earlier."""
        self._check()
        while self._busy:
            self._work(None)
        if self._acks == 0:
            self._ask_for_news()

    # -- one round of work

    def _work(self, wait_ms: float | None) -> None:
        """Send what may be sent, take what has come; None waits until something happens."""
        try:
            now = time.monotonic()
            self._expire(now)
            self._route(now)
            self._begin_requests(now)
            self._receive(wait_ms)
        except Exception as problem:
            self._failure = problem
            raise

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _expire(self, now: float) -> None:
        for lane in self._busy.values():
            if lane.oldest.deadline <= now:
                raise DeliveryTimedOut(
                    lane.partition, lane.records, self._delivery_timeout_ms, lane.reason
                )

    def _route(self, now: float) -> None:
        """Find a leader for those who have none and may try again."""
        lost = [
            each for each in self._busy.values() if each.leader is None and each.rests_until <= now
        ]
        if not lost:
            return
        try:
            self._leaders.refresh(each.partition.topic for each in lost)
        except NotAuthenticated:
            raise
        except CannotReach as problem:
            for lane in lost:
                lane.stumbled(str(problem), now)
            return
        for lane in lost:
            found = self._leaders.find(lane.partition)
            if isinstance(found, Leader):
                lane.leader = found
            else:
                self._check_refusal(lane, lane.oldest, found, now)
                lane.stumbled(found.message, now)

    def _begin_requests(self, now: float) -> None:
        by_leader: dict[int, list[Lane]] = {}
        for lane in self._busy.values():
            if lane.leader is not None and lane.waiting:
                by_leader.setdefault(lane.leader.node_id, []).append(lane)
        for node_id, lanes in by_leader.items():
            try:
                connection = self._nodes.node(node_id)
                while len(self._flights.get(connection, ())) < IN_FLIGHT_MAX:
                    if not self._begin_request(connection, lanes, now):
                        break
            except NotAuthenticated:
                raise
            except (CannotReach, BrokerNotAvailable) as problem:
                for lane in lanes:
                    if not lane.sent:
                        lane.stumbled(str(problem), now)

    def _begin_request(self, connection: Connection, lanes: list[Lane], now: float) -> bool:
        """One batch of each lane that may send, as many as fit; false if there are none."""
        chosen: list[Lane] = []
        size = 0
        for lane in lanes:
            if lane.may_send(connection, now):
                size += len(lane.waiting[0].data)
                if chosen and size > REQUEST_BYTES_MAX:
                    break
                chosen.append(lane)
        if not chosen:
            return False
        batches = [(lane, lane.send(connection)) for lane in chosen]
        version = self._version(connection, chosen)
        topics: dict[str, dict[int, Buffer]] = {}
        for lane, batch in batches:
            topics.setdefault(lane.partition.topic, {})[lane.partition.partition] = batch.data
        ids = {name: self._leaders.topic_id(name) for name in topics}
        body = produce_parts(
            version,
            self._transactional_id,
            self._acks,
            self._request_timeout_ms,
            [TopicBatches(name, ids[name], parts) for name, parts in topics.items()],
        )
        try:
            if self._acks == 0:
                connection.tell_parts(PRODUCE_KEY, version, body)
                self._flights.setdefault(connection, [])
                for lane, batch in batches:
                    self._store(lane, batch, NO_OFFSET)
                return True
            pending = connection.begin_parts(PRODUCE_KEY, version, body)
        except CannotReach as problem:
            self._lose(connection, str(problem), batches)
            return True
        deadline = now + (self._request_timeout_ms + ANSWER_GRACE_MS) / 1000
        names = {topic_id: name for name, topic_id in ids.items()}
        self._flights.setdefault(connection, []).append(
            _Flight(connection, pending, deadline, names, batches)
        )
        return True

    def _version(self, connection: Connection, lanes: Iterable[Lane]) -> int:
        version = connection.version_for(ProduceRequest())
        if self._version_max is not None:
            version = min(version, self._version_max)
        if any(self._leaders.topic_id(lane.partition.topic) == ZERO_ID for lane in lanes):
            version = min(version, TOPIC_IDS - 1)
        return version

    # -- answers

    def _receive(self, wait_ms: float | None) -> None:
        flying = [each for each, flights in self._flights.items() if flights]
        if not flying and wait_ms == 0:
            return
        if wait_ms is None:
            wait_ms = self._wait_ms()
        if not flying:
            time.sleep(wait_ms / 1000)
            return
        ready = [each for each in flying if self._flights[each][0].pending.answered]
        if not ready:
            links = {each.link: each for each in flying}
            ready = [links[link] for link in wait_for_any(list(links), wait_ms)]
        for connection in ready:
            self._take_answers(connection)
        now = time.monotonic()
        for connection in flying:
            flights = self._flights.get(connection)
            if flights and flights[0].deadline <= now:
                self._lose(connection, f"{connection} did not answer Produce in time", [])

    def _wait_ms(self) -> float:
        """Until the next thing that has to be done without an answer."""
        now = time.monotonic()
        times = [flights[0].deadline for flights in self._flights.values() if flights]
        for lane in self._busy.values():
            times.append(lane.oldest.deadline)
            if lane.rests_until > now:
                times.append(lane.rests_until)
        return max(0.0, min(times) - now) * 1000

    def _take_answers(self, connection: Connection) -> None:
        """The first answer, and those that came with it."""
        flights = self._flights[connection]
        while flights:
            flight = flights[0]
            try:
                answer = connection.finish(flight.pending, ProduceResponse)
            except NotAuthenticated:
                raise
            except CannotReach as problem:
                self._lose(connection, str(problem), [])
                return
            flights.pop(0)
            self._take(flight, answer)
            if not flights or not (
                flights[0].pending.answered or wait_for_any([connection.link], 0)
            ):
                return

    def _take(self, flight: _Flight, answer: ProduceResponse) -> None:
        told = {
            TopicPartition(topic.name or flight.names.get(topic.topic_id, ""), part.index): part
            for topic in answer.responses
            for part in topic.partition_responses
        }
        now = time.monotonic()
        for lane, batch in flight.batches:
            part = told.get(lane.partition)
            if part is None:
                lane.failed(batch, f"{flight.connection} did not answer for it", now)
            elif part.error_code in (0, DuplicateSequenceNumber.code):
                self._store(lane, batch, part.base_offset if not part.error_code else NO_OFFSET)
                lane.settle(now)
            else:
                error = _error_of(part)
                self._check_refusal(lane, batch, error, now)
                lane.failed(batch, f"{error.kafka_name()}, {error.message}", now)

    def _store(self, lane: Lane, batch: Batch, base_offset: int) -> None:
        lane.acknowledged(batch)
        self._unacknowledged_bytes -= len(batch.data)
        before = self.acknowledged.get(lane.partition, Acknowledged(0, 0, NO_OFFSET))
        last = base_offset + batch.records - 1 if base_offset >= 0 else NO_OFFSET
        self.acknowledged[lane.partition] = Acknowledged(
            before.records + batch.records, before.batches + 1, max(before.last_offset, last)
        )
        if lane.idle:
            del self._busy[lane.partition]

    def _lose(self, connection: Connection, reason: str, unsent: list[tuple[Lane, Batch]]) -> None:
        """A connection is gone: whatever was under way on it has to be sent again."""
        connection.close()
        now = time.monotonic()
        flights = self._flights.pop(connection, [])
        lost = [pair for flight in flights for pair in flight.batches] + unsent
        for lane, batch in lost:
            lane.failed(batch, reason, now)

    def _check_refusal(self, lane: Lane, batch: Batch, error: KafkaError, now: float) -> None:
        """Raises what cannot be tried again."""
        partition, records = lane.partition, lane.records
        match error:
            case OutOfOrderSequenceNumber():
                self._check_order(lane, batch, error)
            case InvalidProducerEpoch() | ProducerFenced():
                raise ProducerReplaced(partition, records, error)
            case MessageTooLarge() | RecordListTooLarge():
                raise BatchTooLarge(partition, records, error, len(batch.data))
            case TopicAuthorizationFailed():
                raise NotAuthorized(partition, "write", error)
            case _ if is_absence(error):
                lane.missing_since = now if lane.missing_since is None else lane.missing_since
                if (now - lane.missing_since) * 1000 >= MISSING_MS_MAX:
                    raise self._leaders.absence(partition)
            case UnknownServerError():
                pass  # the server does not know either; the delivery timeout bounds it
            case _ if not error.retriable:
                raise WriteRefused(partition, records, error)

    def _check_order(self, lane: Lane, batch: Batch, error: KafkaError) -> None:
        """Out of order behind a batch that failed is what has to happen, and heals with it. A
        batch that follows acknowledged ones is sent once more, to a leader found anew; if it is
        still out of order, the partition has lost what it had acknowledged."""
        if lane.comes_after_a_failure(batch):
            return
        if lane.out_of_order:
            raise SequenceBroken(lane.partition, lane.records, error)
        lane.out_of_order = True

    def _ask_for_news(self) -> None:
        """With acks=0 nothing is answered, but a server takes one request after the other and
        closes the connection on which it could not store a batch."""
        for connection in self._flights:
            try:
                connection.request(ApiVersionsRequest(), ApiVersionsResponse, 0)
            except CannotReach as problem:
                self._refuse_unknown(problem)

    def _refuse_unknown(self, problem: CannotReach) -> NoReturn:
        self._failure = CannotReach(
            f"some batches sent with acks=0 may not be stored: {problem}; acks=all tells which"
        )
        raise self._failure from problem


def _error_of(part: PartitionProduceResponse) -> KafkaError:
    details = [each.batch_index_error_message for each in part.record_errors]
    text = part.error_message or next(filter(None, details), None)
    return from_code(part.error_code, text)
