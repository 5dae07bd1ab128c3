"""What leaves a log by its age, by times that can be believed or not; and room in reserve."""

from dataclasses import replace

import pytest
from log_making import DIRECTORY, NOW_MS, SMALL, append, batch, disk_of, new_log, reopen, settle

from penstock.log.config import UNBOUNDED, LogConfig
from penstock.log.log import Log
from penstock.testing.sim.disk import SimDisk

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
    log.delete_old_segments(clock.now_ms, log.end_offset)
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
    again.delete_old_segments(clock.now_ms, again.end_offset)
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
    removals = log.delete_old_segments(clock.now_ms, log.end_offset)
    settle(log)
    assert all(path.endswith(".deleted") for removal in removals for path in removal.paths)
    assert any(path.endswith(".log.deleted") for path in disk_of(log).files())
    reopen(disk_of(log), WEEK, clean=False)
    assert not any(path.endswith(".deleted") for path in disk_of(log).files())


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
