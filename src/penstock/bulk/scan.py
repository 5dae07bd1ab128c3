"""The batches in the answer to a Fetch: which of them hold rows for a reader, and what comes next.

Headers and checksums only; records stay packed. Shared by both implementations, so that neither
has an opinion of its own about transactions, control batches or what is cut short.
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
# base offset, length, magic, last offset delta; what lies between is stepped over
_STRIDE = struct.Struct(">qi4xb6xi")


@dataclass(frozen=True, slots=True)
class Scanned:
    """Position and header of each batch to unpack, and the offset after the last whole batch."""

    batches: list[tuple[int, Header]]
    next_offset: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a partition that a reader asks for, and how its name is printed."""

    place: str
    start_offset: int
    end_offset: int
    check_crc: bool


def last_offset_of(records: Buffer) -> tuple[int, int] | None:
    """The offset after the last whole batch, and the bytes of all whole batches; None if there
    is no whole one. Checks nothing but what it steps over."""
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


def scan(view: memoryview, wanted: Wanted, aborted: Sequence[tuple[int, int]] = ()) -> Scanned:
    """What to unpack for offsets from start to end. `aborted` is the list of the Fetch answer:
    producer id and first offset of each aborted transaction."""
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
            f"{wanted.place}: {_no_batch(position, view[position + _MAGIC_POSITION])}"
        )
    return Scanned(found, next_offset)


def _holds_rows(
    batch: memoryview, header: Header, wanted: Wanted, transactions: "_Aborted | None"
) -> bool:
    base_offset = header[BASE_OFFSET]
    if base_offset >= wanted.end_offset:
        return False  # another reader's: its checksum, too
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
    """A producer's batches are dropped from the first offset of its aborted transaction to the
    marker that ends it; what the producer writes after that is a transaction of its own."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        # The earliest last, to be taken off the end.
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


def _at(wanted: Wanted, header: Header, error: Malformed) -> CorruptBatch:
    return CorruptBatch(f"{wanted.place} at offset {header[BASE_OFFSET]}: {error}")
