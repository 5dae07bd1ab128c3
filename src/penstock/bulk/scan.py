"""The batches of a Fetch response: those with rows for a reader, and the next offset.

Reads headers and checksums only; records stay packed. Both implementations share this module, so
they agree on transactions, control batches and incomplete batches.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_2,
    PRODUCER_ID,
    TRANSACTIONAL,
    CorruptBatch,
    Header,
    checksum_holds,
    read_marker,
)
from penstock.wire.primitives import Buffer, Malformed

OFFSET_MAX = 2**63 - 1
_MAGIC_POSITION = 16
# base offset, length, magic, last offset delta; the fields between are skipped
_STRIDE = struct.Struct(">qi4xb6xi")


@dataclass(frozen=True, slots=True)
class BatchScan:
    """Position and header of each batch to unpack, and the offset after the last whole batch."""

    batches: list[tuple[int, Header]]
    next_offset: int


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The requested range of a partition, and the partition's printed name."""

    location: str
    start_offset: int
    end_offset: int
    check_crc: bool


def last_offset_of(records: Buffer) -> tuple[int, int] | None:
    """Return the offset after the last whole batch, and the bytes of all whole batches; None
    without a whole batch. Checks only the headers that it reads."""
    position, end, following = 0, len(records), -1
    while position + HEADER_BYTES <= end:
        base_offset, length, magic, delta = _STRIDE.unpack_from(records, position)
        if magic != MAGIC_2 or length < LENGTH_MIN:
            raise _no_batch(position, magic)
        if position + LENGTH_OVERHEAD + length > end:
            break
        position += LENGTH_OVERHEAD + length
        following = base_offset + delta + 1
    return (following, position) if position else None


def scan(view: memoryview, wanted: ReadRange, aborted: Sequence[tuple[int, int]] = ()) -> BatchScan:
    """Return the batches to unpack for offsets from start to end. `aborted` is the list of the
    Fetch response: producer id and first offset of each aborted transaction."""
    found: list[tuple[int, Header]] = []
    transactions = _Aborted(aborted) if aborted else None
    next_offset = wanted.start_offset
    position, end = 0, len(view)
    while position + HEADER_BYTES <= end:
        header: Header = HEADER.unpack_from(view, position)
        length = header[LENGTH]
        if header[MAGIC] != MAGIC_2 or length < LENGTH_MIN:
            raise _at(wanted, header, _no_batch(position, header[MAGIC]))
        after = position + LENGTH_OVERHEAD + length
        if after > end:
            break
        batch = view[position:after]
        if _holds_rows(batch, header, wanted, transactions):
            found.append((position, header))
        next_offset = max(next_offset, header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1)
        position = after
    if position + _MAGIC_POSITION < end and view[position + _MAGIC_POSITION] != MAGIC_2:
        raise CorruptBatch(
            f"{wanted.location}: {_no_batch(position, view[position + _MAGIC_POSITION])}"
        )
    return BatchScan(found, next_offset)


def _holds_rows(
    batch: memoryview, header: Header, wanted: ReadRange, transactions: "_Aborted | None"
) -> bool:
    base_offset = header[BASE_OFFSET]
    if base_offset >= wanted.end_offset:
        return False  # outside the range, so its checksum is not checked
    last_offset = base_offset + header[LAST_OFFSET_DELTA]
    if base_offset < 0 or last_offset >= OFFSET_MAX:
        raise _at(wanted, header, CorruptBatch(f"offsets {base_offset} to {last_offset}"))
    if wanted.check_crc and not checksum_holds(batch, header):
        raise _at(wanted, header, CorruptBatch("the batch does not match its checksum"))
    if transactions is not None and header[PRODUCER_ID] >= 0:
        try:
            dropped = transactions.drops(batch, header, last_offset)
        except Malformed as error:
            raise _at(wanted, header, error) from None
        if dropped:
            return False
    return not header[ATTRIBUTES] & CONTROL and last_offset >= wanted.start_offset


class _Aborted:
    """Drops a producer's batches from the first offset of its aborted transaction to the marker;
    later batches belong to another transaction."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        # Sorted in reverse, so that the earliest is popped first.
        self._coming = sorted(aborted, key=lambda one: one[1], reverse=True)
        self._producers: set[int] = set()

    def drops(self, batch: memoryview, header: Header, last_offset: int) -> bool:
        while self._coming and self._coming[-1][1] <= last_offset:
            self._producers.add(self._coming.pop()[0])
        producer_id = header[PRODUCER_ID]
        if producer_id not in self._producers:
            return False
        if header[ATTRIBUTES] & CONTROL:
            marker = read_marker(batch)
            if marker is not None and marker[0] == ABORT_MARKER:
                self._producers.discard(producer_id)
            return True
        return bool(header[ATTRIBUTES] & TRANSACTIONAL)


def _no_batch(position: int, magic: int) -> CorruptBatch:
    if 0 <= magic < MAGIC_2:
        return CorruptBatch(
            f"message format {magic} at byte {position}: only format 2 is read (Kafka 0.11 and"
            " later write it)"
        )
    return CorruptBatch(f"no record batch at byte {position}")


def _at(wanted: ReadRange, header: Header, error: Malformed) -> CorruptBatch:
    return CorruptBatch(f"{wanted.location} at offset {header[BASE_OFFSET]}: {error}")
