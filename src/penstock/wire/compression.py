"""The five codecs of a record batch, with a limit on the decompressed size.

A peer's size claims are never trusted: output goes into our own buffer, which doubles up to the
limit. Snappy has two formats on the wire: the framing of Java's xerial library (which we write) and
one raw block (which librdkafka also writes).
"""

import struct
import zlib

import cramjam

from penstock.wire.primitives import Buffer, Malformed

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# The default limit of decompression: a batch of 100 MiB.
OUTPUT_BYTES_MAX = 100 * 1024 * 1024
# The unpacked limit of a batch on a node, as a multiple of max.message.bytes
UNPACKED_RATIO_MAX = 32
UNPACKED_BYTES_MIN = 1024 * 1024
# The first guess at the output size: this multiple of the input, within these bounds.
_GUESS_RATIO = 4
_GUESS_BYTES_MIN = 16 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
# Every writer fills all blocks but the last; old writers used 1 KB, at least 50 bytes compressed. A
# block has a fixed cost, so many tiny blocks are an attack on the reader's time.
_XERIAL_BLOCKS_MIN = 16
_XERIAL_BLOCK_BYTES_MIN = 40
_GZIP_WINDOW_BITS = 31
_ZSTD_LEVEL_DEFAULT = 3
# Levels of lz4 are Kafka's: 9, the default, is the fast compressor, every other level the thorough
# one with levels 2 to 12.
LZ4_LEVEL_DEFAULT = 9
_LZ4_FAST = 1
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_THOROUGH_MIN, _LZ4_THOROUGH_MAX = 2, 12
# The error text of cramjam for a full output buffer.
_FULL = "failed to write whole buffer"


class TooLarge(Malformed):
    """The output exceeds the limit."""


class UnknownCodec(Malformed):
    """No compression type has this number."""


def unpacked_bytes_max(message_bytes_max: int) -> int:
    """Return the limit for batches of a topic with this max.message.bytes."""
    return min(OUTPUT_BYTES_MAX, max(UNPACKED_BYTES_MIN, UNPACKED_RATIO_MAX * message_bytes_max))


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return compressed `data`; `level` is one of Kafka's compression.*.level, None the default."""
    match codec:
        case 0:
            return bytes(data)
        case 1:
            chosen = zlib.Z_DEFAULT_COMPRESSION if level is None else level
            deflate = zlib.compressobj(chosen, zlib.DEFLATED, _GZIP_WINDOW_BITS)
            return deflate.compress(data) + deflate.flush()
        case 2:
            return _compress_xerial(data)
        case 3:
            return _compress_lz4(data, LZ4_LEVEL_DEFAULT if level is None else level)
        case 4:
            chosen = _ZSTD_LEVEL_DEFAULT if level is None else level
            return bytes(cramjam.zstd.compress(data, chosen))
    raise UnknownCodec(f"no compression type has the number {codec}")


def decompress(codec: int, data: Buffer, output_bytes_max: int = OUTPUT_BYTES_MAX) -> Buffer:
    """Return decompressed `data`; raise Malformed if broken, TooLarge above the limit."""
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


def decompress_start(
    codec: int, data: Buffer, output_bytes_max: int
) -> tuple[bytes | bytearray, bool]:
    """Return decompressed `data`, or its first `output_bytes_max` bytes; and whether
    that is all."""
    if codec == GZIP:
        inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            start = inflate.decompress(data, output_bytes_max)
        except zlib.error as error:
            raise Malformed(f"broken gzip data: {error}") from None
        if not inflate.eof and len(start) < output_bytes_max:
            raise Malformed("gzip data ends too early")
        return start, inflate.eof
    if codec not in (LZ4, ZSTD):
        try:
            return bytes(decompress(codec, data, output_bytes_max)), True
        except TooLarge as error:
            # Snappy declares its output size, which is never far from the input size.
            raise Malformed(str(error)) from None
    module = cramjam.lz4 if codec == LZ4 else cramjam.zstd
    output = bytearray(output_bytes_max)
    try:
        del output[module.decompress_into(data, output) :]
    except cramjam.DecompressionError as error:
        if _FULL not in str(error):
            raise Malformed(f"broken {NAMES[codec]} data: {error}") from None
        return output, False  # the buffer is filled before the error
    return output, True


def _too_large(output_bytes_max: int) -> TooLarge:
    return TooLarge(f"the records grow beyond {output_bytes_max} bytes when decompressed")


def _decompress_gzip(data: Buffer, output_bytes_max: int) -> bytes:
    inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        # One byte more than allowed proves an oversized output.
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
    own = _LZ4_FAST
    if level != LZ4_LEVEL_DEFAULT:
        own = min(max(level, _LZ4_THOROUGH_MIN), _LZ4_THOROUGH_MAX)
    # Java rejects frames with linked blocks.
    compressor = cramjam.lz4.Compressor(level=own, content_checksum=False, block_linked=False)
    view = memoryview(data)
    # The call holds the GIL: one block at a time is short enough.
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        compressor.compress(bytes(view[start : start + _LZ4_BLOCK_BYTES]))
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
    blocks_max = _XERIAL_BLOCKS_MIN + len(view) // _XERIAL_BLOCK_BYTES_MIN
    room = output_bytes_max
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise Malformed("snappy data ends too early")
    while position < len(view):
        if position + 4 > len(view):
            raise Malformed("snappy data ends too early")
        if len(parts) == blocks_max:
            raise Malformed(f"more than {blocks_max} snappy blocks in {len(view)} bytes")
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
