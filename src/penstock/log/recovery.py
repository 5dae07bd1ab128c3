"""Opens an existing log: trusts a clean stop, scans after any other.

After an unclean stop every segment from the recovery point on is read and checked; the log ends at
the first bad batch. A bad batch below the recovery point, or in a durably closed segment, was
durable once: such a batch is never cut silently. Every step can be repeated: recovering again
changes nothing. After a clean stop the files are only counted and measured. opening.py writes the
files. Waits for the disk; for start only.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import count

from penstock.log.checkpoints import read_epochs, read_whole
from penstock.log.config import LogConfig
from penstock.log.corrupt_batches import Damaged
from penstock.log.directory import (
    EPOCHS_FILE,
    HOLES_FILE,
    INDEX,
    LOG,
    METADATA_FILE,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    WINDOW_FILE,
    DirectoryKind,
    kept_segment,
    marked_name,
    parse_directory,
    parse_segment_file,
    segment_file,
)
from penstock.log.epochs import LeaderEpochs
from penstock.log.files import FileCache
from penstock.log.holes import NO_HOLES, Holes
from penstock.log.index import OFFSET_ENTRY, RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from penstock.log.log import Log, LogRecovery
from penstock.log.missing_segments import (
    LogCorrupted,
    check_end,
    check_format,
    check_hole,
    check_indexes,
    check_reach,
    check_segments,
)
from penstock.log.opening import (
    Opening,
    all_damaged,
    listed_damage,
    queue_unwritten_files,
    sync_now,
    write_closed_segment,
    write_indexes,
)
from penstock.log.producers import CorruptSnapshot, Producers
from penstock.log.segment import ActiveSegment, ClosedSegment, scan_batches
from penstock.log.swap_recovery import clear_leftovers, has_leftovers
from penstock.log.transactions import pack_aborted
from penstock.model import NO_LEADER_EPOCH
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    Header,
    checksum_holds,
    read_marker,
)
from penstock.wire.primitives import Malformed
from penstock.world import Disk, DiskFailed

_REPORT_BYTES = 16 * 1024 * 1024  # scanned bytes between two reports


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    *,
    now_ms: int,
    clean: bool,
    recovery_point: int = 0,
    start_offset: int = 0,
    salvage: bool = False,
    sizes: Mapping[int, int] | None = None,
    files: FileCache | None = None,
    failed: Callable[[DiskFailed], None] | None = None,
    scanned: Callable[[int], None] | None = None,
    sync_follows: bool = False,
    may_wait: bool = False,
    whole: bool = True,
    compacted: bool = False,
) -> Log:
    """Open the log in `directory`; `clean` tells that its last stop was clean.

    `recovery_point` and `start_offset` come from the directory's checkpoints; `sizes` are the
    segment sizes of the last close, by base offset. Broken durable bytes raise LogCorrupted;
    `salvage` ends the log there instead. With `sync_follows` the caller syncs the whole disk before
    the first append. `may_wait` requires that, and opens the log even if the disk is full.
    Otherwise, or if nothing could be read without the files, a full disk raises DiskFull. With
    `whole`, LogCorrupted is raised for a log that ends before its recovery point, for missing
    segments, and for a directory without segments if the checkpoints tell of records. A
    `compacted` log is marked as one that may lack offsets.
    """
    assert sync_follows or not may_wait, "files that are not written again may not be durable"
    recovery = LogRecovery(salvaged=salvage)
    names, sizes = _clear_interrupted_swaps(disk, directory, sizes, recovery)
    if not salvage:
        durable_to = max(recovery_point, start_offset) if whole else 0
        if sizes is None and (clean or whole):
            check_indexes(disk, directory, names, start_offset)
        check_segments(disk, directory, names, sizes or {}, durable_to)
    names = _valid_names(disk, directory, names)
    opening = Opening(
        disk,
        directory,
        config,
        now_ms,
        recovery_point,
        salvage,
        set(names),
        _segment_offsets(names, LOG),
        _read_epochs(disk, directory, recovery),
        recovery,
        sizes is not None,
        sync_follows,
        scanned,
        may_wait,
        recorded_holes=_read_holes(disk, directory, names),
        any_hole=not whole or config.compact,
    )
    if salvage or compacted:
        opening.mark_holes()
    active, producers, end_offset = _load(opening, clean, start_offset)
    if whole and not salvage:
        check_reach(opening, max(end_offset, start_offset), recovery_point)
    if active is None or start_offset > end_offset:
        active, producers, end_offset = _restart_empty(opening, start_offset, end_offset)
    log = Log(disk, directory, config, active, files=files, failed=failed)
    _fill_log(log, opening, producers, start_offset, end_offset)
    log.synced_offset = end_offset if clean else min(opening.recovery_point, end_offset)
    log.metadata_unsynced = not clean and METADATA_FILE in opening.names
    queue_unwritten_files(opening, log, recovery_point)
    return log


def _fill_log(
    log: Log, opening: Opening, producers: Producers, start_offset: int, end_offset: int
) -> None:
    """Give the log the recovered state."""
    log.adopt([_closed(opening, number) for number in range(len(opening.bases) - 1)])
    log.start_offset = max(start_offset, opening.bases[0])
    log.end_offset = log.appended_from = end_offset
    opening.epochs.cut_end(end_offset)
    opening.epochs.cut_start(log.start_offset)
    log.epochs = opening.epochs
    log.producers = producers
    log.snapshots = _tidy_snapshots(opening, end_offset)
    log.damaged = all_damaged(opening)
    log.holes = opening.recorded_holes
    log.mark_unsynced(log.active.file)
    log.recovery = opening.recovery
    log.active.file.park()


def _clear_interrupted_swaps(
    disk: Disk, directory: str, sizes: Mapping[int, int] | None, recovery: LogRecovery
) -> tuple[list[str], Mapping[int, int] | None]:
    """Clear half-done swaps; return the file names, and the sizes that are still valid."""
    names = disk.list(directory)
    if has_leftovers(names):
        replaced = clear_leftovers(disk, directory, names, recovery)
        names = disk.list(directory)
        # Sizes of swapped segments may be from before or after the swap.
        sizes = sizes and {base: size for base, size in sizes.items() if base not in replaced}
    return names, sizes


def _read_holes(disk: Disk, directory: str, names: Iterable[str]) -> Holes:
    if HOLES_FILE not in names:
        return NO_HOLES
    return Holes.from_bytes(read_whole(disk, f"{directory}/{HOLES_FILE}") or b"")


def _read_epochs(disk: Disk, directory: str, recovery: LogRecovery) -> LeaderEpochs:
    read = read_epochs(disk, f"{directory}/{EPOCHS_FILE}")
    if read.complaint:
        recovery.complaints.append(f"{EPOCHS_FILE}: {read.complaint}")
    return LeaderEpochs(read.entries)


def _closed(opening: Opening, number: int) -> ClosedSegment:
    base = opening.bases[number]
    if base in opening.unwritten:
        segment, _ = opening.unwritten[base]
        return ClosedSegment.after_roll(opening.directory, segment, opening.end_of(number))
    return ClosedSegment(
        opening.directory,
        base,
        opening.end_of(number),
        opening.has(base, TXN_INDEX),
        opening.disk.size(opening.path(base, LOG)),
    )


def _valid_names(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Return the valid names; remove indexes without a log."""
    logs = {name.removesuffix(LOG) for name in names if name.endswith(LOG)}
    kept: list[str] = []
    for name in names:
        parsed = parse_segment_file(name)
        stray = parsed and parsed[1] in (INDEX, TIME_INDEX, TXN_INDEX) and name[:20] not in logs
        if stray:
            disk.remove_now(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept


def _load(
    opening: Opening, clean: bool, start_offset: int
) -> tuple[ActiveSegment | None, Producers, int]:
    """Return the active segment, the producers and the end offset of the files."""
    bases = opening.bases
    if not bases:
        return None, Producers(), start_offset
    first = len(bases) - 1
    if not clean:
        first = max(0, bisect_right(bases, opening.recovery_point) - 1)
        point = opening.recovery_point
        if first > 0 and bases[first] == point and not opening.has(point, SNAPSHOT):
            first -= 1  # rolled after the checkpoint: the indexes may be of an earlier end
        # The scan still covers all of that: damage in durable bytes must be found and reported.
        opening.recovery_point = max(opening.recovery_point, _closed_durably_to(opening))
    for number in range(first):
        if opening.salvage or not _index_is_sane(opening, number, look_inside=not clean):
            _rebuild(opening, number)
    if not clean:
        for number in range(first):
            check_end(opening, number)
    if clean:
        loaded = _load_active(opening)
        if loaded is not None:
            active, end_offset = loaded
            producers = _producers_at(opening, end_offset)
            if WINDOW_FILE in opening.names:
                window = read_whole(opening.disk, f"{opening.directory}/{WINDOW_FILE}")
                producers.load_window(window or b"", end_offset)
            return active, producers, end_offset
        if not _is_new(opening):
            opening.recovery.complaints.append("the last segment's indexes do not fit its log")
    return _scan_from(opening, first, start_offset)


def _is_new(opening: Opening) -> bool:
    """Return whether the log was made during the stop of its node, and never closed."""
    base = opening.bases[-1]
    has_indexes = opening.has(base, INDEX) or opening.has(base, TIME_INDEX)
    is_alone = len(opening.bases) == 1 and not has_indexes
    return is_alone and opening.disk.size(opening.path(base, LOG)) == 0


def _restart_empty(
    opening: Opening, start_offset: int, end_offset: int
) -> tuple[ActiveSegment, Producers, int]:
    """Restart the log, empty, at the start offset: no records are left, or all were deleted."""
    # The segment first: a directory without any segment seems to have lost them.
    file = opening.disk.open(opening.path(start_offset, LOG), create=True)
    if opening.bases and end_offset > opening.bases[0]:
        _rename_stray_records(opening, end_offset)
    for base in opening.bases:
        _remove_segment(opening, base)
    opening.bases[:] = [start_offset]
    opening.epochs.clear()
    opening.write_epochs()
    return ActiveSegment(start_offset, file, opening.now_ms), Producers(), start_offset


def _rename_stray_records(opening: Opening, end_offset: int) -> None:
    """Rename records that end below the start offset. Power was lost after a deletion, or the start
    offset belongs to another log: the records stay, because the cause is unknown."""
    disk, recovery = opening.disk, opening.recovery
    found = parse_directory(opening.directory)
    assert found is not None, "a log is opened in the directory of a partition"
    names = (
        marked_name(found.partition, DirectoryKind.STRAY, f"ended-at-{end_offset}-{n}")
        for n in count()
    )
    aside = next(name for name in names if not disk.exists(name))
    disk.make_directory(aside)
    metadata = read_whole(disk, f"{opening.directory}/{METADATA_FILE}")
    if metadata is not None:
        disk.replace_now(f"{aside}/{METADATA_FILE}", metadata)
    for base in opening.bases:
        log_name = segment_file("", base, LOG)
        disk.rename_now(f"{opening.directory}{log_name}", f"{aside}{log_name}")
    recovery.ended_at, recovery.set_aside = end_offset, f"{disk.root}/{aside}"


def _remove_segment(opening: Opening, base_offset: int) -> None:
    # Indexes first: a log without indexes is rebuilt, indexes without a log are dropped.
    for suffix in (INDEX, TIME_INDEX, TXN_INDEX, LOG):
        opening.disk.remove_now(opening.path(base_offset, suffix))


def _closed_durably_to(opening: Opening) -> int:
    """Return the end of the last closed segment whose files prove that all before it was synced.

    A roll syncs a segment, then writes its offset index, then the snapshot of its end. The index
    alone proves nothing: a clean stop and a truncation leave one beside a growing segment. Neither
    leaves a snapshot of a later end.
    """
    for number in reversed(range(len(opening.bases) - 1)):
        end_offset = opening.end_of(number)
        if opening.has(end_offset, SNAPSHOT) and _offset_index_is_sane(opening, number):
            return end_offset
    return 0


def _index_is_sane(opening: Opening, number: int, *, look_inside: bool) -> bool:
    """Return whether a closed segment's indexes are usable. The offset index is written last."""
    base = opening.bases[number]
    if not (opening.has(base, INDEX) and opening.has(base, TIME_INDEX)):
        return False
    if not look_inside:
        return opening.measured or _index_ends_inside(opening, base)
    times = read_whole(opening.disk, opening.path(base, TIME_INDEX))
    # A padded index of a closed segment would mislead the page-wise search.
    if times is None or (times and not any(times[-12:])):
        return False
    return TimeIndex.from_bytes(times) is not None and _offset_index_is_sane(opening, number)


def _index_ends_inside(opening: Opening, base: int) -> bool:
    """Return whether the last indexed batch ends inside the log; a log that was cut fails this."""
    index = opening.disk.open(opening.path(base, INDEX))
    if index.size < OFFSET_ENTRY.size:
        return True
    entry = index.read_now(index.size - OFFSET_ENTRY.size, OFFSET_ENTRY.size)
    return bool(OFFSET_ENTRY.unpack(entry)[1] < opening.disk.size(opening.path(base, LOG)))


def _offset_index_is_sane(opening: Opening, number: int) -> bool:
    base = opening.bases[number]
    index = read_whole(opening.disk, opening.path(base, INDEX))
    if index is None or (index and not any(index[-8:])):
        return False
    log_bytes = opening.disk.open(opening.path(base, LOG)).size
    return OffsetIndex.from_bytes(index, log_bytes) is not None


def _load_active(opening: Opening) -> tuple[ActiveSegment, int] | None:
    """Return the last segment with the indexes of a clean stop, and its end offset; None if they do
    not lead to the end of the log."""
    base = opening.bases[-1]
    file = opening.disk.open(opening.path(base, LOG))
    index_bytes = read_whole(opening.disk, opening.path(base, INDEX))
    times_bytes = read_whole(opening.disk, opening.path(base, TIME_INDEX))
    if index_bytes is None or times_bytes is None:
        return None
    index = OffsetIndex.from_bytes(index_bytes, file.size)
    times = TimeIndex.from_bytes(times_bytes)
    if index is None or times is None:
        return None
    active = ActiveSegment(base, file, opening.now_ms)
    active.index, active.times = index, times
    last_time = times.last()
    if last_time is not None:
        active.largest_timestamp, active.largest_offset = last_time[0], base + last_time[1]
    if opening.has(base, TXN_INDEX):
        active.aborted += read_whole(opening.disk, opening.path(base, TXN_INDEX)) or b""
    if file.size >= HEADER_BYTES:
        active.first_timestamp = HEADER.unpack(file.read_now(0, HEADER_BYTES))[MAX_TIMESTAMP]
    position = index.positions[-1] if len(index) else 0
    end_offset = base
    active.size = position
    for at, header, _ in scan_batches(file, position):
        last = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        if header[MAX_TIMESTAMP] > active.largest_timestamp:
            active.largest_timestamp, active.largest_offset = header[MAX_TIMESTAMP], last
        end_offset = last + 1
        active.size = at + header[LENGTH] + LENGTH_OVERHEAD
    active.unindexed_bytes = active.size - position
    return (active, end_offset) if active.size == file.size else None


def _scan_from(
    opening: Opening, first: int, start_offset: int
) -> tuple[ActiveSegment, Producers, int]:
    """Read and check every segment from `first` on; end the log at the first bad batch."""
    bases = opening.bases
    producers = _producers_at(opening, bases[first])
    active, end_offset = _scan(opening, first, producers)
    number = first
    while number + 1 < len(bases):
        is_hole = end_offset < bases[number + 1]
        # A hole after the recovery point is a lost tail: later segments are not part of the log.
        if is_hole and (bases[number + 1] > opening.recovery_point or _has_rest(active)):
            break
        if _has_rest(active):  # no record is missing here: the next segment follows
            opening.recovery.complaints.append(
                f"{active.file.path} had {active.file.size - active.size} bytes behind its last"
                " batch, from another process: they are cut off"
            )
            _cut_rest(active)
        check_hole(opening, end_offset, bases[number + 1])
        number += 1
        write_closed_segment(opening, active, bases[number], producers.to_snapshot())
        active, end_offset = _scan(opening, number, producers)
    # The newest first: if the power is lost meanwhile, the next start finds the same hole.
    for base in reversed(bases[number + 1 :]):
        _take_out_segment(opening, base)
    del bases[number + 1 :]
    if _has_rest(active):
        opening.recovery.truncated_bytes += active.file.size - active.size
        _cut_rest(active)
    elif end_offset in _segment_offsets(opening.names, SNAPSHOT):
        sync_now(active.file)  # closed at this end, the segment would count as synced
    opening.epochs.cut_end(end_offset)
    _learn_epochs(opening, bases[:first], start_offset)
    opening.write_epochs()
    return active, producers, end_offset


def _has_rest(segment: ActiveSegment) -> bool:
    return segment.file.size > segment.size


def _cut_rest(segment: ActiveSegment) -> None:
    """Cut the bytes behind the last whole batch off."""
    segment.file.truncate_now(segment.size)
    sync_now(segment.file)  # a later crash could bring old batches back behind new ones


def _take_out_segment(opening: Opening, base: int) -> None:
    """Take a segment behind the end out of the log. If its first batch is whole, the segment is
    renamed and kept: a loss of power leaves a hole, and so does an operator's mistake."""
    disk, recovery, path = opening.disk, opening.recovery, opening.path(base, LOG)
    file = disk.open(path)
    first = next(scan_batches(file), None)
    if first is None or first[1][BASE_OFFSET] < base or not checksum_holds(first[2], first[1]):
        recovery.truncated_bytes += file.size
        recovery.segments_removed += 1
        _remove_segment(opening, base)
        return
    sync_now(file)
    names = (f"{opening.directory}/{kept_segment(base, number)}" for number in count())
    kept = next(name for name in names if not disk.exists(name))
    for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
        disk.remove_now(opening.path(base, suffix))
    disk.rename_now(path, kept)
    recovery.kept_segments.insert(0, f"{disk.root}/{kept}")


def _learn_epochs(opening: Opening, bases: list[int], start_offset: int) -> None:
    """Add the epochs of segments that were not scanned.

    They are known, unless records were deleted up to a later epoch and a crash undid that: then the
    first batch of each segment tells them.
    """
    epochs = opening.epochs
    first_known = epochs.starts[0] if epochs.starts else 2**63 - 1
    if first_known <= start_offset:
        return
    from_base = max(0, bisect_right(bases, start_offset) - 1)
    for base in bases[from_base : bisect_left(bases, first_known)]:
        file = opening.disk.open(opening.path(base, LOG))
        for _, header, _ in scan_batches(file):
            epochs.note(header[LEADER_EPOCH], header[BASE_OFFSET])
            break


def _scan(opening: Opening, number: int, producers: Producers) -> tuple[ActiveSegment, int]:
    """Rebuild one segment from its batches up to the first bad one; return it and
    its end offset."""
    base = opening.bases[number]
    recovery = opening.recovery
    file = opening.disk.open(opening.path(base, LOG))
    segment = ActiveSegment(base, file, opening.now_ms)
    expected = base
    noted_epoch = NO_LEADER_EPOCH
    reported = 0
    for position, header, batch in scan_batches(file):
        if position - reported >= _REPORT_BYTES and opening.scanned is not None:
            opening.scanned(position - reported)
            reported = position
        base_offset = header[BASE_OFFSET]
        last = base_offset + header[LAST_OFFSET_DELTA]
        if base_offset < expected or last < base_offset or last - base > RELATIVE_OFFSET_MAX:
            break
        if last >= opening.end_of(number):
            break
        check_hole(opening, expected, base_offset)
        whole = checksum_holds(batch, header)
        if not whole:
            if base_offset >= opening.recovery_point or opening.salvage:
                break
            recovery.corrupt.append(Damaged(base_offset, position, base))
        segment.note(last, len(batch), header[MAX_TIMESTAMP], opening.config.index_interval_bytes)
        expected = last + 1
        if header[LEADER_EPOCH] != noted_epoch:
            noted_epoch = header[LEADER_EPOCH]
            opening.epochs.note(noted_epoch, base_offset)
        if whole:
            _replay(producers, header, batch, segment)
    if opening.scanned is not None:
        opening.scanned(segment.size - reported)
    recovery.scanned_bytes += segment.size
    recovery.segments_rebuilt += 1
    if file.size > segment.size and not opening.salvage:
        check_format(opening, file, segment.size)
    if _has_rest(segment) and not opening.salvage:
        _check_rest(opening, number, segment, expected)
    return segment, expected


def _check_rest(opening: Opening, number: int, segment: ActiveSegment, expected: int) -> None:
    """Raise LogCorrupted if the bytes behind the last whole batch are no torn tail: records at
    these bytes were durable, or the segment was closed durably without such bytes."""
    where = f"{opening.disk.root}/{segment.file.path}"
    # Compaction leaves such a hole at the end of a closed segment.
    if expected < opening.recovery_point:
        raise LogCorrupted(
            f"{where}: no batch at byte {segment.size} (offset "
            f"{expected}), although offsets below {opening.recovery_point} were durable. Restore "
            f"the file from a copy; or, giving up what follows, cut it to {segment.size} bytes, "
            "remove the segments after it, and start again"
        )
    if opening.end_of(number) <= opening.recovery_point:
        raise LogCorrupted(
            f"{where}: no batch at byte {segment.size}, where the segment was closed: another "
            f"process has appended to it. Cut it to {segment.size} bytes, and start again"
        )


def _rebuild(opening: Opening, number: int) -> None:
    """Write the indexes of a closed, durable segment again."""
    base = opening.bases[number]
    producers = _producers_at(opening, base)
    segment, _ = _scan(opening, number, producers)
    if segment.size < segment.file.size:
        if not opening.salvage:
            where = f"{opening.disk.root}/{segment.file.path}"
            raise LogCorrupted(f"{where}: no batch at byte {segment.size}")
        segment.file.truncate_now(segment.size)
    if opening.recovery.corrupt:  # a segment with indexes is never scanned again
        opening.write_damaged(sorted({*listed_damage(opening), *opening.recovery.corrupt}))
    write_indexes(opening, segment)


def _replay(
    producers: Producers, header: Header, batch: memoryview, segment: ActiveSegment | None
) -> None:
    if header[PRODUCER_ID] < 0:
        return
    try:
        marker = read_marker(batch) if header[ATTRIBUTES] & CONTROL else None
    except Malformed:
        return  # the checksum holds: the batch was written so
    aborted = producers.replay(header, header[BASE_OFFSET], marker)
    if aborted is not None and segment is not None:
        segment.aborted += pack_aborted(aborted)


def _producers_at(opening: Opening, offset: int) -> Producers:
    """Return the producers as of `offset`: the newest good snapshot, and the batches after it."""
    producers = Producers()
    start = opening.bases[0]
    expiration_ms = opening.config.producer_expiration_ms
    for base in reversed(_segment_offsets(opening.names, SNAPSHOT)):
        # A snapshot below the start remains from a deletion, and goes now: later checks would miss
        # it.
        if not start <= base <= offset:
            continue
        data = read_whole(opening.disk, opening.path(base, SNAPSHOT))
        try:
            producers.load_snapshot(data or b"", opening.now_ms, expiration_ms)
        except CorruptSnapshot as error:
            opening.recovery.complaints.append(f"{base:020d}{SNAPSHOT}: {error}")
            continue
        start = base
        break
    first = max(0, bisect_right(opening.bases, start) - 1)
    for base in opening.bases[first:]:
        if start >= offset or base >= offset:
            break
        for _, header, batch in scan_batches(opening.disk.open(opening.path(base, LOG))):
            if header[BASE_OFFSET] >= offset:
                break
            if header[BASE_OFFSET] >= start:
                _replay(producers, header, batch, None)
    producers.unreplicated.clear()
    return producers


def _segment_offsets(names: Iterable[str], suffix: str) -> list[int]:
    """Return the base offsets of the files with this suffix, in order."""
    parsed = (parse_segment_file(name) for name in names)
    return sorted(each[0] for each in parsed if each and each[1] == suffix)


def _tidy_snapshots(opening: Opening, end_offset: int) -> list[int]:
    """Drop snapshots beyond the end, and older ones at which no segment begins."""
    offsets = _segment_offsets(opening.names, SNAPSHOT)
    bases = set(opening.bases)
    usable = [offset for offset in offsets if offset <= end_offset]
    newest = usable[-1] if usable else -1
    kept = [offset for offset in usable if offset in bases or offset == newest]
    for offset in offsets:
        if offset not in kept:
            opening.disk.remove_now(opening.path(offset, SNAPSHOT))
    return kept
