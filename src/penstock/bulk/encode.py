"""Arrow columns to record batches, ready for Produce.

Promises: a row goes to the partition that Java's producer would choose for its key; rows of one
partition keep their order. No batch exceeds `batch_bytes_max` (before compression) unless it holds
a single record. Sequence numbers continue per partition. A call takes all rows or, if one cannot be
sent, none.

Rows without a key and a partition fill one batch of one partition, then one of the next.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from crc32c import crc32c

from penstock.bulk.collector import Collector, Uncollected
from penstock.bulk.implementation import Implementation, chosen_implementation
from penstock.bulk.inputs import Column, Rows, rows_of
from penstock.model import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from penstock.wire.batch import (
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_2,
    TRANSACTIONAL,
    build_batch,
    increment_sequence,
)
from penstock.wire.compression import NAMES, compress
from penstock.wire.primitives import Buffer

# Below the 1,048,588 bytes of a topic's default, so that incompressible data fits with the overhead
# of its codec.
BATCH_BYTES_MAX = 1_000_000
# The limit of all partitions together; with many partitions each gets less than a full batch.
COLLECTED_BYTES_MAX = 64 * 1024 * 1024
# The minimum per partition.
ROOM_BYTES_MIN = 16 * 1024
PARTITIONS_MAX = 2**31 - 1

_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """The producer id and epoch in the batches."""

    producer_id: int
    epoch: int
    transactional: bool


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch for a partition, and its number of records."""

    partition: int
    batch: Buffer
    records: int


class BatchEncoder:
    """Encodes rows of one topic into batches of its partitions.

    With `identity` None the batches have no producer id. `seed` chooses the first partition for
    rows without key and partition: writers with different seeds spread over the partitions.
    """

    def __init__(
        self,
        partitions: int,
        *,
        identity: WriterIdentity | None,
        compression: str = "none",
        level: int | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        now_ms: Callable[[], int],
        seed: int = 0,
    ) -> None:
        if not 0 < partitions <= PARTITIONS_MAX:
            raise ValueError(f"a topic of {partitions} partitions")
        if batch_bytes_max <= HEADER_BYTES:
            raise ValueError(f"batches of {batch_bytes_max} bytes hold no record")
        if compression not in NAMES:
            raise ValueError(f"no compression {compression!r}; there are {', '.join(NAMES)}")
        share = max(ROOM_BYTES_MIN, COLLECTED_BYTES_MAX // partitions)
        self._partitions = partitions
        self._identity = identity
        self._codec = NAMES.index(compression)
        self._level = level
        self._now_ms = now_ms
        self._keyless = seed % partitions
        self._sequences: dict[int, int] = {}
        self._collector = _collector(partitions, min(batch_bytes_max, share))

    def encode(
        self,
        key: Column | None,
        value: Column | None,
        headers: Column | None = None,
        partition: Column | None = None,
        timestamp: Column | None = None,
    ) -> list[EncodedBatch]:
        """Collect these rows; return the batches that are full now.

        Columns are binary or string, headers list<struct<key, value>>, partition int32 (null:
        choose), timestamp a timestamp or milliseconds (null: now). Raises ValueError or TypeError
        if a row cannot be sent.
        """
        now_ms = self._now_ms()
        parts = rows_of(
            *(key, value, headers, partition, timestamp),
            partitions=self._partitions,
            now_ms=now_ms,
        )
        done: list[EncodedBatch] = []
        for rows in parts:
            self._collect(rows, now_ms, done)
        return done

    def flush(self) -> list[EncodedBatch]:
        """Return the collected rows as batches that are not full."""
        done: list[EncodedBatch] = []
        for partition in self._collector.open_partitions():
            self._close(partition, done)
        return done

    def _collect(self, rows: Rows, now_ms: int, done: list[EncodedBatch]) -> None:
        row = 0
        while row < rows.count:
            match self._collector.add(rows, row, self._keyless, now_ms):
                case None:
                    return
                case Uncollected(row, partition, oversized=False):
                    self._close(partition, done)
                case Uncollected(row, partition):
                    done.append(self._alone(rows, row, partition, now_ms))
                    self._move_on_from(partition)
                    row += 1

    def _alone(self, rows: Rows, row: int, partition: int, now_ms: int) -> EncodedBatch:
        identity, sequence = self._stamp(partition, 1)
        batch = build_batch(
            [rows.record(row, 0, now_ms)],
            compression=self._codec,
            level=self._level,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            transactional=identity.transactional,
        )
        return EncodedBatch(partition, batch, 1)

    def _close(self, partition: int, done: list[EncodedBatch]) -> None:
        taken = self._collector.take(partition)
        assert taken is not None, "only batches that hold records are closed"
        identity, sequence = self._stamp(partition, taken.records)
        batch = taken.batch
        if self._codec:
            data = compress(self._codec, batch[HEADER_BYTES:], self._level)
            batch = memoryview(bytearray(HEADER_BYTES) + data)
        HEADER.pack_into(
            batch,
            0,
            *(0, len(batch) - LENGTH_OVERHEAD, NO_LEADER_EPOCH, MAGIC_2, 0),
            self._codec | (TRANSACTIONAL if identity.transactional else 0),
            *(taken.records - 1, taken.base_timestamp, taken.max_timestamp),
            *(identity.producer_id, identity.epoch, sequence, taken.records),
        )
        _CRC.pack_into(batch, CRC_POSITION, crc32c(batch[CRC_START:]))
        done.append(EncodedBatch(partition, batch, taken.records))
        self._move_on_from(partition)

    def _move_on_from(self, partition: int) -> None:
        if partition == self._keyless:
            self._keyless = (partition + 1) % self._partitions

    def _stamp(self, partition: int, records: int) -> tuple[WriterIdentity, int]:
        """Return the producer of a partition's next records, and their first sequence number."""
        if self._identity is None:
            return _NOBODY, NO_SEQUENCE
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = increment_sequence(sequence, records)
        return self._identity, sequence


_NOBODY = WriterIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, transactional=False)


def _collector(partitions: int, room: int) -> Collector:
    """Return open batches of `room` bytes for so many partitions."""
    if chosen_implementation() is Implementation.NUMBA:
        from penstock.bulk.encode_compiled import CompiledCollector

        return CompiledCollector(partitions, room)
    from penstock.bulk.encode_plain import PlainCollector

    return PlainCollector(partitions, room)
