"""The sparse indexes of a segment: offset to position, and timestamp to offset.

Offset entry: (last offset of a batch, start of that batch). Time entry: (largest timestamp so far,
last offset of its batch). Offsets are relative to the segment's base. Entries of the active segment
are arrays. Those of closed segments stay in their files and are searched page by page, so a lookup
touches two or three pages in a log of any length.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right

from penstock.world import Buffer, File

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
RELATIVE_OFFSET_MAX = 2**31 - 1
# Searches read whole pages of the page cache.
_PAGE_BYTES = 4096
# Guesses before bisection: keys may be spread unevenly.
_GUESSES_MAX = 3


class OffsetIndex:
    """Offset entries of the active segment."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def position_of(self, relative_offset: int) -> int:
        """Return the start of a batch at or before the one with the offset."""
        place = bisect_right(self.offsets, relative_offset)
        return self.positions[place - 1] if place else 0

    def position_before(self, position: int) -> int:
        """Return the last indexed batch start at or before `position`."""
        place = bisect_right(self.positions, position)
        return self.positions[place - 1] if place else 0

    def cut(self, position: int) -> None:
        """Forget the batches that start at or after `position`."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:], self.positions[keep:]

    def to_bytes(self) -> bytes:
        both = array("i", bytes(8 * len(self.offsets)))
        both[0::2] = self.offsets
        both[1::2] = self.positions
        if sys.byteorder == "little":
            both.byteswap()
        return both.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, log_bytes: int) -> "OffsetIndex | None":
        """Return the entries before the zeros of preallocation; None if they do not fit a log of
        this size."""
        if len(data) % OFFSET_ENTRY.size:
            return None
        both = array("i", _without_padding(data, OFFSET_ENTRY.size))
        if sys.byteorder == "little":
            both.byteswap()
        index = cls()
        index.offsets, index.positions = both[0::2], both[1::2]
        return index if index._rises(log_bytes) else None

    def _rises(self, log_bytes: int) -> bool:
        if not self.offsets:
            return True
        pairs = zip(self.offsets, self.offsets[1:], strict=False)
        places = zip(self.positions, self.positions[1:], strict=False)
        return (
            self.offsets[0] >= 0
            and self.positions[0] > 0
            and self.positions[-1] < log_bytes
            and all(a < b for a, b in pairs)
            and all(a < b for a, b in places)
        )


class TimeIndex:
    """Time entries of the active segment, in the format of the file."""

    __slots__ = ("data", "last_timestamp")

    def __init__(self) -> None:
        self.data = bytearray()
        self.last_timestamp = -1

    def __len__(self) -> int:
        return len(self.data) // TIME_ENTRY.size

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if its timestamp is later than the last one."""
        if timestamp > self.last_timestamp:
            self.data += TIME_ENTRY.pack(timestamp, relative_offset)
            self.last_timestamp = timestamp

    def last(self) -> tuple[int, int] | None:
        if not self.data:
            return None
        timestamp, offset = TIME_ENTRY.unpack_from(self.data, len(self.data) - TIME_ENTRY.size)
        return timestamp, offset

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last entry at or before `timestamp`."""
        return _floor_in(self.data, TIME_ENTRY, 0, timestamp)

    def cut(self, relative_offset: int) -> None:
        """Forget entries for offsets at or after this one."""
        count = len(self)
        while count and TIME_ENTRY.unpack_from(self.data, (count - 1) * 12)[1] >= relative_offset:
            count -= 1
        del self.data[count * TIME_ENTRY.size :]
        last = self.last()
        self.last_timestamp = last[0] if last else -1

    @classmethod
    def from_bytes(cls, data: bytes) -> "TimeIndex | None":
        """Return the entries before the zeros of preallocation; None if they are invalid."""
        if len(data) % TIME_ENTRY.size:
            return None
        index = cls()
        last_offset = -1
        for timestamp, offset in TIME_ENTRY.iter_unpack(_without_padding(data, TIME_ENTRY.size)):
            if timestamp <= index.last_timestamp or offset < last_offset:
                return None
            index.add(timestamp, offset)
            last_offset = offset
        return index


def floor_in_file(
    file: File,
    entry: struct.Struct,
    column: int,
    target: int,
    *,
    low_key: int = 0,
    high_key: int = -1,
) -> tuple[int, int] | None:
    """Return the last entry of an index file whose `column` is at most `target`. May raise Cold.

    `low_key` and `high_key`, if known, are the keys before the first and after the last entry, and
    let the search guess its page.
    """
    page_entries = _PAGE_BYTES // entry.size
    low, high = 0, file.size // entry.size
    found: tuple[int, int] | None = None
    guesses = 0
    while low < high:
        slot = (low + high) // 2
        if high_key > low_key and guesses < _GUESSES_MAX:
            slot = low + (target - low_key) * (high - low) // (high_key - low_key)
            slot = max(low, min(slot, high - 1))
        guesses += 1
        first = slot - slot % page_entries
        data = file.read(first * entry.size, min(page_entries, high - first) * entry.size)
        if len(data) < entry.size:
            return found
        start: tuple[int, int] = entry.unpack_from(data)
        if target < start[column]:
            high, high_key = first, start[column]
            continue
        found = _floor_in(data, entry, column, target)
        if found is None or len(data) < page_entries * entry.size:
            return found
        end: tuple[int, int] = entry.unpack_from(data, len(data) - entry.size)
        if target < end[column]:
            return found
        low, low_key = first + page_entries, end[column]
    return found


def last_in_file(file: File, entry: struct.Struct) -> tuple[int, int] | None:
    """Return the last entry of an index file. May raise Cold."""
    count = file.size // entry.size
    if count == 0:
        return None
    data = file.read((count - 1) * entry.size, entry.size)
    found: tuple[int, int] = entry.unpack_from(data)
    return found


def _without_padding(data: bytes, entry_bytes: int) -> bytes:
    """Remove the zeros of preallocation. No entry is all zeros, because a batch precedes each."""
    used = len(data.rstrip(b"\0"))
    return data[: used + -used % entry_bytes]


def _floor_in(
    data: Buffer, entry: struct.Struct, column: int, target: int
) -> tuple[int, int] | None:
    low, high = 0, len(data) // entry.size
    while low < high:
        middle = (low + high) // 2
        if entry.unpack_from(data, middle * entry.size)[column] <= target:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return None
    found: tuple[int, int] = entry.unpack_from(data, (low - 1) * entry.size)
    return found
