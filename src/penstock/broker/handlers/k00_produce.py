"""Produce, v3-v13.  v12: partitions join the transaction by themselves (KIP-890).  v13: topic ids.

Two ways to the same answer: requests whose beginning is known (produce_memo.py) are cut up here,
all others (several topics, old versions, topics that look into the records) go through the
general codec. Nothing is written yet: batches collect in their partitions until the turn ends.
Transactional batches take the general way, and wait until their transaction knows the partition
(joining.py).
"""

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from penstock.broker.inspection import Arrived, Inspection, inspect_at_once
from penstock.broker.produce_memo import Route, Several, Ticket
from penstock.broker.request import failed
from penstock.broker.sliced_work import Slices
from penstock.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
)
from penstock.model import INTERNAL_TOPICS
from penstock.wire.batch import (
    ATTRIBUTES,
    CODEC_MASK,
    CODEC_POSITION,
    MAX_TIMESTAMP,
    TRANSACTIONAL,
    Header,
    check_produced,
)
from penstock.wire.codec import read_in_slices, run_through
from penstock.wire.compression import ZSTD
from penstock.wire.frame import parse_request_header, response_frame_in_slices
from penstock.wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.world import Buffer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.connection import Connection, Slot
    from penstock.broker.partition import Partition

FIRST_VERSION, LAST_VERSION = 3, 13
FLEXIBLE, TOPIC_IDS = 9, 13
FAST_FROM = 8  # answers from here on differ in one constant only; older ones are rare
ZSTD_FROM = 7
ACKS = (-1, 0, 1)
PRODUCE = 0
PARTITIONS_PER_SLICE = 100
_NO_TAGS = b"\0\0"  # of the topic and the request
_INT32 = Struct(">i")


class General:
    """A request that went through the codec: answered when its last partition has settled."""

    __slots__ = (
        "_left",
        "_partitions",
        "_response",
        "_since_ms",
        "acks",
        "connection",
        "correlation_id",
        "slot",
        "timeout_ms",
        "version",
    )

    def __init__(
        self, connection: "Connection", version: int, correlation_id: int, request: ProduceRequest
    ) -> None:
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.slot: Slot | None = None if request.acks == 0 else connection.take_slot()
        self._response = ProduceResponse()
        self._partitions = sum(len(topic.partition_data) for topic in request.topic_data)
        self._left = 1 + self._partitions
        self._since_ms = connection.active_at_ms
        connection.listener.broker.counts.timed_alone += 1

    def topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        response = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        self._response.responses.append(response)
        return response

    def succeeded(self, ticket: Ticket, base_offset: int, append_time_ms: int) -> None:
        partition, entry = ticket[2]
        entry.base_offset = base_offset
        entry.log_append_time_ms = append_time_ms
        entry.log_start_offset = partition.log.start_offset
        self.settled()

    def waits(self, _ticket: Ticket) -> None:
        """It is timed as a whole."""

    def waited(self, _ticket: Ticket, _since_ms: float) -> None:
        """It is timed as a whole."""

    def failed(self, ticket: Ticket, error: KafkaError) -> None:
        _partition, entry = ticket[2]
        self.refuse(entry, error)

    def refuse(self, entry: PartitionProduceResponse, error: KafkaError) -> None:
        entry.error_code = error.code
        entry.base_offset = -1
        entry.error_message = error.message
        entry.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in error.record_faults
        ]
        if self.slot is None:
            self.connection.close()
        self.settled()

    def stage(self, broker: "Broker", transactional_id: str | None, batches: list[Arrived]) -> None:
        """Hand over what may be stored; transactions may have to hear of it before."""
        transactional: list[tuple[Partition, Buffer, Header, Ticket]] = []
        for partition, arrived, header, entry in batches:
            ticket = (self, self.connection, (partition, entry), self.correlation_id)
            batch, unpacked = partition.settings.as_stored(arrived, header, broker.wall_ms)
            if unpacked[ATTRIBUTES] & TRANSACTIONAL:
                transactional.append((partition, batch, unpacked, ticket))
                continue
            partition.batches.append((batch, unpacked))
            partition.tickets.append(ticket)
            if not partition.touched:
                broker.touch_partition(partition)
        if transactional:
            broker.coordinators.joins.produce(transactional_id, self.version, transactional)

    def settled(self) -> None:
        self._left -= 1
        if self._left:
            return
        listener = self.connection.listener
        listener.broker.counts.produce_times.note(listener.now_ms() - self._since_ms)
        if self._partitions > PARTITIONS_PER_SLICE:
            listener.broker.sliced_work.begin(self._answer(listener.broker))
            return
        run_through(self._answer(listener.broker))

    def _answer(self, broker: "Broker") -> Slices[None]:
        for topic in self._response.responses:
            for place, entry in enumerate(topic.partition_responses):
                if place % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                    yield None
                if entry.error_code:
                    named = broker.hosting.by_name.get(topic.name)
                    partitions = named or broker.hosting.by_id.get(topic.topic_id, {})
                    broker.counts.produce_failed(partitions.get(entry.index), entry.error_code)
            yield None
        if self.slot is not None and not self.connection.closing:
            frame = yield from response_frame_in_slices(
                0, self.version, self.correlation_id, self._response
            )
            self.connection.fill(self.slot, frame)


def produce(
    connection: "Connection",
    data: memoryview,
    start: int,
    stop: int,
    version: int,
    correlation_id: int,
) -> None:
    """One Produce frame, data[start:stop] without its size."""
    broker = connection.listener.broker
    if not broker.touched:
        broker.touch()
    if FAST_FROM <= version <= LAST_VERSION:
        memo = broker.produce_memo
        memo.requests[version] += 1
        key = data[start + 8 : start + connection.produce_prefix].tobytes()
        route = memo.routes[version].get(key) or memo.search(connection, data, start, stop, version)
        if route is not None:
            way = _WAYS[route.way]
            position = start + connection.produce_prefix
            try:
                if way(broker, connection, route, data, position, stop, correlation_id):
                    return
            except (IndexError, StructError):
                pass  # cut short: the codec says how
    _general(broker, connection, data[start:stop], version, correlation_id)


def _one(
    broker: "Broker",
    connection: "Connection",
    route: Route,
    data: memoryview,
    position: int,
    stop: int,
    correlation_id: int,
) -> bool:
    """The fast way for one partition. False, and nothing done, if it needs the general way."""
    index = _INT32.unpack_from(data, position)[0]
    answer = route.answers.get(index) or route.learn(index)
    if answer is None:
        return False
    if route.version >= FLEXIBLE:
        size = data[position + 4]
        position += 5
        if size >= 0x80:
            size, position = _long_varint(data, position, size)
        end = position + size - 1
        whole = stop - end == 3 and not data[end] | data[end + 1] | data[end + 2]  # no tags
    else:
        end = position + 8 + _INT32.unpack_from(data, position + 4)[0]
        position += 8
        whole = end == stop
    if not whole or end <= position:
        return False
    partition = answer.partition
    batch = data[position:end]
    slot: Any = None
    if answer.acks:
        slot = [None]
        connection.replies.append(slot)
    ticket = (answer, connection, slot, correlation_id)
    try:
        header = check_produced(batch)
        if header[ATTRIBUTES] & TRANSACTIONAL or end - position > partition.batch_bytes_max:
            _refuse_fast(partition, header, end - position)
        if header[MAX_TIMESTAMP] > broker.wall_ms + partition.timestamp_after_ms_max:
            if slot is not None:
                connection.replies.pop()
            return False  # the general way names the bad records
    except KafkaError as error:
        answer.failed(ticket, error)
        broker.produced_ms = connection.active_at_ms
        return True
    partition.batches.append((batch, header))
    partition.tickets.append(ticket)
    if not partition.touched:
        broker.touch_partition(partition)
    return True


def _one_in_codec(
    broker: "Broker",
    connection: "Connection",
    route: Route,
    data: memoryview,
    position: int,
    stop: int,
    correlation_id: int,
) -> bool:
    """The fast way for a topic with a codec of its own, if the batch is in it already and nothing
    of its partition waits to be recompressed."""
    index = _INT32.unpack_from(data, position)[0]
    answer = route.answers.get(index) or route.learn(index)
    if answer is None:
        return False
    batch = position + 8  # behind the index and the length
    if route.version >= FLEXIBLE:
        batch = position + 5
        while data[batch - 1] >= 0x80:
            batch += 1
    partition = answer.partition
    if partition.lane or data[batch + CODEC_POSITION] & CODEC_MASK != partition.settings.codec:
        return False
    return _one(broker, connection, route, data, position, stop, correlation_id)


def _several_in_codec(*_request: object) -> bool:
    """They may be in different codecs: the general way looks at each."""
    return False


def _several(
    broker: "Broker",
    connection: "Connection",
    route: Route,
    data: memoryview,
    position: int,
    stop: int,
    correlation_id: int,
) -> bool:
    """The same for several partitions of one topic: look through all of it, then store."""
    flexible = route.version >= FLEXIBLE
    indexes: list[int] = []
    batches: list[memoryview] = []
    for _ in range(route.count):
        indexes.append(_INT32.unpack_from(data, position)[0])
        if flexible:
            size = data[position + 4]
            position += 5
            if size >= 0x80:
                size, position = _long_varint(data, position, size)
            end = position + size - 1
            if end <= position or end >= stop or data[end]:
                return False
            batches.append(data[position:end])
            position = end + 1
        else:
            end = position + 8 + _INT32.unpack_from(data, position + 4)[0]
            if end <= position + 8 or end > stop:
                return False
            batches.append(data[position + 8 : end])
            position = end
    if data[position:stop] != (_NO_TAGS if flexible else b""):
        return False
    key = tuple(indexes)
    shape = route.shapes.get(key) or route.learn_shape(key)
    if shape is None:
        return False
    found: list[Header | KafkaError] = []
    for batch, (_place, partition) in zip(batches, shape.places, strict=True):
        try:
            header = check_produced(batch)
            if header[ATTRIBUTES] & TRANSACTIONAL or len(batch) > partition.batch_bytes_max:
                _refuse_fast(partition, header, len(batch))
            if header[MAX_TIMESTAMP] > broker.wall_ms + partition.timestamp_after_ms_max:
                return False  # the general way names the bad records
        except KafkaError as error:
            found.append(error)
        else:
            found.append(header)
    several = Several(route, shape, connection, connection.take_slot() if route.acks else None)
    for batch, each, (place, partition) in zip(batches, found, shape.places, strict=True):
        ticket = (several, connection, place, correlation_id)
        if isinstance(each, KafkaError):
            several.failed(ticket, each)
            continue
        partition.batches.append((batch, each))
        partition.tickets.append(ticket)
        if not partition.touched:
            broker.touch_partition(partition)
    return True


def _long_varint(data: memoryview, position: int, first: int) -> tuple[int, int]:
    """A length of two bytes or more whose first byte was read; and where it ends."""
    byte = data[position]
    if byte < 0x80:
        return first & 0x7F | byte << 7, position + 1
    size = first & 0x7F
    shift = 7
    while (byte := data[position]) >= 0x80 and shift < 28:
        size |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return size | byte << shift, position + 1


def _general(
    broker: "Broker", connection: "Connection", frame: memoryview, version: int, correlation_id: int
) -> None:
    if not FIRST_VERSION <= version <= LAST_VERSION:
        connection.refuse(f"Produce v{version}; v{FIRST_VERSION}-v{LAST_VERSION} are served")
        return
    memo = broker.produce_memo
    memo.misses += 1
    if version < FAST_FROM:
        memo.requests[version] += 1
    header = parse_request_header(frame)
    connection.client_id = header.client_id or ""
    reading = read_in_slices(ProduceRequest, version, frame, header.body_position)
    try:
        next(reading)
    except StopIteration as end:
        request: ProduceRequest = end.value
        partitions = sum(len(topic.partition_data) for topic in request.topic_data)
        if partitions <= PARTITIONS_PER_SLICE:
            general = General(connection, version, correlation_id, request)
            last = run_through(_take(broker, general, request))
            general.settled()
            if len(request.topic_data) == 1 and last is not None and version >= FAST_FROM:
                _remember(broker, connection, frame, request, header.body_position, version, last)
            return
    # The bytes of a turn are good until it ends; no request is handled before this one is done.
    connection.hold()
    whole, position = bytes(frame), header.body_position
    long = _take_in_slices(broker, connection, whole, position, version, correlation_id)
    broker.sliced_work.begin(long)


def _take_in_slices(
    broker: "Broker",
    connection: "Connection",
    frame: bytes,
    body_position: int,
    version: int,
    correlation_id: int,
) -> Slices[None]:
    """Take a request for many partitions, some of them per slice."""
    try:
        request = yield from read_in_slices(ProduceRequest, version, frame, body_position)
        general = General(connection, version, correlation_id, request)
        yield from _take(broker, general, request)
        general.settled()
    except Exception as error:
        failed(connection, PRODUCE, version, error)
    finally:
        connection.release()


def _take(
    broker: "Broker", general: General, request: ProduceRequest
) -> "Slices[Partition | None]":
    """Check and store the batches of a request; return the last partition, if it was found."""
    version = general.version
    partition: Partition | None = None
    taken = 0
    ready: list[Arrived] = []
    large: list[Arrived] = []

    def store(batches: list[Arrived]) -> None:
        _store(broker, general, request.transactional_id, batches)

    for topic in request.topic_data:
        answers = general.topic(topic)
        if not topic.partition_data:
            yield None
        for wanted in topic.partition_data:
            entry = PartitionProduceResponse(index=wanted.index)
            answers.partition_responses.append(entry)
            partition = None
            taken += 1
            try:
                partition = _find(broker, topic, wanted.index, version)
                _check_request(request, partition)
                arrived = Arrived(partition, *_accept(partition, wanted.records, version), entry)
                looks = partition.settings.needs_look(arrived.header, broker.wall_ms)
                waits = looks and not inspect_at_once(broker, arrived)
            except KafkaError as error:
                general.refuse(entry, error)
            else:
                (large if waits else ready).append(arrived)
            if taken >= PARTITIONS_PER_SLICE:
                taken = 0
                store(ready)  # a partition may be gone after the pause
                ready = []
                yield None
    store(ready)
    if large:
        Inspection(broker, general.connection, general.refuse, store).begin(large)
    return partition


def _remember(
    broker: "Broker",
    connection: "Connection",
    frame: memoryview,
    request: ProduceRequest,
    body_position: int,
    version: int,
    partition: "Partition",
) -> None:
    if request.transactional_id is None and request.acks in ACKS:
        partitions = broker.hosting.by_id.get(partition.topic_id, {})
        broker.produce_memo.remember(connection, frame, request, body_position, version, partitions)


def _store(
    broker: "Broker", general: General, transactional_id: str | None, batches: list[Arrived]
) -> None:
    """What has passed every check: at once, or after it was recompressed."""
    recompression = broker.recompression
    ready: list[Arrived] = []
    for arrived in batches:
        if recompression.takes(arrived.partition, arrived):
            recompression.take(general, transactional_id, arrived)
        else:
            ready.append(arrived)
    general.stage(broker, transactional_id, ready)


def _find(broker: "Broker", topic: TopicProduceData, index: int, version: int) -> "Partition":
    partition = broker.find(topic.topic_id if version >= TOPIC_IDS else topic.name, index)
    if partition.topic in INTERNAL_TOPICS:
        raise InvalidTopic(f"{partition.topic} is written by its coordinators alone")
    return partition


def _check_request(request: ProduceRequest, partition: "Partition") -> None:
    if request.acks not in ACKS:
        raise InvalidRequiredAcks(f"acks={request.acks}")
    if request.acks == -1 and partition.leader.below_min_insync:
        leader = partition.leader
        raise NotEnoughReplicas(
            f"{partition} has {len(leader.isr)} in-sync replicas of the"
            f" {leader.min_insync} that min.insync.replicas asks for"
        )


def _accept(partition: "Partition", records: Buffer | None, version: int) -> tuple[Buffer, Header]:
    """Everything that a batch must satisfy wherever it is stored."""
    if not records:
        raise InvalidRecord("a Produce request carries exactly one batch per partition, not none")
    batch = memoryview(records)
    header = check_produced(batch)
    _check_batch(partition, header, len(batch), version)
    return batch, header


def _refuse_fast(partition: "Partition", header: Header, size: int) -> None:
    """What the fast way does not take. Its requests have no transactional id."""
    if header[ATTRIBUTES] & TRANSACTIONAL:
        raise TransactionalIdAuthorizationFailed("there is no transactional id")
    _check_batch(partition, header, size, LAST_VERSION)


def _check_batch(partition: "Partition", header: tuple[Any, ...], size: int, version: int) -> None:
    if header[ATTRIBUTES] & CODEC_MASK == ZSTD and version < ZSTD_FROM:
        raise UnsupportedCompressionType("zstd needs Produce v7 or newer")
    limit = partition.settings.message_bytes_max
    if size > limit:
        partition.bytes_rejected += size
        raise MessageTooLarge(f"a batch of {size} bytes for {partition}, max.message.bytes={limit}")


PRODUCE_TIMED_OUT = RequestTimedOut("the records were not committed within the request's timeout")

# By Route.way
_WAYS = (_one, _several, _one_in_codec, _several_in_codec)
