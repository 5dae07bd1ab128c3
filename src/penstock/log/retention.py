"""Deletion from the front: by age, by size, and by DeleteRecords.

A segment leaves the log at once. Its files follow off the loop: after the last pending write they
are renamed to .deleted, oldest first. Only then the caller receives them, and removes them after
file.delete.delay.ms, when no reader uses them. A file removed before its rename would stay for
ever.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from penstock.errors import OffsetOutOfRange
from penstock.log.directory import DELETED, LOG, SEGMENT_SUFFIXES, segment_file
from penstock.log.segment import ActiveSegment, ClosedSegment
from penstock.world import DiskFailed, DiskFull, Done

if TYPE_CHECKING:
    from penstock.log.log import Log

SEGMENTS_AT_ONCE_MAX = 64  # files renamed per sync of the directory belong to so many segments

# Receives renamed files that no longer belong to a log, in one call or several, for `Disk.remove`
# after the delay.
Renamed: TypeAlias = Callable[[list[str]], None]


def advance_start(log: "Log", offset: int) -> None:
    """Move the start offset; delete_old_segments drops the segments."""
    if offset > log.end_offset:
        raise OffsetOutOfRange(f"offset {offset} is after the end of the log, {log.end_offset}")
    if offset <= log.start_offset:
        return
    log.start_offset = offset
    if log.epochs.cut_start(offset):
        log.write_epochs()


def delete_old_segments(log: "Log", now_ms: int, upper_offset: int, renamed: Renamed) -> int:
    """Drop segments that are too old, beyond the size limit or below the start; return how many.
    Segments with records at or after `upper_offset` (the high watermark) stay. May raise Cold, with
    nothing changed."""
    doomed = 0
    everything: list[ActiveSegment | ClosedSegment] = [*log.closed, log.active]
    sizes = [segment.size for segment in everything]
    excess = _excess_bytes(log, sum(sizes))
    for place, segment in enumerate(everything):
        end_offset = log.end_offset if segment is log.active else everything[place + 1].base_offset
        if end_offset > upper_offset:
            break
        if sizes[place] == 0 and segment is log.active:
            break  # a closed segment may be empty after compaction
        too_old = _is_too_old(log, segment, now_ms)
        too_many = excess >= sizes[place]
        if not (too_old or too_many or (end_offset <= log.start_offset)):
            break
        if segment is log.active and not too_old and not too_many:
            break  # below the start offset, but the active segment stays
        excess -= sizes[place]
        doomed += 1
    if doomed == len(everything):
        try:
            log.roll(now_ms)
        except DiskFull:
            doomed -= 1  # the other segments free the room for a new one
    return _drop_front(log, doomed, renamed)


def _excess_bytes(log: "Log", total: int) -> int:
    config = log.config
    if not config.delete or config.retention_bytes < 0:
        return -1
    return total - config.retention_bytes


def _is_too_old(log: "Log", segment: ActiveSegment | ClosedSegment, now_ms: int) -> bool:
    config = log.config
    if not config.delete or config.retention_ms < 0:
        return False
    return now_ms - _latest(log, segment, now_ms) > config.retention_ms


def _latest(log: "Log", segment: ActiveSegment | ClosedSegment, now_ms: int) -> int:
    """Return the largest plausible timestamp of a segment.

    Records without one are as old as the last write to their file, as in Kafka. A timestamp far in
    the future would keep the segment for ever. So the last write, plus the topic's allowance, at
    most its retention, is the upper limit.
    """
    timestamp = segment.largest(log.files)[0]
    if 0 <= timestamp <= now_ms:
        return timestamp
    written = log.disk.modified_ms(segment_file(log.directory, segment.base_offset, LOG))
    if timestamp < 0:
        return written
    config = log.config
    return min(timestamp, written + min(config.timestamp_after_ms_max, config.retention_ms))


def _drop_front(log: "Log", count: int, renamed: Renamed) -> int:
    dropped = log.closed[:count]
    if not dropped:
        return 0
    log.adopt(log.closed[count:])
    first = log.closed[0].base_offset if log.closed else log.active.base_offset
    log.snapshots = [offset for offset in log.snapshots if offset >= first]
    log.start_offset = max(log.start_offset, first)
    for segment in dropped:
        for suffix in SEGMENT_SUFFIXES:
            log.files.drop(segment.path(suffix))
    # Segments are written in order: the unwritten ones come last here too.
    written = [segment for segment in dropped if segment.memory is None]
    _rename(log, written, renamed)
    for segment in dropped[len(written) :]:
        segment.when_written = partial(_rename, log, [segment], renamed)
    if log.epochs.cut_start(log.start_offset) or len(written) < len(dropped):
        log.write_epochs()
    return len(dropped)


def _rename(log: "Log", segments: Sequence[ClosedSegment], renamed: Renamed) -> None:
    for first in range(0, len(segments), SEGMENTS_AT_ONCE_MAX):
        some = segments[first : first + SEGMENTS_AT_ONCE_MAX]
        log.removals.add(partial(_rename_some, log, some, renamed))


def _rename_some(
    log: "Log", segments: Sequence[ClosedSegment], renamed: Renamed, done: Done
) -> None:
    """Rename the files; repeated after a full disk, continue where the last call ended."""
    disk = log.disk
    files = [segment.path(suffix) for segment in segments for suffix in SEGMENT_SUFFIXES]
    there: list[str] = []

    def work() -> None:
        disk.rename_all_now([(path, path + DELETED) for path in files if disk.exists(path)])
        there.extend(path + DELETED for path in files if disk.exists(path + DELETED))

    def worked(failure: DiskFailed | None) -> None:
        if failure is None:
            renamed(there)
        done(failure)

    disk.offload_all([work], worked)
