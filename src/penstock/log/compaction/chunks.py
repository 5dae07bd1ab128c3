"""A segment in chunks of whole batches, each with a table of what its headers say.

Every batch is checked here, in both passes: its format, its checksum, that offsets rise and stay
within the segment. What does not hold refuses the whole cleaning, with the place in its words. A
whole batch whose records are not what they say is flawed: it was written so, no client reads it,
and it stays as it is while the others are cleaned.
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

# Two of them are in memory, and what is written of one: larger ones are not faster.
CHUNK_BYTES = 1024 * 1024
# A batch is at most as large as anything here may be.
BATCH_BYTES_MAX = OUTPUT_BYTES_MAX
# Batches that one table takes; the rest of a chunk is read again.
TABLE_ROWS = 32_768
# Size, attributes, two deltas, two sizes of fields and the number of headers.
RECORD_BYTES_MIN = 7

# The columns of a table. LAST is an offset, BODY and END are places in the source of the records,
# which is the chunk itself unless they were compressed. A batch with a FLAW counts no records.
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
# Of the attributes those that a rewritten batch keeps: codec, kind of timestamp, transactional,
# control.
ATTRIBUTES_KEPT = 0x3F

# Verdicts on a batch, as bits (see verdicts.py).
DISCARDED = 1  # its records go
KEPT = 2  # its records stay, whatever their keys
SEQUENCE_KEPT = 4  # emptied, it stays as a header
MARKER_EXPIRES = 8  # a marker without a transaction: its delete horizon is set

# What can be wrong with a batch.
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


class Scanned(NamedTuple):
    """What a scan found. `used` bytes are whole batches; a fault is that of the batch there."""

    table: Table
    used: int
    fault: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches of one segment. `position` is where they begin in it."""

    segment: Segment
    position: int
    data: bytes
    table: Table
    place: str

    def batch(self, row: int) -> memoryview:
        start = int(self.table[row, POSITION])
        return memoryview(self.data)[start : start + int(self.table[row, SIZE])]

    def refusal(self, row: int, reason: str) -> BrokenBatch:
        position, base = self.position + self.table[row, POSITION], self.table[row, BASE]
        return BrokenBatch(f"{self.place}, byte {position}, offset {base}: {reason}")

    def unpacked(self, row: int, unpacked_bytes_max: int) -> Buffer:
        """Return the records of a compressed batch. Raise Flawed for one that cannot be unpacked;
        one that is only too large can be read by clients, and refuses the cleaning: its keys would
        outlive their deletion."""
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
    """What decides about a record, the same for a whole cleaning."""

    # Records below are gone; those from `cleaned_to` on are not looked at yet.
    start_offset: int
    cleaned_to: int
    now_ms: int
    # What tombstones that have none yet get.
    delete_horizon_ms: int
    unpacked_bytes_max: int


class Counts:
    """What was met on the way."""

    __slots__ = ("flawed", "kept", "keyless", "read")

    def __init__(self) -> None:
        self.read = 0
        self.kept = 0
        self.keyless = 0
        self.flawed = 0  # batches


# Batches, and of each its size, last offset and largest timestamp.
Write = Callable[[Buffer, Table], None]


class Engine(Protocol):
    """One of the two ways to do it: plain.py or compiled.py."""

    def new_map(self, bytes_max: int, load_max: float, seed: int) -> OffsetMap: ...

    def scan(self, data: bytes, segment: Segment, previous: int) -> Scanned:
        """The whole batches at the beginning of `data`, up to the first fault. Offsets must be
        above `previous` and within the segment."""
        ...

    def learn(self, chunk: Chunk, keys: OffsetMap, start_offset: int, terms: Terms) -> int | None:
        """Put the keys from `start_offset` on into the map; the offset of the first record that
        has no room, None if all have."""
        ...

    def sift(
        self, chunk: Chunk, keys: OffsetMap, terms: Terms, counts: Counts, write: Write
    ) -> None:
        """Write what stays of a chunk."""
        ...


def chunks(
    disk: Disk, directory: str, segment: Segment, engine: Engine, position: int = 0
) -> Iterator[Chunk]:
    """The segment from a batch's start on."""
    path = segment_file(directory, segment.base_offset, LOG)
    place = f"{disk.root}/{path}"
    try:
        file = disk.open(path)
    except FileNotFoundError:
        raise FileLost(f"{place} is gone: somebody else has removed it") from None
    try:
        previous = segment.base_offset - 1
        while position < segment.size:
            data, scanned = _next(file, place, segment, engine, position, previous)
            previous = int(scanned.table[-1, LAST])
            yield Chunk(segment, position, data, scanned.table, place)
            position += scanned.used
    finally:
        file.close()


def _next(
    file: File, place: str, segment: Segment, engine: Engine, position: int, previous: int
) -> tuple[bytes, Scanned]:
    left = segment.size - position
    size = min(CHUNK_BYTES, left)
    while True:
        data = file.read_now(position, size)
        if len(data) < size:
            raise FileLost(f"{place} has only {position + len(data)} of its {segment.size} bytes")
        scanned = engine.scan(data, segment, previous)
        if scanned.fault != GOOD:
            at = position + scanned.used
            raise BrokenBatch(f"{place}, byte {at}: {FAULTS[scanned.fault]}")
        if scanned.used:
            return data, scanned
        # Not one whole batch: it is larger than what was read, or cut short.
        needed = _size_of_batch(data, left)
        if needed is None or needed > BATCH_BYTES_MAX:
            reason = "the batch is cut short" if needed is None else f"a batch of {needed} bytes"
            raise BrokenBatch(f"{place}, byte {position}: {reason}")
        size = needed


def _size_of_batch(data: bytes, left: int) -> int | None:
    """Bytes of the batch at the start of `data`; None if so many are not left."""
    if len(data) < HEADER_BYTES:
        return None
    size = int(HEADER.unpack_from(data)[1]) + LENGTH_OVERHEAD
    return size if size <= left else None


def position_of(disk: Disk, directory: str, segment: Segment, offset: int) -> int:
    """A batch's start at or before the batch that holds `offset`, by the segment's index."""
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
        # What is preallocated and not used yet is zeros.
        if position and last <= relative:
            low, found, last_offset = middle + 1, position, segment.base_offset + last
        else:
            high = middle
    file.close()
    return found if _begins_with(disk, directory, segment, found, last_offset) else 0


def _begins_with(
    disk: Disk, directory: str, segment: Segment, position: int, last_offset: int
) -> bool:
    """Whether the batch that an index tells of is there: an index may be broken."""
    if not 0 < position <= segment.size - HEADER_BYTES:
        return False
    file = disk.open(segment_file(directory, segment.base_offset, LOG))
    header: Header = HEADER.unpack(file.read_now(position, HEADER_BYTES))
    file.close()
    base, length, _, magic, _, _, delta, *_ = header
    return magic == MAGIC_2 and length >= LENGTH_MIN and base + delta == last_offset
