"""What becomes of whole batches: of transactions, and of those that carry a producer's state.

Data of aborted transactions goes. A marker stays while its transaction had data in the log at the
last cleaning; the first one that finds none sets its delete horizon, and one after that removes
it. The newest batch of an active producer stays, if only as a header: it holds its sequence.
So does the last batch of all: without it the log would seem to end earlier.
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
    Chunk,
    Table,
)
from penstock.log.compaction.order import CompactionRefused, Order
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
    """All that touch the segments of an order, by producer and first offset."""

    def __init__(self, entries: Table) -> None:
        by_place = np.lexsort((entries[:, _FIRST], entries[:, _PRODUCER]))
        self._entries = entries[by_place]

    def find(self, producers: Int64s, offsets: Int64s) -> Int64s:
        """For each, the transaction that was open at that offset (its marker's offset counts);
        -1 if there was none, or it was not aborted."""
        entries = self._entries
        low = np.searchsorted(entries[:, _PRODUCER], producers, side="left")
        high = np.searchsorted(entries[:, _PRODUCER], producers, side="right")
        first = low.copy()
        while (low < high).any():  # halve all at once
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
    """From the transaction indexes of the order's segments, and from the order itself."""
    tables = [np.array(order.aborted_later, np.int64).reshape(-1, 4)]
    for segment in order.segments:
        if not segment.has_aborted:
            continue
        path = segment_file(order.directory, segment.base_offset, TXN_INDEX)
        try:
            file = disk.open(path)
        except FileNotFoundError:
            # To go on would make aborted records the newest of their keys.
            raise CompactionRefused(f"{disk.root}/{path} is not there") from None
        data = file.read_now(0, file.size)
        file.close()
        if len(data) % ABORTED_ENTRY.size:
            raise CompactionRefused(f"{disk.root}/{path} is cut short")
        tables.append(np.frombuffer(data, _ENTRY)["fields"].astype(np.int64))
    return AbortedTransactions(np.concatenate(tables))


class Verdicts:
    """Judges the batches of a log in their order, once."""

    def __init__(self, order: Order, upper_offset: int, aborted: AbortedTransactions) -> None:
        self._now_ms = order.now_ms
        self._upper_offset = upper_offset
        self._aborted = aborted
        self._last_producers, self._last_offsets = _columns(order.last_offsets)
        self._epoch_producers, self._last_epochs = _columns(order.last_epochs)
        # Producers of which data came since their last marker.
        self._with_data: set[int] = set()
        # Aborted transactions whose marker has passed while their data was there still.
        self.indexed: list[Aborted] = []

    def judge(self, chunk: Chunk) -> None:
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

    def _judge_marker(self, chunk: Chunk, row: int, transaction: int, producer: int) -> int:
        if not self._is_unneeded(chunk, row, transaction, producer):
            return KEPT
        attributes, horizon_ms = chunk.table[row, ATTRIBUTES], chunk.table[row, BASE_TIME]
        if not attributes & DELETE_HORIZON:
            return KEPT | MARKER_EXPIRES
        return DISCARDED if horizon_ms <= self._now_ms else KEPT

    def _is_unneeded(self, chunk: Chunk, row: int, transaction: int, producer: int) -> bool:
        if chunk.table[row, COUNT] == 0:
            return True  # emptied by an earlier cleaning
        try:
            marker = read_marker(chunk.batch(row))
        except Malformed:
            return False  # flawed: it stays
        if marker is None:
            return False  # it ends no transaction, and is not ours to judge
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
    """For each of these rows the aborted transaction that it belongs to, or -1."""
    if not len(aborted):
        return np.full(len(rows), -1, np.int64)
    return aborted.find(table[rows, PRODUCER], table[rows, LAST])


def judge_for_keys(chunk: Chunk, aborted: AbortedTransactions) -> None:
    """Fill the column VERDICT for the first pass: what has no keys that count is discarded."""
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
    """The value of each wanted key; -2, which is no offset and no epoch, where there is none."""
    if not len(keys):
        return np.full(len(wanted), -2, np.int64)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], -2)
