"""The codecs against other people's implementations, and against bombs."""

import gzip
import random
import struct
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard

from penstock.wire.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    TooLarge,
    UnknownCodec,
    compress,
    decompress,
    decompress_start,
)
from penstock.wire.primitives import Malformed

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)


def samples() -> list[bytes]:
    dice = random.Random(1)
    return [b"", b"a", b"abc" * 50_000, dice.randbytes(100_000), bytes(1_000_000)]


def xerial(data: bytes, block: int = 1_000) -> bytes:
    """The framing of Java's library, written down independently."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block):
        piece = snappy.compress(data[start : start + block])
        out += struct.pack(">i", len(piece)) + piece
    return out


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", samples())
def test_what_goes_in_comes_out(codec: int, data: bytes) -> None:
    packed = compress(codec, data)
    for given in (packed, bytearray(packed), memoryview(packed)):
        assert bytes(decompress(codec, given)) == data
    assert bytes(decompress(codec, packed, max(len(data), 1))) == data


@pytest.mark.parametrize("data", samples())
def test_others_read_what_we_write(data: bytes) -> None:
    assert gzip.decompress(compress(GZIP, data)) == data
    assert lz4.frame.decompress(compress(LZ4, data)) == data
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(ZSTD, data)) == data
    packed = compress(SNAPPY, data)
    assert packed[:16] == b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1"
    position, out = 16, b""
    while position < len(packed):
        size = int.from_bytes(packed[position : position + 4])
        out += snappy.decompress(packed[position + 4 : position + 4 + size])
        position += 4 + size
    assert out == data


@pytest.mark.parametrize("data", samples())
def test_we_read_what_others_write(data: bytes) -> None:
    assert bytes(decompress(GZIP, gzip.compress(data))) == data
    assert bytes(decompress(LZ4, lz4.frame.compress(data))) == data
    assert bytes(decompress(LZ4, lz4.frame.compress(data, content_checksum=True))) == data
    assert bytes(decompress(ZSTD, zstandard.ZstdCompressor().compress(data))) == data
    streaming = zstandard.ZstdCompressor().compressobj()
    assert bytes(decompress(ZSTD, streaming.compress(data) + streaming.flush())) == data
    assert bytes(decompress(SNAPPY, snappy.compress(data))) == data
    assert bytes(decompress(SNAPPY, xerial(data))) == data


def test_java_can_read_our_lz4_frames_since_their_blocks_are_independent() -> None:
    info = lz4.frame.get_frame_info(compress(LZ4, b"abc" * 100_000))
    assert info["block_linked"] is False


def _words() -> bytes:
    dice = random.Random(2)
    return b"".join(dice.choice((b"lorem", b"ipsum", b"dolor", b"sit")) for _ in range(20_000))


@pytest.mark.parametrize(("codec", "high"), [(GZIP, 9), (LZ4, 12), (ZSTD, 9)])
def test_a_higher_level_packs_tighter(codec: int, high: int) -> None:
    assert len(compress(codec, _words(), high)) < len(compress(codec, _words(), 1))


def test_lz4_is_fast_by_default_and_at_level_9_as_in_kafka() -> None:
    default = compress(LZ4, _words())
    assert compress(LZ4, _words(), 9) == default
    assert all(len(compress(LZ4, _words(), level)) < len(default) for level in (1, 8, 10, 17))


@pytest.mark.parametrize(
    ("codec", "level"),
    [(GZIP, -1), (GZIP, 1), (LZ4, 1), (LZ4, 17), (ZSTD, -131_072), (ZSTD, 22)],
)
def test_every_level_that_kafka_knows_can_be_used(codec: int, level: int) -> None:
    data = _words()[:3_000]
    assert bytes(decompress(codec, compress(codec, data, level))) == data


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_what_fits_is_decompressed_as_a_whole(codec: int) -> None:
    start, whole = decompress_start(codec, compress(codec, _words()), 200_000)
    assert (bytes(start), whole) == (_words(), True)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_of_what_grows_too_large_the_beginning_can_be_had(codec: int) -> None:
    data = b"".join(number.to_bytes(4) for number in range(100_000))
    start, whole = decompress_start(codec, compress(codec, data), 70_001)
    assert (bytes(start), whole) == (data[:70_001], False)


@pytest.mark.parametrize("codec", CODECS)
def test_the_ceiling_holds_to_the_byte(codec: int) -> None:
    packed = compress(codec, b"x" * 100_000)
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(TooLarge):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_ends_in_an_error_without_taking_the_memory(codec: int) -> None:
    bomb = compress(codec, bytes(200 * 1024 * 1024))
    tracemalloc.start()
    with pytest.raises(TooLarge):
        decompress(codec, bomb, 1024 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * 1024 * 1024


def test_a_snappy_header_that_promises_gigabytes_is_refused() -> None:
    with pytest.raises(TooLarge):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 10, 1_000_000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_every_cut_is_noticed(codec: int) -> None:
    packed = compress(codec, bytes(range(256)) * 4)
    # A snappy stream of several blocks may end after any of them.
    whole = {16} if codec == SNAPPY else set()
    for size in range(1, len(packed)):
        if size in whole:
            continue
        with pytest.raises(Malformed):
            decompress(codec, packed[:size])


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_garbage_is_malformed_and_nothing_else(codec: int) -> None:
    dice = random.Random(codec)
    good = compress(codec, b"some text, some text, some text" * 20)
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(dice.randrange(1, 4)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        for data in (bytes(bad), dice.randbytes(dice.randrange(1, 60))):
            try:
                decompress(codec, data, 100_000)
            except Malformed:
                pass


def test_an_unknown_codec_is_named() -> None:
    for codec in (5, 7, -1):
        with pytest.raises(UnknownCodec):
            decompress(codec, b"x")
        with pytest.raises(UnknownCodec):
            compress(codec, b"x")
