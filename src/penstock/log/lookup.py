"""Lookups in a log: ranges to fetch, offsets by timestamp, aborted transactions.

All functions may raise Cold; repeated after the warming, they get further.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import CorruptMessage
from penstock.log.segment import (
    ActiveSegment,
    ClosedSegment,
    end_of_whole_batches,
    find_batch,
)
from penstock.log.transactions import collect_aborted
from penstock.wire.batch import (
    BASE_OFFSET,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    Header,
    Skimmed,
    skim_records,
    unpack_batch,
)
from penstock.world import File

if TYPE_CHECKING:
    from penstock.log.log import Log

SEGMENTS_PER_STEP = 64
HEADERS_PER_STEP = 256


class LogRead(NamedTuple):
    """Whole batches that lie together in one file. `upper_offset` is at or after their end."""

    file: File | None
    position: int
    size: int
    upper_offset: int
    segment_base_offset: int


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def read(
    log: "Log", offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool
) -> LogRead:
    """Return a range to fetch; Log.read has a short cut for readers at the tail."""
    found = _find(log, offset, max_bytes, upper_offset, min_one_batch)
    for each in log.damaged:
        if each.segment_base != found.segment_base_offset:
            continue
        if found.position <= each.position < found.position + found.size:
            if each.position == found.position:
                raise CorruptMessage(
                    f"the batch at offset {each.offset} of {log.directory} does not match its "
                    "checksum: its bytes have changed on the disk"
                )
            return found._replace(size=each.position - found.position, upper_offset=each.offset)
    return found


def _find(
    log: "Log", offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool
) -> LogRead:
    for segment in log.segments_from(offset):
        file = segment.log_file(log.files)
        end = segment.size
        hint = segment.position_of(offset, log.files)
        segment_bytes = end
        position, first_size, first_end = find_batch(file, hint, end, offset)
        if position == end:
            continue  # compaction removed the tail of this segment
        upper = upper_offset
        if upper_offset < (log.end_offset if segment is log.active else _end_of(segment)):
            hint = segment.position_of(upper_offset, log.files)
            end = find_batch(file, max(hint, position), end, upper_offset)[0]
        elif segment is not log.active:
            upper = _end_of(segment)
        if end - position <= max_bytes:
            return LogRead(file, position, end - position, upper, segment.base_offset)
        if first_size > max_bytes:
            size = first_size if min_one_batch else 0
            return LogRead(file, position, size, first_end, segment.base_offset)
        limit = position + max_bytes
        hint = max(position, segment.position_before(limit, log.files))
        end, end_offset = end_of_whole_batches(file, hint, limit)
        if end_offset < 0:  # the indexed batch does not fit: the range ends at its start
            end_offset = find_batch(file, end, segment_bytes, 0)[2]
        return LogRead(file, position, end - position, end_offset, segment.base_offset)
    return LogRead(None, 0, 0, offset, offset)


def _end_of(segment: "ActiveSegment | ClosedSegment") -> int:
    assert isinstance(segment, ClosedSegment), "the active segment ends with the log"
    return segment.end_offset


class Candidate(NamedTuple):
    """A batch that contains, by its header, a record as late as requested."""

    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)


class TimeSearch:
    """A search for records at or after a time, by batch headers, a few per step. Progress is an
    offset, so the log may change between steps."""

    def __init__(self, log: "Log", timestamp: int, offset: int) -> None:
        self._log = log
        self._timestamp = timestamp
        self._offset = offset
        self.ended = False

    def step(self) -> Candidate | None:
        """Return the next candidate; None if there is none so far, or none at all (`ended`)."""
        log = self._log
        offset = max(self._offset, log.start_offset)
        if offset >= log.end_offset:
            self.ended = True
            return None
        for segment in islice(log.segments_from(offset), SEGMENTS_PER_STEP):
            end_offset = log.end_offset if segment is log.active else _end_of(segment)
            if segment.largest(log.files)[0] >= self._timestamp:
                return self._search(segment, max(offset, segment.base_offset), end_offset)
            self._offset = end_offset
        return None

    def _search(
        self, segment: "ActiveSegment | ClosedSegment", offset: int, end_offset: int
    ) -> Candidate | None:
        files = self._log.files
        first = max(segment.offset_before(self._timestamp, files), offset)
        file, position, end = self._place(segment, first)
        for _ in range(HEADERS_PER_STEP):
            if position >= end:
                self._offset = end_offset
                return None
            header, size = _header_at(file, position, end)
            self._offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
            if header[MAX_TIMESTAMP] >= self._timestamp:
                return Candidate(file, position, size)
            position += size
        return None

    def _place(
        self, segment: "ActiveSegment | ClosedSegment", offset: int
    ) -> tuple[File, int, int]:
        """Return the file, the start of the batch with that offset, and the end of the segment."""
        log = self._log
        file = segment.log_file(log.files)
        end = file.size if segment is not log.active else log.active.size
        return file, find_batch(file, segment.position_of(offset, log.files), end, offset)[0], end

    def judge(self, records: Iterable[Skimmed]) -> TimestampAndOffset | None:
        """Return the first of these records that matches."""
        start_offset = self._log.start_offset
        for offset, timestamp, _keyed in records:
            if timestamp >= self._timestamp and offset >= start_offset:
                return TimestampAndOffset(timestamp, offset, self._log.epochs.at(offset))
        return None

    def presume(self, offset: int) -> TimestampAndOffset:
        """Return a match at `offset`, by the header of its batch."""
        return TimestampAndOffset(self._timestamp, offset, self._log.epochs.at(offset))

    def run(self) -> TimestampAndOffset | None:
        """Run all steps at once."""
        while not self.ended:
            candidate = self.step()
            if candidate is not None:
                found = self.judge(skim_records(*unpack_batch(candidate.read())))
                if found is not None:
                    return found
        return None


def _header_at(file: File, position: int, end: int) -> tuple[Header, int]:
    data = file.read(position, HEADER_BYTES)
    if len(data) == HEADER_BYTES:
        header: Header = HEADER.unpack(data)
        size = header[LENGTH] + LENGTH_OVERHEAD
        if HEADER_BYTES <= size <= end - position and header[LAST_OFFSET_DELTA] >= 0:
            return header, size
    raise CorruptMessage(f"no record batch at byte {position} of {file.path}")


def search_time(log: "Log", timestamp: int) -> TimeSearch:
    """Return a search for the first record at or after a time: exact, also inside a batch."""
    return TimeSearch(log, timestamp, log.start_offset)


class LargestTimeSearch(TimeSearch):
    """A search for the first record with the largest timestamp of the log.

    A segment knows its own largest timestamp. If the log begins inside a segment, that record may
    be deleted: then the rest of the segment, and of the cut batch, is read first.
    """

    def __init__(self, log: "Log") -> None:
        super().__init__(log, -1, log.start_offset)
        self._known = False  # the timestamp; once known, the search continues as a plain one
        self._cut = False  # the current batch contains the start of the log
        self._gone_through: int | None = None  # the base offset of that segment

    def step(self) -> Candidate | None:
        if self._known:
            return super().step()
        log = self._log
        offset = max(self._offset, log.start_offset)
        if offset >= log.end_offset:
            self._compare()
            return None
        segment = next(iter(log.segments_from(offset)))
        if not self._has_doubts(segment, offset):
            self._compare()
            return None
        file, position, end = self._place(segment, offset)
        for _ in range(HEADERS_PER_STEP):
            if position >= end:
                self._compare()
                return None
            header, size = _header_at(file, position, end)
            self._gone_through = segment.base_offset
            self._offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
            if header[BASE_OFFSET] < log.start_offset:
                self._cut = True
                return Candidate(file, position, size)
            self._timestamp = max(self._timestamp, header[MAX_TIMESTAMP])
            position += size
        return None

    def _has_doubts(self, segment: "ActiveSegment | ClosedSegment", offset: int) -> bool:
        """Return whether the segment's largest timestamp may belong to a deleted record."""
        if self._gone_through is not None:
            return segment.base_offset == self._gone_through
        if segment.base_offset >= self._log.start_offset:
            return False
        last_offset = segment.largest(self._log.files)[1]
        if last_offset < offset:
            return True
        header, _size = _header_at(*self._place(segment, offset))
        return header[BASE_OFFSET] < offset and last_offset <= (
            header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        )

    def _compare(self) -> None:
        """Compare the largest timestamp so far with those of the other segments."""
        log = self._log
        self._known = True
        self._offset = log.start_offset
        for segment in log.segments_from(log.start_offset):
            timestamp = segment.largest(log.files)[0]
            if segment.base_offset != self._gone_through and timestamp > self._timestamp:
                self._timestamp, self._offset = timestamp, segment.base_offset
        self.ended = self._timestamp < 0

    def judge(self, records: Iterable[Skimmed]) -> TimestampAndOffset | None:
        if not self._cut:
            return super().judge(records)
        self._cut = False
        start_offset = self._log.start_offset
        left = [timestamp for offset, timestamp, _keyed in records if offset >= start_offset]
        self._timestamp = max([self._timestamp, *left])
        return None


def search_largest_time(log: "Log") -> TimeSearch:
    return LargestTimeSearch(log)


def aborted_transactions(log: "Log", first_offset: int, upper_offset: int) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the aborted transactions with records in [first,
    upper)."""
    found: list[tuple[int, int]] = []
    for segment in log.segments_from(first_offset):
        if collect_aborted(segment.aborted_bytes(log.files), first_offset, upper_offset, found):
            break
    return found
