"""The topic of decisions: created at first use, read from its end, written in transactions.

A sink's decision is searched backwards, in growing spans: that of a busy sink is near the end, and
compaction keeps the rest small. The search goes beyond the last stable offset, where another sink's
open transaction would hide this one's decision, and reads the markers itself. The driver's own
transactions have ended before the search.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.client.admin.blocking import Admin
from penstock.client.raw.batch_writer import BatchWriter
from penstock.client.raw.outcomes import ProducerReplaced, WriteRefused
from penstock.client.raw.range_progress import OffsetRange
from penstock.client.raw.range_reader import RangeReader
from penstock.client.raw.transactions import TransactionAbilities, add_partitions
from penstock.client.values import At, FoundOffset, NewTopic, Resource, ResourceType
from penstock.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TopicAlreadyExists,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from penstock.model import TopicPartition
from penstock.spark.sink.cluster import Gone
from penstock.spark.sink.decisions import (
    PARTITIONS,
    TOPIC,
    TOPIC_CONFIGS,
    Decision,
    Driver,
    decode,
    encode,
    partition_of,
)
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    COMMIT_MARKER,
    CONTROL,
    LENGTH,
    LENGTH_OVERHEAD,
    PRODUCER_ID,
    TRANSACTIONAL,
    Record,
    batch_headers,
    build_batch,
    read_marker,
    read_records,
)
from penstock.wire.primitives import Buffer

GONE = (
    ProducerFenced,
    InvalidProducerEpoch,
    InvalidTxnState,
    InvalidProducerIdMapping,
    TransactionAbortable,
)
# A batch of a sink takes four offsets: the decision, its marker, "done", and its marker.
SPAN_FIRST = 200
SPAN_GROWTH = 8
CREATE_ATTEMPTS_MAX = 3


@dataclass
class DecisionSearch:
    """Searches spans of the log, the last one first, for the last committed decision."""

    key: bytes
    # Per producer, the end offsets of its transactions and whether they committed; ascending.
    markers: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)

    def look(self, parts: Iterable[Buffer], start: int, end: int) -> bytes | None:
        """Return the newest committed value of the key between these offsets."""
        ends: dict[int, list[tuple[int, bool]]] = {}
        found: list[tuple[int, int, bytes]] = []
        for part in parts:
            for position, header in batch_headers(part):
                if not start <= header[BASE_OFFSET] < end:
                    continue
                batch = memoryview(part)[position : position + header[LENGTH] + LENGTH_OVERHEAD]
                if header[ATTRIBUTES] & CONTROL:
                    marker = read_marker(batch)
                    if marker is not None:
                        place = header[BASE_OFFSET], marker[0] == COMMIT_MARKER
                        ends.setdefault(header[PRODUCER_ID], []).append(place)
                elif header[ATTRIBUTES] & TRANSACTIONAL:
                    found.extend(
                        (record.offset, header[PRODUCER_ID], record.value)
                        for record in read_records(batch)
                        if record.key == self.key and record.value is not None
                    )
        for producer_id, places in ends.items():
            self.markers[producer_id] = places + self.markers.get(producer_id, [])
        counting = (value for offset, by, value in reversed(found) if self._counts(offset, by))
        return next(counting, None)

    def _counts(self, offset: int, producer_id: int) -> bool:
        """Return whether a record is committed. Without a marker it is open, of a driver that took
        over since."""
        for place, committed in self.markers.get(producer_id, ()):
            if place > offset:
                return committed
        return False


class DecisionLog:
    def __init__(self, admin: Admin, *, request_timeout_ms: int, delivery_timeout_ms: int) -> None:
        self._admin = admin
        self._request_timeout_ms = request_timeout_ms
        self._delivery_timeout_ms = delivery_timeout_ms

    # ---- reading

    def last(self, sink_id: str) -> Decision | None:
        place = TopicPartition(TOPIC, partition_of(sink_id))
        begin, end = self._bounds(place)
        search, span = DecisionSearch(sink_id.encode()), SPAN_FIRST
        while begin < end:
            start = max(begin, end - span)
            value = search.look(self._read(place, start, end), start, end)
            if value is not None:
                return decode(sink_id, value)
            end, span = start, span * SPAN_GROWTH
        return None

    def _bounds(self, place: TopicPartition) -> tuple[int, int]:
        for _ in range(CREATE_ATTEMPTS_MAX):
            found = [
                self._admin.offsets({place: position})[place] for position in (At.BEGINNING, At.END)
            ]
            if not any(isinstance(each, UnknownTopicOrPartition) for each in found):
                break
            self._create()
        begin, end = (_sure(each) for each in found)
        return begin.offset, end.offset

    def _read(self, place: TopicPartition, start: int, end: int) -> Iterable[Buffer]:
        reader = RangeReader(
            self._admin.nodes, [OffsetRange(place, start, end)], committed_only=False
        )
        return (chunk.records for chunk in reader.chunks())

    def sinks(self) -> list[str]:
        """Return every sink with a decision in this topic."""
        if isinstance(self._admin.describe_topics([TOPIC])[TOPIC], KafkaError):
            return []
        found: dict[str, None] = {}
        for index in range(PARTITIONS):
            place = TopicPartition(TOPIC, index)
            begin, end = self._bounds(place)
            for part in self._read(place, begin, end) if begin < end else ():
                for position, header in batch_headers(part):
                    if header[ATTRIBUTES] & CONTROL:
                        continue
                    size = header[LENGTH] + LENGTH_OVERHEAD
                    for record in read_records(memoryview(part)[position : position + size]):
                        if record.key is not None:
                            found[record.key.decode()] = None
        return list(found)

    # ---- making

    def _create(self) -> None:
        """Create the topic with the replication of the transaction log, if that can be read."""
        replicas, in_sync = self._as_transaction_log()
        configs = dict(TOPIC_CONFIGS)
        if in_sync is not None:
            configs["min.insync.replicas"] = in_sync
        topic = NewTopic(TOPIC, PARTITIONS, replicas, configs)
        result = self._admin.create_topics([topic])[TOPIC]
        if isinstance(result, KafkaError) and not isinstance(result, TopicAlreadyExists):
            raise result

    def _as_transaction_log(self) -> tuple[int, str | None]:
        names = ("transaction.state.log.replication.factor", "transaction.state.log.min.isr")
        self._admin.describe_cluster()
        broker = Resource(ResourceType.BROKER, str(self._admin.brokers[0].node_id))
        found = self._admin.describe_configs([broker], keys=names)[broker]
        if isinstance(found, KafkaError):
            return -1, None
        values = {each.name: each.value for each in found}
        replicas, in_sync = (values.get(name) for name in names)
        return int(replicas) if replicas else -1, in_sync

    # ---- writing

    def append(
        self,
        transactional_id: str,
        driver: Driver,
        decision: Decision,
        abilities: TransactionAbilities,
        now_ms: int,
    ) -> Gone | None:
        place = TopicPartition(TOPIC, partition_of(decision.sink_id))
        producer_id, epoch, _ = driver.producer
        batch = build_batch(
            [Record(0, now_ms, decision.sink_id.encode(), encode(decision))],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=driver.sequence,
            transactional=True,
        )
        writer = BatchWriter(
            self._admin.nodes,
            request_timeout_ms=self._request_timeout_ms,
            delivery_timeout_ms=self._delivery_timeout_ms,
            transactional_id=transactional_id,
            version_max=abilities.produce_version_max,
        )
        try:
            if abilities.must_add_partitions:
                add_partitions(self._admin.routes, transactional_id, (producer_id, epoch), [place])
            writer.send(place, batch, 1)
            writer.flush()
        except GONE as refusal:
            return Gone(refusal.kafka_name())
        except WriteRefused as refused:
            if isinstance(refused, ProducerReplaced) or isinstance(refused.error, GONE):
                return Gone(refused.error.kafka_name())
            raise
        return None


def _sure(found: object) -> FoundOffset:
    if isinstance(found, KafkaError):
        raise found
    assert isinstance(found, FoundOffset), "an offset or an error"
    return found
