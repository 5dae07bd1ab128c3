"""Where the records of scanned batches lie: in the answer itself, or in what was decompressed.

The claims of a header about its records are checked here, so that what is allocated for rows is
bounded by bytes that exist. Shared by both implementations, with the words for what is wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.bulk.columns import COLUMN_BYTES_MAX, RECORD_BYTES_MIN
from penstock.bulk.scan import Wanted
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

# The columns of the table: where the records start and end in their source, the base offset and
# the last delta to it, the base timestamp, whether and which append time replaces it, the number
# of records, and (filled in later) the number of rows that came out.
START, END, FIRST, LAST_DELTA, BASE_TIME, APPENDED, APPENDED_AT, COUNT, ROWS = range(9)
TABLE_FIELDS = 9

# What can be wrong with records, found by either implementation.
GOOD, BROKEN, STRAY, NO_TIME, TRAILING = range(5)
_REASONS = {
    BROKEN: "a record is not what it says",
    STRAY: "a record lies outside of the offsets of its batch",
    NO_TIME: "a record at a time that no timestamp can hold",
    TRAILING: "bytes follow the last record",
}


@dataclass(frozen=True, slots=True)
class Packed:
    """Per batch a row of the table, and the source that its records lie in."""

    table: NDArray[np.int64]
    sources: list[Buffer]

    def runs(self) -> Iterator[tuple[Buffer, int, int]]:
        """Batches side by side in one source: the source, the first of them, and the end."""
        sources, first = self.sources, 0
        for index in range(1, len(sources) + 1):
            if index == len(sources) or sources[index] is not sources[first]:
                yield sources[first], first, index
                first = index

    @property
    def size(self) -> int:
        return int((self.table[:, END] - self.table[:, START]).sum())


def find_records(
    view: memoryview, batches: list[tuple[int, Header]], wanted: Wanted, output_bytes_max: int
) -> Packed:
    """The records of these batches, decompressed where they must be."""
    sources: list[Buffer] = []
    table: list[tuple[int, ...]] = []
    size = 0
    for position, header in batches:
        source: Buffer = view
        start, end = position + HEADER_BYTES, position + LENGTH_OVERHEAD + header[LENGTH]
        codec = header[ATTRIBUTES] & CODEC_MASK
        # A batch that compaction has emptied has nothing to decompress.
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
                f"{wanted.place} at offset {header[BASE_OFFSET]}: an answer of more than"
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


def corrupt(wanted: Wanted, header: Header, reason: str) -> CorruptBatch:
    return CorruptBatch(f"{wanted.place} at offset {header[BASE_OFFSET]}: {reason}")


def corrupt_records(
    view: memoryview, batch: tuple[int, Header], wanted: Wanted, fault: int, output_bytes_max: int
) -> CorruptBatch:
    """The error for records that an implementation did not like."""
    position, header = batch
    reason = _REASONS[fault]
    whole = view[position : position + LENGTH_OVERHEAD + header[LENGTH]]
    try:
        # The plain codec has the better words.
        for _record in read_records(whole, output_bytes_max):
            pass
    except Malformed as error:
        reason = str(error)
    return corrupt(wanted, header, reason)


def no_name(wanted: Wanted) -> CorruptBatch:
    return CorruptBatch(
        f"{wanted.place} from offset {wanted.start_offset}: the name of a record header is no text"
    )
