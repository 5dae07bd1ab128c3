"""Record bytes of one partition, as a Fetch response carries them, to Arrow columns.

Promises: all sizes and counts in the bytes are checked first; CorruptBatch names topic, partition
and offset; reads stay inside the bytes; only requested columns are unpacked. Rows come in the order
of the log; control batches and aborted transactions give none. An incomplete last batch is left for
the next response.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.bulk.columns import Unpacked, int32_column, schema_of
from penstock.bulk.implementation import Implementation, chosen_implementation
from penstock.bulk.scan import ReadRange, last_offset_of, scan
from penstock.wire.batch import APPEND_TIME, ATTRIBUTES, Header
from penstock.wire.compression import OUTPUT_BYTES_MAX
from penstock.wire.primitives import Buffer

__all__ = ["DecodedRows", "Decoder", "last_offset_of"]

Batches = list[tuple[int, Header]]
# view, batches, names of the columns, requested range, limit of one batch
Unpack = Callable[[memoryview, Batches, frozenset[str], ReadRange, int], Unpacked]

# Constant columns are made once and sliced; the first has this length.
_CONSTANT_ROWS_MIN = 1024
_FROM_RECORDS = frozenset({"key", "value", "offset", "timestamp", "headers"})


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """The rows of whole batches, and the next offset to fetch: after the last whole batch, even
    without rows."""

    rows: pa.RecordBatch
    next_offset: int


class Decoder:
    """Decodes record bytes of one partition to Arrow.

    `output_bytes_max` bounds the decompressed size of one batch; all records of a response have at
    most 2 GB, the limit of Arrow's columns.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        topic: str,
        partition: int,
        check_crc: bool = True,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
    ) -> None:
        self.schema = schema_of(columns)
        self._columns = tuple(columns)
        self._asked = _FROM_RECORDS.intersection(columns)
        self._location = f"{topic}-{partition}"
        self._check_crc = check_crc
        self._output_bytes_max = output_bytes_max
        self._unpack = _unpacking(chosen_implementation())
        self._constants = {
            "topic": _Constant(topic),
            "partition": _Constant(partition),
        }
        self._timestamp_types = _Constant(0), _Constant(1)

    def decode(
        self,
        records: Buffer,
        start_offset: int,
        end_offset: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> DecodedRows:
        """Return rows with `start_offset` <= offset < `end_offset`. `aborted` is the list of a
        read_committed Fetch response: producer id and first offset."""
        view = memoryview(records).cast("B")
        wanted = ReadRange(self._location, start_offset, end_offset, self._check_crc)
        scanned = scan(view, wanted, aborted)
        unpacked = self._unpack(view, scanned.batches, self._asked, wanted, self._output_bytes_max)
        count = int(unpacked.rows_of_batches.sum())
        arrays = [self._array(name, unpacked, scanned.batches, count) for name in self._columns]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return DecodedRows(rows, scanned.next_offset)

    def _array(self, name: str, unpacked: Unpacked, batches: Batches, count: int) -> pa.Array:
        if name in self._constants:
            return self._constants[name].rows(count)
        if name == "timestampType":
            return self._timestamp_type(unpacked, batches, count)
        return unpacked.arrays[name]

    def _timestamp_type(self, unpacked: Unpacked, batches: Batches, count: int) -> pa.Array:
        types = [int(bool(header[ATTRIBUTES] & APPEND_TIME)) for _, header in batches]
        if len(set(types)) <= 1:
            return self._timestamp_types[types[0] if types else 0].rows(count)
        return int32_column(np.repeat(np.array(types, np.int32), unpacked.rows_of_batches))


class _Constant:
    """A column of one value, made in the needed length and sliced. Built from buffers, because
    pyarrow would import pandas to inspect a value: half a second of a worker's start."""

    def __init__(self, value: str | int) -> None:
        self._value = value
        self._made = self._repeated(0)

    def rows(self, count: int) -> pa.Array:
        if count > len(self._made):
            self._made = self._repeated(max(count, 2 * len(self._made), _CONSTANT_ROWS_MIN))
        return self._made.slice(0, count)

    def _repeated(self, count: int) -> pa.Array:
        if isinstance(self._value, int):
            return int32_column(np.full(count, self._value, np.int32))
        text = self._value.encode()
        ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(text * count)]
        return pa.Array.from_buffers(pa.string(), count, buffers, 0)


def _unpacking(implementation: Implementation) -> Unpack:
    if implementation is Implementation.NUMBA:
        from penstock.bulk.decode_compiled import unpack as compiled_unpack

        return compiled_unpack
    from penstock.bulk.decode_plain import unpack as plain_unpack

    return plain_unpack
