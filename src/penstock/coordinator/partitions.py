"""Which partition of an internal topic is responsible for a group or a transactional id."""

import struct
from functools import lru_cache
from operator import mul
from typing import Final

_SIGN: Final = 0x80000000
_BITS: Final = 0xFFFFFFFF
_NAMES_MAX: Final = 4096
_REMEMBERED: Final = 255  # longer names would fill the memory
# A peer may send names as long as a request allows, so long ones are hashed in parts.
_PART: Final = 2048
_POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in range(_PART + 1)]
_POWERS_OF_FOURS: Final = _POWERS[::4]
_EVERY_SECOND: Final = int.from_bytes(b"\x00\xff" * (_PART // 2), "big")
_LAST_TWO_OF_FOUR: Final = int.from_bytes(b"\x00\x00\xff\xff" * (_PART // 4), "big")


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 units, as a signed 32-bit number that
    overflows."""
    result = _ascii_hash(text.encode()) if text.isascii() else _units_hash(text)
    return result - _BITS - 1 if result & _SIGN else result


def _ascii_hash(text: bytes) -> int:
    """Return the hash of ASCII text. Each part is one large number: neighbours are added at once,
    then pairs."""
    text = bytes(-len(text) % 4) + text  # zeros in front change nothing
    result = 0
    for start in range(0, len(text), _PART):
        part = text[start : start + _PART]
        row = int.from_bytes(part, "big")
        row = (row >> 8 & _EVERY_SECOND) * 31 + (row & _EVERY_SECOND)
        row = (row >> 16 & _LAST_TWO_OF_FOUR) * 31**2 + (row & _LAST_TWO_OF_FOUR)
        fours = struct.unpack(f"<{len(part) // 4}I", row.to_bytes(len(part), "little"))
        result = result * _POWERS[len(part)] + sum(map(mul, fours, _POWERS_OF_FOURS)) & _BITS
    return result


def _units_hash(text: str) -> int:
    encoded = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for start in range(0, len(encoded), 2 * _PART):
        part = encoded[start : start + 2 * _PART]
        units = struct.unpack(f">{len(part) // 2}H", part)
        result = result * _POWERS[len(units)] + sum(map(mul, reversed(units), _POWERS)) & _BITS
    return result


def partition_for(name: str, partitions: int) -> int:
    """Return the partition that Kafka's clients and tools find; the most negative hash counts as
    0."""
    hashed = java_hash(name) if len(name) > _REMEMBERED else _remembered_hash(name)
    return (0 if hashed == -_SIGN else abs(hashed)) % partitions


@lru_cache(maxsize=_NAMES_MAX)
def _remembered_hash(name: str) -> int:
    """Return the hash from a cache: every request of a member asks for the same few names."""
    return java_hash(name)
