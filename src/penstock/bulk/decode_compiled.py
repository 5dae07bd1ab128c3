"""Records to Arrow buffers, compiled.

One pass: a record is checked to its last byte, then the requested fields are copied to their
columns. Output is sized beforehand by the batch headers and the unpacked bytes, so the kernel never
allocates.

A position of _BAD means that the bytes ended too early or were invalid. It is larger than any end,
so every later step of the record keeps it, and one check at the end of the record finds it.
"""

from typing import Generic, TypeVar

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
from penstock.bulk.compiler import (
    BYTES_IN,
    BYTES_OUT,
    INT,
    INT32_OUT,
    INT64_OUT,
    TABLE,
    as_index,
    as_int,
    compiled,
    copy_bytes,
    inlined,
    types,
)
from penstock.bulk.packed import (
    APPENDED,
    APPENDED_AT,
    BASE_TIME,
    BROKEN,
    COUNT,
    END,
    FIRST,
    GOOD,
    LAST_DELTA,
    NO_TIME,
    ROWS,
    START,
    STRAY,
    TRAILING,
    corrupt_records,
    find_records,
    no_name,
)
from penstock.bulk.scan import ReadRange
from penstock.wire.batch import Header
from penstock.wire.primitives import Buffer

_BAD = 1 << 62
_LONG_MAX = 2**63 - 1
_VARLONG_SHIFT_MAX = 63

# The requested columns, as bits.
_KEY, _VALUE, _OFFSET, _TIME, _HEADERS = 1, 2, 4, 8, 16
_BITS = {"key": _KEY, "value": _VALUE, "offset": _OFFSET, "timestamp": _TIME, "headers": _HEADERS}

# The state of a decode: rows, the current batch, and the size of each column.
_ROW, _BATCH, _KEYS, _VALUES, _LISTS, _NAMES, _CONTENTS = range(7)
_STATE_FIELDS = 7

_BINARY = types.Tuple((BYTES_OUT, INT32_OUT, BYTES_OUT))  # bytes, ends, validity
_HEADER_COLUMNS = types.Tuple((INT32_OUT, BYTES_OUT, _BINARY, _BINARY))

Element = TypeVar("Element", np.uint8, np.int32, np.int64)
Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Binary = tuple[Bytes, Int32s, Bytes]
Headers = tuple[Int32s, Bytes, Binary, Binary]


@inlined
def _varint(source: Bytes, position: int, end: int) -> tuple[int, int]:
    if position >= end:
        return 0, _BAD
    byte = as_int(source[as_index(position)])
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while shift <= _VARLONG_SHIFT_MAX and position < end:
        byte = as_int(source[as_index(position)])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & _LONG_MAX) ^ -(value & 1), position
        shift += 7
    return 0, _BAD


@inlined
def _field(source: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """Return the start of a field, its size (below 0: null), and the position after it."""
    size, position = _varint(source, position, end)
    if size < 0:
        return position, -1, position
    if size > end - position:
        return 0, 0, _BAD
    return position, size, position + size


@inlined
def _after_headers(source: Bytes, position: int, end: int, count: int) -> int:
    for _ in range(count):
        _start, size, position = _field(source, position, end)
        if size < 0:
            return _BAD
        _start, size, position = _field(source, position, end)
        if position == _BAD:
            return _BAD
    return position


@inlined
def _append(source: Bytes, start: int, size: int, column: Binary, row: int, used: int) -> int:
    """Append a field after the `used` bytes of a column; return the new size."""
    data, ends, validity = column
    if size < 0:
        validity[as_index(row >> 3)] &= 255 ^ (1 << (row & 7))
    else:
        copy_bytes(data, used, source, start, size)
        used += size
    ends[as_index(row + 1)] = used
    return used


@inlined
def _append_headers(
    source: Bytes, position: int, end: int, count: int, columns: Headers, row: int, state: Int64s
) -> None:
    ends, validity, names, contents = columns
    header = state[_LISTS]
    if count == 0:
        validity[as_index(row >> 3)] &= 255 ^ (1 << (row & 7))
    for _ in range(count):
        start, size, position = _field(source, position, end)
        state[_NAMES] = _append(source, start, size, names, header, state[_NAMES])
        start, size, position = _field(source, position, end)
        state[_CONTENTS] = _append(source, start, size, contents, header, state[_CONTENTS])
        header += 1
    state[_LISTS] = header
    ends[row + 1] = header


@inlined
def _append_time(table: Int64s, batch: int, delta: int, times: Int64s, row: int) -> bool:
    """Return False if microseconds cannot hold this time."""
    if table[batch, APPENDED]:
        time = table[batch, APPENDED_AT]
    else:
        base = table[batch, BASE_TIME]
        time = base + delta
        if ((base ^ time) & (delta ^ time)) < 0:  # the sum has overflowed
            return False
    if time > TIME_MS_MAX or time < -TIME_MS_MAX:
        return False
    times[as_index(row)] = time * MICROSECONDS_PER_MS
    return True


@compiled(
    *(BYTES_IN, TABLE, types.UniTuple(INT, 2), types.UniTuple(INT, 2), INT, INT64_OUT),
    *(INT64_OUT, INT64_OUT, _BINARY, _BINARY, _HEADER_COLUMNS),
)
def decode_rows(
    source: Bytes,
    table: Int64s,
    batches: tuple[int, int],
    wanted: tuple[int, int],
    asked: int,
    state: Int64s,
    offsets: Int64s,
    times: Int64s,
    keys: Binary,
    values: Binary,
    header_columns: Headers,
) -> int:
    """Decode some batches of the table, whose records lie in `source`, into columns."""
    start_offset, end_offset = wanted
    # Values that change per row are locals, which stay in registers; array elements may alias a
    # column.
    row, key_bytes, value_bytes = state[_ROW], state[_KEYS], state[_VALUES]
    for batch in range(batches[0], batches[1]):
        position, batch_end = table[batch, START], table[batch, END]
        base_offset, last_delta = table[batch, FIRST], table[batch, LAST_DELTA]
        before = row
        state[_BATCH] = batch
        for _ in range(table[batch, COUNT]):
            size, position = _varint(source, position, batch_end)
            if size < 0 or size > batch_end - position:
                return BROKEN
            end = position + size
            # One byte of attributes, of which none are defined.
            time_delta, position = _varint(source, position + 1, end)
            offset_delta, position = _varint(source, position, end)
            key_start, key_size, position = _field(source, position, end)
            value_start, value_size, position = _field(source, position, end)
            headers, position = _varint(source, position, end)
            if headers < 0 or headers > end - position:
                return BROKEN
            headers_start = position
            if headers:
                position = _after_headers(source, position, end, headers)
            if position != end:
                return BROKEN
            if offset_delta < 0 or offset_delta > last_delta:
                return STRAY
            offset = base_offset + offset_delta
            if offset < start_offset or offset >= end_offset:
                continue
            if asked & _KEY:
                key_bytes = _append(source, key_start, key_size, keys, row, key_bytes)
            if asked & _VALUE:
                value_bytes = _append(source, value_start, value_size, values, row, value_bytes)
            if asked & _OFFSET:
                offsets[as_index(row)] = offset
            if asked & _TIME and not _append_time(table, batch, time_delta, times, row):
                return NO_TIME
            if asked & _HEADERS:
                _append_headers(source, headers_start, end, headers, header_columns, row, state)
            row += 1
        if position != batch_end:
            return TRAILING
        table[batch, ROWS] = row - before
    state[_ROW], state[_KEYS], state[_VALUES] = row, key_bytes, value_bytes
    return GOOD


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
    output = _Output(columns, int(table[:, COUNT].sum()), packed.size)
    asked = sum(_BITS[name] for name in columns)
    range_wanted = wanted.start_offset, wanted.end_offset
    for source, first, last in packed.runs():
        fault = decode_rows(
            *(_read_only(source), table, (first, last), range_wanted, asked, output.state),
            *(output.offsets.array, output.times.array),
            output.keys.arrays,
            output.values.arrays,
            output.headers,
        )
        if fault != GOOD:
            failed = batches[int(output.state[_BATCH])]
            raise corrupt_records(view, failed, wanted, fault, output_bytes_max)
    arrays = output.arrays()
    if "headers" in columns:
        try:
            arrays["headers"].values.field("key").validate(full=True)
        except pa.ArrowInvalid:
            raise no_name(wanted) from None
    return Unpacked(arrays, table[:, ROWS])


def _read_only(data: Buffer) -> Bytes:
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


class _ArrowBuffer(Generic[Element]):
    """An Arrow buffer that numpy writes to. Arrow's allocator reuses freed pages for the next
    response; untouched pages cost only address space."""

    def __init__(self, count: int, kind: type[Element]) -> None:
        self._size = np.dtype(kind).itemsize
        self._buffer = pa.allocate_buffer(count * self._size)
        self.array: NDArray[Element] = np.frombuffer(self._buffer, kind)

    def first(self, count: int) -> pa.Buffer:
        return self._buffer.slice(0, count * self._size)


class _Ends(_ArrowBuffer[np.int32]):
    """The end of each row; one more than there are rows."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows + 1, np.int32)
        self.array[0] = 0


class _Validity(_ArrowBuffer[np.uint8]):
    """One bit per row, set until a null comes."""

    def __init__(self, rows: int) -> None:
        super().__init__((rows + 7) // 8, np.uint8)
        self.array.fill(255)

    def bits(self, rows: int) -> pa.Buffer | None:
        size = (rows + 7) // 8
        return None if (self.array[:size] == 255).all() else self.first(size)


class _Column:
    """Byte strings."""

    def __init__(self, rows: int, size: int) -> None:
        self._data = _ArrowBuffer(size, np.uint8)
        self._ends = _Ends(rows)
        self._validity = _Validity(rows)
        self.arrays: Binary = self._data.array, self._ends.array, self._validity.array

    def rows(self, kind: pa.DataType, count: int, size: int) -> pa.Array:
        buffers = [self._validity.bits(count), self._ends.first(count + 1), self._data.first(size)]
        return pa.Array.from_buffers(kind, count, buffers)


class _Output:
    """Buffers for the requested columns."""

    def __init__(self, columns: frozenset[str], rows: int, size: int) -> None:
        def room(name: str, needed: int) -> int:
            return needed if name in columns else 0

        self._columns = columns
        self.state = np.zeros(_STATE_FIELDS, np.int64)
        self.offsets = _ArrowBuffer(room("offset", rows), np.int64)
        self.times = _ArrowBuffer(room("timestamp", rows), np.int64)
        self.keys = _Column(room("key", rows), room("key", size))
        self.values = _Column(room("value", rows), room("value", size))
        # A header takes at least two bytes.
        headers = room("headers", size // 2)
        self._list_ends = _Ends(room("headers", rows))
        self._list_validity = _Validity(room("headers", rows))
        self._names = _Column(headers, room("headers", size))
        self._contents = _Column(headers, room("headers", size))
        self.headers: Headers = (
            *(self._list_ends.array, self._list_validity.array),
            *(self._names.arrays, self._contents.arrays),
        )

    def arrays(self) -> dict[str, pa.Array]:
        return {name: self._array(name) for name in sorted(self._columns)}

    def _array(self, name: str) -> pa.Array:
        count, state = int(self.state[_ROW]), self.state.tolist()
        match name:
            case "key":
                return self.keys.rows(pa.binary(), count, state[_KEYS])
            case "value":
                return self.values.rows(pa.binary(), count, state[_VALUES])
            case "offset":
                return pa.Array.from_buffers(pa.int64(), count, [None, self.offsets.first(count)])
            case "timestamp":
                return pa.Array.from_buffers(TIME_TYPE, count, [None, self.times.first(count)])
        headers = pa.StructArray.from_arrays(
            [
                self._names.rows(pa.string(), state[_LISTS], state[_NAMES]),
                self._contents.rows(pa.binary(), state[_LISTS], state[_CONTENTS]),
            ],
            fields=list(HEADERS_TYPE.value_type),
        )
        buffers = [self._list_validity.bits(count), self._list_ends.first(count + 1)]
        return pa.Array.from_buffers(HEADERS_TYPE, count, buffers, children=[headers])
