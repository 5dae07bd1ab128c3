"""Kafka's primitive types, and the errors of bytes.

A wire type is an `Annotated` alias: the annotation of a field gives both the Python type and the
encoding. `Int32` is an `int` to the type checker and four bytes to the codec.
"""

import struct
from dataclasses import dataclass
from typing import Annotated

Buffer = bytes | bytearray | memoryview


class Malformed(Exception):
    """Invalid bytes: the peer's fault."""


class UnknownMessageVersion(Malformed):
    """The message has no such version."""


class UnknownRecord(Malformed):
    """A record of an unknown type, which may be kept and skipped."""

    def __init__(self, key: int) -> None:
        super().__init__(f"no record has type {key}")
        self.key = key


class UnencodableValue(Exception):
    """The message holds a value that the wire cannot carry: our fault."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of fixed size, by its `struct` format."""

    format: str
    default: object

    @property
    def size(self) -> int:
        return struct.calcsize(">" + self.format)


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes behind their length; `copied` is false where a view of the input is enough."""

    copied: bool


ZERO_UUID = bytes(16)

# For every string of a request or a response, even where the encoding allows more: as in Kafka,
# whose records, old versions and clients have the same limit.
STRING_BYTES_MAX = 0x7FFF
# For one array, and for one section of tagged fields, as in Kafka 4.4.
ARRAY_ELEMENTS_MAX = 1_000_000
TAGS_MAX = 10_000

BOOL = Fixed("?", False)
BYTES = Blob(copied=True)

Int8 = Annotated[int, Fixed("b", 0)]
Int16 = Annotated[int, Fixed("h", 0)]
UInt16 = Annotated[int, Fixed("H", 0)]
Int32 = Annotated[int, Fixed("i", 0)]
Int64 = Annotated[int, Fixed("q", 0)]
Float64 = Annotated[float, Fixed("d", 0.0)]
Uuid = Annotated[bytes, Fixed("16s", ZERO_UUID)]
Records = Annotated[Buffer, Blob(copied=False)]


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 5 bytes, and the position after it."""
    value = 0
    for shift in range(0, 35, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise Malformed("a varint of more than 5 bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tags(buffer: Buffer, position: int, size: int) -> int:
    """Return the position after a section of unknown tagged fields."""
    if not buffer[position]:
        return position + 1  # clients rarely send any
    count, position = read_uvarint(buffer, position)
    if count > TAGS_MAX:
        raise Malformed(f"{count} tagged fields")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        length, position = read_uvarint(buffer, position)
        position += length
        if position > size:
            raise Malformed("a tagged field reaches beyond the end")
    return position
