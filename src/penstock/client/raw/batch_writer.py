"""Sends ready record batches to the leaders of their partitions until they are acknowledged.

Promises, per partition: batches are stored in the order of `send`. Batches with a producer id and
sequence numbers are stored exactly once, across lost connections and new leaders; others at least
once. After `delivery_timeout_ms`, or after a final rejection, the writer has failed, raises
an exception of outcomes.py and takes no more batches.

One thread: responses are read in `send` and `flush` alone.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from penstock.client.cluster.nodes import Nodes
from penstock.client.raw.leaders import KnownLeader, Leaders, is_absence
from penstock.client.raw.outcomes import (
    BatchTooLarge,
    DeliveryTimedOut,
    NotAuthorized,
    ProducerReplaced,
    SequenceBroken,
    WriteRefused,
)
from penstock.client.raw.partition_queue import IN_FLIGHT_MAX, PartitionQueue, QueuedBatch
from penstock.client.raw.produce_parts import PRODUCE_KEY, TOPIC_IDS, TopicBatches, produce_parts
from penstock.client.transport.connection import (
    CannotReach,
    Connection,
    NotAuthenticated,
    PendingResponse,
)
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
ANSWER_GRACE_MS = 5_000  # a server reports its own timeout
MISSING_MS_MAX = 10_000  # a topic that no server knows: its metadata may be on the way
NO_OFFSET = -1


class Acknowledged(NamedTuple):
    """The offset of a stored batch; -1 if the server did not tell."""

    records: int
    batches: int
    last_offset: int


class _Flight(NamedTuple):
    """A Produce request in flight."""

    connection: Connection
    pending: PendingResponse
    deadline: float
    names: dict[bytes, str]
    batches: list[tuple[PartitionQueue, QueuedBatch]]


class BatchWriter:
    """Sends ready record batches to their leaders: in order per partition, at most five requests in
    flight per connection, retried where a retry is safe."""

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
        """Configure a writer.

        Below transaction version 2 a transactional writer needs `version_max=11`, and its
        partitions added to the transaction beforehand (transactions.py).
        """
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
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[
            TopicPartition, PartitionQueue
        ] = {}  # the partitions with batches; the longest wait first
        self._flights: dict[Connection, list[_Flight]] = {}
        self._unacknowledged_bytes = 0
        self._failure: BaseException | None = None

    def send(self, partition: TopicPartition, batch: Buffer, records: int) -> None:
        """Take a batch; wait while too many bytes are in flight. `data` is not copied and must not
        change before `flush`."""
        self._check()
        deadline = time.monotonic() + self._delivery_timeout_ms / 1000
        queue = self._queues.setdefault(partition, PartitionQueue(partition))
        ready = QueuedBatch(memoryview(batch).cast("B"), records, deadline)
        queue.waiting.append(ready)
        self._busy[partition] = queue
        self._unacknowledged_bytes += len(ready.data)
        self._work(0)
        while self._unacknowledged_bytes > UNACKNOWLEDGED_BYTES_MAX:
            self._work(None)

    def flush(self) -> None:
        """Wait until every batch is acknowledged. Raise the first failure, earlier ones
        included."""
        self._check()
        while self._busy:
            self._work(None)
        if self._acks == 0:
            self._ask_for_news()

    # -- one round of work

    def _work(self, wait_ms: float | None) -> None:
        """Send ready batches and read responses. None waits for the next event."""
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
        for queue in self._busy.values():
            if queue.oldest.deadline <= now:
                raise DeliveryTimedOut(
                    queue.partition, queue.records, self._delivery_timeout_ms, queue.reason
                )

    def _route(self, now: float) -> None:
        """Find leaders for partitions without one whose pause is over."""
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
            for queue in lost:
                queue.stumbled(str(problem), now)
            return
        for queue in lost:
            found = self._leaders.find(queue.partition)
            if isinstance(found, KnownLeader):
                queue.leader = found
            else:
                self._check_refusal(queue, queue.oldest, found, now)
                queue.stumbled(found.message, now)

    def _begin_requests(self, now: float) -> None:
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in self._busy.values():
            if queue.leader is not None and queue.waiting:
                by_leader.setdefault(queue.leader.node_id, []).append(queue)
        for node_id, queues in by_leader.items():
            try:
                connection = self._nodes.node(node_id)
                while len(self._flights.get(connection, ())) < IN_FLIGHT_MAX:
                    if not self._begin_request(connection, queues, now):
                        break
            except NotAuthenticated:
                raise
            except (CannotReach, BrokerNotAvailable) as problem:
                for queue in queues:
                    if not queue.sent:
                        queue.stumbled(str(problem), now)

    def _begin_request(
        self, connection: Connection, queues: list[PartitionQueue], now: float
    ) -> bool:
        """Send one batch of each queue that may send, as many as fit. Return whether there was
        one."""
        chosen: list[PartitionQueue] = []
        size = 0
        for queue in queues:
            if queue.may_send(connection, now):
                size += len(queue.waiting[0].data)
                if chosen and size > REQUEST_BYTES_MAX:
                    break
                chosen.append(queue)
        if not chosen:
            return False
        batches = [(queue, queue.send(connection)) for queue in chosen]
        version = self._version(connection, chosen)
        topics: dict[str, dict[int, Buffer]] = {}
        for queue, batch in batches:
            topics.setdefault(queue.partition.topic, {})[queue.partition.partition] = batch.data
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
                for queue, batch in batches:
                    self._store(queue, batch, NO_OFFSET)
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

    def _version(self, connection: Connection, queues: Iterable[PartitionQueue]) -> int:
        version = connection.version_for(ProduceRequest())
        if self._version_max is not None:
            version = min(version, self._version_max)
        if any(self._leaders.topic_id(queue.partition.topic) == ZERO_ID for queue in queues):
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
        """Return the time until the next action that needs no response."""
        now = time.monotonic()
        times = [flights[0].deadline for flights in self._flights.values() if flights]
        for queue in self._busy.values():
            times.append(queue.oldest.deadline)
            if queue.rests_until > now:
                times.append(queue.rests_until)
        return max(0.0, min(times) - now) * 1000

    def _take_answers(self, connection: Connection) -> None:
        """Take the first response, and those that came with it."""
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
        for queue, batch in flight.batches:
            part = told.get(queue.partition)
            if part is None:
                queue.failed(batch, f"{flight.connection} did not answer for it", now)
            elif part.error_code in (0, DuplicateSequenceNumber.code):
                self._store(queue, batch, part.base_offset if not part.error_code else NO_OFFSET)
                queue.settle(now)
            else:
                error = _error_of(part)
                self._check_refusal(queue, batch, error, now)
                queue.failed(batch, f"{error.kafka_name()}, {error.message}", now)

    def _store(self, queue: PartitionQueue, batch: QueuedBatch, base_offset: int) -> None:
        queue.acknowledged(batch)
        self._unacknowledged_bytes -= len(batch.data)
        before = self.acknowledged.get(queue.partition, Acknowledged(0, 0, NO_OFFSET))
        last = base_offset + batch.records - 1 if base_offset >= 0 else NO_OFFSET
        self.acknowledged[queue.partition] = Acknowledged(
            before.records + batch.records, before.batches + 1, max(before.last_offset, last)
        )
        if queue.idle:
            del self._busy[queue.partition]

    def _lose(
        self,
        connection: Connection,
        reason: str,
        unsent: list[tuple[PartitionQueue, QueuedBatch]],
    ) -> None:
        """Send the batches in flight on a lost connection again."""
        connection.close()
        now = time.monotonic()
        flights = self._flights.pop(connection, [])
        lost = [pair for flight in flights for pair in flight.batches] + unsent
        for queue, batch in lost:
            queue.failed(batch, reason, now)

    def _check_refusal(
        self, queue: PartitionQueue, batch: QueuedBatch, error: KafkaError, now: float
    ) -> None:
        """Raise a final rejection."""
        partition, records = queue.partition, queue.records
        match error:
            case OutOfOrderSequenceNumber():
                self._check_order(queue, batch, error)
            case InvalidProducerEpoch() | ProducerFenced():
                raise ProducerReplaced(partition, records, error)
            case MessageTooLarge() | RecordListTooLarge():
                raise BatchTooLarge(partition, records, error, len(batch.data))
            case TopicAuthorizationFailed():
                raise NotAuthorized(partition, "write", error)
            case _ if is_absence(error):
                queue.missing_since = now if queue.missing_since is None else queue.missing_since
                if (now - queue.missing_since) * 1000 >= MISSING_MS_MAX:
                    raise self._leaders.absence(partition)
            case UnknownServerError():
                pass  # the server does not know either; the delivery timeout is the limit
            case _ if not error.retriable:
                raise WriteRefused(partition, records, error)

    def _check_order(self, queue: PartitionQueue, batch: QueuedBatch, error: KafkaError) -> None:
        """Check a batch out of order.

        Behind a failed batch that is expected. Behind acknowledged batches, the batch is sent once
        more to a newly found leader; if it is still out of order, the partition has lost
        acknowledged batches.
        """
        if queue.comes_after_a_failure(batch):
            return
        if queue.out_of_order:
            raise SequenceBroken(queue.partition, queue.records, error)
        queue.out_of_order = True

    def _ask_for_news(self) -> None:
        """Ask the server for any response. With acks=0 there is none, but a server handles requests
        in order and closes the connection on which a batch was not stored."""
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
