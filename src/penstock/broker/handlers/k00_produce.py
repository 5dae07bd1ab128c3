"""Produce, v3-v13.  v12: partitions join the transaction by themselves (KIP-890).  v13: topic ids.

Two ways to the same answer. A producer repeats itself: the bytes before its records (client id,
acks, topic, partition) are the same in each request, so they are looked up as a whole in a memo
of what they mean, and the answer is one ready-made Struct. Everything else (several partitions,
errors, old versions) goes through the general codec. A test proves that both agree.
"""

from struct import Struct
from typing import TYPE_CHECKING, Any

from penstock.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnsupportedCompressionType,
)
from penstock.wire.batch import Header, check_produced
from penstock.wire.codec import read, write
from penstock.wire.frame import parse_request_header, response_frame
from penstock.wire.messages.k00_produce import (
    LeaderIdAndEpoch,
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
MEMO_ENTRIES_MAX = 10_000
MEMO_LENGTHS_MAX = 16
ZSTD, ZSTD_FROM = 4, 7
ATTRIBUTES, MAX_TIMESTAMP = 5, 8  # where they stand in an unpacked batch header
TRANSACTIONAL, CODEC_BITS = 0x10, 0x07
ACKS = (-1, 0, 1)
_NO_TAGS = b"\0\0\0"  # of the partition, the topic and the request
_INT32 = Struct(">i")

# (target, connection, slot, correlation id); a general request puts its entry in place of the slot
Ticket = tuple[Any, Any, Any, int]


class Target:
    """What one prefix means: a partition, and how its answers look."""

    __slots__ = (
        "_after",
        "_before",
        "_pack",
        "_size",
        "acks",
        "partition",
        "timeout_ms",
        "version",
    )

    def __init__(self, partition: "Partition", acks: int, timeout_ms: int, version: int) -> None:
        self.partition = partition
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.version = version
        before, after = _around_the_answer(partition, version)
        packer = Struct(f">ii{len(before)}shqqq{len(after)}s")
        self._before = before
        self._after = after
        self._pack = packer.pack
        self._size = packer.size - 4

    def succeeded(self, ticket: Ticket, base_offset: int, append_time_ms: int) -> None:
        slot = ticket[2]
        if slot is None:
            return
        slot[0] = (
            self._pack(
                self._size,
                ticket[3],
                self._before,
                0,
                base_offset,
                append_time_ms,
                self.partition.log.start_offset,
                self._after,
            ),
        )
        connection = ticket[1]
        if not connection.touched:
            connection.touch()

    def failed(self, ticket: Ticket, error: KafkaError) -> None:
        _, connection, slot, correlation_id = ticket
        if slot is None:
            connection.close()  # acks=0 has no other way to hear of it
            return
        partition = self.partition
        topic = TopicProduceResponse(name=partition.topic, topic_id=partition.topic_id)
        topic.partition_responses = [_failure(partition.index, error, partition)]
        response = ProduceResponse(responses=[topic])
        connection.fill(slot, (response_frame(0, self.version, correlation_id, response),))


class General:
    """A request that went through the codec: answered when its last partition has settled."""

    __slots__ = (
        "_left",
        "_response",
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
        self._left = 1 + sum(len(topic.partition_data) for topic in request.topic_data)

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

    def failed(self, ticket: Ticket, error: KafkaError) -> None:
        partition, entry = ticket[2]
        self.refuse(entry, error, partition)

    def refuse(
        self, entry: PartitionProduceResponse, error: KafkaError, partition: "Partition | None"
    ) -> None:
        failure = _failure(entry.index, error, partition)
        entry.error_code = failure.error_code
        entry.base_offset = failure.base_offset
        entry.error_message = failure.error_message
        entry.current_leader = failure.current_leader
        if self.slot is None:
            self.connection.close()
        self.settled()

    def settled(self) -> None:
        self._left -= 1
        if self._left == 0 and self.slot is not None and not self.connection.closing:
            frame = response_frame(0, self.version, self.correlation_id, self._response)
            self.connection.fill(self.slot, (frame,))


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
    memo = broker.produce_memo
    if version < FAST_FROM or version > LAST_VERSION:
        _general(broker, connection, data[start:stop], version, correlation_id)
        return
    prefix_end = start + connection.produce_prefix
    target = memo.targets[version].get(bytes(data[start + 8 : prefix_end]))
    if target is None:
        target, prefix_end = memo.search(connection, data, start, stop, version)
        if target is None:
            _general(broker, connection, data[start:stop], version, correlation_id)
            return
    # The length of the records, and the records, up to the three empty tag sections
    if version >= FLEXIBLE:
        size = data[prefix_end]
        position = prefix_end + 1
        if size >= 0x80:
            size &= 0x7F
            shift = 7
            while (byte := data[position]) >= 0x80:
                size |= (byte & 0x7F) << shift
                shift += 7
                position += 1
            size |= byte << shift
            position += 1
        end = position + size - 1
        canonical = stop - end == 3 and data[end:stop] == _NO_TAGS
    else:
        size = _INT32.unpack_from(data, prefix_end)[0]
        position = prefix_end + 4
        end = position + size
        canonical = size >= 0 and end == stop
    partition = target.partition
    if not canonical or end <= position or not partition.plain:
        _general(broker, connection, data[start:stop], version, correlation_id)
        return
    slot: Any = None
    if target.acks:
        slot = [None]
        connection.replies.append(slot)
    ticket = (target, connection, slot, correlation_id)
    try:
        batch = data[position:end]
        header = check_produced(batch)
        if (
            header[ATTRIBUTES] & TRANSACTIONAL
            or end - position > partition.settings.message_bytes_max
        ):
            _check_batch(partition, header, end - position, version)
        if header[MAX_TIMESTAMP] > broker.wall_ms + partition.settings.timestamp_after_ms_max:
            partition.settings.check_timestamps(batch, header, broker.wall_ms)
    except KafkaError as error:
        target.failed(ticket, error)
        return
    partition.batches.append((batch, header))
    partition.tickets.append(ticket)
    if not partition.touched:
        broker.touch_partition(partition)


class ProduceMemo:
    """Prefixes of requests and what they mean, by version. Bounded; emptied when metadata moves."""

    def __init__(self) -> None:
        self.targets: list[dict[bytes, Target]] = [{} for _ in range(LAST_VERSION + 1)]
        self._lengths: dict[int, None] = {}

    def clear(self) -> None:
        for targets in self.targets:
            targets.clear()
        self._lengths.clear()

    def search(
        self, connection: "Connection", data: memoryview, start: int, stop: int, version: int
    ) -> tuple[Target | None, int]:
        """A connection that writes to several topics has prefixes of several lengths."""
        targets = self.targets[version]
        for length in self._lengths:
            if start + length < stop:
                target = targets.get(bytes(data[start + 8 : start + length]))
                if target is not None:
                    connection.produce_prefix = length
                    return target, start + length
        return None, 0

    def remember(
        self,
        connection: "Connection",
        frame: memoryview,
        request: ProduceRequest,
        body: int,
        target: Target,
    ) -> None:
        """Only requests without unknown tags: those that the codec would write the same way."""
        version = target.version
        if frame[body:] != write(request, version):
            return
        size = len(request.topic_data[0].partition_data[0].records or b"")
        tail = (_varint_bytes(size + 1) + size + 3) if version >= FLEXIBLE else 4 + size
        length = len(frame) - tail
        if len(self._lengths) >= MEMO_LENGTHS_MAX or len(self.targets[version]) >= MEMO_ENTRIES_MAX:
            self.clear()
        self._lengths[length] = None
        self.targets[version][bytes(frame[8:length])] = target
        connection.produce_prefix = length


def _general(
    broker: "Broker", connection: "Connection", frame: memoryview, version: int, correlation_id: int
) -> None:
    if not FIRST_VERSION <= version <= LAST_VERSION:
        connection.refuse(f"Produce v{version}; v{FIRST_VERSION}-v{LAST_VERSION} are served")
        return
    header = parse_request_header(frame)
    connection.client_id = header.client_id or ""
    request = read(ProduceRequest, version, frame, header.body_position)
    broker.touch()
    general = General(connection, version, correlation_id, request)
    partition: Partition | None = None
    for topic in request.topic_data:
        answers = general.topic(topic)
        for wanted in topic.partition_data:
            entry = PartitionProduceResponse(index=wanted.index)
            answers.partition_responses.append(entry)
            partition = None
            try:
                partition = _find(broker, topic, wanted.index, version)
                _check_request(request, partition)
                batch, unpacked = _accept(broker, partition, wanted.records, version)
            except KafkaError as error:
                general.refuse(entry, error, partition)
                continue
            partition.batches.append((batch, unpacked))
            partition.tickets.append((general, connection, (partition, entry), correlation_id))
            if not partition.touched:
                broker.touch_partition(partition)
    general.settled()
    single = len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1
    if single and partition is not None and version >= FAST_FROM and request.acks in ACKS:
        if request.transactional_id is None and not partition.leader.below_min_insync:
            target = Target(partition, request.acks, request.timeout_ms, version)
            broker.produce_memo.remember(connection, frame, request, header.body_position, target)


def _find(broker: "Broker", topic: TopicProduceData, index: int, version: int) -> "Partition":
    return broker.find(topic.topic_id if version >= TOPIC_IDS else topic.name, index)


def _check_request(request: ProduceRequest, partition: "Partition") -> None:
    if request.acks not in ACKS:
        raise InvalidRequiredAcks(f"acks={request.acks}")
    if request.transactional_id is not None:
        raise InvalidTxnState("transactions are not served by this version")
    if request.acks == -1 and partition.leader.below_min_insync:
        leader = partition.leader
        raise NotEnoughReplicas(
            f"{partition} has {len(leader.isr)} in-sync replicas of the"
            f" {leader.min_insync} that min.insync.replicas asks for"
        )


def _accept(
    broker: "Broker", partition: "Partition", records: Buffer | None, version: int
) -> tuple[Buffer, Header]:
    """Everything that one batch must satisfy before it may be stored."""
    if not records:
        raise InvalidRecord("a Produce request carries exactly one batch per partition, not none")
    batch = memoryview(records)
    header = check_produced(batch)
    _check_batch(partition, header, len(batch), version)
    return partition.settings.admit(batch, header, broker.wall_ms)


def _check_batch(partition: "Partition", header: tuple[Any, ...], size: int, version: int) -> None:
    attributes = header[ATTRIBUTES]
    if attributes & TRANSACTIONAL:
        raise InvalidTxnState("transactions are not served by this version")
    if attributes & CODEC_BITS == ZSTD and version < ZSTD_FROM:
        raise UnsupportedCompressionType("zstd needs Produce v7 or newer")
    limit = partition.settings.message_bytes_max
    if size > limit:
        raise MessageTooLarge(f"a batch of {size} bytes for {partition}, max.message.bytes={limit}")


def _failure(
    index: int, error: KafkaError, partition: "Partition | None"
) -> PartitionProduceResponse:
    entry = PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, error_message=error.message
    )
    if isinstance(error, NotLeaderOrFollower) and partition is not None:
        leader = partition.leader
        entry.current_leader = LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch)
    return entry


def _around_the_answer(partition: "Partition", version: int) -> tuple[bytes, bytes]:
    """The bytes before the error code and after the log start offset of a successful answer."""
    marks = PartitionProduceResponse(
        index=partition.index, error_code=0x5A5A, base_offset=0, log_start_offset=0
    )
    topic = TopicProduceResponse(name=partition.topic, topic_id=partition.topic_id)
    topic.partition_responses = [marks]
    frame = response_frame(0, version, 0, ProduceResponse(responses=[topic]))
    variable = Struct(">hqqq").pack(0x5A5A, 0, -1, 0)
    before, _, after = frame[8:].rpartition(variable)
    return before, after


def _varint_bytes(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


PRODUCE_TIMED_OUT = RequestTimedOut("the records were not committed within the request's timeout")
