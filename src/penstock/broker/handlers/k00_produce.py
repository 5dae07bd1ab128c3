"""Produce, v3-v13.

v10: NOT_LEADER_OR_FOLLOWER names the leader (KIP-951).  v12: partitions join the transaction by
themselves (KIP-890).  v13: topic ids.

Two paths lead to the same answer. The fast path takes requests whose prefix is cached
(produce_cache.py). All others (several topics, old versions, topics that validate records) take the
general codec. Batches collect in their partitions until the turn ends. Transactional batches take
the general path, and wait until their transaction has the partition (txn_verification.py).
"""

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from penstock.broker.message_release import free_in_slices
from penstock.broker.produce.produce_cache import (
    MultiPartitionAnswer,
    ProduceRoute,
    name_leader,
    name_wait,
)
from penstock.broker.produce.record_validation import (
    ArrivedBatch,
    RecordValidation,
    validate_at_once,
)
from penstock.broker.request import ClientConnection, Slot, failed
from penstock.broker.sliced_work import Slices
from penstock.credentials.principal import Caller
from penstock.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
)
from penstock.model import INTERNAL_TOPICS
from penstock.security.permissions import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
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
    from penstock.broker.partitions.partition import Partition, Ticket

FIRST_VERSION, LAST_VERSION = 3, 13
FLEXIBLE, TOPIC_IDS = 9, 13
FAST_FROM = 8  # answers from here on differ in one constant only; older ones are rare
ZSTD_FROM = 7
ACKS = (-1, 0, 1)
PRODUCE = 0
PARTITIONS_PER_SLICE = 100
# A partition without records takes 77 times its bytes, with its answer: four times as much as
# partitions of other requests.
FRAME_WEIGHT = 4
_NO_TAGS = b"\0\0"  # of the topic and the request
_INT32 = Struct(">i")


class GeneralProduce:
    """A request on the general path: answered when its last partition has settled."""

    api_key = PRODUCE
    __slots__ = (
        "_broker",
        "_entries",
        "_left",
        "_response",
        "_since_ms",
        "_transactional_id",
        "acks",
        "connection",
        "correlation_id",
        "slot",
        "timeout_ms",
        "version",
    )

    def __init__(
        self,
        broker: "Broker",
        connection: ClientConnection,
        version: int,
        correlation_id: int,
        request: ProduceRequest,
    ) -> None:
        self._broker = broker
        self._transactional_id = request.transactional_id
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.slot: Slot | None = None if request.acks == 0 else connection.take_slot()
        self._response = ProduceResponse()
        partitions = sum(len(topic.partition_data) for topic in request.topic_data)
        self._entries = partitions + len(request.topic_data)
        self._left = 1 + partitions
        self._since_ms = connection.active_at_ms
        broker.request_metrics.timed_alone += 1

    @property
    def caller(self) -> Caller:
        return self.connection.caller

    def denial(self, topic: str, *, transactional: bool) -> KafkaError | None:
        """Return the error of a caller who may not write now: batches may have waited."""
        access, name = self._broker.access, self._transactional_id
        if not access.allows(self, WRITE_TOPIC, topic):
            return TopicAuthorizationFailed()
        if transactional and not access.allows(self, WRITE_TRANSACTIONAL_ID, name or ""):
            return TransactionalIdAuthorizationFailed()
        return None

    def topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        response = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        self._response.responses.append(response)
        return response

    def succeeded(self, ticket: "Ticket", base_offset: int, append_time_ms: int) -> None:
        partition, entry = ticket[2]
        entry.base_offset = base_offset
        entry.log_append_time_ms = append_time_ms
        entry.log_start_offset = partition.log.start_offset
        self.settled()

    def waits(self, _ticket: "Ticket") -> None:
        """Do nothing: the request is timed as a whole."""

    def waited(self, _ticket: "Ticket", _since_ms: float) -> None:
        """Do nothing: the request is timed as a whole."""

    def failed(self, ticket: "Ticket", error: KafkaError) -> None:
        _partition, entry = ticket[2]
        self.reject(entry, error)

    def reject(self, entry: PartitionProduceResponse, error: KafkaError) -> None:
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

    def stage(self, transactional_id: str | None, batches: list[ArrivedBatch]) -> None:
        """Hand over batches that may be stored; transactional ones may be verified first."""
        broker = self._broker
        transactional: list[tuple[Partition, Buffer, Header, Ticket]] = []
        for partition, arrived, header, entry in batches:
            ticket = (self, self.connection, (partition, entry), self.correlation_id)
            batch, unpacked = partition.settings.as_stored(arrived, header, broker.wall_ms)
            # The rules may have changed while a batch was validated or recompressed.
            denial = self.denial(partition.topic, transactional=False)
            if denial is not None:
                self.reject(entry, denial)
                continue
            if unpacked[ATTRIBUTES] & TRANSACTIONAL:
                transactional.append((partition, batch, unpacked, ticket))
                continue
            partition.batches.append((batch, unpacked))
            partition.tickets.append(ticket)
            if not partition.touched:
                broker.touch_partition(partition)
        if transactional:
            broker.coordinators.verification.produce(transactional_id, self.version, transactional)

    def settled(self) -> None:
        self._left -= 1
        if self._left:
            return
        broker = self._broker
        broker.request_metrics.produce_times.note(
            self.connection.listener.now_ms() - self._since_ms
        )
        if self._entries > PARTITIONS_PER_SLICE:
            self.connection.hold()
            broker.sliced_work.begin(self._answer_in_slices())
            return
        run_through(self._answer())

    def _answer_in_slices(self) -> Slices[None]:
        try:
            yield from self._answer()
            held = [self._response]
            self._response = ProduceResponse()
            yield from free_in_slices(held)
        except Exception as error:
            failed(self.connection, PRODUCE, self.version, error)
        finally:
            self.connection.release()

    def _answer(self) -> Slices[None]:
        broker = self._broker
        seen = 0
        for topic in self._response.responses:
            seen += 1
            for entry in topic.partition_responses:
                seen += 1
                if not seen % PARTITIONS_PER_SLICE:
                    yield None
                if entry.error_code:
                    name_leader(
                        self._response, topic.name or topic.topic_id, entry, self.connection
                    )
                    named = broker.replicas.by_name.get(topic.name)
                    partitions = named or broker.replicas.by_id.get(topic.topic_id, {})
                    broker.request_metrics.produce_failed(
                        partitions.get(entry.index), entry.error_code
                    )
            if not seen % PARTITIONS_PER_SLICE:
                yield None
        if self.slot is not None and not self.connection.closing:
            name_wait(self._response, self.connection)
            frame = yield from response_frame_in_slices(
                0, self.version, self.correlation_id, self._response
            )
            self.connection.fill(self.slot, frame)


def produce(
    broker: "Broker",
    connection: ClientConnection,
    data: memoryview,
    start: int,
    stop: int,
    version: int,
    correlation_id: int,
) -> None:
    """Handle one Produce frame, data[start:stop] without its size."""
    if not broker.touched:
        broker.touch()
    if FAST_FROM <= version <= LAST_VERSION:
        cache = broker.produce_cache
        cache.requests[version] += 1
        if cache.metered:
            connection.produced_bytes += stop - start
        key = data[start + 8 : start + connection.produce_prefix].tobytes()
        route = connection.produce_routes[version].get(key) or cache.search(
            connection, data, start, stop, version
        )
        if route is not None:
            path = _PATHS[route.path]
            position = start + connection.produce_prefix
            try:
                if path(broker, connection, route, data, position, stop, correlation_id):
                    return
            except (IndexError, StructError):
                pass  # cut short: the codec says how
    _general(broker, connection, data[start:stop], version, correlation_id)


def _one(
    broker: "Broker",
    connection: ClientConnection,
    route: ProduceRoute,
    data: memoryview,
    position: int,
    stop: int,
    correlation_id: int,
) -> bool:
    """Take the fast path for one partition. Return False, with nothing done, if the request needs
    the general path."""
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
            _reject_fast(partition, header, end - position)
        if header[MAX_TIMESTAMP] > broker.wall_ms + partition.timestamp_after_ms_max:
            if slot is not None:
                connection.replies.pop()
            return False  # the general path names the bad records
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
    connection: ClientConnection,
    route: ProduceRoute,
    data: memoryview,
    position: int,
    stop: int,
    correlation_id: int,
) -> bool:
    """Take the fast path for a topic with a codec of its own, if the batch is in that codec and no
    batch of the partition waits to be recompressed."""
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
    if (
        partition.recompressing
        or data[batch + CODEC_POSITION] & CODEC_MASK != partition.settings.codec
    ):
        return False
    return _one(broker, connection, route, data, position, stop, correlation_id)


def _several_in_codec(*_request: object) -> bool:
    """Return False: the batches may be in different codecs, so the general path looks at each."""
    return False


def _several(
    broker: "Broker",
    connection: ClientConnection,
    route: ProduceRoute,
    data: memoryview,
    position: int,
    stop: int,
    correlation_id: int,
) -> bool:
    """Take the fast path for several partitions of one topic: check all batches, then store."""
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
    accepted: list[tuple[Partition, int, tuple[memoryview, Header]]] = []
    rejected: list[tuple[int, KafkaError]] = []
    for batch, (place, partition) in zip(batches, shape.places, strict=True):
        try:
            header = check_produced(batch)
            if header[ATTRIBUTES] & TRANSACTIONAL or len(batch) > partition.batch_bytes_max:
                _reject_fast(partition, header, len(batch))
            if header[MAX_TIMESTAMP] > broker.wall_ms + partition.timestamp_after_ms_max:
                return False  # the general path names the bad records
        except KafkaError as error:
            rejected.append((place, error))
        else:
            accepted.append((partition, place, (batch, header)))
    several = MultiPartitionAnswer(
        route, shape, connection, connection.take_slot() if route.acks else None
    )
    for place, problem in rejected:
        several.failed((several, connection, place, correlation_id), problem)
    for partition, place, checked in accepted:
        partition.batches.append(checked)
        partition.tickets.append((several, connection, place, correlation_id))
        if not partition.touched:
            broker.touch_partition(partition)
    return True


def _long_varint(data: memoryview, position: int, first: int) -> tuple[int, int]:
    """Return a length of two bytes or more, after its first byte, and the position behind it."""
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
    broker: "Broker",
    connection: ClientConnection,
    frame: memoryview,
    version: int,
    correlation_id: int,
) -> None:
    if not FIRST_VERSION <= version <= LAST_VERSION:
        connection.reject(f"Produce v{version}; v{FIRST_VERSION}-v{LAST_VERSION} are served")
        return
    cache = broker.produce_cache
    cache.misses += 1
    if version < FAST_FROM:
        cache.requests[version] += 1
        if cache.metered:
            connection.produced_bytes += len(frame)
    header = parse_request_header(frame)
    connection.client_id = header.client_id or ""
    reading = read_in_slices(ProduceRequest, version, frame, header.body_position)
    try:
        next(reading)
    except StopIteration as end:
        request: ProduceRequest = end.value
        entries = sum(1 + len(topic.partition_data) for topic in request.topic_data)
        if entries <= PARTITIONS_PER_SLICE:
            general = GeneralProduce(broker, connection, version, correlation_id, request)
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
    connection: ClientConnection,
    frame: bytes,
    body_position: int,
    version: int,
    correlation_id: int,
) -> Slices[None]:
    """Take a request for many partitions, some of them per slice."""
    try:
        yield from broker.long_requests.wait_for_memory(
            broker.frames, connection, len(frame), FRAME_WEIGHT
        )
        if connection.closing:
            return
        request = yield from read_in_slices(ProduceRequest, version, frame, body_position)
        general = GeneralProduce(broker, connection, version, correlation_id, request)
        yield from _take(broker, general, request)
        general.settled()
        held = [request]
        del request
        yield from free_in_slices(held)
    except Exception as error:
        failed(connection, PRODUCE, version, error)
    finally:
        connection.release()


def _take(
    broker: "Broker", general: GeneralProduce, request: ProduceRequest
) -> "Slices[Partition | None]":
    """Check and store the batches of a request; return the last partition, if it was found."""
    version = general.version
    partition: Partition | None = None
    taken = 0
    ready: list[ArrivedBatch] = []
    large: list[ArrivedBatch] = []

    def store(batches: list[ArrivedBatch]) -> None:
        _store(broker, general, request.transactional_id, batches)

    may_write_id = yield from _may_write_id(broker, general, request)
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
                if not may_write_id:
                    raise TransactionalIdAuthorizationFailed
                partition = _find(broker, general, topic, wanted.index)
                _check_request(request, partition)
                arrived = ArrivedBatch(
                    partition, *_accept(partition, wanted.records, version), entry
                )
                looks = partition.settings.needs_look(arrived.header, broker.wall_ms)
                waits = looks and not validate_at_once(broker, arrived)
            except KafkaError as error:
                general.reject(entry, error)
            else:
                (large if waits else ready).append(arrived)
            if taken >= PARTITIONS_PER_SLICE:
                taken = 0
                store(ready)  # a partition may be gone after the pause
                ready = []
                yield None
    store(ready)
    if large:
        RecordValidation(broker, general.connection, general.reject, store).begin(large)
    return partition


def _remember(
    broker: "Broker",
    connection: ClientConnection,
    frame: memoryview,
    request: ProduceRequest,
    body_position: int,
    version: int,
    partition: "Partition",
) -> None:
    if request.transactional_id is None and request.acks in ACKS:
        partitions = broker.replicas.by_id.get(partition.topic_id, {})
        broker.produce_cache.remember(
            connection, frame, request, body_position, version, partitions
        )


def _store(
    broker: "Broker",
    general: GeneralProduce,
    transactional_id: str | None,
    batches: list[ArrivedBatch],
) -> None:
    """Store batches that passed every check, at once or after their recompression."""
    recompression = broker.recompression
    ready: list[ArrivedBatch] = []
    for arrived in batches:
        if recompression.takes(arrived.partition, arrived):
            recompression.take(general, transactional_id, arrived)
        else:
            ready.append(arrived)
    general.stage(transactional_id, ready)


def _may_write_id(
    broker: "Broker", general: GeneralProduce, request: ProduceRequest
) -> Slices[bool]:
    """Return whether no batch is transactional, or the caller may write under the request's id."""
    if not broker.access.enabled:
        return True
    looked_at = 0
    for topic in request.topic_data:
        for each in topic.partition_data:
            looked_at += 1
            if not looked_at % PARTITIONS_PER_SLICE:
                yield None
            records = each.records or b""
            if len(records) > CODEC_POSITION and records[CODEC_POSITION] & TRANSACTIONAL:
                name = request.transactional_id
                return name is not None and broker.access.allows(
                    general, WRITE_TRANSACTIONAL_ID, name
                )
    return True


def _find(
    broker: "Broker", general: GeneralProduce, topic: TopicProduceData, index: int
) -> "Partition":
    by_id = general.version >= TOPIC_IDS
    name = broker.image.topic_names.get(topic.topic_id) if by_id else topic.name
    if name is not None and not broker.access.allows(general, WRITE_TOPIC, name):
        raise TopicAuthorizationFailed
    partition = broker.find(topic.topic_id if by_id else topic.name, index)
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
    """Check a batch by the rules of every topic; return the batch and its header."""
    if not records:
        raise InvalidRecord("a Produce request carries exactly one batch per partition, not none")
    batch = memoryview(records)
    header = check_produced(batch)
    _check_batch(partition, header, len(batch), version)
    return batch, header


def _reject_fast(partition: "Partition", header: Header, size: int) -> None:
    """Raise for a batch that the fast path rejects. Its requests have no transactional id."""
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

# By ProduceRoute.path
_PATHS = (_one, _several, _one_in_codec, _several_in_codec)
