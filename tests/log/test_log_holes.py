"""Holes of a follower's log: on record before the batch behind them, apart from lost segments."""

from dataclasses import replace

import pytest
from log_builder import DIRECTORY, NOW_MS, SMALL, disk_of, ignore, new_log, reopen, settle, sync

from penstock.log.config import LogConfig
from penstock.log.directory import HOLES_FILE, SEGMENT_SUFFIXES, segment_file
from penstock.log.holes import ANYWHERE, HOLES_MAX, Hole, Holes, UnrecordedHoles, record_holes
from penstock.log.log import Log
from penstock.log.missing_segments import LogCorrupted
from penstock.wire.batch import Record, build_batch
from penstock.world import DiskFailed, DiskFull

HOLES_PATH = f"{DIRECTORY}/{HOLES_FILE}"


def fetched(offset: int) -> bytes:
    """Return a batch of one record with 100 bytes."""
    record = Record(offset, NOW_MS, None, b"v" * 100)
    return build_batch([record], base_offset=offset, leader_epoch=0)


def follow(log: Log, *offsets: int) -> None:
    """Append fetched batches, each hole on record before."""
    for offset in offsets:
        if offset > log.end_offset:
            record_holes(log, (Hole(log.end_offset, offset),), ignore)
            settle(log)
        log.append_as_follower(fetched(offset), NOW_MS)
    settle(log)


def filled(config: LogConfig = SMALL) -> Log:
    """Return a log of several segments that lacks the offsets from 20 to 29."""
    log = new_log(config=config)
    follow(log, *range(20), *range(30, 60))
    sync(log)
    assert len(log.closed) >= 2
    return log


def lose(log: Log, base_offset: int) -> None:
    for suffix in SEGMENT_SUFFIXES:
        disk_of(log).remove_now(segment_file(DIRECTORY, base_offset, suffix))


def test_a_batch_behind_a_hole_waits_until_the_hole_is_on_record() -> None:
    log = new_log()
    log.append_as_follower(fetched(0), NOW_MS)
    with pytest.raises(UnrecordedHoles) as waits:
        log.append_as_follower(fetched(5) + fetched(6) + fetched(9), NOW_MS)
    assert waits.value.holes == (Hole(1, 5), Hole(7, 9))
    assert log.end_offset == 1


def test_a_log_with_a_recorded_hole_opens_after_a_kill() -> None:
    log = filled()
    assert reopen(disk_of(log), clean=False).end_offset == 60


def test_a_hole_that_is_not_on_record_is_taken_for_a_lost_segment() -> None:
    log = filled()
    disk_of(log).remove_now(HOLES_PATH)
    with pytest.raises(LogCorrupted, match="no records between offsets 20 and 30"):
        reopen(disk_of(log), clean=False)


def test_a_lost_segment_of_a_log_with_a_recorded_hole_is_found() -> None:
    log = filled()
    lose(log, log.closed[-1].base_offset)
    with pytest.raises(LogCorrupted, match="no records between"):
        reopen(disk_of(log), clean=False)


def test_a_reopened_log_knows_its_holes() -> None:
    log = filled()
    again = reopen(disk_of(log), clean=False)
    assert again.holes == Holes((Hole(20, 30),))


def test_the_log_of_a_compacted_topic_may_lack_any_offset() -> None:
    config = replace(SMALL, compact=True)
    log = filled(config)
    lose(log, log.closed[-1].base_offset)
    assert reopen(disk_of(log), clean=False).end_offset == 60


def test_a_full_disk_leaves_the_hole_to_a_later_attempt() -> None:
    log = new_log()
    disk = disk_of(log)
    results: list[DiskFailed | None] = []
    disk.fail_write(0, full=True, within=HOLES_PATH)
    for _ in range(2):
        record_holes(log, (Hole(0, 5),), results.append)
        settle(log)
    assert isinstance(results[0], DiskFull)
    assert results[1] is None
    assert log.holes.cover(0, 5)


def test_a_log_with_many_holes_may_lack_any_offset() -> None:
    many = tuple(Hole(2 * n, 2 * n + 1) for n in range(HOLES_MAX + 1))
    assert Holes().joined(many) == ANYWHERE


def test_an_unreadable_record_of_holes_hides_no_log() -> None:
    assert Holes.from_bytes(b"20 x\n") == ANYWHERE


def test_a_recorded_hole_covers_a_part_of_it() -> None:
    assert Holes((Hole(20, 30),)).cover(25, 30)
    assert not Holes((Hole(20, 30),)).cover(25, 31)
