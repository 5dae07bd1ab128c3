"""The dirty part of a log, and whether the cleaner should compact the log now.

Kafka's rules: records behind the last cleaning are dirty. Segments that are closed, durable, below
the last stable offset and older than min.compaction.lag.ms are cleanable. A log is compacted when
the dirty bytes exceed min.cleanable.dirty.ratio, or after max.compaction.lag.ms.

Everything here may raise Cold. Segments cache their timestamps. Where those must be read, a look
reads some segments and raises Cold, so that the loop gets its turn; the next look goes on.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.log.compaction.order import Order, Segment
from penstock.log.config import UNBOUNDED
from penstock.log.log import Log
from penstock.log.producers import BATCHES, EPOCH
from penstock.log.segment import ClosedSegment
from penstock.log.transactions import Aborted, aborted_entries
from penstock.wire.batch import HEADER_BYTES
from penstock.world import Cold, DiskFailed

TIMES_AT_ONCE_MAX = 64  # segments whose files are opened in one look


class DirtyRange(NamedTuple):
    """The clean and dirty parts of a log."""

    first_dirty_offset: int
    upper_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int  # since max.compaction.lag.ms was over; 0 if it is not
    look_again_ms: int | None  # wall clock: when time alone changes this
    unstable: bool  # something closed lies above the last stable offset
    complaint: str | None  # why the checkpoint was not used

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth_it(self, ratio_min: float) -> bool:
        return self.dirty_bytes > 0 and (self.overdue_ms > 0 or self.ratio > ratio_min)


def assess(log: Log, cleaned_to: int | None, high_watermark: int, now_ms: int) -> DirtyRange:
    """Return the clean and dirty parts of a log. `cleaned_to` is the cleaner's checkpoint."""
    stable_offset = log.stable_offset(high_watermark)
    first_dirty, complaint = _first_dirty(log, cleaned_to)
    closed_to = _closed_to(log)
    upper = _at_segment(log, min(stable_offset, closed_to))
    unstable = upper < closed_to
    dirty = log.closed[bisect_right(log.closed, first_dirty, key=lambda each: each.end_offset) :]
    look_again_ms: int | None = None
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        _know_largest(log, (each for each in dirty if each.base_offset < upper))
        for segment in dirty:
            if segment.base_offset >= upper:
                break
            timestamp = segment.largest(log.files)[0]
            if timestamp > now_ms - lag_ms:
                upper, look_again_ms = segment.base_offset, timestamp + lag_ms
                break
    dirty = [each for each in dirty if each.base_offset < upper]
    upper = max(upper, first_dirty)
    overdue_ms, due_ms = _overdue(log, dirty, now_ms)
    if due_ms is not None:
        look_again_ms = due_ms if look_again_ms is None else min(due_ms, look_again_ms)
    return DirtyRange(
        first_dirty,
        upper,
        sum(each.size for each in log.closed if each.base_offset < first_dirty),
        sum(each.size for each in dirty),
        overdue_ms,
        look_again_ms,
        unstable,
        complaint,
    )


def _first_dirty(log: Log, cleaned_to: int | None) -> tuple[int, str | None]:
    start = log.start_offset
    if cleaned_to is None:
        return start, None
    if cleaned_to < start:
        # Usual where old segments are deleted as well.
        expected = log.config.delete
        return start, None if expected else f"{cleaned_to} is below the start of the log, {start}"
    if cleaned_to > log.end_offset:
        return start, f"{cleaned_to} is beyond the end of the log, {log.end_offset}"
    return cleaned_to, None


def _closed_to(log: Log) -> int:
    """Return the end of the closed segments whose indexes are durable."""
    for segment in reversed(log.closed):
        if segment.memory is None:
            return segment.end_offset
    return log.closed[0].base_offset if log.closed else log.active.base_offset


def _at_segment(log: Log, offset: int) -> int:
    """Return the base of the segment that holds `offset`: segments are cleaned as a whole."""
    place = bisect_right(log.closed, offset, key=lambda each: each.base_offset) - 1
    if place < 0 or offset >= log.closed[place].end_offset:
        return offset
    return log.closed[place].base_offset


def _overdue(log: Log, dirty: list[ClosedSegment], now_ms: int) -> tuple[int, int | None]:
    """Return how late the oldest dirty record is, or the time at which it will be late."""
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= UNBOUNDED:
        return 0, None
    _know_first(log, dirty)
    times = (each.first_timestamp(log.files) for each in dirty)
    earliest = min((each for each in times if each > 0), default=None)
    if earliest is None:
        return 0, None
    late_ms = now_ms - lag_ms - earliest
    return (late_ms, None) if late_ms > 0 else (0, earliest + lag_ms + 1)


def _know_largest(log: Log, segments: Iterable[ClosedSegment]) -> None:
    unknown = (each for each in segments if not each.knows_largest)
    _ask(log, unknown, lambda each: each.largest(log.files))


def _know_first(log: Log, segments: Iterable[ClosedSegment]) -> None:
    unknown = (each for each in segments if not each.knows_first_timestamp)
    _ask(log, unknown, lambda each: each.first_timestamp(log.files))


def _ask(
    log: Log, segments: Iterable[ClosedSegment], ask: Callable[[ClosedSegment], object]
) -> None:
    """Ask segments, some at a time. Raise Cold for the first cold one, and read the others ahead: a
    look per segment would be too slow for a log of thousands."""
    awaited: Cold | None = None
    for count, segment in enumerate(segments):
        if count == TIMES_AT_ONCE_MAX:
            raise awaited or Cold(segment.log_file(log.files), 0, HEADER_BYTES)
        try:
            ask(segment)
        except Cold as cold:
            if awaited is None:
                awaited = cold
            else:
                cold.file.warm(cold.position, cold.size, _read_ahead)
    if awaited is not None:
        raise awaited


def _read_ahead(_failure: DiskFailed | None) -> None:
    """Ignore the result: the next look finds the data, or meets the failure."""


class Budget(NamedTuple):
    """Limits of one cleaning."""

    map_bytes_max: int
    map_load_max: float
    io_bytes_per_second_max: float
    free_bytes_min: int = 0  # of its disk


def make_order(log: Log, dirt: DirtyRange, budget: Budget, now_ms: int, hash_seed: int) -> Order:
    """Return the order that another process cleans this log by."""
    config, upper = log.config, dirt.upper_offset
    states = log.producers.states
    segments = segments_of(log, dirt)
    _know_largest(log, segments)
    return Order(
        directory=log.directory,
        segments=tuple(
            Segment(
                each.base_offset,
                each.end_offset,
                each.size,
                each.largest(log.files)[0],
                each.has_aborted,
            )
            for each in segments
        ),
        start_offset=log.closed[0].base_offset,
        first_dirty_offset=dirt.first_dirty_offset,
        upper_offset=upper,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes_max=config.segment_bytes,
        index_bytes_max=config.index_bytes_max,
        index_interval_bytes=config.index_interval_bytes,
        message_bytes_max=config.message_bytes_max,
        last_offsets={each: it[BATCHES][-1][1] for each, it in states.items() if it[BATCHES]},
        last_epochs={each: it[EPOCH] for each, it in states.items() if not it[BATCHES]},
        aborted_later=_aborted_later(log, upper),
        map_bytes_max=budget.map_bytes_max,
        io_bytes_per_second_max=budget.io_bytes_per_second_max,
        map_load_max=budget.map_load_max,
        free_bytes_min=budget.free_bytes_min,
        hash_seed=hash_seed,
    )


def segments_of(log: Log, dirt: DirtyRange) -> list[ClosedSegment]:
    """Return the segments that a cleaning reads, also those below the start of the log. A crash may
    move the start back, and aborted records there must stay aborted."""
    return [each for each in log.closed if each.end_offset <= dirt.upper_offset]


def _aborted_later(log: Log, upper: int) -> tuple[Aborted, ...]:
    """Return aborted transactions that end behind `upper` and begin before it."""
    return tuple(
        each
        for segment in log.segments_from(upper)
        for each in aborted_entries(segment.aborted_bytes(log.files))
        if each.first_offset < upper <= each.last_offset
    )
