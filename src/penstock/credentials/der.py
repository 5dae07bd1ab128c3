"""ASN.1 values in DER, read one after the other.

A reader checks every length against the bytes at hand, because certificates of peers are read too.
"""

from collections.abc import Iterator
from typing import NamedTuple

OID, OCTET_STRING, SEQUENCE, SET = 0x06, 0x04, 0x30, 0x31
LENGTH_BYTES_MAX = 4


class DerBroken(ValueError):
    """The bytes are no DER."""


class DerValue(NamedTuple):
    """One value: its tag, its content, and the whole of it."""

    tag: int
    content: bytes
    encoded: bytes

    def values(self) -> list["DerValue"]:
        """Return the values inside. Raise DerBroken if the content is no list of values."""
        return list(_values(self.content))

    def as_oid(self) -> str:
        """Return an object identifier as numbers with dots."""
        if self.tag != OID or not self.content or self.content[-1] & 0x80:
            raise DerBroken("an object identifier is broken")
        numbers: list[int] = []
        number = 0
        for byte in self.content:
            number = number << 7 | byte & 0x7F
            if not byte & 0x80:
                numbers.append(number)
                number = 0
        first = min(numbers[0] // 40, 2)
        return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def parse_der(data: bytes) -> DerValue:
    """Return the one value that the bytes are. Raise DerBroken otherwise."""
    found = list(_values(data))
    if len(found) != 1:
        raise DerBroken(f"{len(found)} values instead of one")
    return found[0]


def _values(data: bytes) -> Iterator[DerValue]:
    position = 0
    while position < len(data):
        if position + 2 > len(data):
            raise DerBroken("a value ends in its head")
        tag, length, start = data[position], data[position + 1], position + 2
        if tag & 0x1F == 0x1F:
            raise DerBroken("a tag of several bytes")
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= LENGTH_BYTES_MAX or start + count > len(data):
                raise DerBroken("a length is broken")
            length = int.from_bytes(data[start : start + count], "big")
            start += count
        end = start + length
        if end > len(data):
            raise DerBroken("a value is longer than its container")
        yield DerValue(tag, data[start:end], data[position:end])
        position = end
