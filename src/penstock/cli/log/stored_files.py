"""Reader for the files of a data directory: segments, indexes, producer snapshots.

Two commands print these values: `penstock log dump` and kafka-dump-log.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from penstock.log.producers import Producers, State
from penstock.wire import batch as wire
from penstock.wire.compression import NAMES

# No producer is too old to be shown.
_NEVER_MS = 2**62


class StoredBatch(NamedTuple):
    """A whole batch of a segment; `data` is valid until the next one is read."""

    position: int
    header: wire.Header
    data: memoryview

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    @property
    def last_offset(self) -> int:
        return self.header[wire.BASE_OFFSET] + self.header[wire.LAST_OFFSET_DELTA]

    @property
    def codec_name(self) -> str:
        codec = self.header[wire.ATTRIBUTES] & wire.CODEC_MASK
        return NAMES[codec] if codec < len(NAMES) else "unknown"

    @property
    def timestamp_type(self) -> str:
        appended = self.header[wire.ATTRIBUTES] & wire.APPEND_TIME
        return "LogAppendTime" if appended else "CreateTime"

    @property
    def is_control(self) -> bool:
        return bool(self.header[wire.ATTRIBUTES] & wire.CONTROL)

    @property
    def checksum_holds(self) -> bool:
        return wire.checksum_holds(self.data, self.header)

    def records(self) -> Iterator[wire.Record]:
        yield from wire.read_records(bytes(self.data))


@contextmanager
def map_file(path: Path) -> Iterator[memoryview]:
    """Map a file into memory for reading."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        yield memoryview(b"")
        return
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        # The mapping cannot be closed while a view of it is alive.
        memoryview(mapped) as view,
    ):
        yield view


def read_batches(view: memoryview) -> Iterator[StoredBatch]:
    """Yield the whole batches of a segment; raise Malformed at bytes that are no batch."""
    for position, header in wire.batch_headers(view):
        end = position + wire.LENGTH_OVERHEAD + header[wire.LENGTH]
        with view[position:end] as data:
            yield StoredBatch(position, header, data)


def read_index(path: Path, entry: struct.Struct) -> list[tuple[int, int]]:
    """Return the entries of an index, without the zeros behind the last one of an open index."""
    data = path.read_bytes()
    whole = len(data) - len(data) % entry.size
    found: list[tuple[int, int]] = []
    for first, second in entry.iter_unpack(data[:whole]):
        if not first and not second and (found or not any(data)):
            break
        found.append((first, second))
    return found


def base_offset(path: Path) -> int | None:
    """Return the offset in the name of a segment's file."""
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdecimal() else None


def read_producers(path: Path) -> dict[int, State]:
    """Return the producers of a snapshot by id; raise CorruptSnapshot if it is not whole."""
    producers = Producers()
    producers.load_snapshot(path.read_bytes(), 0, _NEVER_MS)
    return producers.states
