"""The partition of a key, as Java's producer decides: murmur2, then the remainder."""

import struct

SEED = 0x9747B28C
FACTOR = 0x5BD1E995
WORD = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32 bits of Kafka's murmur2, as an unsigned number."""
    size = len(data)
    whole = size & ~3
    state = SEED ^ size
    for word in struct.unpack_from(f"<{size // 4}I", data):
        mixed = word * FACTOR & WORD
        mixed = (mixed ^ mixed >> 24) * FACTOR & WORD
        state = (state * FACTOR & WORD) ^ mixed
    if size != whole:
        state = (state ^ int.from_bytes(data[whole:], "little")) * FACTOR & WORD
    state = (state ^ state >> 13) * FACTOR & WORD
    return state ^ state >> 15


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & POSITIVE) % partitions
