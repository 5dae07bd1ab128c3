"""Rows to send, as the buffers of Arrow's columns.

Arrays may be sliced, chunked, with offsets of 32 or 64 bits; here they become one shape. All faults
of rows are found here, before any row is collected.

Only buffers are read: pyarrow's casts and conversions import its compute functions and pandas,
which takes longer than many tasks.
"""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.bulk.columns import COLUMN_BYTES_MAX
from penstock.wire.batch import Record

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Column: TypeAlias = pa.Array | pa.ChunkedArray
Element = TypeVar("Element", bound=np.generic)

NO_PARTITION = -1

_UNITS_PER_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}
_MS_PER_SECOND = 1000
_SECONDS_MAX = (2**63 - 1) // _MS_PER_SECOND


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Byte strings: row n lies between ends[n] and ends[n + 1]. Empty `ends`: a missing column,
    null throughout. `present` has a byte per row, or none if no row is null."""

    data: Bytes
    ends: Int32s
    present: Bytes

    def at(self, row: int) -> bytes | None:
        if not len(self.ends) or (len(self.present) and not self.present[row]):
            return None
        return self.data[self.ends[row] : self.ends[row + 1]].tobytes()


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length. Empty timestamps or partitions: the column is missing."""

    count: int
    keys: BinaryColumn
    values: BinaryColumn
    header_starts: Int32s
    header_counts: Int32s
    names: BinaryColumn
    contents: BinaryColumn
    partitions: Int32s
    timestamps: Int64s

    def record(self, row: int, offset: int, now_ms: int) -> Record:
        timestamp = int(self.timestamps[row]) if len(self.timestamps) else now_ms
        record = Record(offset, timestamp, self.keys.at(row), self.values.at(row))
        if len(self.header_counts):
            first = int(self.header_starts[row])
            record.headers = [
                ((self.names.at(header) or b"").decode(), self.contents.at(header))
                for header in range(first, first + int(self.header_counts[row]))
            ]
        return record


def rows_of(
    key: Column | None,
    value: Column | None,
    headers: Column | None,
    partition: Column | None,
    timestamp: Column | None,
    *,
    partitions: int,
    now_ms: int,
) -> list[Rows]:
    """Return the rows of these columns, in as many parts as their chunks require; raise ValueError
    or TypeError if they cannot be sent."""
    given = {
        name: column
        for name, column in (
            *(("key", key), ("value", value), ("headers", headers)),
            *(("partition", partition), ("timestamp", timestamp)),
        )
        if column is not None
    }
    lengths = {name: len(column) for name, column in given.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"columns of one length are needed, not {lengths}")
    table = pa.Table.from_arrays(list(given.values()), names=list(given))
    return [_rows(part, partitions, now_ms) for part in table.to_batches() if part.num_rows]


def _rows(part: pa.RecordBatch, partitions: int, now_ms: int) -> Rows:
    columns = dict(zip(part.schema.names, part.columns, strict=True))
    starts, counts, names, contents = _headers(columns.get("headers"))
    return Rows(
        count=part.num_rows,
        keys=_binary("key", columns.get("key")),
        values=_binary("value", columns.get("value")),
        header_starts=starts,
        header_counts=counts,
        names=names,
        contents=contents,
        partitions=_partitions(columns.get("partition"), partitions),
        timestamps=_timestamps(columns.get("timestamp"), now_ms),
    )


def read_only(array: NDArray[Element]) -> NDArray[Element]:
    """Return an aligned, read-only array, the only kind that the compiled code accepts."""
    if not array.flags.aligned:
        array = array.copy()
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


_NO_BYTES = read_only(np.empty(0, np.uint8))
_NO_INT32S = read_only(np.empty(0, np.int32))
_NO_INT64S = read_only(np.empty(0, np.int64))
_NO_COLUMN = BinaryColumn(_NO_BYTES, _NO_INT32S, _NO_BYTES)


def _binary(name: str, array: pa.Array | None) -> BinaryColumn:
    if array is None or pa.types.is_null(array.type):
        return _NO_COLUMN
    kind = array.type
    wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not wide and not pa.types.is_binary(kind) and not pa.types.is_string(kind):
        raise TypeError(f"{name} is {kind}; it must be binary or string")
    _validity, offsets, data = array.buffers()
    if offsets is None or offsets.size == 0:
        # The buffers of an array without rows may be missing.
        return BinaryColumn(_NO_BYTES, read_only(np.zeros(1, np.int32)), _NO_BYTES)
    content = np.frombuffer(data, np.uint8) if data is not None else _NO_BYTES
    span = slice(array.offset, array.offset + len(array) + 1)
    if wide:
        ends_wide = np.frombuffer(offsets, np.int64)[span]
        first, last = int(ends_wide[0]), int(ends_wide[-1])
        if last - first > COLUMN_BYTES_MAX:
            raise ValueError(f"{name} has {last - first} bytes in one array; hand over fewer rows")
        ends = (ends_wide - first).astype(np.int32)
        content = content[first:]
    else:
        ends = np.frombuffer(offsets, np.int32)[span]
    return BinaryColumn(read_only(content), read_only(ends), _present(array))


def _present(array: pa.Array) -> Bytes:
    """Return a byte per row, 0 for null; an empty array if no row is null."""
    if array.null_count == 0:
        return _NO_BYTES
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    first = array.offset // 8
    last = (array.offset + len(array) + 7) // 8
    start = array.offset - 8 * first
    unpacked = np.unpackbits(bits[first:last], bitorder="little")
    return read_only(unpacked[start : start + len(array)])


def _headers(array: pa.Array | None) -> tuple[Int32s, Int32s, BinaryColumn, BinaryColumn]:
    """Return the start and number of each row's headers; their names and contents."""
    if array is None or pa.types.is_null(array.type):
        return _NO_INT32S, _NO_INT32S, _NO_COLUMN, _NO_COLUMN
    kind = array.type
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not listed or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        raise TypeError(f"headers is {kind}; it must be a list of struct<key, value>")
    ends = _numbers(array.offsets).astype(np.int64)
    counts = np.diff(ends)
    present = _present(array)
    if len(present):
        counts = counts * present
    first = int(ends[0])
    elements = array.values.slice(first, int(ends[-1]) - first)
    names, contents = elements.field(0), elements.field(1)
    _check_headers(elements, names, np.repeat(counts > 0, np.diff(ends)))
    return (
        read_only((ends[:-1] - first).astype(np.int32)),
        read_only(counts.astype(np.int32)),
        _binary("the key of a header", names),
        _binary("the value of a header", contents),
    )


def _check_headers(elements: pa.Array, names: pa.Array, used: NDArray[np.bool_]) -> None:
    """Reject a header that is null or has no name, except behind a null list."""
    for array, what in ((elements, "a header is null"), (names, "a header without a key")):
        if (_nulls(array) & used).any():
            raise ValueError(f"{what}: the name of a record header is needed")
    for kind, text in ((pa.binary(), pa.string()), (pa.large_binary(), pa.large_string())):
        if names.type == kind:
            try:
                names.view(text).validate(full=True)
            except pa.ArrowInvalid as error:
                raise ValueError(f"the key of a header is no text: {error}") from None


def _numbers(array: pa.Array) -> NDArray[np.signedinteger]:
    """Return the values of an integer or timestamp array; null entries have arbitrary values."""
    kind = np.dtype(f"i{array.type.bit_width // 8}")
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def _nulls(array: pa.Array) -> NDArray[np.bool_]:
    present = _present(array)
    return present == 0 if len(present) else np.zeros(len(array), np.bool_)


def _partitions(array: pa.Array | None, partitions: int) -> Int32s:
    if array is None or array.null_count == len(array):
        return _NO_INT32S
    if not pa.types.is_signed_integer(array.type):
        raise TypeError(f"partition is {array.type}; it must be int32")
    nulls, chosen = _nulls(array), _numbers(array)
    wrong = ~nulls & ((chosen < 0) | (chosen >= partitions))
    if wrong.any():
        first = chosen[wrong.argmax()]
        raise ValueError(f"partition {first} does not exist: there are {partitions}")
    return read_only(np.where(nulls, NO_PARTITION, chosen).astype(np.int32))


def _timestamps(array: pa.Array | None, now_ms: int) -> Int64s:
    """Return milliseconds; the current time for null."""
    if array is None or array.null_count == len(array):
        return _NO_INT64S
    unit = array.type.unit if pa.types.is_timestamp(array.type) else "ms"
    if not pa.types.is_timestamp(array.type) and not pa.types.is_int64(array.type):
        raise TypeError(f"timestamp is {array.type}; it must be a timestamp or milliseconds")
    nulls, times = _nulls(array), _numbers(array).astype(np.int64)
    if unit == "s":
        times = times.clip(-1, _SECONDS_MAX) * _MS_PER_SECOND
    else:
        times = times // _UNITS_PER_MS[unit]
    times = np.where(nulls, now_ms, times)
    if times.min() < 0:
        raise ValueError(f"timestamp {times.min()} lies before 1970: no record can carry it")
    return read_only(times)
