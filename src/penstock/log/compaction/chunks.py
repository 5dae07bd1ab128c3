"""A segment in chunks of whole batches, each with a table of its header fields.

Both passes check every batch: format, checksum, and offsets that rise within the segment. A failed
check rejects the whole cleaning and names the position. A flawed batch has a good checksum and
unreadable records: no client reads it, and it stays as it is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.log.compaction.offset_map import OffsetMap
from penstock.log.compaction.order import BrokenBatch, Segment
from penstock.log.directory import INDEX, LOG, segment_file
from penstock.log.index import OFFSET_ENTRY
from penstock.wire.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    MAGIC_2,
    Header,
)
from penstock.wire.compression import OUTPUT_BYTES_MAX, TooLarge, decompress
from penstock.wire.primitives import Buffer, Malformed
from penstock.world import Disk, File, FileLost

# Two chunks and the output of one are in memory; larger chunks are not faster.
CHUNK_BYTES = 1024 * 1024
# A batch is at most as large as any output buffer.
BATCH_BYTES_MAX = OUTPUT_BYTES_MAX
# Rows of one table; the rest of the chunk is read again.
TABLE_ROWS = 32_768
# Size, attributes, two deltas, two sizes of fields and the number of headers.
RECORD_BYTES_MIN = 7

# The columns of a table. LAST is an offset. BODY and END are positions in the source of the
# records: the chunk, or the unpacked bytes of a compressed batch. A batch with a FLAW counts no
# records.
(
    POSITION,
    SIZE,
    BASE,
    LAST,
    ATTRIBUTES,
    BASE_TIME,
    MAX_TIME,
    PRODUCER,
    EPOCH,
    COUNT,
    BODY,
    END,
    VERDICT,
    FLAW,
) = range(14)
TABLE_FIELDS = 14

DELETE_HORIZON = 0x40
# Attributes that a rewritten batch keeps: codec, timestamp type, transactional, control.
ATTRIBUTES_KEPT = 0x3F

# Verdicts on a batch, as bits (see batch_retention.py).
DISCARDED = 1  # drop the records
KEPT = 2  # keep the records, regardless of their keys
SEQUENCE_KEPT = 4  # keep the header if the batch becomes empty
MARKER_EXPIRES = 8  # a marker without a transaction: set its delete horizon

# Faults of a batch.
GOOD, NO_BATCH, CHECKSUM, FALLING, OUTSIDE, BROKEN, STRAY, TRAILING, COUNTED = range(9)
FAULTS = {
    NO_BATCH: "no record batch of format 2 begins there",
    CHECKSUM: "the batch does not match its checksum",
    FALLING: "offsets do not rise",
    OUTSIDE: "the batch lies outside of its segment",
    BROKEN: "a record is not what it says",
    STRAY: "a record lies outside of the offsets of its batch",
    TRAILING: "bytes follow the last record",
    COUNTED: "the batch says more records than it can hold",
}

Table = NDArray[np.int64]


class Flawed(Exception):
    """The records of a batch cannot be read."""


class ScanResult(NamedTuple):
    """The result of a scan: `used` bytes are whole batches; `fault` is that of the batch after
    them."""

    table: Table
    used: int
    fault: int


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """Whole batches of one segment, which start at `position`."""

    segment: Segment
    position: int
    data: bytes
    table: Table
    location: str

    def batch(self, row: int) -> memoryview:
        start = int(self.table[row, POSITION])
        return memoryview(self.data)[start : start + int(self.table[row, SIZE])]

    def refusal(self, row: int, reason: str) -> BrokenBatch:
        position, base = self.position + self.table[row, POSITION], self.table[row, BASE]
        return BrokenBatch(f"{self.location}, byte {position}, offset {base}: {reason}")

    def unpacked(self, row: int, unpacked_bytes_max: int) -> Buffer:
        """Return the records of a compressed batch. Raise Flawed if they cannot be unpacked. Reject
        the cleaning if they are too large: clients can read them, so their keys would outlive a
        deletion."""
        codec = int(self.table[row, ATTRIBUTES]) & CODEC_MASK
        try:
            data = decompress(codec, self.batch(row)[HEADER_BYTES:], unpacked_bytes_max)
        except TooLarge as error:
            raise self.refusal(row, str(error)) from None
        except Malformed as error:
            raise Flawed(str(error)) from None
        if int(self.table[row, COUNT]) * RECORD_BYTES_MIN > len(data):
            raise Flawed(FAULTS[COUNTED])
        return data

    def mark_flawed(self, row: int) -> None:
        self.table[row, FLAW], self.table[row, COUNT] = 1, 0


class Terms(NamedTuple):
    """The limits that decide about a record, equal for a whole cleaning."""

    # Records below are deleted; a later cleaning reads those from `cleaned_to` on.
    start_offset: int
    cleaned_to: int
    now_ms: int
    # The delete horizon of tombstones that have none.
    delete_horizon_ms: int
    unpacked_bytes_max: int


class RecordCounts:
    """The records and batches met by a cleaning."""

    __slots__ = ("flawed", "kept", "keyless", "read")

    def __init__(self) -> None:
        self.read = 0
        self.kept = 0
        self.keyless = 0
        self.flawed = 0  # batches


# Batches, and for each its size, last offset and largest timestamp.
Write = Callable[[Buffer, Table], None]


class CleaningEngine(Protocol):
    """One of the two implementations: plain.py or compiled.py."""

    def new_map(self, bytes_max: int, load_max: float, seed: int) -> OffsetMap: ...

    def scan(self, data: bytes, segment: Segment, previous: int) -> ScanResult:
        """Return the whole batches at the start of `data`, up to the first fault. Offsets must be
        above `previous` and within the segment."""
        ...

    def learn(
        self, chunk: SegmentChunk, keys: OffsetMap, start_offset: int, terms: Terms
    ) -> int | None:
        """Put the keys from `start_offset` on into the map. Return the offset of the first record
        without room, or None."""
        ...

    def sift(
        self, chunk: SegmentChunk, keys: OffsetMap, terms: Terms, counts: RecordCounts, write: Write
    ) -> None:
        """Write the remaining records of a chunk."""
        ...


def chunks(
    disk: Disk, directory: str, segment: Segment, engine: CleaningEngine, position: int = 0
) -> Iterator[SegmentChunk]:
    """Yield the chunks of a segment from the batch at `position` on."""
    path = segment_file(directory, segment.base_offset, LOG)
    location = f"{disk.root}/{path}"
    try:
        file = disk.open(path)
    except FileNotFoundError:
        raise FileLost(f"{location} is gone: another process has removed it") from None
    try:
        previous = segment.base_offset - 1
        while position < segment.size:
            data, scanned = _next(file, location, segment, engine, position, previous)
            previous = int(scanned.table[-1, LAST])
            yield SegmentChunk(segment, position, data, scanned.table, location)
            position += scanned.used
    finally:
        file.close()


def _next(
    file: File,
    location: str,
    segment: Segment,
    engine: CleaningEngine,
    position: int,
    previous: int,
) -> tuple[bytes, ScanResult]:
    left = segment.size - position
    size = min(CHUNK_BYTES, left)
    while True:
        data = file.read_now(position, size)
        if len(data) < size:
            raise FileLost(
                f"{location} has only {position + len(data)} of its {segment.size} bytes"
            )
        scanned = engine.scan(data, segment, previous)
        if scanned.fault != GOOD:
            at = position + scanned.used
            raise BrokenBatch(f"{location}, byte {at}: {FAULTS[scanned.fault]}")
        if scanned.used:
            return data, scanned
        # Not one whole batch: the batch is larger than the bytes read, or cut short.
        needed = _size_of_batch(data, left)
        if needed is None or needed > BATCH_BYTES_MAX:
            reason = "the batch is cut short" if needed is None else f"a batch of {needed} bytes"
            raise BrokenBatch(f"{location}, byte {position}: {reason}")
        size = needed


def _size_of_batch(data: bytes, left: int) -> int | None:
    """Return the size of the batch at the start of `data`; None if fewer bytes are left."""
    if len(data) < HEADER_BYTES:
        return None
    size = int(HEADER.unpack_from(data)[1]) + LENGTH_OVERHEAD
    return size if size <= left else None


def position_of(disk: Disk, directory: str, segment: Segment, offset: int) -> int:
    """Return the start of a batch at or before the one with `offset`, by the segment's index."""
    try:
        file = disk.open(segment_file(directory, segment.base_offset, INDEX))
    except FileNotFoundError:
        return 0
    low, high = 0, file.size // OFFSET_ENTRY.size
    relative, found, last_offset = offset - segment.base_offset, 0, -1
    while low < high:
        middle = (low + high) // 2
        entry = file.read_now(middle * OFFSET_ENTRY.size, OFFSET_ENTRY.size)
        last, position = OFFSET_ENTRY.unpack(entry)
        # A preallocated index ends in zeros.
        if position and last <= relative:
            low, found, last_offset = middle + 1, position, segment.base_offset + last
        else:
            high = middle
    file.close()
    return found if _begins_with(disk, directory, segment, found, last_offset) else 0


def _begins_with(
    disk: Disk, directory: str, segment: Segment, position: int, last_offset: int
) -> bool:
    """Check that the indexed batch exists: an index may be broken."""
    if not 0 < position <= segment.size - HEADER_BYTES:
        return False
    file = disk.open(segment_file(directory, segment.base_offset, LOG))
    header: Header = HEADER.unpack(file.read_now(position, HEADER_BYTES))
    file.close()
    base, length, _, magic, _, _, delta, *_ = header
    return magic == MAGIC_2 and length >= LENGTH_MIN and base + delta == last_offset
