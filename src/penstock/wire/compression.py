"""The five codecs of a record batch, read with a ceiling on what comes out.

A peer's bytes are never trusted to say how large they grow: output goes into a buffer of ours,
which doubles up to the ceiling and no further. Snappy has two shapes on the wire: the framing
of Java's xerial library (which we write) and one raw block (which librdkafka also writes).
"""

import struct
import zlib

import cramjam

from penstock.wire.primitives import Buffer, Malformed

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# What decompression may produce when the caller knows no better: a batch of 100 MiB.
OUTPUT_BYTES_MAX = 100 * 1024 * 1024
# The first guess at the output: this many times the input, within these bounds.
_GUESS_RATIO = 4
_GUESS_BYTES_MIN = 16 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_GZIP_WINDOW_BITS = 31
_DEFAULT_LEVELS = {GZIP: 6, LZ4: 4, ZSTD: 3}
# How cramjam says that the buffer we gave it is full.
_FULL = "failed to write whole buffer"


class TooLarge(Malformed):
    """The compressed bytes grow beyond the ceiling."""


class UnknownCodec(Malformed):
    """No compression type has this number."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` in a codec; `level` is the codec's own scale, None its default."""
    match codec:
        case 0:
            return bytes(data)
        case 1:
            chosen = _DEFAULT_LEVELS[GZIP] if level is None else level
            deflate = zlib.compressobj(chosen, zlib.DEFLATED, _GZIP_WINDOW_BITS)
            return deflate.compress(data) + deflate.flush()
        case 2:
            return _compress_xerial(data)
        case 3:
            return _compress_lz4(data, _DEFAULT_LEVELS[LZ4] if level is None else level)
        case 4:
            return bytes(
                cramjam.zstd.compress(data, _DEFAULT_LEVELS[ZSTD] if level is None else level)
            )
    raise UnknownCodec(f"no compression type has the number {codec}")


def decompress(codec: int, data: Buffer, output_bytes_max: int = OUTPUT_BYTES_MAX) -> Buffer:
    """What `data` holds; Malformed if it is broken, TooLarge if it grows beyond the ceiling."""
    match codec:
        case 0:
            if len(data) > output_bytes_max:
                raise _too_large(output_bytes_max)
            return data
        case 1:
            return _decompress_gzip(data, output_bytes_max)
        case 2:
            return _decompress_snappy(data, output_bytes_max)
        case 3 | 4:
            return _decompress_stream(codec, data, output_bytes_max)
    raise UnknownCodec(f"no compression type has the number {codec}")


def _too_large(output_bytes_max: int) -> TooLarge:
    return TooLarge(f"the records grow beyond {output_bytes_max} bytes when decompressed")


def _decompress_gzip(data: Buffer, output_bytes_max: int) -> bytes:
    inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        # One byte more than allowed: that it comes out is the proof that there is too much.
        output = inflate.decompress(data, output_bytes_max + 1)
    except zlib.error as error:
        raise Malformed(f"broken gzip data: {error}") from None
    if len(output) > output_bytes_max:
        raise _too_large(output_bytes_max)
    if not inflate.eof:
        raise Malformed("gzip data ends too early")
    return output


def _decompress_stream(codec: int, data: Buffer, output_bytes_max: int) -> Buffer:
    module = cramjam.lz4 if codec == LZ4 else cramjam.zstd
    room = min(output_bytes_max, max(_GUESS_BYTES_MIN, _GUESS_RATIO * len(data)))
    while True:
        output = bytearray(room)
        try:
            size = module.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _FULL not in str(error):
                raise Malformed(f"broken {NAMES[codec]} data: {error}") from None
            if room >= output_bytes_max:
                raise _too_large(output_bytes_max) from None
            room = min(output_bytes_max, room * 4)
            continue
        return memoryview(output)[:size]


def _compress_lz4(data: Buffer, level: int) -> bytes:
    # Java reads no frame whose blocks lean on each other.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, output_bytes_max: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, output_bytes_max, output_bytes_max)
    parts: list[bytes] = []
    room = output_bytes_max
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise Malformed("snappy data ends too early")
    while position < len(view):
        if position + 4 > len(view):
            raise Malformed("snappy data ends too early")
        size = int.from_bytes(view[position : position + 4])
        position += 4
        if size > len(view) - position:
            raise Malformed("a snappy block reaches beyond the end")
        parts.append(
            _decompress_snappy_block(view[position : position + size], room, output_bytes_max)
        )
        room -= len(parts[-1])
        position += size
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, output_bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > room:
            raise _too_large(output_bytes_max)
        if len(block) == 0:
            raise Malformed("an empty snappy block")
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise Malformed(f"broken snappy data: {error}") from None
    return bytes(output)
