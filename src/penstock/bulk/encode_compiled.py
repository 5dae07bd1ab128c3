"""Rows packed into open batches, compiled.

One pass: the partition of a row, the size of its record, then its bytes, straight into the
partition's memory. If a batch is full, the kernel stops before that row, and the caller continues
there.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.bulk.collector import ClosedBatch, Uncollected
from penstock.bulk.compiler import (
    BYTES_IN,
    INT,
    INT32_IN,
    INT64_IN,
    INT64_OUT,
    TABLE,
    as_index,
    as_int,
    compiled,
    copy_to,
    inlined,
    store_byte,
    types,
)
from penstock.bulk.inputs import BinaryColumn, Rows
from penstock.bulk.murmur2 import FACTOR, POSITIVE, SEED, WORD
from penstock.wire.batch import HEADER_BYTES

_SHIFTED_MAX = 2**57 - 1  # the largest value that fits 64 bits after a shift by 7

# A table row per partition: the address of its memory (0: none yet), used bytes, records, first and
# largest timestamp.
_ADDRESS, _USED, _RECORDS, _BASE_TIME, _LATEST = range(5)
_TABLE_FIELDS = 5

_ALL_IN, _HOMELESS, _FULL, _OVERSIZED = range(4)
_STOP_ROW, _STOP_PARTITION = range(2)

_BINARY = types.Tuple((BYTES_IN, INT32_IN, BYTES_IN))
_HEADERS = types.Tuple((INT32_IN, INT32_IN, _BINARY, _BINARY))

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Binary = tuple[Bytes, Int32s, Bytes]
Headers = tuple[Int32s, Int32s, Binary, Binary]


@inlined
def _size_of_varint(value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    if 0 <= rest < 0x80:
        return 1
    size = 1
    while rest < 0 or rest > 0x7F:
        rest = (rest >> 7) & _SHIFTED_MAX
        size += 1
    return size


@inlined
def _write_varint(address: int, value: int) -> int:
    """Write a varint; return the address after it."""
    rest = (value << 1) ^ (value >> 63)
    while rest < 0 or rest > 0x7F:
        store_byte(address, rest & 0x7F | 0x80)
        rest = (rest >> 7) & _SHIFTED_MAX
        address += 1
    store_byte(address, rest)
    return address + 1


@inlined
def _bounds(column: Binary, row: int) -> tuple[int, int]:
    """Return the start of a row's bytes, and their size (below 0: null)."""
    _data, ends, present = column
    if len(ends) == 0 or (len(present) and not present[as_index(row)]):
        return 0, -1
    start = as_int(ends[as_index(row)])
    return start, as_int(ends[as_index(row + 1)]) - start


@inlined
def _size_of_field(size: int) -> int:
    return 1 if size < 0 else _size_of_varint(size) + size


@inlined
def _write_field(address: int, column: Binary, start: int, size: int) -> int:
    address = _write_varint(address, size)
    if size > 0:
        copy_to(address, column[0], start, size)
        address += size
    return address


@inlined
def _size_of_headers(headers: Headers, row: int) -> int:
    starts, counts, names, contents = headers
    first, count = as_int(starts[as_index(row)]), as_int(counts[as_index(row)])
    size = _size_of_varint(count)
    for header in range(first, first + count):
        size += _size_of_field(_bounds(names, header)[1])
        size += _size_of_field(_bounds(contents, header)[1])
    return size


@inlined
def _write_headers(address: int, headers: Headers, row: int) -> None:
    starts, counts, names, contents = headers
    first, count = as_int(starts[as_index(row)]), as_int(counts[as_index(row)])
    address = _write_varint(address, count)
    for header in range(first, first + count):
        start, size = _bounds(names, header)
        address = _write_field(address, names, start, size)
        start, size = _bounds(contents, header)
        address = _write_field(address, contents, start, size)


@inlined
def _murmur2(data: Bytes, start: int, size: int) -> int:
    """Return the hash of murmur2.py."""
    state = SEED ^ size
    end = start + (size & ~3)
    for place in range(start, end, 4):
        word = (
            as_int(data[as_index(place)])
            | as_int(data[as_index(place + 1)]) << 8
            | as_int(data[as_index(place + 2)]) << 16
            | as_int(data[as_index(place + 3)]) << 24
        )
        mixed = word * FACTOR & WORD
        mixed = (mixed ^ mixed >> 24) * FACTOR & WORD
        state = (state * FACTOR & WORD) ^ mixed
    if size & 3:
        for place in range(size & 3):
            state ^= as_int(data[as_index(end + place)]) << (8 * place)
        state = state * FACTOR & WORD
    state = (state ^ state >> 13) * FACTOR & WORD
    return state ^ state >> 15


@inlined
def _partition_of(
    chosen: Int32s, row: int, keys: Binary, start: int, size: int, partitions: int, keyless: int
) -> int:
    if len(chosen) and chosen[as_index(row)] >= 0:
        return as_int(chosen[as_index(row)])
    if size < 0:
        return keyless
    return (_murmur2(keys[0], start, size) & POSITIVE) % partitions


@compiled(
    *(types.UniTuple(INT, 2), types.UniTuple(INT, 4), TABLE, _BINARY, _BINARY, _HEADERS),
    *(INT32_IN, INT64_IN, INT64_OUT),
)
def encode_rows(
    span: tuple[int, int],
    terms: tuple[int, int, int, int],
    table: Int64s,
    keys: Binary,
    values: Binary,
    headers: Headers,
    chosen: Int32s,
    timestamps: Int64s,
    stop: Int64s,
) -> int:
    """Pack the rows of the span into the batches of the table; return the cause of the stop, and
    its row."""
    partitions, keyless, room, now_ms = terms
    with_headers = len(headers[1]) > 0
    for row in range(span[0], span[1]):
        key_start, key_size = _bounds(keys, row)
        value_start, value_size = _bounds(values, row)
        partition = _partition_of(chosen, row, keys, key_start, key_size, partitions, keyless)
        stop[_STOP_ROW], stop[_STOP_PARTITION] = row, partition
        if table[partition, _ADDRESS] == 0:
            return _HOMELESS
        used, records = table[partition, _USED], table[partition, _RECORDS]
        time = timestamps[as_index(row)] if len(timestamps) else now_ms
        delta = time - table[partition, _BASE_TIME] if records else 0
        size = (
            1
            + _size_of_varint(delta)
            + _size_of_varint(records)
            + _size_of_field(key_size)
            + _size_of_field(value_size)
            + (_size_of_headers(headers, row) if with_headers else 1)
        )
        after = used + _size_of_varint(size) + size
        if after > room:
            return _FULL if records else _OVERSIZED
        address = _write_varint(table[partition, _ADDRESS] + used, size)
        store_byte(address, 0)
        address = _write_varint(address + 1, delta)
        address = _write_varint(address, records)
        address = _write_field(address, keys, key_start, key_size)
        address = _write_field(address, values, value_start, value_size)
        if with_headers:
            _write_headers(address, headers, row)
        else:
            store_byte(address, 0)
        if records == 0:
            table[partition, _BASE_TIME] = time
            table[partition, _LATEST] = time
        elif time > table[partition, _LATEST]:
            table[partition, _LATEST] = time
        table[partition, _USED] = after
        table[partition, _RECORDS] = records + 1
    return _ALL_IN


class CompiledCollector:
    """Rows packed into the open batches of partitions, each in separate memory."""

    def __init__(self, partitions: int, room: int) -> None:
        self._partitions = partitions
        self._room = room
        self._table = np.zeros((partitions, _TABLE_FIELDS), np.int64)
        self._memory: dict[int, pa.Buffer] = {}
        self._stop = np.zeros(2, np.int64)

    def add(self, rows: Rows, first: int, keyless: int, now_ms: int) -> Uncollected | None:
        headers = (
            *(rows.header_starts, rows.header_counts),
            *(_parts(rows.names), _parts(rows.contents)),
        )
        while True:
            reason = encode_rows(
                (first, rows.count),
                (self._partitions, keyless, self._room, now_ms),
                self._table,
                *(_parts(rows.keys), _parts(rows.values), headers),
                *(rows.partitions, rows.timestamps, self._stop),
            )
            if reason == _ALL_IN:
                return None
            first, partition = self._stop.tolist()
            if reason != _HOMELESS:
                return Uncollected(first, partition, oversized=reason != _FULL)
            self._house(partition)

    def take(self, partition: int) -> ClosedBatch | None:
        _address, used, records, base_timestamp, latest = self._table[partition].tolist()
        if not records:
            return None
        batch = memoryview(self._memory[partition]).cast("B")[:used]
        if 2 * used < self._room:
            # Copy a short batch, so that its receiver does not hold the large buffer.
            batch = memoryview(bytearray(batch))
            self._table[partition, _USED:] = (HEADER_BYTES, 0, 0, 0)
        else:
            del self._memory[partition]
            self._table[partition] = 0
        return ClosedBatch(batch, records, base_timestamp, latest)

    def open_partitions(self) -> list[int]:
        found: list[int] = self._table[:, _RECORDS].nonzero()[0].tolist()
        return found

    def _house(self, partition: int) -> None:
        memory = pa.allocate_buffer(self._room)
        self._memory[partition] = memory
        self._table[partition] = (memory.address, HEADER_BYTES, 0, 0, 0)


def _parts(column: BinaryColumn) -> Binary:
    return column.data, column.ends, column.present
