"""Kafka's primitive types, and what can be wrong with bytes.

A wire type is an `Annotated` alias, so that a field's annotation says both what Python holds
and how it is written: `Int32` is an `int` to the type checker and four bytes to the codec.
"""

import struct
from dataclasses import dataclass
from typing import Annotated

Buffer = bytes | bytearray | memoryview


class Malformed(Exception):
    """These bytes are not what they claim to be: the peer's fault."""


class UnsupportedVersion(Malformed):
    """No such version of this message."""


class UnknownRecord(Malformed):
    """A record of a type that we do not know; it may be kept and skipped."""

    def __init__(self, key: int) -> None:
        super().__init__(f"no record has type {key}")
        self.key = key


class Unwritable(Exception):
    """This message holds a value that the wire cannot carry: our fault."""


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
    """Bytes with a length before them; `copied` is false where a view of the input is enough."""

    copied: bool


ZERO_UUID = bytes(16)

# Of any string in a request or a response, in versions that could write a longer one too: as in
# Kafka, whose records, old versions and clients have no room for more.
STRING_BYTES_MAX = 0x7FFF
# Of one array and of one section of tagged fields: more of them are no request, as in Kafka 4.4.
ARRAY_ELEMENTS_MAX = 1_000_000
TAGS_MAX = 10_000

BOOL = Fixed("?", False)
BYTES = Blob(copied=True)

Int8 = Annotated[int, Fixed("b", 0)]
Int16 = Annotated[int, Fixed("h", 0)]
UInt16 = Annotated[int, Fixed("H", 0)]
Int32 = Annotated[int, Fixed("i", 0)]
UInt32 = Annotated[int, Fixed("I", 0)]
Int64 = Annotated[int, Fixed("q", 0)]
Float64 = Annotated[float, Fixed("d", 0.0)]
Uuid = Annotated[bytes, Fixed("16s", ZERO_UUID)]
Records = Annotated[Buffer, Blob(copied=False)]


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes, and the position after it."""
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
    """The position after a section of tagged fields, none of which we know."""
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
