"""Batches whose headers and checksums are right and whose records are anything."""

import struct
import zlib

from crc32c import crc32c

from penstock.wire.batch import LENGTH_MIN, MAGIC_2, PREFIX, Record, build_batch
from penstock.wire.compression import compress

NOW_MS = 1_750_000_000_000


def raw_batch(
    body: bytes, *, count: int = 1, codec: int = 0, base_ms: int = NOW_MS, latest_ms: int = NOW_MS
) -> bytes:
    """A batch around these bytes, whatever they are."""
    fields = struct.pack(">hiqqqhii", codec, count - 1, base_ms, latest_ms, -1, -1, -1, count)
    checksum = crc32c(fields + body)
    prefix = PREFIX.pack(0, LENGTH_MIN + len(body), -1)
    return prefix + struct.pack(">bI", MAGIC_2, checksum) + fields + body


def records_of(count: int, *, key: bytes | None = b"k", timestamp: int = NOW_MS) -> bytes:
    """The uncompressed records of a sound batch."""
    return build_batch([Record(place, timestamp, key, b"v") for place in range(count)])[61:]


def bomb(size: int) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    packed = b"".join(deflate.compress(piece) for _ in range(size >> 20))
    return packed + deflate.flush()


_ONE = records_of(1)
_HEADERS = bytes([12, 0, 0, 0, 1, 1, 2])  # a record header is announced, and the record ends
GARBAGE = {
    "no varint": raw_batch(b"\xff" * 100),
    "zeros": raw_batch(bytes(100)),
    "nothing": raw_batch(b""),
    "too few records": raw_batch(_ONE, count=2),
    "too many records": raw_batch(_ONE + _ONE),
    "more records than bytes": raw_batch(_ONE, count=2**31 - 1),
    "a record beyond the end": raw_batch(b"\x7e" + _ONE[1:]),
    "an offset outside of the batch": raw_batch(bytes([12, 0, 0, 40, 1, 1, 0])),
    "a time beyond all times": raw_batch(bytes([12, 0, 2, 0, 1, 1, 0]), base_ms=2**63 - 1),
    "broken gzip": raw_batch(b"\x1f\x8b" + bytes(50), codec=1),
    "broken snappy": raw_batch(b"\xff" * 50, codec=2),
    "broken lz4": raw_batch(b"\xff" * 50, codec=3),
    "broken zstd": raw_batch(b"\xff" * 50, codec=4),
    "gzip cut short": raw_batch(compress(1, _ONE)[:-5], codec=1),
    "a bomb": raw_batch(bomb(64 << 20), codec=1),
}
