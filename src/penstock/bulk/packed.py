"""The records of scanned batches: in the response itself, or decompressed.

The header's size and count are checked here, so that allocations for rows are bounded by existing
bytes. Both implementations share this module and its error texts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.bulk.columns import COLUMN_BYTES_MAX, RECORD_BYTES_MIN
from penstock.bulk.scan import ReadRange
from penstock.wire.batch import (
    APPEND_TIME,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC_MASK,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    RECORD_COUNT,
    CorruptBatch,
    Header,
    read_records,
)
from penstock.wire.compression import TooLarge, decompress
from penstock.wire.primitives import Buffer, Malformed

# The columns of the table: start and end of the records in their source, base offset, last delta,
# base timestamp, whether and which append time replaces it, record count, and (filled in later) the
# number of decoded rows.
START, END, FIRST, LAST_DELTA, BASE_TIME, APPENDED, APPENDED_AT, COUNT, ROWS = range(9)
TABLE_FIELDS = 9

# Faults of records, found by either implementation.
GOOD, BROKEN, STRAY, NO_TIME, TRAILING = range(5)
_REASONS = {
    BROKEN: "a record is not what it says",
    STRAY: "a record lies outside of the offsets of its batch",
    NO_TIME: "a record at a time that no timestamp can hold",
    TRAILING: "bytes follow the last record",
}


@dataclass(frozen=True, slots=True)
class Packed:
    """One row of the table per batch, and the source of its records."""

    table: NDArray[np.int64]
    sources: list[Buffer]

    def runs(self) -> Iterator[tuple[Buffer, int, int]]:
        """Yield adjacent batches of one source: the source, the first batch, and the end."""
        sources, first = self.sources, 0
        for index in range(1, len(sources) + 1):
            if index == len(sources) or sources[index] is not sources[first]:
                yield sources[first], first, index
                first = index

    @property
    def size(self) -> int:
        return int((self.table[:, END] - self.table[:, START]).sum())


def find_records(
    view: memoryview, batches: list[tuple[int, Header]], wanted: ReadRange, output_bytes_max: int
) -> Packed:
    """Return the records of these batches, decompressed where needed."""
    sources: list[Buffer] = []
    table: list[tuple[int, ...]] = []
    size = 0
    for position, header in batches:
        source: Buffer = view
        start, end = position + HEADER_BYTES, position + LENGTH_OVERHEAD + header[LENGTH]
        codec = header[ATTRIBUTES] & CODEC_MASK
        # A batch emptied by compaction has nothing to decompress.
        if codec and end > start:
            try:
                source = decompress(codec, view[start:end], output_bytes_max)
            except Malformed as error:
                raise corrupt(wanted, header, str(error)) from None
            start, end = 0, len(source)
        count = header[RECORD_COUNT]
        if count < 0 or count * RECORD_BYTES_MIN > end - start:
            raise corrupt(wanted, header, f"{count} records do not fit in {end - start} bytes")
        size += end - start
        if size > COLUMN_BYTES_MAX:
            raise TooLarge(
                f"{wanted.location} at offset {header[BASE_OFFSET]}: an answer of more than"
                f" {COLUMN_BYTES_MAX} bytes of records; fetch fewer bytes at a time"
            )
        sources.append(source)
        table.append(
            (
                *(start, end, header[BASE_OFFSET], header[LAST_OFFSET_DELTA]),
                *(header[BASE_TIMESTAMP], header[ATTRIBUTES] & APPEND_TIME, header[MAX_TIMESTAMP]),
                *(count, 0),
            )
        )
    return Packed(np.array(table, np.int64).reshape(-1, TABLE_FIELDS), sources)


def corrupt(wanted: ReadRange, header: Header, reason: str) -> CorruptBatch:
    return CorruptBatch(f"{wanted.location} at offset {header[BASE_OFFSET]}: {reason}")


def corrupt_records(
    view: memoryview,
    batch: tuple[int, Header],
    wanted: ReadRange,
    fault: int,
    output_bytes_max: int,
) -> CorruptBatch:
    """Return the error for records that an implementation rejected."""
    position, header = batch
    reason = _REASONS[fault]
    whole = view[position : position + LENGTH_OVERHEAD + header[LENGTH]]
    try:
        # The plain codec gives the better error text.
        for _record in read_records(whole, output_bytes_max):
            pass
    except Malformed as error:
        reason = str(error)
    return corrupt(wanted, header, reason)


def no_name(wanted: ReadRange) -> CorruptBatch:
    return CorruptBatch(
        f"{wanted.location} from offset {wanted.start_offset}: a record header name is no text"
    )
