"""Forgetting from the front: by age, by size, and by DeleteRecords.

A segment leaves the log at once. Its files follow off the loop: when nothing of it is being
written any more they are renamed to .deleted, oldest first. Only then the caller hears of them, to
remove them when no reader can be on them any more (file.delete.delay.ms): what is removed before it
has its new name stays for ever.
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

SEGMENTS_AT_ONCE_MAX = 64  # whose files get their new names with one sync of the directory

# Hears of files that are no longer part of a log and have their new names, in one part or several:
# for `Disk.remove`, after the delay.
Renamed: TypeAlias = Callable[[list[str]], None]


def advance_start(log: "Log", offset: int) -> None:
    """Records below `offset` are no longer there; the segments follow with delete_old_segments."""
    if offset > log.end_offset:
        raise OffsetOutOfRange(f"offset {offset} is after the end of the log, {log.end_offset}")
    if offset <= log.start_offset:
        return
    log.start_offset = offset
    if log.epochs.cut_start(offset):
        log.write_epochs()


def delete_old_segments(log: "Log", now_ms: int, upper_offset: int, renamed: Renamed) -> int:
    """Drop segments that are too old, too many or below the start; none with records at or
    after `upper_offset` (the high watermark). How many went. May raise Cold, then nothing has
    changed."""
    doomed = 0
    everything: list[ActiveSegment | ClosedSegment] = [*log.closed, log.active]
    sizes = [segment.size for segment in everything]
    excess = _excess_bytes(log, sum(sizes))
    for place, segment in enumerate(everything):
        end_offset = log.end_offset if segment is log.active else everything[place + 1].base_offset
        if end_offset > upper_offset:
            break
        if sizes[place] == 0 and segment is log.active:
            break  # a closed one may be empty: compaction has taken all of it
        too_old = _is_too_old(log, segment, now_ms)
        too_many = excess >= sizes[place]
        if not (too_old or too_many or (end_offset <= log.start_offset)):
            break
        if segment is log.active and not too_old and not too_many:
            break  # below the start offset, but still the place where appends go
        excess -= sizes[place]
        doomed += 1
    if doomed == len(everything):
        try:
            log.roll(now_ms)
        except DiskFull:
            doomed -= 1  # the others make the room that a new segment needs
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
    """The largest timestamp of a segment, if it can be believed.

    Records without one are as old as the last write to their file, as in Kafka. A time far ahead is
    broken, and would keep the segment until it comes: no record counts as later than the last
    write, plus what the topic lets through, and that no longer than its retention.
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
    # Segments are written down in their order: those that are not yet come last here too.
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
    """Done twice, after a disk that was full, it finishes what it had begun."""
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
