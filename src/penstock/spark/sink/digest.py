"""A digest of rows that does not depend on their order or on their distribution over tasks.

Each row gets 128 bits from its topic and columns, and the sum over all rows is the digest: Spark
may repeat a batch with its rows shuffled. The sum detects other rows, but resists no adversary.
Vectorised: a polynomial over all bytes of a column gives the value of every row, since the part
before a row can be subtracted and divided out.
"""

from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.spark.sink.rows import Part
from penstock.spark.sink.task import DIGEST_MODULUS

Words = NDArray[np.uint64]

# Odd, and so invertible modulo 2^64.
FACTORS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
_MODULUS = 2**64
_NULL = np.uint64(0x5851F42D4C957F2D)


def digest_of(part: Part) -> int:
    high, low = (_sum(part, factor) for factor in FACTORS)
    return ((high << 64) + low) % DIGEST_MODULUS


def _sum(part: Part, factor: int) -> int:
    """Return the sum of all rows, each mixed on its own, without overflow."""
    seed = crc32(part.topic.encode())
    rows = np.full(part.rows, seed, np.uint64)
    for place, column in enumerate(part.columns):
        if column is not None:
            rows = _mixed(rows * np.uint64(factor) + _words(column, factor) + np.uint64(place))
    halves = rows >> np.uint64(32), rows & np.uint64(0xFFFFFFFF)
    high, low = (int(each.sum(dtype=np.uint64)) for each in halves)
    return (high << 32) + low


def _words(column: pa.Array, factor: int) -> Words:
    """Return one number per row."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL, np.uint64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        words = _list_words(column, factor)
    elif pa.types.is_integer(kind):
        words = column.cast(pa.int64()).fill_null(0).to_numpy().astype(np.uint64)
    else:
        words = _binary_words(column.cast(pa.large_binary()), factor)
    if column.null_count:
        words = np.where(column.is_valid().to_numpy(zero_copy_only=False), words, _NULL)
    return _mixed(words)


def _binary_words(column: pa.Array, factor: int) -> Words:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    span = content[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)
    return _folded(span, ends - ends[0], factor)


def _list_words(column: pa.Array, factor: int) -> Words:
    """Return one number per row of headers: names and values, in their order."""
    ends = column.offsets.to_numpy().astype(np.int64)
    elements = column.values.slice(ends[0], ends[-1] - ends[0])
    words = np.zeros(len(elements), np.uint64)
    for number in range(elements.type.num_fields):
        words = _mixed(words * np.uint64(factor) + _words(elements.field(number), factor))
    return _folded(words, ends - ends[0], factor)


def _folded(symbols: Words, ends: NDArray[np.int64], factor: int) -> Words:
    """Return the polynomial of each row's symbols, and their number."""
    count = len(symbols)
    powers = _powers(factor, count)
    sums = np.zeros(count + 1, np.uint64)
    np.cumsum(symbols * powers, out=sums[1:])
    starts = ends[:-1]
    inverse = _powers(pow(factor, -1, _MODULUS), count + 1)
    folded = (sums[ends[1:]] - sums[starts]) * inverse[starts]
    result: Words = folded + (ends[1:] - starts).astype(np.uint64)
    return result


def _powers(factor: int, count: int) -> Words:
    powers = np.full(count, factor, np.uint64)
    if count:
        powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _mixed(words: Words) -> Words:
    """Return well-mixed bits (the finisher of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = words ^ (words >> np.uint64(31))
    return mixed
