"""Stages a turn: the bytes and index entries that appends add to segments, before any write.

All effects of a turn wait in stages: one for the active segment, one for each new segment. So a
turn whose write fails changes nothing.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from penstock.errors import CorruptMessage, KafkaError, MessageTooLarge, RecordListTooLarge
from penstock.log.config import LogConfig
from penstock.log.holes import Hole, UnrecordedHoles
from penstock.log.index import OFFSET_ENTRY, RELATIVE_OFFSET_MAX, TIME_ENTRY
from penstock.log.producers import Marker, State, advance
from penstock.log.segment import NEVER
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    PREFIX,
    Header,
    batch_headers,
    checksum_holds,
    read_marker,
)
from penstock.wire.primitives import Malformed
from penstock.world import Buffer

if TYPE_CHECKING:
    from penstock.log.log import Log

_PREFIX_BYTES = PREFIX.size


class SegmentStage:
    """The additions of one turn to one segment, before they are written."""

    __slots__ = (
        "base_offset",
        "end_offset",
        "entries",
        "first_timestamp",
        "largest_offset",
        "largest_timestamp",
        "parts",
        "position",
        "producers",
        "replay",
        "size",
        "start_offset",
        "started",
        "unindexed_bytes",
    )

    def __init__(self, base_offset: int, start_offset: int) -> None:
        """Prepare a stage for a segment without a file."""
        self.base_offset = base_offset
        self.start_offset = self.end_offset = start_offset
        self.position = self.size = 0
        self.parts: list[Buffer] = []
        self.entries: list[tuple[int, int, int, int]] = []
        self.largest_timestamp = self.first_timestamp = -1
        self.largest_offset = base_offset
        self.unindexed_bytes = 0
        self.producers: dict[int, State] = {}
        self.started: list[tuple[int, int]] = []
        self.replay: list[tuple[Header, int, Marker | None]] = []

    def close(self, size: int, end_offset: int, largest_timestamp: int, unindexed: int) -> None:
        """Store the numbers that the hot path kept in locals."""
        self.size = size
        self.end_offset = end_offset
        self.largest_timestamp = largest_timestamp
        self.unindexed_bytes = unindexed

    def add(self, batch: memoryview, header: Header, marker: Marker | None, interval: int) -> None:
        """Add one batch that carries its own offset."""
        last, timestamp = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA], header[MAX_TIMESTAMP]
        if self.size == 0:
            self.first_timestamp = timestamp
        if timestamp > self.largest_timestamp:
            self.largest_timestamp, self.largest_offset = timestamp, last
        if self.unindexed_bytes > interval:
            self.entries.append((last, self.size, self.largest_timestamp, self.largest_offset))
            self.unindexed_bytes = 0
        self.unindexed_bytes += len(batch)
        self.size += len(batch)
        self.parts.append(batch)
        self.end_offset = last + 1
        self.replay.append((header, header[BASE_OFFSET], marker))


def on_active(log: "Log") -> SegmentStage:
    """Return a stage that continues the active segment."""
    active = log.active
    stage = SegmentStage(active.base_offset, log.end_offset)
    stage.position = stage.size = active.size
    stage.largest_timestamp = active.largest_timestamp
    stage.largest_offset = active.largest_offset
    stage.first_timestamp = active.first_timestamp
    stage.unindexed_bytes = active.unindexed_bytes
    return stage


def stage_produced(
    log: "Log",
    batches: Sequence[tuple[Buffer, Header]],
    leader_epoch: int,
    now_ms: int,
    start_at_zero: Collection[int],
) -> tuple[list[SegmentStage], list[int | KafkaError]]:
    """Return stages, of which the last may be empty, and the result of each produced batch.

    Hot path: locals, tuples, and one new object per batch at most. stage_stored is plain.
    """
    config, active = log.config, log.active
    segment_bytes, interval = config.segment_bytes, config.index_interval_bytes
    bytes_max = min(segment_bytes, config.message_bytes_max)
    stage = on_active(log)
    stages, results = [stage], list[int | KafkaError]()
    offset, position = log.end_offset, active.size
    roll_at = active.roll_timestamp(now_ms, log.roll_ms(active.base_offset))
    offset_max = active.base_offset + RELATIVE_OFFSET_MAX
    room = index_room(config) - max(len(active.index), len(active.times))
    largest, unindexed = stage.largest_timestamp, stage.unindexed_bytes
    parts, states, staged = stage.parts, log.producers.states, stage.producers
    prefix_into = PREFIX.pack_into
    for view, header in batches:
        size, timestamp = header[1] + LENGTH_OVERHEAD, header[8]
        if size > bytes_max:
            results.append(_too_large(size, config))
            continue
        producer_id = header[9]
        if producer_id >= 0:
            state = staged.get(producer_id) or states.get(producer_id)
            next_state = advance(state, header, offset, producer_id in start_at_zero)
            if type(next_state) is not tuple:
                results.append(next_state)  # type: ignore[arg-type]  # an offset or an error
                continue
        last = offset + header[6]
        if position + size > segment_bytes or timestamp > roll_at or last > offset_max or room <= 0:
            stage.close(position, offset, largest, unindexed)
            stage, position, largest, unindexed = SegmentStage(offset, offset), 0, -1, 0
            stages.append(stage)
            parts, staged = stage.parts, dict(staged)
            stage.producers = staged
            offset_max, room = offset + RELATIVE_OFFSET_MAX, index_room(config)
        if producer_id >= 0:
            staged[producer_id] = next_state  # type: ignore[assignment]  # a state: see above
            if next_state[4] == offset:  # type: ignore[index]
                stage.started.append((offset, producer_id))
        try:
            # in place: the buffer is the receive buffer
            prefix_into(view, 0, offset, header[1], leader_epoch)
            parts.append(view)
        except TypeError:  # `bytes` are read-only
            parts.append(PREFIX.pack(offset, header[1], leader_epoch))
            parts.append(view[_PREFIX_BYTES:])
        if timestamp > largest:
            largest, stage.largest_offset = timestamp, last
        if unindexed > interval:
            stage.entries.append((last, position, largest, stage.largest_offset))
            unindexed = 0
            room -= 1
        if position == 0:
            stage.first_timestamp = timestamp
            roll_at = timestamp + log.roll_ms(stage.base_offset) if timestamp >= 0 else NEVER
        unindexed += size
        position += size
        results.append(offset)
        offset = last + 1
    stage.close(position, offset, largest, unindexed)
    return stages, results


def stage_stored(log: "Log", data: Buffer, now_ms: int) -> list[SegmentStage]:
    """Return stages for batches that carry their offsets. Raise CorruptMessage for invalid
    batches, UnrecordedHoles before batches that may not follow yet."""
    view = memoryview(data)
    stage = on_active(log)
    stages = [stage]
    room = index_room(log.config) - max(len(log.active.index), len(log.active.times))
    expected = log.end_offset
    holes: list[Hole] = []
    try:
        for position, header in batch_headers(view):
            size = header[LENGTH] + LENGTH_OVERHEAD
            batch = view[position : position + size]
            base_offset = header[BASE_OFFSET]
            if not checksum_holds(batch, header):
                raise CorruptMessage(f"the batch at offset {base_offset} does not match its CRC")
            if base_offset < expected or header[LAST_OFFSET_DELTA] < 0:
                raise CorruptMessage(f"offset {base_offset} came where {expected} was due")
            if base_offset > expected and not log.holes.cover(expected, base_offset):
                holes.append(Hole(expected, base_offset))
            marker = read_marker(batch) if header[ATTRIBUTES] & CONTROL else None
            if room <= 0 or _must_roll(log, stage, header, size, now_ms):
                stage = SegmentStage(base_offset, base_offset)
                stages.append(stage)
                room = index_room(log.config)
            stage.add(batch, header, marker, log.config.index_interval_bytes)
            room -= stage.unindexed_bytes == size
            expected = stage.end_offset
    except Malformed as error:
        raise CorruptMessage(str(error)) from None
    if holes:
        raise UnrecordedHoles(holes)
    return stages


def _must_roll(log: "Log", stage: SegmentStage, header: Header, size: int, now_ms: int) -> bool:
    if stage.size == 0:
        return False
    roll_ms = log.roll_ms(stage.base_offset)
    if stage.first_timestamp >= 0:
        late = header[MAX_TIMESTAMP] - stage.first_timestamp > roll_ms
    else:
        late = now_ms - log.active.created_ms > roll_ms
    last = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
    return (
        late
        or stage.size + size > log.config.segment_bytes
        or last - stage.base_offset > RELATIVE_OFFSET_MAX
    )


def index_room(config: LogConfig) -> int:
    """Return the entries that fit both indexes; the time index reserves its last entry."""
    room = config.index_bytes_max
    return min(room // OFFSET_ENTRY.size, room // TIME_ENTRY.size - 1)


def _too_large(size: int, config: LogConfig) -> KafkaError:
    if size > config.message_bytes_max:
        return MessageTooLarge(f"{size} bytes, max.message.bytes is {config.message_bytes_max}")
    return RecordListTooLarge(f"{size} bytes, segment.bytes is {config.segment_bytes}")
