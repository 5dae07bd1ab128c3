"""Clients in a simulation: producers, consumers and an admin that speak the wire protocol.

They are callbacks on their own SimWorld. The answers they receive go into ClientObservations, which
the checks of a simulation read.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from penstock.testing.sim.world import Simulation, SimWorld
from penstock.wire.apis import response_class
from penstock.wire.batch import (
    LENGTH,
    LENGTH_OVERHEAD,
    Record,
    batch_headers,
    build_batch,
    read_records,
)
from penstock.wire.codec import read
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages import (
    k00_produce,
    k01_fetch,
    k03_metadata,
    k19_create_topics,
    k20_delete_topics,
    k22_init_producer_id,
)
from penstock.world import Peer

PRODUCE, FETCH, METADATA, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 0, 1, 3, 19, 20, 22
METADATA_VERSION = 12
IN_FLIGHT_MAX = 5
RETRY_MS = (5.0, 60.0)
PRODUCE_VERSIONS = (3, 7, 8, 9, 11, 12, 13)
FETCH_VERSIONS = (6, 7, 11, 12, 13, 15, 17)
OFFSET_OUT_OF_RANGE, OUT_OF_ORDER_SEQUENCE, DUPLICATE_SEQUENCE, UNKNOWN_PRODUCER = 1, 45, 46, 59
TOPIC_EXISTS, UNKNOWN_TOPIC = 36, 3
RETRIABLE = (UNKNOWN_TOPIC, 6, 7, OUT_OF_ORDER_SEQUENCE, 56, UNKNOWN_PRODUCER, 100)
SESSION_ERRORS = (70, 71, 106)
_SIZE = Struct(">i")

Place = tuple[str, int]
Reply = Callable[[Any], None]  # the response, or None if the connection broke first


class Acked(NamedTuple):
    """A record whose storage was acknowledged to a producer."""

    place: Place
    offset: int  # -1: a duplicate without a known offset
    value: bytes
    acks: int


class ClientObservations:
    """The answers that the clients of a simulation received."""

    def __init__(self) -> None:
        self.acked: list[Acked] = []
        self.seen: dict[Place, dict[int, bytes]] = {}
        self.created: dict[str, tuple[bytes, int]] = {}  # topic id and partitions, as answered
        self.deleted: dict[bytes, str] = {}
        self.uncertain: set[str] = set()  # topics with an unanswered request
        self.violations: list[str] = []

    def saw(self, place: Place, offset: int, value: bytes) -> None:
        before = self.seen.setdefault(place, {}).setdefault(offset, value)
        if before != value:
            self.violations.append(f"{place} offset {offset} was {before!r}, became {value!r}")


class SimConnection:
    """One connection of a client (world.Receiver): requests out, replies matched in order."""

    def __init__(self, client_id: str, peer: Peer, lost: Callable[[], None]) -> None:
        self.room: memoryview | None = None
        self.peer = peer
        self._client_id = client_id
        self._lost = lost
        self._bytes = bytearray()
        self._waiting: deque[tuple[int, int, int, Reply]] = deque()
        self._correlation_id = 0

    def request(self, key: int, version: int, message: object, reply: Reply | None) -> None:
        """Send a request; without `reply` no response is expected (acks=0)."""
        self._correlation_id += 1
        if reply is not None:
            self._waiting.append((key, version, self._correlation_id, reply))
        frame = request_frame(key, version, self._correlation_id, self._client_id, message)
        self.peer.send([frame])

    def filled(self, size: int) -> None:
        raise AssertionError(f"a link offers no room for {size} bytes")

    def received(self, data: memoryview) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            size = _SIZE.unpack_from(self._bytes)[0]
            if len(self._bytes) < 4 + size:
                return
            frame = bytes(self._bytes[4 : 4 + size])
            del self._bytes[: 4 + size]
            key, version, correlation_id, reply = self._waiting.popleft()
            answered, position = parse_response_header(key, version, frame)
            assert answered == correlation_id, "replies leave in request order"
            reply(read(response_class(key), version, frame, position))

    def sent(self) -> None:
        pass

    def closed(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._lost()
        for _key, _version, _correlation_id, reply in waiting:
            reply(None)


class SimClient(ABC):
    """Keeps one connection to a node open; subclasses use it."""

    def __init__(self, simulation: Simulation, name: str, node: tuple[str, int]) -> None:
        self.world = SimWorld(simulation, name)
        self.name = name
        self.chance = simulation.chance
        self.link: SimConnection | None = None
        self.stopped = False
        self._node = node

    def start(self) -> None:
        self.world.network.connect(*self._node, self._opened, self._failed)

    def stop(self) -> None:
        """Send no more requests."""
        self.stopped = True

    def after(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Call later, if this connection (or the lack of one) still holds then."""
        link = self.link

        def due() -> None:
            if self.link is link:
                call()

        self.world.timers.at(self.world.clock.mono_ms() + delay_ms, due)

    def retry_later(self, call: Callable[[], None]) -> None:
        self.after(self.chance.uniform(*RETRY_MS), call)

    def stop_reading(self, duration_ms: float) -> None:
        """Leave the replies unread for a while."""
        link = self.link
        if link is not None:
            link.peer.pause()
            self.world.timers.at(self.world.clock.mono_ms() + duration_ms, link.peer.resume)

    def _opened(self, peer: Peer) -> SimConnection:
        self.link = SimConnection(self.name, peer, self._lost)
        if self.stopped:
            peer.close()
        else:
            self.after(0.0, self.connected)
        return self.link

    def _failed(self, _reason: str) -> None:
        if not self.stopped:
            self.retry_later(self.start)

    def _lost(self) -> None:
        self.link = None
        if not self.stopped:
            self.retry_later(self.start)

    @abstractmethod
    def connected(self) -> None:
        """Handle a new connection."""

    def request(self, key: int, version: int, message: object, reply: Reply) -> None:
        if self.link is None:
            reply(None)
        else:
            self.link.request(key, version, message, reply)

    def find_topic(self, topic: str, found: Callable[[bytes, int], None]) -> None:
        """Ask until the topic exists; then call with its id and its number of partitions."""

        def answered(response: k03_metadata.MetadataResponse | None) -> None:
            if response is None:
                return  # the next connection asks again
            one = response.topics[0]
            unled = any(each.error_code for each in one.partitions)
            if one.error_code or unled or not one.partitions:
                self.retry_later(ask)
            else:
                found(one.topic_id, len(one.partitions))

        def ask() -> None:
            wanted = k03_metadata.MetadataRequestTopic(name=topic)
            message = k03_metadata.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
            if not self.stopped and self.link is not None:
                self.link.request(METADATA, METADATA_VERSION, message, answered)

        ask()


class _PendingBatch:
    """Records of one partition that are sent together, repeatedly if necessary."""

    __slots__ = ("partition", "sent", "sequence", "values")

    def __init__(self, partition: int, sequence: int, values: list[bytes]) -> None:
        self.partition = partition
        self.sequence = sequence
        self.values = values
        self.sent = False


class SimProducer(SimClient):
    """Sends numbered records. An idempotent one resends until acknowledged; a plain one sends each
    record once."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        node: tuple[str, int],
        ledger: ClientObservations,
        topic: str,
        *,
        idempotent: bool,
        acks: int = -1,
        batches: int = 40,
    ) -> None:
        super().__init__(simulation, name, node)
        self._ledger = ledger
        self._topic = topic
        self._idempotent = idempotent
        self._acks = acks
        self._version = self.chance.choice(PRODUCE_VERSIONS)
        self._topic_id = bytes(16)
        self._producer_id = -1
        self._left = batches
        self._queues: dict[int, deque[_PendingBatch]] = {}
        self._next: dict[int, int] = {}  # the number of each partition's next record
        self._in_flight = 0
        self._draining = False  # after a failure: resend everything once nothing is in flight
        self._held = False
        self._pump_due: SimConnection | None = None
        self._connections = 0

    @property
    def settled(self) -> bool:
        """Return whether every sent record is acknowledged."""
        return not any(self._queues.values())

    @property
    def finished(self) -> bool:
        return self._left == 0 and self.settled

    def hold(self, held: bool) -> None:
        """Make no new records for now; pending ones are still sent."""
        self._held = held

    def connected(self) -> None:
        self._connections += 1
        if not self.stopped:
            self.find_topic(self._topic, self._found)

    def _found(self, topic_id: bytes, partitions: int) -> None:
        self._topic_id = topic_id
        for partition in range(partitions):
            self._queues.setdefault(partition, deque())
        if self._idempotent and self._producer_id < 0:
            message = k22_init_producer_id.InitProducerIdRequest(transactional_id=None)
            self.request(INIT_PRODUCER_ID, 4, message, self._identified)
        else:
            self._pump()

    def _identified(self, response: k22_init_producer_id.InitProducerIdResponse | None) -> None:
        if response is None:
            return
        if response.error_code:
            self.retry_later(self.connected)
            return
        self._producer_id = response.producer_id
        self._pump()

    # -- sending

    def _pump(self) -> None:
        """Send the batches that may be sent; schedule the next call."""
        if self.stopped or self.link is None or self.finished:
            return
        if self._draining and not self._in_flight:
            self._draining = False
            for queue in self._queues.values():
                for batch in queue:
                    batch.sent = False
        while not self._draining and self._in_flight < IN_FLIGHT_MAX:
            batches = self._choose()
            if not batches:
                self._pump_later((1.0, 30.0))
                return
            self._send(batches)

    def _pump_later(self, delays_ms: tuple[float, ...]) -> None:
        """Schedule one call at a time per connection."""

        def due() -> None:
            self._pump_due = None
            self._pump()

        if self._pump_due is not self.link:
            self._pump_due = self.link
            self.after(self.chance.choice(delays_ms), due)

    def _choose(self) -> list[_PendingBatch]:
        """Choose one batch each of one or several partitions: pending ones before new ones."""
        waiting = [
            first
            for queue in self._queues.values()
            if (first := next((each for each in queue if not each.sent), None)) is not None
        ]
        if not waiting and self._left and not self._held and self.chance.random() < 0.7:
            self._left -= 1
            waiting = [self._make(self.chance.randrange(len(self._queues)))]
        if len(waiting) > 1 and self.chance.random() < 0.5:
            return [self.chance.choice(waiting)]
        return waiting

    def _make(self, partition: int) -> _PendingBatch:
        first = self._next.get(partition, 0)
        count = self.chance.choice((1, 1, 2, 5))
        size = self.chance.choice((0, 10, 10, 200, 200, 2_000, 2_000, 30_000))
        padding = b"." * self.chance.randint(0, size)
        # Only sequence numbers keep the order of a producer over two connections.
        name = self.name if self._idempotent else f"{self.name}/{self._connections}"
        values = [
            b"%s:%d:%d:%s" % (name.encode(), partition, number, padding)
            for number in range(first, first + count)
        ]
        self._next[partition] = first + count
        batch = _PendingBatch(partition, first, values)
        self._queues[partition].append(batch)
        return batch

    def _send(self, batches: Sequence[_PendingBatch]) -> None:
        topic = k00_produce.TopicProduceData(name=self._topic, topic_id=self._topic_id)
        for batch in batches:
            batch.sent = True
            topic.partition_data.append(
                k00_produce.PartitionProduceData(index=batch.partition, records=self._bytes(batch))
            )
        message = k00_produce.ProduceRequest(acks=self._acks, timeout_ms=30_000)
        message.topic_data.append(topic)
        self._in_flight += 1
        self.request(
            PRODUCE, self._version, message, lambda response: self._heard(batches, response)
        )

    def _bytes(self, batch: _PendingBatch) -> bytes:
        now_ms = self.world.clock.wall_ms()
        return build_batch(
            [Record(offset, now_ms, None, value) for offset, value in enumerate(batch.values)],
            producer_id=self._producer_id if self._idempotent else -1,
            producer_epoch=0 if self._idempotent else -1,
            base_sequence=batch.sequence if self._idempotent else -1,
        )

    # -- replies

    def _heard(
        self, batches: Sequence[_PendingBatch], response: k00_produce.ProduceResponse | None
    ) -> None:
        self._in_flight -= 1
        answers: dict[int, k00_produce.PartitionProduceResponse] = {}
        if response is not None:
            for topic in response.responses:
                answers.update({each.index: each for each in topic.partition_responses})
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is not None and answer.error_code in (0, DUPLICATE_SEQUENCE):
                self._stored(batch, answer.base_offset)
            elif self._idempotent:
                self._failed_once(batch, answer)
            else:
                self._queues[batch.partition].remove(batch)
        if response is not None:
            self._pump_later((0.0, 0.0, 3.0))

    def _stored(self, batch: _PendingBatch, base_offset: int) -> None:
        queue = self._queues[batch.partition]
        place = (self._topic, batch.partition)
        if batch not in queue:
            return  # acknowledged for the second time
        if self._idempotent and queue[0] is not batch:
            self._ledger.violations.append(f"{self.name}: {place} acknowledged out of order")
        queue.remove(batch)
        for delta, value in enumerate(batch.values):
            offset = base_offset + delta if base_offset >= 0 else -1
            self._ledger.acked.append(Acked(place, offset, value, self._acks))

    def _failed_once(
        self, batch: _PendingBatch, answer: k00_produce.PartitionProduceResponse | None
    ) -> None:
        """Resend the batch and all later ones."""
        queue = self._queues[batch.partition]
        if answer is not None:
            code = answer.error_code
            if code not in RETRIABLE:
                raise AssertionError(f"{self.name}: error {code}: {answer.error_message}")
            gap = code in (OUT_OF_ORDER_SEQUENCE, UNKNOWN_PRODUCER)
            if gap and queue and queue[0] is batch:
                self._ledger.violations.append(
                    f"{self.name}: partition {batch.partition} forgot what was acknowledged:"
                    f" error {code} for sequence {batch.sequence}"
                )
        self._draining = True


class SimConsumer(SimClient):
    """Reads all partitions of a topic from their start, with sessions if the version has them."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        node: tuple[str, int],
        ledger: ClientObservations,
        topic: str,
    ) -> None:
        super().__init__(simulation, name, node)
        self._ledger = ledger
        self._topic = topic
        self._version = self.chance.choice(FETCH_VERSIONS)
        self._topic_id = bytes(16)
        self._positions: dict[int, int] = {}
        self._session_positions: dict[int, int] = {}  # the positions in the session
        self._session = (0, 0)
        self.high_watermarks: dict[int, int] = {}

    @property
    def positions(self) -> dict[int, int]:
        return self._positions

    def connected(self) -> None:
        if not self.stopped:
            self.find_topic(self._topic, self._found)

    def _found(self, topic_id: bytes, partitions: int) -> None:
        self._topic_id = topic_id
        for partition in range(partitions):
            self._positions.setdefault(partition, 0)
        self._session = (0, 0)
        self._fetch()

    def _fetch(self) -> None:
        if self.stopped or self.link is None:
            return
        if self._version < 7 or self.chance.random() < 0.03:
            self._session = (0, -1)  # one request without a session
        elif self._session[1] < 0:
            self._session = (0, 0)
        session_id, epoch = self._session
        if epoch <= 0:
            self._session_positions = {}
        topic = k01_fetch.FetchTopic(topic=self._topic, topic_id=self._topic_id)
        for partition, offset in self._positions.items():
            if self._session_positions.get(partition) != offset:
                self._session_positions[partition] = offset
                topic.partitions.append(
                    k01_fetch.FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=self.chance.choice((1, 1_000, 1 << 20)),
                    )
                )
        message = k01_fetch.FetchRequest(
            max_wait_ms=self.chance.choice((0, 50, 500)),
            min_bytes=self.chance.choice((0, 1, 1, 5_000)),
            max_bytes=self.chance.choice((1_000, 1 << 20, 50 << 20)),
            session_id=session_id,
            session_epoch=epoch,
            topics=[topic] if topic.partitions else [],
        )
        self.link.request(FETCH, self._version, message, self._fetched)

    def _fetched(self, response: k01_fetch.FetchResponse | None) -> None:
        if response is None:
            return
        epoch = self._session[1]
        if response.error_code:
            if response.error_code not in SESSION_ERRORS:
                self._ledger.violations.append(f"{self.name}: fetch error {response.error_code}")
            self._session = (0, 0)
            self.retry_later(self._fetch)
            return
        self._session = (response.session_id, epoch + 1) if response.session_id else (0, -1)
        failed = False
        for topic in response.responses:
            for data in topic.partitions:
                failed = failed or bool(data.error_code)
                self._take(data)
        if failed:
            self._session = (0, 0)
            self.retry_later(self.connected)
        else:
            self.after(self.chance.choice((0.0, 0.0, 5.0)), self._fetch)

    def _take(self, data: k01_fetch.PartitionData) -> None:
        partition = data.partition_index
        place = (self._topic, partition)
        if data.error_code:
            if data.error_code == OFFSET_OUT_OF_RANGE:
                at = self._positions[partition]
                self._ledger.violations.append(f"{self.name}: {place} went back behind {at}")
            return
        self.high_watermarks[partition] = data.high_watermark
        records = data.records or b""
        for position, header in batch_headers(records):
            batch = memoryview(records)[position : position + LENGTH_OVERHEAD + header[LENGTH]]
            for record in read_records(batch):
                self._take_record(place, record, data.high_watermark)

    def _take_record(self, place: Place, record: Record, high_watermark: int) -> None:
        due = self._positions[place[1]]
        if record.offset < due:
            return  # the batch begins before the requested offset
        if record.offset > due:
            self._ledger.violations.append(f"{self.name}: {place} {due} is missing")
        if record.offset >= high_watermark:
            self._ledger.violations.append(f"{self.name}: {place} {record.offset} is uncommitted")
        self._positions[place[1]] = record.offset + 1
        self._ledger.saw(place, record.offset, record.value or b"")


class SimAdmin(SimClient):
    """Creates topics, and deletes some again."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        node: tuple[str, int],
        ledger: ClientObservations,
        lasting: Sequence[tuple[str, int]],
        *,
        passing: int = 5,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a client that creates the `lasting` topics first, each with its number of
        partitions. Then `passing` steps create or delete other topics under few names. New topics
        get `configs`."""
        super().__init__(simulation, name, node)
        self._ledger = ledger
        self._lasting = deque(lasting)
        self._left = passing
        self._configs = configs or {}

    @property
    def finished(self) -> bool:
        return not self._lasting and not self._left

    def connected(self) -> None:
        if self.stopped or self.finished or self.link is None:
            return
        if self._lasting:
            self._create(*self._lasting[0])
            return
        self._left -= 1
        name = f"passing-{self.chance.randrange(3)}"
        if name in self._ledger.created and self.chance.random() < 0.6:
            self._delete(name)
        else:
            self._create(name, self.chance.randint(1, 4))

    def _again(self) -> None:
        self.after(self.chance.uniform(0.0, 100.0), self.connected)

    def _create(self, name: str, partitions: int) -> None:
        def answered(response: k19_create_topics.CreateTopicsResponse | None) -> None:
            if response is None:
                return
            one = response.topics[0]
            if one.error_code == 0:
                self._ledger.created[name] = (one.topic_id, partitions)
                self._ledger.uncertain.discard(name)
            if one.error_code in (0, TOPIC_EXISTS) and self._lasting:
                self._lasting.popleft()
            elif one.error_code not in (0, TOPIC_EXISTS):
                self._ledger.violations.append(f"creating {name}: error {one.error_code}")
            self._again()

        topic = k19_create_topics.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1
        )
        topic.configs = [
            k19_create_topics.CreatableTopicConfig(name=key, value=value)
            for key, value in self._configs.items()
        ]
        self._ledger.uncertain.add(name)
        message = k19_create_topics.CreateTopicsRequest(topics=[topic])
        self.request(CREATE_TOPICS, 7, message, answered)

    def _delete(self, name: str) -> None:
        def answered(response: k20_delete_topics.DeleteTopicsResponse | None) -> None:
            if response is None:
                return
            one = response.responses[0]
            if one.error_code == 0:
                self._ledger.uncertain.discard(name)
                gone = self._ledger.created.pop(name, None)
                self._ledger.deleted[gone[0] if gone else one.topic_id] = name
            elif one.error_code != UNKNOWN_TOPIC:
                self._ledger.violations.append(f"deleting {name}: error {one.error_code}")
            self._again()

        self._ledger.uncertain.add(name)
        state = k20_delete_topics.DeleteTopicState(name=name)
        message = k20_delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=30_000)
        self.request(DELETE_TOPICS, 6, message, answered)
