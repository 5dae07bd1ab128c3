"""Truncation: removes the records that a follower has and its leader lacks.

All reads come first and may raise Cold; only then the log changes. Files are removed newest first
and off the loop, so a crash in between leaves a prefix.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING

from penstock.log.directory import (
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    segment_file,
)
from penstock.log.index import OffsetIndex, TimeIndex
from penstock.log.producers import CorruptSnapshot, Producers
from penstock.log.segment import (
    ActiveSegment,
    ClosedSegment,
    end_of_whole_batches,
    find_batch,
)
from penstock.log.transactions import cut_aborted
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    Header,
    read_marker,
)
from penstock.world import Done

if TYPE_CHECKING:
    from penstock.log.log import Log


def last_kept_base(log: "Log", offset: int) -> int:
    """Return where the last segment begins that a truncation at `offset` leaves, or a part of it.

    A log that ends before its recovery point counts as damaged at a start, and the truncated log
    may end before `offset`.
    """
    bases = [*(each.base_offset for each in log.closed), log.active.base_offset]
    return min(offset, bases[max(0, bisect_right(bases, offset) - 1)])


def truncate_to(log: "Log", offset: int, now_ms: int, done: Done) -> None:
    """Remove everything from `offset` on; a batch that contains the offset goes as a whole."""
    if offset >= log.end_offset:
        # A former leader that has appended nothing holds an epoch that its next leader may lack.
        # The next fetch would name the same epoch again, and be sent here again.
        if log.epochs.cut_end(log.end_offset):
            log.write_epochs()
        log.finish_truncation(done)
        return
    first = log.closed[0].base_offset if log.closed else log.active.base_offset
    if offset <= first or offset < log.start_offset:
        truncate_fully(log, offset, now_ms, done)
        return
    place = bisect_right([each.base_offset for each in log.closed], offset) - 1
    keep: ActiveSegment | ClosedSegment = log.active
    if offset < log.active.base_offset:
        keep = log.closed[place]
    active, end_offset = _shortened(log, keep, offset)
    producers = _producers_at(log, active, end_offset, now_ms)
    removed: list[ActiveSegment | ClosedSegment] = []
    if keep is not log.active:
        removed = [*log.closed[place + 1 :], log.active]
    log.shorten(active, log.closed if keep is log.active else log.closed[:place], end_offset)
    log.producers = producers
    for segment in reversed(removed):
        _remove(log, segment.base_offset)
    if log.epochs.cut_end(end_offset):
        log.write_epochs()
    for snapshot in [each for each in log.snapshots if each > end_offset]:
        log.chores.remove(segment_file(log.directory, snapshot, SNAPSHOT))
        log.snapshots.remove(snapshot)
    _cut_durably(log, active)
    log.finish_truncation(done)


def truncate_fully(log: "Log", offset: int, now_ms: int, done: Done) -> None:
    """Remove everything and restart, empty, at `offset`."""
    segments: list[ActiveSegment | ClosedSegment] = [*log.closed, log.active]
    same = [each for each in segments if each.base_offset == offset]
    if same:
        file = same[0].log_file(log.files)
    else:
        file = log.disk.open(segment_file(log.directory, offset, LOG), create=True)
    active = ActiveSegment(offset, file, now_ms)
    log.shorten(active, [], offset)
    log.start_offset = offset
    log.producers = Producers()
    for segment in reversed(segments):
        if segment.base_offset != offset:
            _remove(log, segment.base_offset)
    for snapshot in log.snapshots:
        log.chores.remove(segment_file(log.directory, snapshot, SNAPSHOT))
    log.snapshots.clear()
    log.epochs.clear()
    log.write_epochs()
    _cut_durably(log, active)
    log.finish_truncation(done)


def _cut_durably(log: "Log", active: ActiveSegment) -> None:
    """Sync the cut before the next write: a crash must not mix old batches with new ones, because
    both have valid offsets and checksums."""
    log.chores.add(lambda done: active.file.truncate(active.size, done))
    log.chores.add(active.file.sync)


def _remove(log: "Log", base_offset: int) -> None:
    for suffix in (INDEX, TIME_INDEX, TXN_INDEX, LOG):
        path = segment_file(log.directory, base_offset, suffix)
        log.files.drop(path)
        log.chores.remove(path)


def _shortened(
    log: "Log", keep: "ActiveSegment | ClosedSegment", offset: int
) -> tuple[ActiveSegment, int]:
    """Return the future active segment, cut before `offset`, and its end offset."""
    file = keep.log_file(log.files)
    memory = keep if isinstance(keep, ActiveSegment) else keep.memory
    size = keep.size
    position = find_batch(file, keep.position_of(offset, log.files), size, offset)[0]
    active = ActiveSegment(keep.base_offset, file, log.active.created_ms)
    index, times = OffsetIndex(), TimeIndex()
    if memory is not None:
        index.offsets, index.positions = memory.index.offsets[:], memory.index.positions[:]
        times.data[:] = memory.times.data
    elif isinstance(keep, ClosedSegment):
        index_file, times_file = (
            keep.index_file(log.files, INDEX),
            keep.index_file(log.files, TIME_INDEX),
        )
        if index_file is not None and times_file is not None:
            index = OffsetIndex.from_bytes(index_file.read(0, index_file.size), size) or index
            times = TimeIndex.from_bytes(times_file.read(0, times_file.size)) or times
    index.cut(position)
    # The end of the last remaining batch: compaction may have left a hole before `offset`, and a
    # restart would find the end there.
    start = index.positions[-1] if len(index) else 0
    end_offset = end_of_whole_batches(file, start, position)[1]
    # DeleteRecords may have moved the start into the removed batch.
    end_offset = max(end_offset, keep.base_offset, log.start_offset)
    times.cut(end_offset - active.base_offset)
    active.index, active.times = index, times
    active.aborted = bytearray(keep.aborted_bytes(log.files))
    cut_aborted(active.aborted, end_offset)
    active.size = position
    _recount(active)
    return active, end_offset


def _recount(active: ActiveSegment) -> None:
    """Recompute timestamps and unindexed bytes from the remaining batches."""
    file, end = active.file, active.size
    if end == 0:
        return
    active.first_timestamp = HEADER.unpack(file.read(0, HEADER_BYTES))[MAX_TIMESTAMP]
    last_time = active.times.last()
    if last_time is not None:
        active.largest_timestamp = last_time[0]
        active.largest_offset = active.base_offset + last_time[1]
    start = position = active.index.positions[-1] if len(active.index) else 0
    while position < end:
        header: Header = HEADER.unpack(file.read(position, HEADER_BYTES))
        if header[MAX_TIMESTAMP] > active.largest_timestamp:
            active.largest_timestamp = header[MAX_TIMESTAMP]
            active.largest_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        position += header[LENGTH] + LENGTH_OVERHEAD
    active.unindexed_bytes = end - start


def _producers_at(log: "Log", active: ActiveSegment, end_offset: int, now_ms: int) -> Producers:
    """Return the producers as of `end_offset`: the newest snapshot before it, and the batches after
    it."""
    producers = Producers()
    if not log.producers.states and not log.producers.unreplicated:
        return producers
    start = 0
    for snapshot in sorted(log.snapshots, reverse=True):
        if snapshot > end_offset:
            continue
        try:
            file = log.disk.open(segment_file(log.directory, snapshot, SNAPSHOT))
            data = file.read(0, file.size)
            producers.load_snapshot(data, now_ms, log.config.producer_expiration_ms)
        except (FileNotFoundError, CorruptSnapshot):
            continue
        start = snapshot
        break
    for segment in log.segments_from(start):
        if segment.base_offset >= end_offset:
            break
        file = segment.log_file(log.files)
        kept = segment.base_offset == active.base_offset
        end = active.size if kept else file.size
        position, _, _ = find_batch(file, segment.position_of(start, log.files), end, start)
        while position < end:
            header: Header = HEADER.unpack(file.read(position, HEADER_BYTES))
            size = header[LENGTH] + LENGTH_OVERHEAD
            if header[PRODUCER_ID] >= 0:
                marker = None
                if header[ATTRIBUTES] & CONTROL:
                    marker = read_marker(file.read(position, size))
                producers.replay(header, header[BASE_OFFSET], marker)
            position += size
    return producers
