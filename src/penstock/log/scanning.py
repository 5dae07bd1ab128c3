"""Walking through a segment's file from batch to batch. Waits for the disk; for start only."""

from collections.abc import Iterator

from penstock.wire.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_2,
    Header,
)
from penstock.world import File

_CHUNK_BYTES = 1024 * 1024


def scan_batches(file: File, position: int = 0) -> Iterator[tuple[int, Header, memoryview]]:
    """Position, header and bytes of each batch, up to the first place where none can be."""
    end = file.size
    chunk, start = memoryview(b""), position
    while position + HEADER_BYTES <= end:
        place = position - start
        if place + HEADER_BYTES > len(chunk):
            chunk, start, place = memoryview(file.read_now(position, _CHUNK_BYTES)), position, 0
        header: Header = HEADER.unpack_from(chunk, place)
        size = header[LENGTH] + LENGTH_OVERHEAD
        if header[LENGTH] < LENGTH_MIN or header[MAGIC] != MAGIC_2 or position + size > end:
            return
        if place + size > len(chunk):
            wanted = max(size, _CHUNK_BYTES)
            chunk, start, place = memoryview(file.read_now(position, wanted)), position, 0
        yield position, header, chunk[place : place + size]
        position += size
