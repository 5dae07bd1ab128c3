"""Damage in what was durable: found without a scan where that is cheap, told, never jumped over."""

import struct
import zlib
from contextlib import suppress
from dataclasses import replace

import pytest
from log_builder import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    disk_of,
    new_log,
    reopen,
    settle,
    split,
    stored,
    sync,
)

from penstock.errors import CorruptMessage
from penstock.log.directory import (
    DAMAGE_FILE,
    DELETED,
    HOLES_FILE,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    segment_file,
)
from penstock.log.log import Log, LogExists
from penstock.log.missing_segments import LogCorrupted
from penstock.log.recovery import open_log
from penstock.testing.sim.disk import SimDisk
from penstock.world import FileLost


def path(base: int, suffix: str) -> str:
    return segment_file(DIRECTORY, base, suffix)


def filled() -> Log:
    """Several segments, synced."""
    log = new_log(SimDisk())
    for number in range(60):
        append(log, batch(b"%03d" % number + b"v" * 100))
    settle(log)
    sync(log)
    assert len(log.closed) >= 3
    return log


def closed() -> tuple[Log, SimDisk, dict[int, int]]:
    """After a clean stop: the log, its disk and the sizes of its segments."""
    log = filled()
    sizes = log.sizes()
    log.close()
    return log, disk_of(log), sizes


def cut(disk: SimDisk, base: int, size: int) -> None:
    disk.put(path(base, LOG), disk.files()[path(base, LOG)][:size])


def reopened(disk: SimDisk, sizes: dict[int, int] | None, *, clean: bool = True) -> Log:
    return open_log(disk, DIRECTORY, SMALL, now_ms=NOW_MS, clean=clean, sizes=sizes)


def test_a_log_that_is_whole_opens_with_its_sizes() -> None:
    log, disk, sizes = closed()
    again = reopened(disk, sizes)
    assert stored(again) == stored(log)
    assert again.recovery.scanned_bytes == 0
    assert again.sizes() == sizes


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_missing_segment_is_found_after_a_clean_stop(place: int) -> None:
    _log, disk, sizes = closed()
    base = sorted(sizes)[place]
    for suffix in (LOG, INDEX, TIME_INDEX):
        disk.remove_now(path(base, suffix))
    before = disk.files()
    with pytest.raises(LogCorrupted, match=rf"{base:020d}\.log is missing"):
        reopened(disk, sizes)
    assert disk.files() == before


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_cut_segment_is_found_after_a_clean_stop(place: int) -> None:
    _log, disk, sizes = closed()
    base = sorted(sizes)[place]
    cut(disk, base, sizes[base] // 2)
    with pytest.raises(LogCorrupted, match=f"and had {sizes[base]} when it was closed"):
        reopened(disk, sizes)


def test_the_sizes_hold_after_a_kill_too() -> None:
    """A partition that was offline has not changed since, however the node ended."""
    _log, disk, sizes = closed()
    disk.remove_now(path(sorted(sizes)[1], LOG))
    with pytest.raises(LogCorrupted):
        reopened(disk, sizes, clean=False)


@pytest.mark.parametrize("place", [0, 1, -2])
def test_an_index_without_its_log_is_found_after_a_kill(place: int) -> None:
    log = filled()
    disk = disk_of(log)
    base = sorted(log.sizes())[place]
    disk.remove_now(path(base, LOG))
    before = disk.files()
    with pytest.raises(LogCorrupted, match=rf"{base:020d}\.log is missing, and its index"):
        reopen(disk, clean=False, recovery_point=log.end_offset)
    assert disk.files() == before


@pytest.mark.parametrize("point", ["checkpointed", "of the start"])
def test_a_segment_without_any_file_is_found_after_a_kill(point: str) -> None:
    log = filled()
    disk = disk_of(log)
    _, second, third, *_ = sorted(log.sizes())
    for suffix in SEGMENT_SUFFIXES:
        disk.remove_now(path(second, suffix))
    recovery_point = log.end_offset if point == "checkpointed" else 0
    with pytest.raises(LogCorrupted, match=f"no records between offsets {second} and {third},"):
        reopen(disk, clean=False, recovery_point=recovery_point)


@pytest.mark.parametrize("batches_left", [0, 1, -1])
def test_a_closed_segment_cut_between_two_batches_is_found_after_a_kill(batches_left: int) -> None:
    log = filled()
    disk = disk_of(log)
    base = sorted(log.sizes())[1]
    whole = split(disk.files()[path(base, LOG)])
    cut(disk, base, sum(len(each[2]) for each in whole[:batches_left]))
    with pytest.raises(LogCorrupted, match="Restore"):
        reopen(disk, clean=False, recovery_point=log.end_offset)


def test_a_closed_segment_cut_inside_its_last_batch_is_found_after_a_kill() -> None:
    log = filled()
    disk = disk_of(log)
    base = sorted(log.sizes())[1]
    cut(disk, base, log.sizes()[base] - 5)
    with pytest.raises(LogCorrupted, match="no batch at byte"):
        reopen(disk, clean=False, recovery_point=log.end_offset)


@pytest.mark.parametrize("batches_left", [0, 2])
def test_an_active_segment_cut_before_an_append_is_found_after_a_kill(batches_left: int) -> None:
    """The append that finds the damage is rejected, and its bytes stay in the file."""
    log = filled()
    disk, name = disk_of(log), log.active.file.path
    whole = split(disk.files()[name])
    kept = b"".join(each[2] for each in whole[:batches_left])
    disk.put(name, kept + whole[-1][2])
    with pytest.raises(LogCorrupted, match=f"and {whole[-1][0]}, and has later ones"):
        reopen(disk, clean=False)


@pytest.mark.parametrize("how", ["by its settings", "before"])
def test_a_compacted_log_may_have_holes_between_its_segments(how: str) -> None:
    log = filled()
    disk = disk_of(log)
    _, second, *_ = sorted(log.sizes())
    for suffix in SEGMENT_SUFFIXES:
        disk.remove_now(path(second, suffix))
    again = open_log(
        disk,
        DIRECTORY,
        replace(SMALL, compact=how == "by its settings"),
        now_ms=NOW_MS,
        clean=False,
        recovery_point=log.end_offset,
        compacted=how == "before",
    )
    assert again.end_offset == log.end_offset


def test_a_log_of_unknown_past_may_have_holes_for_ever() -> None:
    """Apache Kafka stopped cleanly; the first kill comes later."""
    _log, disk, _sizes = closed()
    opened = open_log(disk, DIRECTORY, SMALL, now_ms=NOW_MS, clean=True, compacted=True)
    _, second, *_ = sorted(opened.sizes())
    for suffix in SEGMENT_SUFFIXES:
        disk.remove_now(path(second, suffix))
    assert reopen(disk, clean=False).end_offset == opened.end_offset


def test_a_mark_that_met_a_full_disk_is_written_later() -> None:
    _log, disk, _sizes = closed()
    disk.fail_write(0, full=True, within=f"{DIRECTORY}/{HOLES_FILE}")
    opened = open_log(disk, DIRECTORY, SMALL, now_ms=NOW_MS, clean=True, compacted=True)
    settle(opened)
    opened.chores.retry()
    settle(opened)
    _, second, *_ = sorted(opened.sizes())
    for suffix in SEGMENT_SUFFIXES:
        disk.remove_now(path(second, suffix))
    assert reopen(disk, clean=False).end_offset == opened.end_offset


def _old_message(offset: int, magic: int) -> bytes:
    """A message as Apache Kafka wrote it before record batches."""
    time_ms = struct.pack(">q", NOW_MS) if magic else b""
    body = bytes([magic, 0]) + time_ms + struct.pack(">i", -1) + struct.pack(">i", 100) + b"v" * 100
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_named_and_never_cut_off(magic: int) -> None:
    log = filled()
    disk, name = disk_of(log), log.active.file.path
    old = b"".join(_old_message(log.active.base_offset + n, magic) for n in range(3))
    disk.put(name, old)
    with pytest.raises(LogCorrupted, match=f"message format {magic}.*Apache Kafka"):
        reopen(disk, clean=False)
    assert disk.files()[name] == old


@pytest.mark.parametrize("with_indexes", [True, False])
def test_a_closed_segment_in_an_old_format_is_named_too(with_indexes: bool) -> None:
    log = filled()
    disk, first = disk_of(log), log.closed[0]
    old = b"".join(_old_message(n, 1) for n in range(first.end_offset))
    disk.put(path(0, LOG), old)
    for suffix in (INDEX, TIME_INDEX):
        disk.put(path(0, suffix), b"") if with_indexes else disk.remove_now(path(0, suffix))
    with pytest.raises(LogCorrupted, match="message format 1"):
        reopen(disk, clean=False, recovery_point=log.end_offset)
    assert disk.files()[path(0, LOG)] == old


def test_an_accepted_hole_is_not_found_again() -> None:
    log = filled()
    disk = disk_of(log)
    _, second, *_ = sorted(log.sizes())
    disk.remove_now(path(second, LOG))
    reopen(disk, clean=False, salvage=True, recovery_point=log.end_offset)
    again = reopen(disk, clean=False, recovery_point=log.end_offset)
    assert again.end_offset == log.end_offset


@pytest.mark.parametrize("kill_after", [1, 2, 3])
def test_an_index_whose_log_was_renamed_by_retention_goes(kill_after: int) -> None:
    """The node dies between the renames, then again in the middle of its start."""
    log = filled()
    disk = disk_of(log)
    first, second, *_ = sorted(log.sizes())
    disk.rename_now(path(first, LOG), path(first, LOG) + DELETED)
    steps = iter([None] * kill_after)
    remove = disk.remove_now

    def remove_until_killed(name: str) -> None:
        if next(steps, "killed") == "killed":
            raise KeyboardInterrupt
        remove(name)

    with pytest.MonkeyPatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(disk, "remove_now", remove_until_killed)
        reopen(disk, clean=False, recovery_point=log.end_offset)
    again = reopen(disk, clean=False, recovery_point=log.end_offset)
    assert (again.start_offset, again.end_offset) == (second, log.end_offset)


def test_another_servers_clean_stop_leaves_no_sizes_but_indexes() -> None:
    _log, disk, sizes = closed()
    base = sorted(sizes)[1]
    kept = disk.files()[path(base, LOG)]
    disk.remove_now(path(base, LOG))
    with pytest.raises(LogCorrupted, match="its index is there"):
        reopened(disk, None)
    disk.put(path(base, LOG), kept[: len(kept) // 2 - 7])
    with pytest.raises(LogCorrupted, match="no batch at byte"):
        reopened(disk, None)
    disk.put(path(base, LOG), kept)
    assert reopened(disk, None).recovery.scanned_bytes == 0


def test_indexes_below_the_start_are_leftovers() -> None:
    """Retention had renamed the log, and not yet its index."""
    log, disk, sizes = closed()
    first, second, *_ = sorted(sizes)
    disk.remove_now(path(first, LOG))
    again = open_log(disk, DIRECTORY, SMALL, now_ms=NOW_MS, clean=True, start_offset=second)
    assert (again.start_offset, again.end_offset) == (second, log.end_offset)


def test_a_log_that_ends_before_its_recovery_point_was_cut() -> None:
    log, disk, _sizes = closed()
    base = log.active.base_offset
    whole = split(disk.files()[path(base, LOG)])
    cut(disk, base, len(whole[0][2]))
    with pytest.raises(LogCorrupted, match=f"offsets below {log.end_offset} were durable"):
        reopen(disk, recovery_point=log.end_offset)


def test_what_is_left_can_be_had_on_request() -> None:
    log, disk, sizes = closed()
    first, second, third, *_ = sorted(sizes)
    disk.remove_now(path(second, LOG))
    cut(disk, third, sizes[third] - 5)
    again = reopen(disk, salvage=True, recovery_point=log.end_offset)
    offsets = [each[0] for each in split(stored(again))]
    assert offsets[:2] == [first, first + 1]
    assert again.end_offset == log.end_offset
    assert not any(second <= offset < third for offset in offsets)


# ---- reading


def test_a_segment_that_was_cut_is_an_error_and_not_an_answer() -> None:
    log, disk, sizes = closed()
    first, second, *_ = sorted(sizes)
    again = reopened(disk, sizes)
    cut(disk, first, sizes[first] - 5)
    with pytest.raises(FileLost, match=f"has only {sizes[first] - 5} of its {sizes[first]} bytes"):
        again.read(first, 10_000, upper_offset=log.end_offset, min_one_batch=True)
    assert again.read(second, 10_000, upper_offset=log.end_offset, min_one_batch=True).size


@pytest.mark.parametrize("offset", [0, 1])
def test_a_batch_that_claims_more_than_there_is_is_an_error_and_not_an_answer(offset: int) -> None:
    """Neither half a batch for ever, nor a jump to the next segment."""
    log, disk, sizes = closed()
    disk.corrupt(path(0, LOG), 8, (1 << 20).to_bytes(4))
    again = reopened(disk, sizes)
    with pytest.raises(CorruptMessage, match="is cut short"):
        again.read(offset, 10_000, upper_offset=log.end_offset, min_one_batch=True)


def damaged() -> tuple[SimDisk, int, int, int]:
    """A log with one changed byte: the disk, the offset and the end of the batch, and the log's
    end."""
    log = filled()
    disk = disk_of(log)
    bad = next(each for each in split(stored(log)) if each[0] >= log.active.base_offset + 2)
    position = disk.files()[log.active.file.path].index(bad[2])
    disk.corrupt(log.active.file.path, position + 70, b"!")
    return disk, bad[0], bad[1], log.end_offset


def check_damaged(log: Log, offset: int, end: int) -> None:
    """Readers get everything but the one batch."""
    before = log.read(
        log.active.base_offset, 1 << 20, upper_offset=log.end_offset, min_one_batch=True
    )
    assert before.file is not None
    assert split(before.file.read(before.position, before.size))[-1][1] == offset
    for _ in range(2):
        with pytest.raises(CorruptMessage, match=f"at offset {offset} of {DIRECTORY}"):
            log.read(offset, 1 << 20, upper_offset=log.end_offset, min_one_batch=True)
    assert split(stored(log, end))[0][0] == end


def test_readers_of_a_batch_with_a_broken_checksum_are_told() -> None:
    disk, offset, end, log_end = damaged()
    check_damaged(reopen(disk, clean=False, recovery_point=log_end), offset, end)


def test_a_broken_checksum_is_remembered_over_a_clean_stop() -> None:
    disk, offset, end, log_end = damaged()
    log = reopen(disk, clean=False, recovery_point=log_end)
    settle(log)
    sizes = log.sizes()
    log.close()
    again = reopened(disk, sizes)
    assert again.recovery.scanned_bytes == 0
    check_damaged(again, offset, end)


def test_a_batch_that_was_repaired_is_served_again() -> None:
    disk, _offset, _end, log_end = damaged()
    log = reopen(disk, clean=False, recovery_point=log_end)
    settle(log)
    file, position = log.active.file.path, log.damaged[0].position
    log.close()
    disk.corrupt(file, position + 70, filled_byte())
    again = reopen(disk)
    assert again.damaged == []
    assert f"{DIRECTORY}/{DAMAGE_FILE}" not in disk.files()
    assert split(stored(again))[-1][1] == log_end


def filled_byte() -> bytes:
    """What stood where `damaged` puts its byte."""
    disk, offset, _end, _log_end = damaged()
    log = filled()
    position = disk.files()[log.active.file.path].index(b"!")
    assert offset >= log.active.base_offset
    return disk_of(log).files()[log.active.file.path][position : position + 1]


# ---- a log where one is, and none where one was


def test_a_new_log_is_not_made_over_another() -> None:
    log = filled()
    before = disk_of(log).files()
    with pytest.raises(LogExists, match="events-0 holds a log already"):
        Log.create(disk_of(log), DIRECTORY, TOPIC_ID, SMALL, NOW_MS)
    assert disk_of(log).files() == before


def test_a_log_whose_directory_is_gone_takes_no_more_records() -> None:
    log = filled()
    disk_of(log).remove_now(DIRECTORY)
    end_offset = log.end_offset
    with pytest.raises(FileLost):
        append(log, *(batch(b"v" * 100) for _ in range(60)))
    assert log.end_offset == end_offset
    with pytest.raises(FileLost):
        append(log, batch(b"small"))
    assert log.end_offset == end_offset


def test_readers_of_a_removed_segment_are_told() -> None:
    log, disk, sizes = closed()
    again = reopened(disk, sizes)
    first, second, *_ = sorted(sizes)
    disk.remove_now(path(first, LOG))
    with pytest.raises(FileLost, match="another process has removed it"):
        again.read(first, 1 << 20, upper_offset=log.end_offset, min_one_batch=True)
    assert again.read(second, 1 << 20, upper_offset=log.end_offset, min_one_batch=True).size


def test_a_roll_does_not_append_to_a_file_that_is_in_the_way() -> None:
    log = new_log(SimDisk())
    append(log, batch(b"first"))
    disk_of(log).put(path(1, LOG), b"foreign")
    with pytest.raises(FileLost, match="in the way"):
        log.roll(NOW_MS)
    assert log.lost is not None
    assert disk_of(log).files()[path(1, LOG)] == b"foreign"
