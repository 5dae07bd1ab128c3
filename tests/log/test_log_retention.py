"""What leaves a log by its age, by times that can be believed or not; and room in reserve."""

import random
from dataclasses import replace

import pytest
from log_builder import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    append,
    batch,
    disk_of,
    forget_old,
    new_log,
    reopen,
    settle,
)

from penstock.log.config import UNBOUNDED, LogConfig
from penstock.log.log import Log
from penstock.testing.sim.disk import SimDisk, SimFile
from penstock.world import DiskFull

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NO_TIME = -1
WEEK = replace(SMALL, retention_ms=7 * DAY_MS, timestamp_after_ms_max=HOUR_MS)


class Clock:
    now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def with_segments(times: list[int], config: LogConfig = WEEK) -> tuple[Log, Clock]:
    """A log with one closed segment for each timestamp, all written at NOW_MS; and its clock."""
    disk, clock = SimDisk(), Clock()
    disk.now_ms = clock
    log = new_log(disk, config)
    for time in times:
        append(log, batch(b"x" * 100, timestamp=time))
        assert log.roll(NOW_MS)
    settle(log)
    return log, clock


def left_after(log: Log, clock: Clock, duration_ms: int) -> int:
    """How many segments with records are left when so much time has passed."""
    clock.now_ms = NOW_MS + duration_ms
    forget_old(log, clock.now_ms)
    return len(log.closed)


def test_a_segment_is_as_old_as_its_latest_record() -> None:
    log, clock = with_segments([NOW_MS - DAY_MS, NOW_MS])
    assert left_after(log, clock, 6 * DAY_MS) == 2
    assert left_after(log, clock, 6 * DAY_MS + 1) == 1
    assert left_after(log, clock, 7 * DAY_MS + 1) == 0


def test_a_time_that_the_topic_lets_through_is_believed() -> None:
    log, clock = with_segments([NOW_MS + HOUR_MS])
    assert left_after(log, clock, 7 * DAY_MS + HOUR_MS) == 1
    assert left_after(log, clock, 7 * DAY_MS + HOUR_MS + 1) == 0


@pytest.mark.parametrize("ahead_ms", [8 * DAY_MS, 1_000 * DAY_MS, 2**60])
def test_a_broken_time_does_not_keep_a_segment_for_ever(ahead_ms: int) -> None:
    log, clock = with_segments([NOW_MS + ahead_ms, NOW_MS])
    assert left_after(log, clock, 7 * DAY_MS + HOUR_MS) == 2
    assert left_after(log, clock, 7 * DAY_MS + HOUR_MS + 1) == 0


def test_where_every_time_is_let_through_a_broken_one_keeps_it_twice_as_long() -> None:
    config = replace(WEEK, timestamp_after_ms_max=UNBOUNDED)
    log, clock = with_segments([2**60], config)
    assert left_after(log, clock, 14 * DAY_MS) == 1
    assert left_after(log, clock, 14 * DAY_MS + 1) == 0


def test_a_broken_time_does_not_keep_what_is_written_after_it() -> None:
    log, clock = with_segments([NOW_MS, NOW_MS + 1_000 * DAY_MS, NOW_MS])
    assert left_after(log, clock, 8 * DAY_MS) == 0


def test_records_without_times_are_as_old_as_their_file() -> None:
    log, clock = with_segments([NO_TIME])
    assert left_after(log, clock, 7 * DAY_MS) == 1
    assert left_after(log, clock, 7 * DAY_MS + 1) == 0


def test_a_restart_does_not_make_records_without_times_younger() -> None:
    log, clock = with_segments([NO_TIME])
    log.close()
    again = reopen(disk_of(log), WEEK)
    clock.now_ms += 7 * DAY_MS + 1
    forget_old(again, clock.now_ms)
    assert again.start_offset == 1


def test_another_retention_holds_with_the_next_look() -> None:
    log, clock = with_segments([NOW_MS])
    assert left_after(log, clock, DAY_MS) == 1
    log.config = replace(WEEK, retention_ms=DAY_MS - 1)
    assert left_after(log, clock, DAY_MS) == 0


def test_the_active_segment_goes_too_when_it_is_old_enough() -> None:
    log, clock = with_segments([])
    append(log, batch(b"x", timestamp=NOW_MS))
    assert left_after(log, clock, 7 * DAY_MS + 1) == 0
    assert (log.start_offset, log.end_offset, log.active.size) == (1, 1, 0)


def test_files_are_renamed_first_and_a_restart_removes_what_was() -> None:
    log, clock = with_segments([NOW_MS - 8 * DAY_MS])
    renamed: list[str] = []
    assert forget_old(log, clock.now_ms, renamed=renamed) == 1
    assert renamed == []
    settle(log)
    assert sorted(renamed) == [path for path in disk_of(log).files() if path.endswith(".deleted")]
    assert any(path.endswith(".log.deleted") for path in disk_of(log).files())
    reopen(disk_of(log), WEEK, clean=False)
    assert not any(path.endswith(".deleted") for path in disk_of(log).files())


def left_of_segments(log: Log) -> list[str]:
    """Names of the files of segments, in their order."""
    return [name for name in disk_of(log).list(DIRECTORY) if name[0] == "0"]


def names_of(log: Log) -> list[str]:
    """The file of an empty active segment, and the producers that it begins with."""
    return [f"{log.end_offset:020d}{suffix}" for suffix in (".log", ".snapshot")]


@pytest.mark.parametrize("segments", [0, 1, 3])
@pytest.mark.parametrize("steps", range(9))
def test_when_all_goes_only_the_files_of_the_new_segment_are_left(
    segments: int, steps: int
) -> None:
    log, _ = with_segments([NOW_MS] * segments)
    append(log, batch(b"x", timestamp=NOW_MS))
    log.roll(NOW_MS)  # its files are being written down when retention comes
    for _ in range(steps):
        disk_of(log).run_one()
    append(log, batch(b"x", timestamp=NOW_MS))
    renamed: list[str] = []
    assert forget_old(log, NOW_MS + 8 * DAY_MS, renamed=renamed) == segments + 2
    settle(log)
    for path in renamed:
        disk_of(log).remove_now(path)
    assert left_of_segments(log) == names_of(log)


@pytest.mark.parametrize("stalled_before", [False, True])
def test_on_a_full_disk_a_segment_that_cannot_be_written_down_goes_as_it_is(
    stalled_before: bool,
) -> None:
    log, _ = with_segments([])
    append(log, batch(b"x", timestamp=NOW_MS, producer=(5, 0, 0)))
    disk, renamed = disk_of(log), list[str]()
    disk.replace_now = full  # type: ignore[method-assign, assignment]
    if stalled_before:
        log.roll(NOW_MS)
        settle(log)
        assert log.chores.stalled
    assert forget_old(log, NOW_MS + 8 * DAY_MS, renamed=renamed) == 1
    settle(log)
    assert [path for path in renamed if path.endswith(".log.deleted")]
    del disk.replace_now
    for path in renamed:
        disk.remove_now(path)
    forget_old(log)
    settle(log)
    assert left_of_segments(log) == names_of(log)
    assert list(reopen(disk, WEEK, clean=False).producers.states) == [5]


def full(path: str, _data: bytes) -> None:
    raise DiskFull(path)


def test_on_a_disk_without_room_for_a_new_segment_all_but_the_active_one_go() -> None:
    log, _ = with_segments([NOW_MS] * 3)
    append(log, batch(b"x", timestamp=NOW_MS))
    disk = disk_of(log)
    opened = disk.open

    def no_new_file(path: str, *, create: bool = False) -> SimFile:
        if create and not disk.exists(path):
            raise DiskFull(path)
        return opened(path, create=create)

    disk.open = no_new_file  # type: ignore[method-assign]
    assert forget_old(log, NOW_MS + 8 * DAY_MS) == 3
    assert (log.start_offset, log.end_offset) == (3, 4)


@pytest.mark.parametrize("seed", range(60))
def test_a_crash_while_segments_go_leaves_a_log_that_begins_later_or_where_it_did(
    seed: int,
) -> None:
    dice = random.Random(seed)
    log, _ = with_segments([NOW_MS] * 4)
    for number in range(2):
        append(log, batch(b"x" * 50, timestamp=NOW_MS, producer=(5, 0, number)))
        log.roll(NOW_MS)
    append(log, batch(b"last", timestamp=NOW_MS))
    forget_old(log, NOW_MS + 8 * DAY_MS)
    for _ in range(dice.randrange(30)):
        disk_of(log).run_one()
    power = dice.random() < 0.5
    disk = disk_of(log).crash() if power else disk_of(log)
    if not power:
        disk.kill()
    again = reopen(disk, WEEK, clean=False)
    assert again.end_offset == log.end_offset or power
    bases = list(again.sizes())
    assert bases == list(range(bases[0], bases[-1] + 1)), "the oldest go first"
    if not power:
        assert list(again.producers.states) == [5]


def test_what_a_segment_is_too_much_is_counted_to_the_byte() -> None:
    config = replace(SMALL, retention_bytes=0)
    for spare, left in ((0, 2), (1, 3)):
        log, clock = with_segments([NOW_MS] * 3, config)
        size = log.closed[0].size
        log.config = replace(config, retention_bytes=2 * size + spare)
        assert left_after(log, clock, 0) == left


def test_a_segment_goes_when_the_start_is_where_it_ends_and_not_before() -> None:
    log, clock = with_segments([NOW_MS] * 3)
    append(log, batch(b"a", b"b", timestamp=NOW_MS))
    log.roll(NOW_MS)
    log.advance_start_offset(4)
    assert left_after(log, clock, 0) == 1
    log.advance_start_offset(5)
    assert left_after(log, clock, 0) == 0


def test_nothing_is_forgotten_while_a_log_is_moved() -> None:
    log, clock = with_segments([NOW_MS] * 3)
    log.moving = True
    assert left_after(log, clock, 8 * DAY_MS) == 3
    log.moving = False
    assert left_after(log, clock, 8 * DAY_MS) == 0


# -- room that is reserved

PREALLOCATED = replace(SMALL, preallocate=True)


def reserved(log: Log) -> list[int]:
    """What each segment's file holds in reserve, in the order of the segments."""
    disk = disk_of(log)
    names = [path for path in disk.files() if path.endswith(".log")]
    return [disk.reserved_bytes(path) for path in names if path.startswith(DIRECTORY)]


def test_a_new_segment_reserves_its_size_and_a_closed_one_keeps_what_it_used() -> None:
    log = new_log(config=PREALLOCATED)
    append(log, batch(b"x" * 100))
    settle(log)
    assert reserved(log) == [SMALL.segment_bytes]
    log.roll(NOW_MS)
    settle(log)
    assert reserved(log) == [0, SMALL.segment_bytes]
    assert log.closed[0].size == disk_of(log).size(log.closed[0].path(".log")) > 0


def test_a_clean_stop_leaves_nothing_in_reserve() -> None:
    log = new_log(config=PREALLOCATED)
    append(log, batch(b"x"))
    settle(log)
    log.close()
    assert reserved(log) == [0]
    assert reopen(disk_of(log), PREALLOCATED).end_offset == 1


def test_what_a_killed_process_had_reserved_is_given_back_with_the_roll() -> None:
    log = new_log(config=PREALLOCATED)
    append(log, batch(b"x"))
    settle(log)
    again = reopen(disk_of(log), PREALLOCATED, clean=False)
    again.roll(NOW_MS)
    settle(again)
    assert reserved(again) == [0, SMALL.segment_bytes]


def test_without_the_setting_nothing_is_reserved() -> None:
    log = new_log()
    append(log, batch(b"x"))
    log.roll(NOW_MS)
    settle(log)
    assert reserved(log) == [0, 0]
