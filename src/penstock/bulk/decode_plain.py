"""Records to Arrow columns with numpy and pyarrow, for installations without numba.

Python walks from record to record, by their lengths only; the content is then read for all records
at once. A position of _BAD means that a record ended too early or was invalid. It is larger than
any end, so one comparison at the end of the record finds it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.bulk.columns import (
    HEADERS_TYPE,
    MICROSECONDS_PER_MS,
    TIME_MS_MAX,
    TIME_TYPE,
    Unpacked,
)
from penstock.bulk.packed import (
    APPENDED,
    APPENDED_AT,
    BASE_TIME,
    BROKEN,
    COUNT,
    END,
    FIRST,
    LAST_DELTA,
    NO_TIME,
    START,
    STRAY,
    TRAILING,
    corrupt_records,
    find_records,
    no_name,
)
from penstock.bulk.scan import ReadRange
from penstock.wire.batch import Header

_BAD = 1 << 62
_VARLONG_SHIFT_MAX = 63

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NONE = np.empty(0, np.int64)


class _BatchFault(Exception):
    """A fault in a batch."""

    def __init__(self, batch: int, fault: int) -> None:
        super().__init__()
        self.batch = batch
        self.fault = fault


@dataclass(frozen=True, slots=True)
class _Fields:
    """A byte string per row: its start and its size (below 0: null)."""

    starts: Int64s
    sizes: Int64s

    def only(self, kept: Bools) -> "_Fields":
        return _Fields(self.starts[kept], self.sizes[kept])


@dataclass(frozen=True, slots=True)
class _Records:
    """All records of a response, side by side."""

    batches: Int64s
    time_deltas: Int64s
    offset_deltas: Int64s
    keys: _Fields
    values: _Fields
    header_counts: Int64s
    headers_start: Int64s
    ends: Int64s

    def only(self, kept: Bools) -> "_Records":
        return _Records(
            self.batches[kept],
            self.time_deltas[kept],
            self.offset_deltas[kept],
            self.keys.only(kept),
            self.values.only(kept),
            self.header_counts[kept],
            self.headers_start[kept],
            self.ends[kept],
        )


def unpack(
    view: memoryview,
    batches: list[tuple[int, Header]],
    columns: frozenset[str],
    wanted: ReadRange,
    output_bytes_max: int,
) -> Unpacked:
    """Return the columns of these batches of `view`."""
    packed = find_records(view, batches, wanted, output_bytes_max)
    table = packed.table
    data = b"".join(
        memoryview(source)[start:end]
        for source, (start, end) in zip(
            packed.sources, table[:, (START, END)].tolist(), strict=True
        )
    )
    try:
        records = _read(data, table)
        offsets = table[records.batches, FIRST] + records.offset_deltas
        kept = (offsets >= wanted.start_offset) & (offsets < wanted.end_offset)
        records = records.only(kept)
        arrays = _arrays(data, table, records, offsets[kept], columns)
    except _BatchFault as found:
        failed = batches[found.batch]
        raise corrupt_records(view, failed, wanted, found.fault, output_bytes_max) from None
    except pa.ArrowInvalid:
        raise no_name(wanted) from None
    rows = np.bincount(records.batches, minlength=len(table)).astype(np.int64)
    return Unpacked(arrays, rows)


def _arrays(
    data: bytes, table: Int64s, records: _Records, offsets: Int64s, columns: frozenset[str]
) -> dict[str, pa.Array]:
    arrays: dict[str, pa.Array] = {}
    if "key" in columns:
        arrays["key"] = _gathered(data, records.keys)
    if "value" in columns:
        arrays["value"] = _gathered(data, records.values)
    if "offset" in columns:
        arrays["offset"] = pa.array(offsets)
    if "timestamp" in columns:
        arrays["timestamp"] = pa.array(_times(table, records)).cast(TIME_TYPE)
    if "headers" in columns:
        arrays["headers"] = _headers(data, records)
    return arrays


def _read(data: bytes, table: Int64s) -> _Records:
    """Read all records, each checked to its last byte."""
    starts, ends = _walk(data, table)
    batches = np.repeat(np.arange(len(table)), table[:, COUNT])
    source = np.frombuffer(data, np.uint8)
    # One byte of attributes, of which none are defined.
    time_deltas, position = _varints(source, starts + 1, ends)
    offset_deltas, position = _varints(source, position, ends)
    keys, position = _fields(source, position, ends)
    values, position = _fields(source, position, ends)
    header_counts, position = _varints(source, position, ends)
    position[(header_counts < 0) | (header_counts > ends - position)] = _BAD
    headers_start = position.copy()
    for rows, _names, _contents, after in _each_header(source, header_counts, headers_start, ends):
        position[rows] = after
    _reject(batches, position != ends, BROKEN)
    _reject(batches, (offset_deltas < 0) | (offset_deltas > table[batches, LAST_DELTA]), STRAY)
    return _Records(
        *(batches, time_deltas, offset_deltas, keys, values),
        *(header_counts, headers_start, ends),
    )


def _reject(batches: Int64s, wrong: Bools, fault: int) -> None:
    if wrong.any():
        raise _BatchFault(int(batches[wrong.argmax()]), fault)


def _walk(data: bytes, table: Int64s) -> tuple[Int64s, Int64s]:
    """Return the start of each record, after its length, and its end."""
    starts: list[int] = []
    ends: list[int] = []
    end = 0
    for batch, (first, last, count) in enumerate(table[:, (START, END, COUNT)].tolist()):
        position = end
        end += last - first
        for _ in range(count):
            # An inlined varint: a call would cost more than all else here.
            byte = data[position] if position < end else 0x80
            position += 1
            size, shift = byte & 0x7F, 7
            while byte > 0x7F:
                if position >= end or shift > _VARLONG_SHIFT_MAX:
                    raise _BatchFault(batch, BROKEN)
                byte = data[position]
                position += 1
                size |= (byte & 0x7F) << shift
                shift += 7
            # The lowest bit is the sign.
            if size & 1 or (size := (size & (1 << 64) - 1) >> 1) > end - position:
                raise _BatchFault(batch, BROKEN)
            starts.append(position)
            position += size
            ends.append(position)
        if position != end:
            raise _BatchFault(batch, TRAILING)
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _varints(source: Bytes, position: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Read a zigzag varint per row; return the values and the positions after them."""
    position = position.copy()
    values = np.zeros(len(position), np.uint64)
    going = np.arange(len(position))
    shift = 0
    while len(going):
        inside = position[going] < ends[going]
        position[going[~inside]] = _BAD
        going = going[inside]
        bytes_read = source[position[going]].astype(np.uint64)
        values[going] |= (bytes_read & np.uint64(0x7F)) << np.uint64(shift)
        position[going] += 1
        going = going[bytes_read > 0x7F]
        shift += 7
        if shift > _VARLONG_SHIFT_MAX:
            position[going] = _BAD
            break
    values[position == _BAD] = 0
    halves = (values >> np.uint64(1)).view(np.int64)
    return halves ^ -(values & np.uint64(1)).view(np.int64), position


def _fields(source: Bytes, position: Int64s, ends: Int64s) -> tuple[_Fields, Int64s]:
    """Read a byte string per row; return them and the positions after them."""
    sizes, position = _varints(source, position, ends)
    after = position + np.maximum(sizes, 0)
    after[(sizes > ends - position) & (sizes >= 0)] = _BAD
    after[position == _BAD] = _BAD
    return _Fields(position, np.maximum(sizes, -1)), after


def _each_header(
    source: Bytes, counts: Int64s, starts: Int64s, ends: Int64s
) -> Iterator[tuple[Int64s, _Fields, _Fields, Int64s]]:
    """Yield the first header of all records that have one, then the second, and so on: the records,
    names, contents, and the positions after them."""
    rows = np.nonzero((counts > 0) & (starts != _BAD))[0]
    position = starts[rows]
    read = 0
    while len(rows):
        names, position = _fields(source, position, ends[rows])
        position[names.sizes < 0] = _BAD
        contents, position = _fields(source, position, ends[rows])
        yield rows, names, contents, position
        read += 1
        going = (counts[rows] > read) & (position != _BAD)
        rows, position = rows[going], position[going]


def _headers(data: bytes, records: _Records) -> pa.Array:
    source = np.frombuffer(data, np.uint8)
    found: list[Int64s] = []
    names: list[_Fields] = []
    contents: list[_Fields] = []
    for rows, name, content, _after in _each_header(
        source, records.header_counts, records.headers_start, records.ends
    ):
        found.append(rows)
        names.append(name)
        contents.append(content)
    # All first headers, then all second ones; Arrow needs the order of the records.
    order = np.argsort(np.concatenate([_NONE, *found]), kind="stable")
    headers = pa.StructArray.from_arrays(
        [
            _gathered(data, _joined(names, order)).cast(pa.string()),
            _gathered(data, _joined(contents, order)),
        ],
        fields=list(HEADERS_TYPE.value_type),
    )
    counts = records.header_counts
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
    validity = np.packbits(counts > 0, bitorder="little")
    return pa.Array.from_buffers(
        HEADERS_TYPE,
        len(counts),
        [pa.py_buffer(validity), pa.py_buffer(ends)],
        int((counts == 0).sum()),
        children=[headers],
    )


def _joined(parts: list[_Fields], order: Int64s) -> _Fields:
    starts = np.concatenate([_NONE, *(part.starts for part in parts)])
    sizes = np.concatenate([_NONE, *(part.sizes for part in parts)])
    return _Fields(starts[order], sizes[order])


def _times(table: Int64s, records: _Records) -> Int64s:
    """Return the timestamps in microseconds."""
    batches, deltas = records.batches, records.time_deltas
    base = table[batches, BASE_TIME]
    sums = base + deltas
    appended = table[batches, APPENDED] != 0
    wrapped = ((base ^ sums) & (deltas ^ sums)) < 0
    times: Int64s = np.where(appended, table[batches, APPENDED_AT], sums)
    beyond = (times > TIME_MS_MAX) | (times < -TIME_MS_MAX)
    _reject(batches, beyond | (wrapped & ~appended), NO_TIME)
    return times * MICROSECONDS_PER_MS


def _gathered(data: bytes, fields: _Fields) -> pa.Array:
    """Return these byte strings as a column. Arrow does the copying: gaps and fields become
    alternating elements, and every other one is taken."""
    count = len(fields.starts)
    ends = np.zeros(2 * count + 1, np.int32)
    ends[1::2] = fields.starts
    ends[2::2] = fields.starts + np.maximum(fields.sizes, 0)
    whole = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(ends), pa.py_buffer(data)], 0
    )
    return whole.take(pa.array(np.arange(1, 2 * count, 2), mask=fields.sizes < 0))
