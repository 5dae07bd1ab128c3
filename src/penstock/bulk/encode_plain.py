"""Rows packed into open batches by Python alone, for installations without numba."""

from collections.abc import Sequence
from itertools import pairwise

from penstock.bulk.collector import ClosedBatch, Uncollected
from penstock.bulk.inputs import NO_PARTITION, BinaryColumn, Rows
from penstock.bulk.murmur2 import partition_of
from penstock.wire.batch import HEADER_BYTES

_SMALL = 1024


class _Open:
    """A batch that takes records; its header is written at its close."""

    __slots__ = ("base_timestamp", "batch", "max_timestamp", "records")

    def __init__(self, timestamp: int) -> None:
        self.batch = bytearray(HEADER_BYTES)
        self.records = 0
        self.base_timestamp = timestamp
        self.max_timestamp = timestamp


class PlainCollector:
    """Rows packed one by one into the open batches of partitions."""

    def __init__(self, partitions: int, room: int) -> None:
        self._partitions = partitions
        self._room = room
        self._open: dict[int, _Open] = {}
        self._columns: tuple[Rows, _Columns] | None = None

    def add(self, rows: Rows, first: int, keyless: int, now_ms: int) -> Uncollected | None:
        # The same rows come again after every full batch.
        if self._columns is None or self._columns[0] is not rows:
            self._columns = rows, _Columns(rows, self._partitions)
        columns = self._columns[1]
        for row in range(first, rows.count):
            partition = columns.partitions[row]
            if partition == NO_PARTITION:
                partition = keyless
            timestamp = columns.timestamps[row] if columns.timestamps else now_ms
            batch = self._open.get(partition)
            if batch is None:
                batch = _Open(timestamp)
            body = b"".join(
                (
                    b"\0",
                    _varint(timestamp - batch.base_timestamp),
                    _varint(batch.records),
                    columns.tails[row],
                )
            )
            length = _varint(len(body))
            if len(batch.batch) + len(length) + len(body) > self._room:
                return Uncollected(row, partition, oversized=not batch.records)
            batch.batch += length
            batch.batch += body
            batch.records += 1
            batch.max_timestamp = max(batch.max_timestamp, timestamp)
            self._open[partition] = batch
        self._columns = None
        return None

    def take(self, partition: int) -> ClosedBatch | None:
        batch = self._open.pop(partition, None)
        if batch is None:
            return None
        return ClosedBatch(
            *(memoryview(batch.batch), batch.records, batch.base_timestamp, batch.max_timestamp)
        )

    def open_partitions(self) -> list[int]:
        return sorted(self._open)


class _Columns:
    """Rows as lists: their partition or NO_PARTITION, and their bytes from the key on."""

    def __init__(self, rows: Rows, partitions: int) -> None:
        keys = _listed(rows.keys, rows.count)
        values = _listed(rows.values, rows.count)
        self.timestamps: list[int] = rows.timestamps.tolist()
        asked = rows.partitions.tolist() or [NO_PARTITION] * rows.count
        self.partitions = [
            partition_of(key, partitions) if choice == NO_PARTITION and key is not None else choice
            for choice, key in zip(asked, keys, strict=True)
        ]
        tails = _header_tails(rows)
        self.tails = [
            _field(key) + _field(value) + tail
            for key, value, tail in zip(keys, values, tails, strict=True)
        ]


def _header_tails(rows: Rows) -> Sequence[bytes]:
    if not len(rows.header_counts):
        return [b"\0"] * rows.count
    headers = len(rows.names.ends) - 1
    names, contents = _listed(rows.names, headers), _listed(rows.contents, headers)
    packed = [_field(name) + _field(content) for name, content in zip(names, contents, strict=True)]
    spans = zip(rows.header_starts.tolist(), rows.header_counts.tolist(), strict=True)
    return [_varint(count) + b"".join(packed[start : start + count]) for start, count in spans]


def _listed(column: BinaryColumn, count: int) -> list[bytes | None]:
    if not len(column.ends):
        return [None] * count
    data, ends = column.data.data, column.ends.tolist()
    found: list[bytes | None] = [bytes(data[start:end]) for start, end in pairwise(ends)]
    for row in (column.present == 0).nonzero()[0].tolist():
        found[row] = None
    return found


def _field(content: bytes | None) -> bytes:
    return b"\x01" if content is None else _varint(len(content)) + content


def _varint(value: int) -> bytes:
    if 0 <= value < _SMALL:
        return _SMALL_VARINTS[value]
    return _long_varint(value)


def _long_varint(value: int) -> bytes:
    rest = ((value << 1) ^ (value >> 63)) & (1 << 64) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


# Nearly all lengths and deltas.
_SMALL_VARINTS = tuple(_long_varint(value) for value in range(_SMALL))
