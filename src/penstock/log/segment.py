"""Segments: the active one, with its indexes in memory, and the closed ones, on disk.

Both answer the same questions: the position of an offset, of a timestamp, the largest timestamp. A
closed segment keeps a few numbers and finds the rest through the file cache. Reads may raise Cold.
"""

import struct
from collections.abc import Callable, Iterator

from penstock.errors import CorruptMessage
from penstock.log.compaction.order import SegmentGroup
from penstock.log.directory import INDEX, LOG, TIME_INDEX, TXN_INDEX, segment_file
from penstock.log.files import FileCache
from penstock.log.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetIndex,
    TimeIndex,
    floor_in_file,
    last_in_file,
)
from penstock.wire.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_2,
    MAX_TIMESTAMP,
    Header,
)
from penstock.world import File, FileLost

NEVER = 2**63 - 1
UNKNOWN = -2
# Turns of the active segment with remembered positions: tailing readers ask for those.
_RECENT_TURNS = 128
# Bytes per read while skipping from header to header.
_SCAN_BYTES = 8192
# Bytes per read of a scan at start.
_READ_BYTES = 1024 * 1024
# base offset, length, last offset delta
_HOP = struct.Struct(">qi11xi")


class ActiveSegment:
    """The segment that takes appends."""

    __slots__ = (
        "_older",
        "_recent",
        "aborted",
        "base_offset",
        "created_ms",
        "file",
        "first_timestamp",
        "index",
        "largest_offset",
        "largest_timestamp",
        "size",
        "times",
        "unindexed_bytes",
    )

    def __init__(self, base_offset: int, file: File, now_ms: int) -> None:
        self.base_offset = base_offset
        self.file = file
        self.created_ms = now_ms
        self.reset()

    def reset(self) -> None:
        """Restore the state before the first batch."""
        self.size = 0
        self.index = OffsetIndex()
        self.times = TimeIndex()
        self.aborted = bytearray()
        self.largest_timestamp = -1
        self.largest_offset = self.base_offset
        self.first_timestamp = -1
        self.unindexed_bytes = 0
        self.forget_positions()

    def forget_positions(self) -> None:
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def remember(self, offset: int, position: int) -> None:
        """Note the start of a turn. Two generations of dicts make a ring that is found by key."""
        self._recent[offset] = position
        if len(self._recent) >= _RECENT_TURNS:
            self._older = self._recent
            self._recent = {}

    def recall(self, offset: int) -> int | None:
        """Return the position of the batch that starts with `offset`, if a recent turn began with
        it."""
        position = self._recent.get(offset)
        return self._older.get(offset) if position is None else position

    def roll_timestamp(self, now_ms: int, roll_ms: int) -> int:
        """Return the largest timestamp that this segment accepts; a later batch starts
        a new one."""
        if self.size == 0:
            return NEVER
        if self.first_timestamp >= 0:
            return self.first_timestamp + roll_ms
        return UNKNOWN if now_ms - self.created_ms > roll_ms else NEVER

    def note(self, last_offset: int, size: int, timestamp: int, interval: int) -> None:
        """Count one batch of the file. The plain version of Log.append's loop."""
        if self.size == 0:
            self.first_timestamp = timestamp
        if timestamp > self.largest_timestamp:
            self.largest_timestamp, self.largest_offset = timestamp, last_offset
        if self.unindexed_bytes > interval:
            self.index.add(last_offset - self.base_offset, self.size)
            self.times.add(self.largest_timestamp, self.largest_offset - self.base_offset)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size
        self.size += size

    def finish(self) -> None:
        """Add the last time entry, which holds the largest timestamp of the segment."""
        if self.largest_timestamp >= 0:
            self.times.add(self.largest_timestamp, self.largest_offset - self.base_offset)

    def log_file(self, files: FileCache) -> File:  # noqa: ARG002  # as a closed segment
        return self.file

    def position_of(self, offset: int, files: FileCache) -> int:  # noqa: ARG002
        return self.index.position_of(offset - self.base_offset)

    def position_before(self, position: int, files: FileCache) -> int:  # noqa: ARG002
        return self.index.position_before(position)

    def offset_before(self, timestamp: int, files: FileCache) -> int:  # noqa: ARG002
        found = self.times.floor(timestamp)
        return self.base_offset + found[1] if found else self.base_offset

    def largest(self, files: FileCache) -> tuple[int, int]:  # noqa: ARG002
        return self.largest_timestamp, self.largest_offset

    def aborted_bytes(self, files: FileCache) -> bytes | bytearray:  # noqa: ARG002
        return self.aborted


class ClosedSegment:
    """A segment that changes no more; `end_offset` is the start of the next one."""

    __slots__ = (
        "_first_timestamp",
        "_largest",
        "base_offset",
        "directory",
        "end_offset",
        "has_aborted",
        "memory",
        "size",
        "when_written",
    )

    def __init__(
        self, directory: str, base_offset: int, end_offset: int, has_aborted: bool, size: int
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.has_aborted = has_aborted
        self.size = size
        # Cached after the first lookup.
        self._largest: tuple[int, int] | None = None
        self._first_timestamp: int | None = None
        # The in-memory indexes, until the files are durable.
        self.memory: ActiveSegment | None = None
        # If the segment leaves the log before that: the removal of its files.
        self.when_written: Callable[[], None] | None = None

    @classmethod
    def after_roll(cls, directory: str, active: ActiveSegment, end_offset: int) -> "ClosedSegment":
        closed = cls(directory, active.base_offset, end_offset, bool(active.aborted), active.size)
        closed._largest = (active.largest_timestamp, active.largest_offset)
        closed._first_timestamp = active.first_timestamp
        closed.memory = active
        return closed

    @classmethod
    def after_compaction(cls, directory: str, group: SegmentGroup) -> "ClosedSegment":
        """Return the segment of a group. It ends where the last replaced segment ended."""
        closed = cls(directory, group.base_offset, group.end_offset, group.has_aborted, group.size)
        closed._largest = (group.largest_timestamp, group.largest_offset)
        return closed

    def path(self, suffix: str) -> str:
        return segment_file(self.directory, self.base_offset, suffix)

    def log_file(self, files: FileCache) -> File:
        try:
            file = files.get(self.path(LOG))
        except FileNotFoundError:
            where = f"{files.disk.root}/{self.path(LOG)}"
            raise FileLost(f"{where} is gone: another process has removed it") from None
        if file.size < self.size:
            where = f"{files.disk.root}/{self.path(LOG)}"
            raise FileLost(f"{where} has only {file.size} of its {self.size} bytes left")
        return file

    def position_of(self, offset: int, files: FileCache) -> int:
        """Return the start of a batch at or before the one with the offset."""
        if self.memory is not None:
            return self.memory.position_of(offset, files)
        span = self.end_offset - self.base_offset
        return self._indexed(files, 0, offset - self.base_offset, span)

    def position_before(self, position: int, files: FileCache) -> int:
        if self.memory is not None:
            return self.memory.position_before(position, files)
        return self._indexed(files, 1, position, self.size)

    def _indexed(self, files: FileCache, column: int, target: int, high_key: int) -> int:
        file = self.index_file(files, INDEX)
        if file is None:
            return 0
        found = floor_in_file(file, OFFSET_ENTRY, column, target, high_key=high_key)
        # A broken index points outside its log: begin at the start.
        if found is None or not 0 <= found[1] < self.size:
            return 0
        return found[1]

    def offset_before(self, timestamp: int, files: FileCache) -> int:
        """Return an offset at or before the first record as late as `timestamp`."""
        if self.memory is not None:
            return self.memory.offset_before(timestamp, files)
        file = self.index_file(files, TIME_INDEX)
        found = floor_in_file(file, TIME_ENTRY, 0, timestamp) if file else None
        return self.base_offset + found[1] if found else self.base_offset

    def largest(self, files: FileCache) -> tuple[int, int]:
        """Return the largest timestamp, and the last offset of its batch."""
        if self._largest is None:
            file = self.index_file(files, TIME_INDEX)
            found = last_in_file(file, TIME_ENTRY) if file else None
            timestamp, offset = found or (-1, 0)
            self._largest = (timestamp, self.base_offset + offset)
        return self._largest

    @property
    def knows_largest(self) -> bool:
        return self._largest is not None

    def first_timestamp(self, files: FileCache) -> int:
        """Return the timestamp of the first batch; -1 if there is none."""
        if self._first_timestamp is None:
            timestamp = -1
            if self.size >= HEADER_BYTES:
                header = HEADER.unpack(self.log_file(files).read(0, HEADER_BYTES))
                timestamp = header[MAX_TIMESTAMP]
            self._first_timestamp = timestamp
        return self._first_timestamp

    @property
    def knows_first_timestamp(self) -> bool:
        return self._first_timestamp is not None

    def aborted_bytes(self, files: FileCache) -> bytes | bytearray:
        if self.memory is not None:
            return self.memory.aborted
        file = self.index_file(files, TXN_INDEX) if self.has_aborted else None
        return file.read(0, file.size) if file else b""

    def index_file(self, files: FileCache, suffix: str) -> File | None:
        try:
            return files.get(self.path(suffix))
        except FileNotFoundError:
            return None


def find_batch(file: File, position: int, end: int, offset: int) -> tuple[int, int, int]:
    """Return position, size and end offset of the first batch from `position` that ends after
    `offset`; (end, 0, offset) if there is none."""
    chunk, start = b"", 0
    while position < end:
        place = position - start
        if place + HEADER_BYTES > len(chunk):
            chunk, start, place = file.read(position, min(_SCAN_BYTES, end - position)), position, 0
            if len(chunk) < HEADER_BYTES:
                raise CorruptMessage(f"no record batch at byte {position} of {file.path}")
        base_offset, length, delta = _HOP.unpack_from(chunk, place)
        if length < LENGTH_MIN:
            raise CorruptMessage(f"no record batch at byte {position} of {file.path}")
        size = length + LENGTH_OVERHEAD
        if position + size > end:  # no append ends like this
            raise CorruptMessage(f"the batch at byte {position} of {file.path} is cut short")
        if base_offset + delta >= offset:
            return position, size, base_offset + delta + 1
        position += size
    return end, 0, offset


def end_of_whole_batches(file: File, position: int, limit: int) -> tuple[int, int]:
    """Return the end of the last batch from `position` on that fits below `limit`, and the offset
    after it (-1 if no batch fits)."""
    chunk, start = b"", 0
    end_offset = -1
    while position < limit:
        place = position - start
        if place + HEADER_BYTES > len(chunk):
            chunk, start, place = file.read(position, _SCAN_BYTES), position, 0
            if len(chunk) < HEADER_BYTES:
                raise CorruptMessage(f"no record batch at byte {position} of {file.path}")
        base_offset, length, delta = _HOP.unpack_from(chunk, place)
        if length < LENGTH_MIN:
            raise CorruptMessage(f"no record batch at byte {position} of {file.path}")
        if position + length + LENGTH_OVERHEAD > limit:
            break
        position += length + LENGTH_OVERHEAD
        end_offset = base_offset + delta + 1
    return position, end_offset


def scan_batches(file: File, position: int = 0) -> Iterator[tuple[int, Header, memoryview]]:
    """Yield position, header and bytes of each batch, up to the first position without one. Waits
    for the disk; for start only."""
    end = file.size
    chunk, start = memoryview(b""), position
    while position + HEADER_BYTES <= end:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = memoryview(file.read_now(position, _READ_BYTES)), position, 0
        header: Header = HEADER.unpack_from(chunk, at)
        size = header[LENGTH] + LENGTH_OVERHEAD
        if header[LENGTH] < LENGTH_MIN or header[MAGIC] != MAGIC_2 or position + size > end:
            return
        if at + size > len(chunk):
            wanted = max(size, _READ_BYTES)
            chunk, start, at = memoryview(file.read_now(position, wanted)), position, 0
        yield position, header, chunk[at : at + size]
        position += size
