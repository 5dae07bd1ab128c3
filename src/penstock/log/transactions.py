"""The transaction index: the aborted transactions of a segment.

An entry is written with the abort marker: 34 bytes of version, producer id, first offset, last
offset (the marker's) and the last stable offset at that moment, which bounds the search.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from penstock.world import Buffer

ABORTED_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def pack_aborted(aborted: Aborted) -> bytes:
    return ABORTED_ENTRY.pack(_VERSION, *aborted)


def aborted_entries(data: Buffer) -> Iterator[Aborted]:
    """Yield all whole entries of an index."""
    whole = len(data) - len(data) % ABORTED_ENTRY.size
    for _, *fields in ABORTED_ENTRY.iter_unpack(memoryview(data)[:whole]):
        yield Aborted(*fields)


def collect_aborted(
    data: Buffer, first_offset: int, upper_offset: int, into: list[tuple[int, int]]
) -> bool:
    """Add (producer id, first offset) of the transactions that overlap [first, upper). Return True
    if no later segment can hold another."""
    for aborted in aborted_entries(data):
        if aborted.last_offset >= first_offset and aborted.first_offset < upper_offset:
            into.append((aborted.producer_id, aborted.first_offset))
        if aborted.last_stable_offset >= upper_offset:
            return True
    return False


def cut_aborted(data: bytearray, end_offset: int) -> None:
    """Remove transactions whose marker is at or after `end_offset`."""
    for place, aborted in enumerate(aborted_entries(bytes(data))):
        if aborted.last_offset >= end_offset:
            del data[place * ABORTED_ENTRY.size :]
            return
