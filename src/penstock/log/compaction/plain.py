"""Cleaning record by record in plain Python: for machines without numba, and as proof of
compiled.py.

Both engines write the same bytes. Keys are hashed with BLAKE2b.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from crc32c import crc32c

from penstock.log.compaction.chunks import (
    ATTRIBUTES,
    ATTRIBUTES_KEPT,
    BASE,
    BASE_TIME,
    BODY,
    BROKEN,
    CHECKSUM,
    COUNT,
    COUNTED,
    DELETE_HORIZON,
    DISCARDED,
    END,
    FALLING,
    FAULTS,
    FLAW,
    GOOD,
    KEPT,
    LAST,
    MARKER_EXPIRES,
    MAX_TIME,
    NO_BATCH,
    OUTSIDE,
    RECORD_BYTES_MIN,
    SEQUENCE_KEPT,
    STRAY,
    TABLE_FIELDS,
    TABLE_ROWS,
    TRAILING,
    VERDICT,
    Flawed,
    RecordCounts,
    ScanResult,
    SegmentChunk,
    Terms,
    Write,
)
from penstock.log.compaction.offset_map import Hashes, OffsetMap
from penstock.log.compaction.order import Segment
from penstock.model import NO_TIMESTAMP
from penstock.wire.batch import (
    APPEND_TIME,
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    MAGIC_2,
    Header,
    seal_batch,
    write_varint,
)
from penstock.wire.compression import compress
from penstock.wire.primitives import Buffer

_LONG = 2**64
_LONG_HALF = 2**63
_VARLONG_SHIFT_MAX = 63
_HASH_BYTES = 16


class _RecordFault(Flawed):
    def __init__(self, fault: int) -> None:
        super().__init__(FAULTS[fault])


class _Record:
    """The positions of a record's parts: its bytes, its timestamp delta, and the rest."""

    __slots__ = ("delta", "end", "fields", "key", "offset", "start", "tail", "valued")

    def __init__(self, data: bytes, start: int, limit: int) -> None:
        self.start = start
        size, self.fields = _varint(data, start, limit)
        self.end = self.fields + size
        if size < 0 or self.end > limit:
            raise _RecordFault(BROKEN)
        end = self.end
        self.delta, self.tail = _varint(data, self.fields + 1, end)
        self.offset, position = _varint(data, self.tail, end)
        key_size, position = _varint(data, position, end)
        self.key: bytes | None = None
        if key_size >= 0:
            self.key = data[position : position + key_size]
            position += key_size
        value_size, position = _varint(data, position, end)
        self.valued = value_size >= 0
        # The rest (of the value, and the headers) is copied unread.
        if position + max(value_size, 0) >= end:
            raise _RecordFault(BROKEN)


@dataclass(slots=True)
class _BatchView:
    """A batch and the header fields that decide about its records."""

    chunk: SegmentChunk
    row: int
    fields: list[int]
    data: bytes

    @property
    def horizon_ms(self) -> int | None:
        has = self.fields[ATTRIBUTES] & DELETE_HORIZON
        return self.fields[BASE_TIME] if has else None

    def timestamp(self, record: _Record) -> int:
        if self.fields[ATTRIBUTES] & APPEND_TIME:
            return self.fields[MAX_TIME]
        return _wrapped(self.fields[BASE_TIME] + record.delta)

    def records(self) -> list[_Record]:
        fields, previous = self.fields, -1
        position, end = fields[BODY], fields[END]
        found = []
        for _ in range(fields[COUNT]):
            record = _Record(self.data, position, end)
            if record.offset < 0 or record.offset > fields[LAST] - fields[BASE]:
                raise _RecordFault(STRAY)
            if record.offset <= previous:
                raise _RecordFault(FALLING)
            previous = record.offset
            record.offset += fields[BASE]
            found.append(record)
            position = record.end
        if position != end:
            raise _RecordFault(TRAILING)
        return found


class PlainEngine:
    """The engine in plain Python (see chunks.CleaningEngine)."""

    def new_map(self, bytes_max: int, load_max: float, seed: int) -> OffsetMap:
        return OffsetMap(bytes_max, load_max, seed)

    def scan(self, data: bytes, segment: Segment, previous: int) -> ScanResult:
        rows: list[tuple[int, ...]] = []
        position, fault = 0, GOOD
        view = memoryview(data)
        while position + HEADER_BYTES <= len(data) and len(rows) < TABLE_ROWS:
            header: Header = HEADER.unpack_from(data, position)
            base, length, _, magic, crc, attributes, delta, *times_and_producer = header
            end = position + LENGTH_OVERHEAD + length
            if length < LENGTH_MIN or magic != MAGIC_2:
                fault = NO_BATCH
                break
            if end > len(data):
                break
            fault = _fault_of(header, segment, previous)
            if fault == GOOD and crc32c(view[position + CRC_START : end]) != crc:
                fault = CHECKSUM
            if fault != GOOD:
                break
            previous = base + delta
            base_time, max_time, producer, epoch, _, count = times_and_producer
            flaw = _counts_too_many(header)
            rows.append(
                (
                    *(position, end - position, base, previous, attributes, base_time, max_time),
                    *(producer, epoch, 0 if flaw else count, position + HEADER_BYTES, end, 0, flaw),
                )
            )
            position = end
        return ScanResult(np.array(rows, np.int64).reshape(-1, TABLE_FIELDS), position, fault)

    def learn(
        self, chunk: SegmentChunk, keys: OffsetMap, start_offset: int, terms: Terms
    ) -> int | None:
        for row in np.nonzero(~chunk.table[:, VERDICT] & DISCARDED)[0].tolist():
            if chunk.table[row, LAST] < start_offset:
                continue
            try:
                records = _open(chunk, row, terms).records()
            except Flawed:
                continue
            keyed = [each for each in records if each.key is not None]
            keyed = [each for each in keyed if each.offset >= start_offset]
            offsets = np.array([each.offset for each in keyed], np.int64)
            taken = keys.put_all(_hashes(keyed, keys.seed), offsets) if keyed else 0
            if taken < len(keyed):
                return keyed[taken].offset
        return None

    def sift(
        self, chunk: SegmentChunk, keys: OffsetMap, terms: Terms, counts: RecordCounts, write: Write
    ) -> None:
        written = bytearray()
        batches: list[tuple[int, int, int]] = []
        for row in range(len(chunk.table)):
            try:
                kept, newest = _sifted(_open(chunk, row, terms), keys, terms, counts)
            except Flawed:
                counts.flawed += 1
                kept, newest = chunk.batch(row), int(chunk.table[row, MAX_TIME])
            if kept:
                written += kept
                batches.append((len(kept), int(chunk.table[row, LAST]), newest))
        if batches:
            write(written, np.array(batches, np.int64))


def _fault_of(header: Header, segment: Segment, previous: int) -> int:
    base, _, _, _, _, _, delta, *_ = header
    if delta < 0 or base <= previous:
        return FALLING
    if base < segment.base_offset or base + delta >= segment.end_offset:
        return OUTSIDE
    return GOOD


def _counts_too_many(header: Header) -> bool:
    _, length, _, _, _, attributes, *_, count = header
    # The record count of a compressed batch is checked after unpacking.
    room = length - LENGTH_MIN
    return count < 0 or (not attributes & CODEC_MASK and count * RECORD_BYTES_MIN > room)


def _open(chunk: SegmentChunk, row: int, terms: Terms) -> _BatchView:
    """Return a batch, unpacked if its records will be read. Raise Flawed if that fails."""
    fields: list[int] = chunk.table[row].tolist()
    if fields[FLAW]:
        raise Flawed(FAULTS[COUNTED])
    data = chunk.data
    looked_at = fields[COUNT] and not fields[VERDICT] & DISCARDED
    if looked_at and fields[ATTRIBUTES] & CODEC_MASK:
        data = bytes(chunk.unpacked(row, terms.unpacked_bytes_max))
        fields[BODY], fields[END] = 0, len(data)
    return _BatchView(chunk, row, fields, data)


def _sifted(
    batch: _BatchView, keys: OffsetMap, terms: Terms, counts: RecordCounts
) -> tuple[Buffer, int]:
    """Return the remaining bytes of a batch, perhaps none, and its largest timestamp."""
    fields, verdict = batch.fields, batch.fields[VERDICT]
    records = [] if verdict & DISCARDED else batch.records()
    counts.read += fields[COUNT]
    kept = records if verdict & KEPT else _newest(batch, records, keys, terms, counts)
    counts.kept += len(kept)
    if not kept:
        return (_emptied(batch) if verdict & SEQUENCE_KEPT else b""), fields[MAX_TIME]
    expires = bool(verdict & MARKER_EXPIRES) or any(not record.valued for record in kept)
    new_horizon = expires and batch.horizon_ms is None
    if len(kept) == fields[COUNT] and not new_horizon:
        return batch.chunk.batch(batch.row), fields[MAX_TIME]
    horizon_ms = terms.delete_horizon_ms if new_horizon else batch.horizon_ms
    if horizon_ms is not None and horizon_ms < 0:
        horizon_ms = None  # out of range for a timestamp: the batch gets no horizon
    return _rewritten(batch, kept, horizon_ms)


def _newest(
    batch: _BatchView, records: list[_Record], keys: OffsetMap, terms: Terms, counts: RecordCounts
) -> list[_Record]:
    expired = batch.horizon_ms is not None and batch.horizon_ms <= terms.now_ms
    keyed = [each for each in records if each.key is not None and each.offset < terms.cleaned_to]
    newest = keys.newest(_hashes(keyed, keys.seed)).tolist() if keyed else []
    superseded = {
        record.offset for record, found in zip(keyed, newest, strict=True) if found > record.offset
    }
    kept = []
    for record in records:
        if record.offset < terms.start_offset:
            continue
        if record.offset < terms.cleaned_to:
            if record.key is None:
                counts.keyless += 1
                continue
            if record.offset in superseded or (expired and not record.valued):
                continue
        kept.append(record)
    return kept


def _emptied(batch: _BatchView) -> bytes:
    header: Header = HEADER.unpack_from(batch.chunk.batch(batch.row))
    base, _, leader_epoch, _, _, attributes, delta, _, newest, *producer, _ = header
    return seal_batch(
        b"",
        attributes & ATTRIBUTES_KEPT & ~CODEC_MASK,
        0,
        last_delta=delta,
        times_ms=(NO_TIMESTAMP, newest),
        producer=(producer[0], producer[1], producer[2]),
        base_offset=base,
        leader_epoch=leader_epoch,
    )


def _rewritten(batch: _BatchView, kept: list[_Record], horizon_ms: int | None) -> tuple[bytes, int]:
    """Return a batch of these records. A horizon becomes the base timestamp."""
    base_time = batch.timestamp(kept[0]) if horizon_ms is None else horizon_ms
    newest = NO_TIMESTAMP
    body = bytearray()
    for record in kept:
        timestamp = batch.timestamp(record)
        newest = max(newest, timestamp)
        _copy_record(body, batch.data, record, _wrapped(timestamp - base_time))
    header: Header = HEADER.unpack_from(batch.chunk.batch(batch.row))
    base, _, leader_epoch, _, _, attributes, delta, _, _, *producer, _ = header
    attributes = attributes & ATTRIBUTES_KEPT | (0 if horizon_ms is None else DELETE_HORIZON)
    sealed = seal_batch(
        compress(attributes & CODEC_MASK, body),
        attributes,
        len(kept),
        last_delta=delta,
        times_ms=(base_time, newest),
        producer=(producer[0], producer[1], producer[2]),
        base_offset=base,
        leader_epoch=leader_epoch,
    )
    return sealed, newest


def _copy_record(body: bytearray, data: bytes, record: _Record, delta: int) -> None:
    if delta == record.delta:
        body += data[record.start : record.end]
        return
    head = bytearray(data[record.fields : record.fields + 1])  # the attributes
    write_varint(head, delta)
    write_varint(body, len(head) + record.end - record.tail)
    body += head
    body += data[record.tail : record.end]


def _hashes(records: list[_Record], seed: int) -> Hashes:
    salt = seed.to_bytes(_HASH_BYTES)
    digests = b"".join(
        blake2b(record.key or b"", digest_size=_HASH_BYTES, key=salt).digest() for record in records
    )
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


def _wrapped(number: int) -> int:
    """Wrap to a signed number of 64 bits."""
    return (number + _LONG_HALF) % _LONG - _LONG_HALF


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift <= _VARLONG_SHIFT_MAX:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value %= _LONG
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise _RecordFault(BROKEN)
