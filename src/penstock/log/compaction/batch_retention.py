"""Decides about whole batches: those of transactions, and those that carry a producer's state.

Data of aborted transactions goes. A marker stays while its transaction has data in the log. The
first cleaning without such data sets the marker's delete horizon, and a later one removes the
marker. The newest batch of an active producer stays, at least as a header, because it holds the
sequence. The last batch of the log stays too: without it the log would end earlier.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.log.compaction.chunks import (
    ATTRIBUTES,
    BASE_TIME,
    COUNT,
    DELETE_HORIZON,
    DISCARDED,
    EPOCH,
    KEPT,
    LAST,
    MARKER_EXPIRES,
    PRODUCER,
    SEQUENCE_KEPT,
    VERDICT,
    SegmentChunk,
    Table,
)
from penstock.log.compaction.order import CompactionRejected, Order
from penstock.log.directory import TXN_INDEX, segment_file
from penstock.log.transactions import ABORTED_ENTRY, Aborted
from penstock.wire.batch import ABORT_MARKER, CONTROL, TRANSACTIONAL, read_marker
from penstock.wire.primitives import Malformed
from penstock.world import Disk

_ENTRY = np.dtype([("version", ">i2"), ("fields", ">i8", 4)])
assert _ENTRY.itemsize == ABORTED_ENTRY.size
_PRODUCER, _FIRST, _LAST, _STABLE = range(4)

Int64s = NDArray[np.int64]


class AbortedTransactions:
    """The aborted transactions that touch the segments of an order, by producer
    and first offset."""

    def __init__(self, entries: Table) -> None:
        by_place = np.lexsort((entries[:, _FIRST], entries[:, _PRODUCER]))
        self._entries = entries[by_place]

    def find(self, producers: Int64s, offsets: Int64s) -> Int64s:
        """Return for each pair the aborted transaction that was open at that offset, or -1. A
        marker's offset belongs to its transaction."""
        entries = self._entries
        low = np.searchsorted(entries[:, _PRODUCER], producers, side="left")
        high = np.searchsorted(entries[:, _PRODUCER], producers, side="right")
        first = low.copy()
        while (low < high).any():  # one binary search for all pairs at once
            middle = (low + high) // 2
            below = (low < high) & (
                entries[np.minimum(middle, len(entries) - 1), _FIRST] <= offsets
            )
            high = np.where((low < high) & ~below, middle, high)
            low = np.where(below, middle + 1, low)
        found = low - 1
        inside = (found >= first) & (entries[np.maximum(found, 0), _LAST] >= offsets)
        return np.where(inside, found, -1)

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, index: int) -> Aborted:
        return Aborted(*self._entries[index].tolist())


def read_aborted(disk: Disk, order: Order) -> AbortedTransactions:
    """Read the transaction indexes of the order's segments, and add those of the order itself."""
    tables = [np.array(order.aborted_later, np.int64).reshape(-1, 4)]
    for segment in order.segments:
        if not segment.has_aborted:
            continue
        path = segment_file(order.directory, segment.base_offset, TXN_INDEX)
        try:
            file = disk.open(path)
        except FileNotFoundError:
            # Without the index, aborted records would count as the newest of their keys.
            raise CompactionRejected(f"{disk.root}/{path} is not there") from None
        data = file.read_now(0, file.size)
        file.close()
        if len(data) % ABORTED_ENTRY.size:
            raise CompactionRejected(f"{disk.root}/{path} is cut short")
        tables.append(np.frombuffer(data, _ENTRY)["fields"].astype(np.int64))
    return AbortedTransactions(np.concatenate(tables))


class BatchRetention:
    """Decides about the batches of a log, in their order, once."""

    def __init__(self, order: Order, upper_offset: int, aborted: AbortedTransactions) -> None:
        self._now_ms = order.now_ms
        self._upper_offset = upper_offset
        self._aborted = aborted
        self._last_producers, self._last_offsets = _columns(order.last_offsets)
        self._epoch_producers, self._last_epochs = _columns(order.last_epochs)
        # Producers with data since their last marker.
        self._with_data: set[int] = set()
        # Aborted transactions whose data was still in the log at their marker.
        self.indexed: list[Aborted] = []

    def judge(self, chunk: SegmentChunk) -> None:
        """Fill the column VERDICT."""
        table = chunk.table
        table[:, VERDICT] = np.where(self._carries_state(table), SEQUENCE_KEPT, 0)
        rows = np.nonzero(table[:, ATTRIBUTES] & (TRANSACTIONAL | CONTROL))[0]
        if not len(rows):
            return
        aborted = aborted_rows(table, rows, self._aborted)
        for row, transaction, attributes, producer in zip(
            rows.tolist(),
            aborted.tolist(),
            table[rows, ATTRIBUTES].tolist(),
            table[rows, PRODUCER].tolist(),
            strict=True,
        ):
            if attributes & CONTROL:
                table[row, VERDICT] |= self._judge_marker(chunk, row, transaction, producer)
            else:
                self._with_data.add(producer)
                if transaction >= 0:
                    table[row, VERDICT] |= DISCARDED

    def _judge_marker(self, chunk: SegmentChunk, row: int, transaction: int, producer: int) -> int:
        if not self._is_unneeded(chunk, row, transaction, producer):
            return KEPT
        attributes, horizon_ms = chunk.table[row, ATTRIBUTES], chunk.table[row, BASE_TIME]
        if not attributes & DELETE_HORIZON:
            return KEPT | MARKER_EXPIRES
        return DISCARDED if horizon_ms <= self._now_ms else KEPT

    def _is_unneeded(self, chunk: SegmentChunk, row: int, transaction: int, producer: int) -> bool:
        if chunk.table[row, COUNT] == 0:
            return True  # an earlier cleaning emptied the batch
        try:
            marker = read_marker(chunk.batch(row))
        except Malformed:
            return False  # a flawed batch stays
        if marker is None:
            return False  # no transaction marker: other control records stay
        if producer not in self._with_data:
            return True
        self._with_data.remove(producer)
        if marker[0] == ABORT_MARKER and transaction >= 0:
            self.indexed.append(self._aborted.entry(transaction))
        return False

    def _carries_state(self, table: Table) -> NDArray[np.bool_]:
        last: NDArray[np.bool_] = table[:, LAST] + 1 == self._upper_offset
        producers = table[:, PRODUCER]
        if (producers < 0).all():
            return last
        newest = _lookup(self._last_producers, self._last_offsets, producers) == table[:, LAST]
        epochs = _lookup(self._epoch_producers, self._last_epochs, producers) == table[:, EPOCH]
        markers = (table[:, ATTRIBUTES] & CONTROL) != 0
        carries: NDArray[np.bool_] = last | ((producers >= 0) & (newest | (markers & epochs)))
        return carries


def aborted_rows(table: Table, rows: Int64s, aborted: AbortedTransactions) -> Int64s:
    """Return for each of these rows its aborted transaction, or -1."""
    if not len(aborted):
        return np.full(len(rows), -1, np.int64)
    return aborted.find(table[rows, PRODUCER], table[rows, LAST])


def judge_for_keys(chunk: SegmentChunk, aborted: AbortedTransactions) -> None:
    """Fill the column VERDICT for the first pass: discard batches whose keys do not count."""
    table = chunk.table
    table[:, VERDICT] = np.where(table[:, ATTRIBUTES] & CONTROL, DISCARDED, 0)
    rows = np.nonzero(table[:, ATTRIBUTES] & TRANSACTIONAL)[0]
    if len(rows):
        table[rows, VERDICT] |= np.where(aborted_rows(table, rows, aborted) >= 0, DISCARDED, 0)


def _columns(mapping: Mapping[int, int]) -> tuple[Int64s, Int64s]:
    keys = np.fromiter(mapping.keys(), np.int64, len(mapping))
    values = np.fromiter(mapping.values(), np.int64, len(mapping))
    by_key = np.argsort(keys)
    return keys[by_key], values[by_key]


def _lookup(keys: Int64s, values: Int64s, wanted: Int64s) -> Int64s:
    """Return the value of each wanted key; -2, neither an offset nor an epoch, for
    a missing key."""
    if not len(keys):
        return np.full(len(wanted), -2, np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], -2)
