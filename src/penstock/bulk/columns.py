"""The columns of a record, with the names and types of Spark's own Kafka source.

PySpark compares the schema of a Python source with the promised one, nullability included. So every
field is nullable, and timestamps are microseconds in UTC.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

HEADERS_TYPE = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
TIME_TYPE = pa.timestamp("us", tz="UTC")
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIME_TYPE,
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}

MICROSECONDS_PER_MS = 1000
# Larger milliseconds do not fit 64 bits as microseconds.
TIME_MS_MAX = (2**63 - 1) // MICROSECONDS_PER_MS
# Offsets within a column have 32 bits.
COLUMN_BYTES_MAX = 2**31 - 1
# The smallest record: a length, attributes, and five varints of one byte.
RECORD_BYTES_MIN = 7


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The unpacked columns, and the number of rows from each batch."""

    arrays: dict[str, pa.Array]
    rows_of_batches: NDArray[np.int64]


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns in this order; raise ValueError for unknown or repeated
    names."""
    unknown = [name for name in columns if name not in TYPES]
    if unknown:
        raise ValueError(f"no such column: {', '.join(unknown)}; there are {', '.join(TYPES)}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"a column is named twice: {', '.join(columns)}")
    return pa.schema([(name, TYPES[name]) for name in columns])


def int32_column(values: NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)], 0)
