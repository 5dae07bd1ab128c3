"""The decision of a sink: its last batch, and the batch's transactions.

One record per sink in the topic `__penstock_sinks`, keyed by the sink's id; the newest counts. A
"decided" record names every transaction, so that any driver can finish it. A "done" record keeps
enough to recognise the batch when Spark repeats it. Values are JSON, readable with every tool that
reads records.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple
from zlib import crc32

TOPIC = "__penstock_sinks"
# The partition of a sink never changes, even if partitions are added to the topic.
PARTITIONS = 16
# Kafka's smallest segment: only closed segments are compacted, and a plan reads the rest.
SEGMENT_BYTES = 1024 * 1024
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.1",
    "unclean.leader.election.enable": "false",
    "compression.type": "producer",
}
# A decision is one record, well below the default of max.message.bytes.
DECISION_BYTES_MAX = 900_000
FORMAT = 1
# From this EndTxn version on, each end moves the producer to the next epoch (KIP-890).
END_VERSION_V2 = 5
EVERY_PARTITION = -1


class SinkProducer(NamedTuple):
    """The producer of a transaction, and the EndTxn version that fits it: a repeated end in another
    version fails although the transaction has ended."""

    producer_id: int
    epoch: int
    end_version: int

    @property
    def transactions_v2(self) -> bool:
        return self.end_version >= END_VERSION_V2


class Driver(NamedTuple):
    """The producer of the sink's next decision, and its sequence number. With transactions v1 an
    epoch outlives its transactions: a used number would pass for a duplicate."""

    producer: SinkProducer
    sequence: int = 0

    def after(self, producer: SinkProducer) -> "Driver":
        """Return the driver after one more decision, by the end of its transaction."""
        return Driver(producer, self.sequence + 1 if producer == self.producer else 0)


class RowsAt(NamedTuple):
    """The number of rows for a partition; EVERY_PARTITION if only the topic's sum is kept."""

    topic: str
    partition: int
    rows: int

    def __str__(self) -> str:
        every = self.partition == EVERY_PARTITION
        place = self.topic if every else f"{self.topic}-{self.partition}"
        return f"{place} ({self.rows} rows)"


@dataclass(frozen=True, slots=True)
class WrittenTransaction:
    """The transaction of one task, with everything to end it from anywhere. Under two-phase commit
    it has no timeout."""

    transactional_id: str
    producer: SinkProducer
    written: tuple[RowsAt, ...]
    opened_ms: int = 0
    timeout_ms: int | None = None

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.written)


class BatchName(NamedTuple):
    """The name of a micro-batch. A batch job has no query, and is never repeated."""

    query_id: str
    batch_id: int

    @property
    def of_a_job(self) -> bool:
        return not self.query_id

    def __str__(self) -> str:
        if self.of_a_job:
            return "the batch job"
        return f"batch {self.batch_id} of query {self.query_id}"


JOB = BatchName("", 0)


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a batch: the offsets of its checkpoint entry, or a digest of its rows."""

    rows: int
    offsets: str | None = None
    digest: str | None = None

    def same_as(self, other: "Content") -> bool | None:
        """Return whether both are equal; None if they were measured differently."""
        if self.offsets is not None and other.offsets is not None:
            return self.offsets == other.offsets
        if self.digest is not None and other.digest is not None:
            return (self.rows, self.digest) == (other.rows, other.digest)
        return None


class DecisionStage(StrEnum):
    NOTHING = "nothing"  # no batch has been decided yet
    DECIDED = "decided"  # its transactions must be committed
    DONE = "done"  # its transactions are committed
    REWRITE = "rewrite"  # some transactions were lost, and the batch may be written again


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last decision, as far as tasks and commit need it."""

    batch: BatchName
    content: Content
    stage: DecisionStage


@dataclass(frozen=True, slots=True)
class Decision:
    sink_id: str
    batch: BatchName
    content: Content
    driver: SinkProducer
    stage: DecisionStage
    transactions: tuple[WrittenTransaction, ...] = ()
    lost_rows: int = 0

    @property
    def last_batch(self) -> LastBatch | None:
        if self.stage is DecisionStage.NOTHING:
            return None
        return LastBatch(self.batch, self.content, self.stage)

    def ended(self, stage: DecisionStage, lost_rows: int = 0) -> "Decision":
        """Return the decision without its transactions; the rest recognises the batch."""
        return replace(self, stage=stage, transactions=(), lost_rows=lost_rows)


def nothing_decided(sink_id: str, driver: SinkProducer) -> Decision:
    return Decision(sink_id, JOB, Content(0), driver, DecisionStage.NOTHING)


class DecisionTooLarge(Exception):
    """More transactions than one record can name."""


class UnknownDecision(Exception):
    """A record that this version of Penstock cannot read."""


def partition_of(sink_id: str) -> int:
    return crc32(sink_id.encode()) % PARTITIONS


def encode(decision: Decision) -> bytes:
    """Encode the decision: row counts per partition if they fit, else per topic."""
    value = _packed(decision)
    if len(value) > DECISION_BYTES_MAX:
        value = _packed(
            replace(decision, transactions=tuple(_by_topic(each) for each in decision.transactions))
        )
    if len(value) > DECISION_BYTES_MAX:
        raise DecisionTooLarge(
            f"the decision about {decision.batch} names {len(decision.transactions)} transactions "
            f"and takes {len(value)} bytes, {DECISION_BYTES_MAX} is the most: lower sink.tasks"
        )
    return value


def decode(sink_id: str, value: bytes) -> Decision:
    try:
        return _unpacked(sink_id, json.loads(value))
    except (ValueError, KeyError, TypeError) as problem:
        raise UnknownDecision(
            f"the decision of sink {sink_id!r} in {TOPIC} cannot be read ({problem!r}); "
            "was it written by a newer version of Penstock?"
        ) from problem


def _by_topic(transaction: WrittenTransaction) -> WrittenTransaction:
    sums: dict[str, int] = {}
    for each in transaction.written:
        sums[each.topic] = sums.get(each.topic, 0) + each.rows
    written = tuple(RowsAt(topic, EVERY_PARTITION, rows) for topic, rows in sums.items())
    return replace(transaction, written=written)


def _packed(decision: Decision) -> bytes:
    content = decision.content
    fields: dict[str, Any] = {
        "format": FORMAT,
        "stage": decision.stage.value,
        "query": decision.batch.query_id,
        "batch": decision.batch.batch_id,
        "rows": content.rows,
        "offsets": content.offsets,
        "digest": content.digest,
        "driver": list(decision.driver),
    }
    if decision.lost_rows:
        fields["lost_rows"] = decision.lost_rows
    if decision.transactions:
        fields["transactions"] = [
            {
                "id": each.transactional_id,
                "producer": list(each.producer),
                "opened_ms": each.opened_ms,
                "timeout_ms": each.timeout_ms,
                "written": _written_by_topic(each.written),
            }
            for each in decision.transactions
        ]
    return json.dumps(fields, separators=(",", ":")).encode()


def _written_by_topic(written: Iterable[RowsAt]) -> dict[str, list[list[int]]]:
    topics: dict[str, list[list[int]]] = {}
    for topic, partition, rows in written:
        topics.setdefault(topic, []).append([partition, rows])
    return topics


def _unpacked(sink_id: str, fields: Any) -> Decision:
    if fields["format"] != FORMAT:
        raise ValueError(f"format {fields['format']}")
    return Decision(
        sink_id,
        BatchName(str(fields["query"]), int(fields["batch"])),
        Content(int(fields["rows"]), fields["offsets"], fields["digest"]),
        _producer(fields["driver"]),
        DecisionStage(fields["stage"]),
        tuple(
            WrittenTransaction(
                str(each["id"]),
                _producer(each["producer"]),
                tuple(
                    RowsAt(topic, int(partition), int(rows))
                    for topic, places in each["written"].items()
                    for partition, rows in places
                ),
                int(each["opened_ms"]),
                each["timeout_ms"],
            )
            for each in fields.get("transactions", ())
        ),
        int(fields.get("lost_rows", 0)),
    )


def _producer(fields: Any) -> SinkProducer:
    producer_id, epoch, end_version = fields
    return SinkProducer(int(producer_id), int(epoch), int(end_version))
