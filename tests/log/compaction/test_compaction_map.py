"""The offset map against a dict, both ways of filling it."""

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.bulk.compiler import BYTES_IN, INT, TABLE, as_int, compiled, numba
from penstock.log.compaction import kernel_bytes, kernel_keys
from penstock.log.compaction.offset_map import Hashes, OffsetMap
from penstock.log.compaction.order import MAP_BYTES_PER_KEY, CompactionRejected


def hashes_of(keys: list[int]) -> Hashes:
    data = b"".join(hashlib.md5(b"%d" % key).digest() for key in keys)
    return np.frombuffer(data, np.uint64).reshape(-1, 2)


def newest(keys: OffsetMap, asked: list[int]) -> list[int]:
    return [int(offset) for offset in keys.newest(hashes_of(asked))]


@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8), st.integers(2, 40))
def test_a_map_knows_the_last_offset_of_each_key_until_it_is_full(
    chunks: list[list[int]], slots: int
) -> None:
    keys = OffsetMap(slots * MAP_BYTES_PER_KEY, 0.9)
    model: dict[int, int] = {}
    offset = 0
    for chunk in chunks:
        offsets = np.arange(offset, offset + len(chunk))
        taken = keys.put_all(hashes_of(chunk), offsets) if chunk else 0
        expected = 0
        for key in chunk:
            if key not in model and len(model) >= keys.limit:
                break
            model[key] = offset + expected
            expected += 1
        assert taken == expected
        offset += len(chunk)
    assert keys.size == len(model)
    assert newest(keys, list(range(31))) == [model.get(key, -1) for key in range(31)]


def test_a_map_takes_24_bytes_per_key_and_no_more() -> None:
    keys = OffsetMap(1_000_000, 0.9)
    assert keys.table.nbytes <= 1_000_000
    assert keys.limit == int(1_000_000 // 24 * 0.9)


def test_a_map_without_room_for_one_key_is_refused() -> None:
    with pytest.raises(CompactionRejected, match="holds no key"):
        OffsetMap(24, 0.9)


@pytest.mark.parametrize("crc_of_word", [kernel_bytes.crc_by_tables, kernel_bytes.crc_of_word])
def test_the_compiled_checksum_is_crc32c(crc_of_word: Callable[..., object]) -> None:
    def more(state: object, word: object) -> object:
        return crc_of_word(state, word)

    state = numba.njit(more)
    data = random.Random(1).randbytes(8 * 50)
    register = np.uint64(0xFFFFFFFF)
    for word in np.frombuffer(data, np.uint64):
        register = np.uint64(state(register, word))
    assert int(register) ^ 0xFFFFFFFF == crc32c(data)


@compiled(BYTES_IN, INT, INT, TABLE)
def _hash_into(source: Any, start: int, size: int, out: Any) -> int:
    first, second = kernel_keys.siphash(source, start, size, (np.uint64(7), np.uint64(9)))
    out[0, 0], out[0, 1] = as_int(first), as_int(second)
    return 0


def siphash(data: bytes) -> int:
    """SipHash-1-3 with 128 bits, after its definition."""
    mask = 2**64 - 1

    def rounds(v: list[int], count: int) -> None:
        def left(number: int, bits: int) -> int:
            return (number << bits | number >> (64 - bits)) & mask

        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[1] = left(v[1], 13) ^ v[0]
            v[0] = left(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = left(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = left(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = left(v[1], 17) ^ v[2]
            v[2] = left(v[2], 32)

    words = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [word ^ seed for word, seed in zip(words, (7, 9, 7, 9), strict=True)]
    v[1] ^= 0xEE
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for place in range(0, len(padded), 8):
        word = int.from_bytes(padded[place : place + 8], "little")
        v[3] ^= word
        rounds(v, 1)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(v, 3)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(v, 3)
    return low | (v[0] ^ v[1] ^ v[2] ^ v[3]) << 64


@given(st.binary(max_size=40), st.integers(0, 9))
def test_the_compiled_hash_is_siphash(data: bytes, start: int) -> None:
    out = np.zeros((1, 2), np.int64)
    source = np.frombuffer(bytes(start) + data, np.uint8)
    _hash_into(source, start, len(data), out)
    low, high = (int(word) & (2**64 - 1) for word in out[0])
    assert low | high << 64 == siphash(data)


def test_an_order_can_be_written_without_loading_numpy() -> None:
    code = "import sys, penstock.log.compaction.order; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
