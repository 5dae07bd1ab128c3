"""The machine code of compiled.py: whole chunks of batches, no step of Python per record.

Records are read and hashed in blocks, which may span batches, before the map lookups: the memory
accesses of many keys then overlap. Remaining records are copied, a batch whole or record by record.
Compressed batches arrive unpacked, one at a time. The cache of compiled code notices changes in all
files of this room (bulk.compiling).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.bulk.compiler import (
    BYTES_IN,
    BYTES_OUT,
    INT,
    INT64_OUT,
    TABLE,
    as_index,
    as_int,
    compiled,
    copy_bytes,
    inlined,
    types,
)
from penstock.log.compaction.chunks import (
    ATTRIBUTES,
    ATTRIBUTES_KEPT,
    BASE,
    BASE_TIME,
    BODY,
    BROKEN,
    CHECKSUM,
    COUNT,
    DELETE_HORIZON,
    DISCARDED,
    END,
    EPOCH,
    FALLING,
    FLAW,
    GOOD,
    KEPT,
    LAST,
    MARKER_EXPIRES,
    MAX_TIME,
    NO_BATCH,
    OUTSIDE,
    POSITION,
    PRODUCER,
    RECORD_BYTES_MIN,
    SEQUENCE_KEPT,
    SIZE,
    STRAY,
    VERDICT,
    Table,
)
from penstock.log.compaction.cleaned_segment import BATCH_LAST, BATCH_SIZE, BATCH_TIME
from penstock.log.compaction.kernel_bytes import (
    LONG_MAX,
    Bytes,
    Words,
    as_word,
    checksum_of,
    number_at,
    put_number,
    put_varint,
    size_of_varint,
    varint_at,
)
from penstock.log.compaction.kernel_keys import fetch_row, find_key, siphash, slot_of
from penstock.wire.batch import (
    APPEND_TIME,
    CODEC_MASK,
    CRC_POSITION,
    CRC_START,
    HEADER_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    MAGIC_2,
)

Int64s = NDArray[np.int64]

# Positions of the fields in a batch header.
_LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT, _DELTA_AT = 8, 16, 21, 23
_BASE_TIME_AT, _MAX_TIME_AT, _PRODUCER_AT, _EPOCH_AT, _COUNT_AT = 27, 35, 43, 51, 57

# Records that are hashed before the map lookups.
BLOCK = 256
# Growth limit of a record: a longer timestamp delta, a longer size.
GROWTH_MAX = 12
# Results of a kernel, besides the faults of chunks.py.
FULL, NO_ROOM, UNSEALED = 100, 101, 102

_KEYED, _VALUED = 1, 2
# The columns of a block's notes: offset, flags, batch, and position in `keep` of a record.
_OFFSET, _FLAGS, _BATCH, _PLACE = range(4)
NOTE_FIELDS = 4
# The columns of choices, per batch: remaining records, tombstones among them, and the first
# position in `keep`.
STAYING, TOMBSTONES, FIRST_RECORD = range(3)
CHOICE_FIELDS = 3

_WORDS = types.uint64[:, ::1]
_SEED = types.UniTuple(types.uint64, 2)

# The state of a kernel between calls: the current row; for a sift also the bytes and batches in
# `out`, the counts, and the batch to compress next.
S_ROW, S_USED, S_BATCHES, S_READ, S_KEPT, S_KEYLESS = range(6)
S_BODY_END, S_COUNT, S_BASE_TIME, S_MAX_TIME, S_ATTRIBUTES = range(6, 11)
STATE_FIELDS = 11
# For a first pass: keys in the map, their limit, and the offset that had no room.
S_KEYS, S_LIMIT, S_FULL_AT = 1, 2, 3
# For a scan.
S_ROWS, S_BYTES = 0, 1

_0 = np.uint64(0)


@inlined
def _read_block(
    source: Bytes,
    place: tuple[int, int, int, int, int],
    span: tuple[int, int],
    hashed: tuple[int, int],
    seed: Any,
    keys: Words,
    hashes: Words,
    notes: Int64s,
) -> tuple[int, int, int]:
    """Read the next records of a batch into a span of `hashes` and `notes`. `place` is (position,
    end of all records, first offset of the batch, its last delta, the previous delta). Only offsets
    in `hashed` are hashed. Return the next position, the next delta and a fault."""
    position, batch_end, base, last_delta, previous = place
    for index in range(span[0], span[1]):
        size, position = varint_at(source, position, batch_end)
        if size < 0 or size > batch_end - position:
            return position, previous, BROKEN
        end = position + size
        _delta, position = varint_at(source, position + 1, end)
        offset_delta, position = varint_at(source, position, end)
        key_size, position = varint_at(source, position, end)
        key_start = position
        if key_size > 0:
            if key_size > end - position:
                return position, previous, BROKEN
            position += key_size
        value_size, position = varint_at(source, position, end)
        # The rest (of the value, and the headers) is copied unread.
        if value_size >= end - position or position >= end:
            return position, previous, BROKEN
        if offset_delta < 0 or offset_delta > last_delta:
            return position, previous, STRAY
        if offset_delta <= previous:
            return position, previous, FALLING
        previous = offset_delta
        offset = base + offset_delta
        flags = _VALUED if value_size >= 0 else 0
        if key_size >= 0:
            flags |= _KEYED
            if hashed[0] <= offset < hashed[1]:
                first, second = siphash(source, key_start, key_size, seed)
                hashes[as_index(index), 0] = first
                hashes[as_index(index), 1] = second
                fetch_row(keys, slot_of(keys, first))
        notes[as_index(index), _OFFSET] = offset
        notes[as_index(index), _FLAGS] = flags
        position = end
    return position, previous, GOOD


@compiled(BYTES_IN, types.UniTuple(INT, 3), TABLE, INT64_OUT)
def scan_batches(source: Bytes, bounds: tuple[int, int, int], table: Table, state: Int64s) -> int:
    """Read whole batches at the start of the source into the table; `state` gets rows and bytes."""
    first_offset, end_offset, previous = bounds
    row, position = 0, 0
    fault = GOOD
    while position + HEADER_BYTES <= len(source) and row < len(table):
        length = (number_at(source, position + _LENGTH_AT, 4) ^ 0x80000000) - 0x80000000
        if length < LENGTH_MIN or source[as_index(position + _MAGIC_AT)] != MAGIC_2:
            fault = NO_BATCH
            break
        end = position + LENGTH_OVERHEAD + length
        if end > len(source):
            break
        base = number_at(source, position, 8)
        delta = (number_at(source, position + _DELTA_AT, 4) ^ 0x80000000) - 0x80000000
        count = (number_at(source, position + _COUNT_AT, 4) ^ 0x80000000) - 0x80000000
        attributes = (number_at(source, position + _ATTRIBUTES_AT, 2) ^ 0x8000) - 0x8000
        if delta < 0 or base <= previous:
            fault = FALLING
        elif base < first_offset or base + delta >= end_offset:
            fault = OUTSIDE
        elif checksum_of(source, position + CRC_START, end) != number_at(
            source, position + CRC_POSITION, 4
        ):
            fault = CHECKSUM
        if fault != GOOD:
            break
        previous = base + delta
        table[row, POSITION], table[row, SIZE] = position, end - position
        table[row, BASE], table[row, LAST] = base, previous
        flawed = count < 0 or (
            attributes & CODEC_MASK == 0 and count * RECORD_BYTES_MIN > length - LENGTH_MIN
        )
        table[row, ATTRIBUTES], table[row, COUNT] = attributes, 0 if flawed else count
        table[row, FLAW] = flawed
        table[row, BASE_TIME] = number_at(source, position + _BASE_TIME_AT, 8)
        table[row, MAX_TIME] = number_at(source, position + _MAX_TIME_AT, 8)
        table[row, PRODUCER] = number_at(source, position + _PRODUCER_AT, 8)
        table[row, EPOCH] = (number_at(source, position + _EPOCH_AT, 2) ^ 0x8000) - 0x8000
        table[row, BODY], table[row, END] = position + HEADER_BYTES, end
        table[row, VERDICT] = 0
        position = end
        row += 1
    state[S_ROWS], state[S_BYTES] = row, position
    return fault


@compiled(
    *(BYTES_IN, TABLE, types.UniTuple(INT, 2), INT, _WORDS, _SEED),
    *(_WORDS, TABLE),
)
def mark_flawed(
    source: Bytes,
    table: Table,
    span: tuple[int, int],
    start_offset: int,
    keys: Words,
    seed: Any,
    hashes: Words,
    notes: Int64s,
) -> int:
    """Mark the batches with unreadable records before their keys count; return their number."""
    found = 0
    for row in range(span[0], span[1]):
        if table[row, VERDICT] & DISCARDED or table[row, FLAW] or table[row, LAST] < start_offset:
            continue
        position, end, base = table[row, BODY], table[row, END], table[row, BASE]
        left, previous, fault = table[row, COUNT], -1, GOOD
        while left > 0 and fault == GOOD:
            count = min(left, BLOCK)
            place = (position, end, base, table[row, LAST] - base, previous)
            position, previous, fault = _read_block(
                source, place, (0, count), (0, 0), seed, keys, hashes, notes
            )
            left -= count
        if fault != GOOD or position != end:
            table[row, FLAW], table[row, COUNT] = 1, 0
            found += 1
    return found


@inlined
def _note_keys(
    keys: Words, hashes: Words, notes: Int64s, count: int, start_offset: int, state: Int64s
) -> bool:
    """Put a block into the map; return False if a key has no room."""
    for index in range(count):
        offset = notes[as_index(index), _OFFSET]
        if not notes[as_index(index), _FLAGS] & _KEYED or offset < start_offset:
            continue
        hash_0, hash_1 = hashes[as_index(index), 0], hashes[as_index(index), 1]
        slot = as_index(find_key(keys, hash_0, hash_1))
        if keys[slot, 2] == _0:
            if state[S_KEYS] >= state[S_LIMIT]:
                state[S_FULL_AT] = offset
                return False
            state[S_KEYS] += 1
            keys[slot, 0], keys[slot, 1] = hash_0, hash_1
        keys[slot, 2] = as_word(offset + 1)
    return True


@compiled(
    *(BYTES_IN, TABLE, types.UniTuple(INT, 2), INT, _WORDS, _SEED),
    *(_WORDS, TABLE, INT64_OUT),
)
def learn_rows(
    source: Bytes,
    table: Table,
    span: tuple[int, int],
    start_offset: int,
    keys: Words,
    seed: Any,
    hashes: Words,
    notes: Int64s,
    state: Int64s,
) -> int:
    """Note the newest offset of each key in the map. Flawed batches are already marked."""
    filled = 0
    for row in range(span[0], span[1]):
        state[S_ROW] = row
        if table[row, VERDICT] & DISCARDED or table[row, FLAW] or table[row, LAST] < start_offset:
            continue
        position, end, base = table[row, BODY], table[row, END], table[row, BASE]
        left, previous = table[row, COUNT], -1
        while left > 0:
            upto = min(filled + left, BLOCK)
            place = (position, end, base, table[row, LAST] - base, previous)
            position, previous, _fault = _read_block(
                *(source, place, (filled, upto), (start_offset, LONG_MAX), seed),
                *(keys, hashes, notes),
            )
            left -= upto - filled
            filled = upto
            if filled == BLOCK:
                if not _note_keys(keys, hashes, notes, filled, start_offset, state):
                    return FULL
                filled = 0
    return GOOD if _note_keys(keys, hashes, notes, filled, start_offset, state) else FULL


@inlined
def _choose_block(
    table: Table,
    terms: tuple[int, int, int, int],
    keys: Words,
    block: tuple[Words, Int64s, int],
    keep: Bytes,
    choices: Table,
    state: Int64s,
) -> None:
    """Decide about the records of a block."""
    start_offset, cleaned_to, now_ms, _horizon = terms
    hashes, notes, count = block
    for index in range(count):
        offset, flags = notes[as_index(index), _OFFSET], notes[as_index(index), _FLAGS]
        row = notes[as_index(index), _BATCH]
        all_stay = table[row, VERDICT] & KEPT != 0
        stays = all_stay or offset >= start_offset
        if stays and not all_stay and offset < cleaned_to:
            if flags & _KEYED:
                hash_0, hash_1 = hashes[as_index(index), 0], hashes[as_index(index), 1]
                slot = as_index(find_key(keys, hash_0, hash_1))
                stays = as_int(keys[slot, 2]) - 1 <= offset
                if (
                    not flags & _VALUED
                    and table[row, ATTRIBUTES] & DELETE_HORIZON
                    and table[row, BASE_TIME] <= now_ms
                ):
                    stays = False
            else:
                state[S_KEYLESS] += 1
                stays = False
        keep[as_index(notes[as_index(index), _PLACE])] = stays
        if stays:
            choices[row, STAYING] += 1
            choices[row, TOMBSTONES] += not flags & _VALUED


@compiled(
    *(BYTES_IN, TABLE, types.UniTuple(INT, 2), types.UniTuple(INT, 4), _WORDS, _SEED),
    *(_WORDS, TABLE, BYTES_OUT, TABLE, INT64_OUT),
)
def choose_rows(
    bodies: Bytes,
    table: Table,
    span: tuple[int, int],
    terms: tuple[int, int, int, int],
    keys: Words,
    seed: Any,
    hashes: Words,
    notes: Int64s,
    keep: Bytes,
    choices: Table,
    state: Int64s,
) -> int:
    """Mark the remaining records in `keep`, count them per batch in `choices`, and return the
    number of records read. Flawed batches are already marked."""
    filled = records = 0
    for row in range(span[0], span[1]):
        state[S_ROW] = row
        choices[row, STAYING] = choices[row, TOMBSTONES] = 0
        choices[row, FIRST_RECORD] = records
        state[S_READ] += table[row, COUNT]
        if table[row, VERDICT] & DISCARDED or table[row, FLAW]:
            continue
        hashed = (0, 0) if table[row, VERDICT] & KEPT else (terms[0], terms[1])
        position, end, base = table[row, BODY], table[row, END], table[row, BASE]
        left, previous = table[row, COUNT], -1
        while left > 0:
            upto = min(filled + left, BLOCK)
            place = (position, end, base, table[row, LAST] - base, previous)
            position, previous, _fault = _read_block(
                bodies, place, (filled, upto), hashed, seed, keys, hashes, notes
            )
            for index in range(filled, upto):
                notes[as_index(index), _BATCH] = row
                notes[as_index(index), _PLACE] = records
                records += 1
            left -= upto - filled
            filled = upto
            if filled == BLOCK:
                _choose_block(table, terms, keys, (hashes, notes, filled), keep, choices, state)
                filled = 0
    _choose_block(table, terms, keys, (hashes, notes, filled), keep, choices, state)
    return records


@inlined
def _copy_kept(
    bodies: Bytes, batch: Int64s, keep: Bytes, first_record: int, horizon: int, out: Bytes, at: int
) -> tuple[int, int, int]:
    """Copy the remaining records to `out`. Return the position after them, their base timestamp
    (`horizon`, unless negative) and their largest timestamp."""
    position, base_time, newest = batch[BODY], horizon, -1
    first = horizon < 0
    for index in range(batch[COUNT]):
        start = position
        size, fields = varint_at(bodies, position, batch[END])
        position = fields + size
        if not keep[as_index(first_record + index)]:
            continue
        delta, tail = varint_at(bodies, fields + 1, position)
        time = batch[BASE_TIME] + delta
        if batch[ATTRIBUTES] & APPEND_TIME:
            time = batch[MAX_TIME]
        if first:
            base_time, first = time, False
        newest = max(newest, time)
        new_delta = time - base_time
        if new_delta == delta:
            copy_bytes(out, at, bodies, start, position - start)
            at += position - start
        else:
            rest = position - tail
            at = put_varint(out, at, 1 + size_of_varint(new_delta) + rest)
            out[as_index(at)] = bodies[as_index(fields)]
            at = put_varint(out, at + 1, new_delta)
            copy_bytes(out, at, bodies, tail, rest)
            at += rest
    return at, base_time, newest


@inlined
def _seal(
    out: Bytes, start: int, end: int, attributes: int, times: tuple[int, int], count: int
) -> None:
    """Correct the header of a rewritten batch, which is a copy of the old one."""
    put_number(out, start + _LENGTH_AT, 4, end - start - LENGTH_OVERHEAD)
    put_number(out, start + _ATTRIBUTES_AT, 2, attributes)
    put_number(out, start + _BASE_TIME_AT, 8, times[0])
    put_number(out, start + _MAX_TIME_AT, 8, times[1])
    put_number(out, start + _COUNT_AT, 4, count)
    put_number(out, start + CRC_POSITION, 4, checksum_of(out, start + CRC_START, end))


@compiled(
    *(BYTES_IN, BYTES_IN, TABLE, types.UniTuple(INT, 2), INT, BYTES_OUT, TABLE),
    *(BYTES_OUT, TABLE, INT64_OUT),
)
def sift_rows(
    source: Bytes,
    bodies: Bytes,
    table: Table,
    span: tuple[int, int],
    delete_horizon_ms: int,
    keep: Bytes,
    choices: Table,
    out: Bytes,
    written: Table,
    state: Int64s,
) -> int:
    """Copy the remaining batches to `out`, with a row about each in `written`. Stop before a batch
    that may not fit, and after a batch that needs compression."""
    for row in range(span[0], span[1]):
        state[S_ROW] = row
        batch = table[row]
        verdict, count, attributes = batch[VERDICT], batch[COUNT], batch[ATTRIBUTES]
        kept, flawed = choices[row, STAYING], batch[FLAW] != 0
        if kept == 0 and not verdict & SEQUENCE_KEPT and not flawed:
            continue
        start, size = state[S_USED], batch[SIZE]
        room = max(size, HEADER_BYTES + batch[END] - batch[BODY]) + GROWTH_MAX * count
        if room > len(out) - start:
            return NO_ROOM
        state[S_KEPT] += kept
        expires = choices[row, TOMBSTONES] > 0 or verdict & MARKER_EXPIRES != 0
        new_horizon = expires and attributes & DELETE_HORIZON == 0
        end, newest = start + size, batch[MAX_TIME]
        if flawed or (kept > 0 and kept == count and not new_horizon):
            copy_bytes(out, start, source, batch[POSITION], size)
        else:
            copy_bytes(out, start, source, batch[POSITION], HEADER_BYTES)
            end, base_time = start + HEADER_BYTES, -1
            attributes = attributes & ATTRIBUTES_KEPT
            if kept == 0:
                attributes &= ~CODEC_MASK
            else:
                horizon = delete_horizon_ms if new_horizon else -1
                if batch[ATTRIBUTES] & DELETE_HORIZON:
                    horizon = batch[BASE_TIME]
                if horizon >= 0:
                    attributes |= DELETE_HORIZON
                end, base_time, newest = _copy_kept(
                    bodies, batch, keep, choices[row, FIRST_RECORD], horizon, out, end
                )
            if attributes & CODEC_MASK:
                state[S_BODY_END], state[S_COUNT], state[S_ATTRIBUTES] = end, kept, attributes
                state[S_BASE_TIME], state[S_MAX_TIME] = base_time, newest
                return UNSEALED
            _seal(out, start, end, attributes, (base_time, newest), kept)
        made = state[S_BATCHES]
        written[made, BATCH_SIZE], written[made, BATCH_LAST] = end - start, batch[LAST]
        written[made, BATCH_TIME] = newest
        state[S_BATCHES], state[S_USED] = made + 1, end
    return GOOD
