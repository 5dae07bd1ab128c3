"""Cleaning with compiled kernels: uncompressed batches by the chunk, compressed ones one at a time.

Writes the same bytes as plain.py. Keys are hashed with SipHash-1-3, 128 bits, under the order's
seed.
"""

import mmap
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from penstock.log.compaction.chunks import (
    ATTRIBUTES,
    BODY,
    CHUNK_BYTES,
    COUNT,
    DISCARDED,
    END,
    FLAW,
    GOOD,
    LAST,
    SIZE,
    TABLE_FIELDS,
    TABLE_ROWS,
    VERDICT,
    Flawed,
    RecordCounts,
    ScanResult,
    SegmentChunk,
    Terms,
    Write,
)
from penstock.log.compaction.cleaned_segment import BATCH_FIELDS
from penstock.log.compaction.kernel_bytes import Bytes
from penstock.log.compaction.kernels import (
    BLOCK,
    CHOICE_FIELDS,
    FULL,
    GROWTH_MAX,
    NO_ROOM,
    NOTE_FIELDS,
    S_ATTRIBUTES,
    S_BASE_TIME,
    S_BATCHES,
    S_BODY_END,
    S_BYTES,
    S_COUNT,
    S_FULL_AT,
    S_KEPT,
    S_KEYLESS,
    S_KEYS,
    S_LIMIT,
    S_MAX_TIME,
    S_READ,
    S_ROW,
    S_ROWS,
    S_USED,
    STATE_FIELDS,
    UNSEALED,
    choose_rows,
    learn_rows,
    mark_flawed,
    scan_batches,
    sift_rows,
)
from penstock.log.compaction.offset_map import OffsetMap
from penstock.log.compaction.order import Segment
from penstock.wire.batch import CODEC_MASK, HEADER, HEADER_BYTES, Header, seal_batch
from penstock.wire.compression import compress
from penstock.wire.primitives import Buffer

# The remains of a chunk fit, unless timestamp deltas grow very much: then they go out in parts.
_OUT_BYTES = CHUNK_BYTES + 1024 * 1024
_WORD = 2**64


class CompiledEngine:
    """The engine with compiled kernels (see chunks.CleaningEngine). Chunks share its buffers: a
    table is valid until the next chunk."""

    def __init__(self) -> None:
        self._table = _fresh((TABLE_ROWS, TABLE_FIELDS), np.int64)
        self._state = np.zeros(STATE_FIELDS, np.int64)
        self._hashes = np.zeros((BLOCK, 2), np.uint64)
        self._notes = np.zeros((BLOCK, NOTE_FIELDS), np.int64)
        self._choices = _fresh((TABLE_ROWS, CHOICE_FIELDS), np.int64)
        self._keep = np.zeros(BLOCK, np.uint8)
        self._out = _fresh((_OUT_BYTES,), np.uint8)
        self._written = _fresh((TABLE_ROWS, BATCH_FIELDS), np.int64)

    def new_map(self, bytes_max: int, load_max: float, seed: int) -> OffsetMap:
        return OffsetMap(bytes_max, load_max, seed)

    def scan(self, data: bytes, segment: Segment, previous: int) -> ScanResult:
        bounds = segment.base_offset, segment.end_offset, previous
        fault = scan_batches(_read_only(data), bounds, self._table, self._state)
        rows, used = int(self._state[S_ROWS]), int(self._state[S_BYTES])
        return ScanResult(self._table[:rows], used, fault)

    def learn(
        self, chunk: SegmentChunk, keys: OffsetMap, start_offset: int, terms: Terms
    ) -> int | None:
        state = self._state
        state[S_KEYS], state[S_LIMIT] = keys.size, keys.limit
        looked_at = (chunk.table[:, VERDICT] & DISCARDED == 0) & (
            chunk.table[:, LAST] >= start_offset
        )
        for source, span in _runs(chunk, looked_at, terms):
            self._mark_flawed(chunk, source, span, keys, start_offset)
            code = learn_rows(
                *(source, chunk.table, span, start_offset, keys.table, _seed_of(keys)),
                *(self._hashes, self._notes, state),
            )
            keys.size = int(state[S_KEYS])
            if code == FULL:
                return int(state[S_FULL_AT])
        return None

    def _mark_flawed(
        self,
        chunk: SegmentChunk,
        source: Bytes,
        span: tuple[int, int],
        keys: OffsetMap,
        start_offset: int,
    ) -> None:
        mark_flawed(
            *(source, chunk.table, span, start_offset, keys.table, _seed_of(keys)),
            *(self._hashes, self._notes),
        )

    def sift(
        self, chunk: SegmentChunk, keys: OffsetMap, terms: Terms, counts: RecordCounts, write: Write
    ) -> None:
        state = self._state
        state[:] = 0
        looked_at = (chunk.table[:, VERDICT] & DISCARDED == 0) & (chunk.table[:, COUNT] > 0)
        source = _read_only(chunk.data)
        for bodies, span in _runs(chunk, looked_at, terms):
            self._mark_flawed(chunk, bodies, span, keys, 0)
            self._choose(chunk, bodies, span, keys, terms)
            row, end = span
            while row < end:
                code = sift_rows(
                    *(source, bodies, chunk.table, (row, end), terms.delete_horizon_ms),
                    *(self._keep, self._choices, self._out, self._written, state),
                )
                if code == GOOD:
                    break
                row = int(state[S_ROW])
                if code == NO_ROOM:
                    self._flush(write)
                    self._grow(chunk, row)
                else:
                    assert code == UNSEALED, "all faults were found before"
                    self._pack(chunk, row, write)
                    row += 1
        self._flush(write)
        counts.read += int(state[S_READ])
        counts.kept += int(state[S_KEPT])
        counts.keyless += int(state[S_KEYLESS])
        counts.flawed += int(chunk.table[:, FLAW].sum())

    def _choose(
        self,
        chunk: SegmentChunk,
        bodies: Bytes,
        span: tuple[int, int],
        keys: OffsetMap,
        terms: Terms,
    ) -> None:
        records = int(chunk.table[span[0] : span[1], COUNT].sum())
        if records > len(self._keep):
            self._keep = np.zeros(records, np.uint8)
        choose_rows(
            *(bodies, chunk.table, span, terms[:4], keys.table, _seed_of(keys)),
            *(self._hashes, self._notes, self._keep, self._choices, self._state),
        )

    def _grow(self, chunk: SegmentChunk, row: int) -> None:
        """Make the empty `out` large enough for one batch."""
        batch = chunk.table[row]
        body = int(batch[END] - batch[BODY])
        needed = max(int(batch[SIZE]), HEADER_BYTES + body) + GROWTH_MAX * int(batch[COUNT])
        if needed > len(self._out):
            self._out = np.zeros(needed, np.uint8)

    def _flush(self, write: Write) -> None:
        used, batches = int(self._state[S_USED]), int(self._state[S_BATCHES])
        if batches:
            write(self._out.data[:used], self._written[:batches])
        self._state[S_USED] = self._state[S_BATCHES] = 0

    def _pack(self, chunk: SegmentChunk, row: int, write: Write) -> None:
        """Compress and seal the batch whose records follow the others in `out`."""
        state = self._state.tolist()
        start = state[S_USED] + HEADER_BYTES
        header: Header = HEADER.unpack_from(chunk.batch(row))
        base, _, leader_epoch, _, _, _, delta, _, _, *producer, _ = header
        body = self._out.data[start : state[S_BODY_END]]
        sealed = seal_batch(
            compress(state[S_ATTRIBUTES] & CODEC_MASK, body),
            state[S_ATTRIBUTES],
            state[S_COUNT],
            last_delta=delta,
            times_ms=(state[S_BASE_TIME], state[S_MAX_TIME]),
            producer=(producer[0], producer[1], producer[2]),
            base_offset=base,
            leader_epoch=leader_epoch,
        )
        if state[S_USED] + len(sealed) > len(self._out):
            self._flush(write)
        if len(sealed) > len(self._out):
            self._out = np.zeros(len(sealed), np.uint8)
        used, batches = int(self._state[S_USED]), int(self._state[S_BATCHES])
        self._out[used : used + len(sealed)] = np.frombuffer(sealed, np.uint8)
        self._written[batches] = len(sealed), base + delta, state[S_MAX_TIME]
        self._state[S_USED] = used + len(sealed)
        self._state[S_BATCHES] = batches + 1


def _runs(
    chunk: SegmentChunk, looked_at: "np.ndarray[tuple[int], np.dtype[np.bool_]]", terms: Terms
) -> Iterator[tuple[Bytes, tuple[int, int]]]:
    """Yield all batches of a chunk, as runs with one source: the chunk, or an unpacked batch."""
    source, table, first = _read_only(chunk.data), chunk.table, 0
    packed = (table[:, ATTRIBUTES] & CODEC_MASK != 0) & looked_at
    for row in np.nonzero(packed)[0].tolist():
        try:
            unpacked = chunk.unpacked(row, terms.unpacked_bytes_max)
        except Flawed:
            chunk.mark_flawed(row)
            continue
        if row > first:
            yield source, (first, row)
        table[row, BODY], table[row, END] = 0, len(unpacked)
        yield _read_only(unpacked), (row, row + 1)
        first = row + 1
    if first < len(table):
        yield source, (first, len(table))


def _fresh(shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Return zeros in fresh pages of the system: untouched pages cost no memory, and freed pages
    return to the system. The allocator would clear and keep its own pages (memory.py counts both).
    """
    pages = mmap.mmap(-1, prod(shape) * np.dtype(kind).itemsize)
    return np.frombuffer(pages, kind).reshape(shape)


def _seed_of(keys: OffsetMap) -> tuple[np.uint64, np.uint64]:
    return np.uint64(keys.seed % _WORD), np.uint64(keys.seed // _WORD % _WORD)


def _read_only(data: Buffer) -> Bytes:
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array
