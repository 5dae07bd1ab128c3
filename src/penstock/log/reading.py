"""Finding things in a log: ranges to fetch, offsets by timestamp, aborted transactions.

Everything here may raise Cold; asked again after the warming, it gets further.
"""

from typing import TYPE_CHECKING, NamedTuple

from penstock.log.segment import (
    ActiveSegment,
    ClosedSegment,
    end_of_whole_batches,
    find_batch,
)
from penstock.log.transactions import collect_aborted
from penstock.wire.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    Header,
    Record,
    read_records,
)
from penstock.world import File

if TYPE_CHECKING:
    from penstock.log.log import Log


class Read(NamedTuple):
    """Whole batches that lie together in one file. `upper_offset` is at or after their end."""

    file: File | None
    position: int
    size: int
    upper_offset: int
    segment_base_offset: int


class Found(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def read(log: "Log", offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool) -> Read:
    """The general way to a range; Log.read has a short cut for readers at the tail."""
    for segment in log.segments_from(offset):
        file = segment.log_file(log.files)
        end = segment.size if isinstance(segment, ActiveSegment) else segment.size_of(log.files)
        hint = segment.position_of(offset, log.files)
        position, first_size, first_end = find_batch(file, hint, end, offset)
        if position == end:
            continue  # compaction took the tail of this segment
        upper = upper_offset
        if upper_offset < (log.end_offset if segment is log.active else _end_of(segment)):
            hint = segment.position_of(upper_offset, log.files)
            end = find_batch(file, max(hint, position), end, upper_offset)[0]
        elif segment is not log.active:
            upper = _end_of(segment)
        if end - position <= max_bytes:
            return Read(file, position, end - position, upper, segment.base_offset)
        if first_size > max_bytes:
            size = first_size if min_one_batch else 0
            return Read(file, position, size, first_end, segment.base_offset)
        limit = position + max_bytes
        hint = max(position, segment.position_before(limit, log.files))
        end, end_offset = end_of_whole_batches(file, hint, limit)
        if end_offset < 0:  # the indexed batch does not fit, the range ends where it begins
            end_offset = find_batch(file, end, end + HEADER_BYTES, 0)[2]
        return Read(file, position, end - position, end_offset, segment.base_offset)
    return Read(None, 0, 0, offset, offset)


def _end_of(segment: "ActiveSegment | ClosedSegment") -> int:
    assert isinstance(segment, ClosedSegment), "the active segment ends with the log"
    return segment.end_offset


def offset_for_timestamp(log: "Log", timestamp: int) -> Found | None:
    """The first record at or after a time: exact, also inside a batch."""
    for segment in log.segments_from(log.start_offset):
        if segment.largest(log.files)[0] < timestamp:
            continue
        found = _search(log, segment, timestamp)
        if found is not None:
            return found
    return None


def max_timestamp(log: "Log") -> Found | None:
    """The first record that carries the largest timestamp of the log."""
    best, chosen = -1, None
    for segment in log.segments_from(log.start_offset):
        timestamp = segment.largest(log.files)[0]
        if timestamp > best:
            best, chosen = timestamp, segment
    return _search(log, chosen, best) if chosen is not None else None


def _search(log: "Log", segment: "ActiveSegment | ClosedSegment", timestamp: int) -> Found | None:
    file = segment.log_file(log.files)
    end = file.size if segment is not log.active else log.active.size
    start_offset = max(segment.offset_before(timestamp, log.files), log.start_offset)
    hint = segment.position_of(start_offset, log.files)
    position, size, _ = find_batch(file, hint, end, start_offset)
    while position < end:
        header: Header = HEADER.unpack(file.read(position, HEADER_BYTES))
        size = header[LENGTH] + LENGTH_OVERHEAD
        if header[MAX_TIMESTAMP] >= timestamp:
            record = _first_at(file.read(position, size), timestamp, log.start_offset)
            if record is not None:
                epoch = log.epochs.at(record.offset)
                return Found(record.timestamp, record.offset, epoch)
        position += size
    return None


def _first_at(batch: bytes, timestamp: int, start_offset: int) -> Record | None:
    for record in read_records(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record
    return None


def aborted_transactions(log: "Log", first_offset: int, upper_offset: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of the aborted transactions with records in [first, upper)."""
    found: list[tuple[int, int]] = []
    for segment in log.segments_from(first_offset):
        if collect_aborted(segment.aborted_bytes(log.files), first_offset, upper_offset, found):
            break
    return found
