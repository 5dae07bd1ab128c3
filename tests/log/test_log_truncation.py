"""Rolling, retention, DeleteRecords and truncation."""

import pytest
from log_builder import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    append,
    batch,
    disk_of,
    forget_old,
    ignore,
    new_log,
    reopen,
    settle,
    split,
    stored,
    sync,
)

from penstock.errors import CorruptMessage, OffsetOutOfRange
from penstock.log.config import LogConfig
from penstock.log.directory import LOG, segment_file
from penstock.log.holes import ANYWHERE
from penstock.log.log import Log
from penstock.wire.batch import ABORT_MARKER, Record, build_batch


def test_a_segment_rolls_when_the_next_batch_would_not_fit() -> None:
    log = new_log()
    size = len(batch(b"x" * 500))
    fitting = SMALL.segment_bytes // size
    for _ in range(fitting):
        append(log, batch(b"x" * 500))
    assert log.closed == []
    append(log, batch(b"x" * 500))
    assert [segment.base_offset for segment in log.closed] == [0]
    assert log.active.base_offset == fitting


def test_a_segment_rolls_by_the_time_between_its_batches_not_by_the_clock() -> None:
    log = new_log(config=LogConfig(segment_ms=1_000))
    append(log, batch(b"a", timestamp=NOW_MS))
    append(log, batch(b"b", timestamp=NOW_MS + 1_000), now_ms=NOW_MS + 10**9)
    assert log.closed == []
    append(log, batch(b"c", timestamp=NOW_MS + 1_001))
    assert len(log.closed) == 1


def test_without_timestamps_a_segment_rolls_by_the_clock() -> None:
    log = new_log(config=LogConfig(segment_ms=1_000))
    bare = build_batch([Record(0, -1, None, b"x")])
    append(log, bare, now_ms=NOW_MS)
    append(log, bare, now_ms=NOW_MS + 1_000)
    assert log.closed == []
    append(log, bare, now_ms=NOW_MS + 1_001)
    assert len(log.closed) == 1


def test_a_segment_rolls_when_an_index_is_full() -> None:
    log = new_log(config=LogConfig(index_interval_bytes=1, index_bytes_max=60))
    for _ in range(30):
        append(log, batch(b"x"))
    settle(log)
    assert len(log.closed) > 4
    assert all(len(disk_of(log).files()[each.path(".timeindex")]) <= 60 for each in log.closed)


def test_a_segment_rolls_before_its_offsets_outgrow_the_index() -> None:
    log = new_log(config=LogConfig())
    far = build_batch([Record(2**31, NOW_MS, None, b"far")], base_offset=2**31, leader_epoch=0)
    append(log, batch(b"near"))
    log.holes = ANYWHERE
    log.append_as_follower(far, NOW_MS)
    assert [segment.base_offset for segment in log.closed] == [0]
    assert log.active.base_offset == 2**31


def test_a_leader_rolls_before_its_offsets_outgrow_the_index() -> None:
    log = new_log(config=LogConfig())
    append(log, batch(b"near"))
    edge = 2**31 - 2
    log.holes = ANYWHERE
    log.append_as_follower(
        build_batch([Record(edge, NOW_MS, None, b"edge")], base_offset=edge, leader_epoch=0), NOW_MS
    )
    assert append(log, batch(b"last")) == [2**31 - 1]
    assert log.closed == []
    assert append(log, batch(b"over")) == [2**31]
    assert log.active.base_offset == 2**31


def test_jitter_takes_a_different_share_of_the_time_from_each_segment() -> None:
    log = new_log(config=LogConfig(segment_ms=10_000, segment_jitter_ms=5_000))
    times = {log.roll_ms(base) for base in range(50)}
    assert len(times) > 40
    assert all(5_000 < time <= 10_000 for time in times)


def aged(count: int = 60, config: LogConfig = SMALL) -> Log:
    log = new_log(config=config)
    for number in range(count):
        append(log, batch(b"x" * 200, timestamp=NOW_MS + number * 1_000))
    settle(log)
    return log


def test_old_segments_go_and_their_files_are_renamed_first() -> None:
    log = aged(config=LogConfig(segment_bytes=2_000, retention_ms=30_000))
    bases = [*log._bases, log.active.base_offset]
    renamed: list[str] = []
    count = forget_old(log, NOW_MS + 59_000, renamed=renamed)
    assert count > 0
    assert log.start_offset == bases[count]
    # The newest record of the first segment that stays is young enough, that of the last gone not.
    assert NOW_MS + 59_000 - log.closed[0].largest(log.files)[0] <= 30_000
    settle(log)
    files = disk_of(log).files()
    assert segment_file(DIRECTORY, 0, LOG) not in files
    assert segment_file(DIRECTORY, 0, LOG) + ".deleted" in files
    for path in renamed:
        disk_of(log).remove_now(path)
    assert not any(name.endswith(".deleted") for name in disk_of(log).files())
    assert stored(log) == b"".join(each[2] for each in split(stored(log)))
    log.close()
    assert stored(reopen(disk_of(log))) == stored(log)


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    log = aged(config=LogConfig(segment_bytes=2_000, retention_ms=1))
    forget_old(log, NOW_MS + 10**9, upper_offset=log._bases[2])
    assert log.start_offset == log._bases[0]
    assert log._bases[0] > 0


def test_when_everything_is_too_old_an_empty_segment_remains() -> None:
    log = aged(config=LogConfig(segment_bytes=2_000, retention_ms=1))
    end = log.end_offset
    forget_old(log, NOW_MS + 10**9)
    assert (log.start_offset, log.end_offset, log.closed) == (end, end, [])
    settle(log)
    assert append(log, batch(b"next")) == [end]


def test_retention_by_size_keeps_at_least_that_much() -> None:
    log = aged(config=LogConfig(segment_bytes=2_000, retention_ms=-1, retention_bytes=5_000))
    forget_old(log)
    assert 5_000 <= log.size < 7_000


def test_compacted_topics_are_not_deleted_by_age() -> None:
    config = LogConfig(segment_bytes=2_000, retention_ms=1, delete=False, compact=True)
    log = aged(config=config)
    assert forget_old(log, NOW_MS + 10**9) == 0


def test_delete_records_moves_the_start_and_then_drops_whole_segments() -> None:
    log = aged()
    target = log._bases[2] + 1
    log.advance_start_offset(target)
    assert forget_old(log) == 2
    assert log.start_offset == target
    with pytest.raises(OffsetOutOfRange):
        log.read(target - 1, 100, upper_offset=log.end_offset, min_one_batch=True)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start_offset(log.end_offset + 1)
    log.advance_start_offset(log.end_offset)
    forget_old(log)
    assert log.start_offset == log.end_offset
    assert log.closed == []


def test_truncation_forgets_producers_transactions_epochs_and_timestamps() -> None:
    log = new_log()
    append(log, batch(b"a", producer=(1, 0, 0), timestamp=NOW_MS), epoch=0)
    append(log, batch(b"t", producer=(2, 0, 0), transactional=True), epoch=0)
    keep = log.end_offset
    append(log, batch(b"b", producer=(1, 0, 1), timestamp=NOW_MS + 99), epoch=1)
    log.append_control(
        ABORT_MARKER,
        producer_id=2,
        producer_epoch=0,
        coordinator_epoch=0,
        leader_epoch=1,
        now_ms=NOW_MS,
    )
    for _ in range(20):
        append(log, batch(b"z" * 200, timestamp=NOW_MS + 200), epoch=2)
    log.truncate_to(keep, NOW_MS, ignore)
    settle(log)
    assert log.end_offset == keep
    assert log.closed == []
    assert log.last_stable_offset == 1
    assert log.aborted_transactions(0, 100) == []
    assert log.epochs.entries() == [(0, 0)]
    assert log.search_largest_time().run() == (NOW_MS, 0, 0)
    assert append(log, batch(b"b", producer=(1, 0, 1)), epoch=3) == [keep]


def test_truncation_far_below_starts_again_and_keeps_no_file() -> None:
    log = aged()
    sync(log)
    log.truncate_fully_and_start_at(1_000, NOW_MS, ignore)
    settle(log)
    assert (log.start_offset, log.end_offset, log.synced_offset) == (1_000, 1_000, 60)
    names = [name for name in disk_of(log).files() if name.endswith(LOG)]
    assert names == [segment_file(DIRECTORY, 1_000, LOG)]
    assert append(log, batch(b"x")) == [1_000]


def test_truncation_to_the_start_reuses_the_first_file() -> None:
    log = aged()
    log.truncate_to(0, NOW_MS, ignore)
    settle(log)
    assert (log.start_offset, log.end_offset, log.active.size) == (0, 0, 0)
    assert disk_of(log).files()[segment_file(DIRECTORY, 0, LOG)] == b""
    assert append(log, batch(b"x")) == [0]


def test_truncating_beyond_the_end_does_nothing() -> None:
    log = aged(5)
    done: list[object] = []
    log.truncate_to(5, NOW_MS, done.append)
    assert done == [None]
    assert log.end_offset == 5


def test_a_follower_stores_what_it_is_given_and_leaves_out_a_torn_end() -> None:
    leader, follower = aged(), new_log()
    whole = stored(leader)
    follower.append_as_follower(whole[:-10], NOW_MS)
    assert follower.end_offset == leader.end_offset - 1
    follower.append_as_follower(stored(leader, follower.end_offset), NOW_MS)
    assert stored(follower) == whole
    assert follower.epochs.entries() == leader.epochs.entries()


def test_a_follower_refuses_what_cannot_be_right() -> None:
    leader, follower = aged(), new_log()
    whole = stored(leader)
    torn = bytearray(whole)
    torn[len(whole) // 2] ^= 1
    for bad in (bytes(torn), whole + whole):
        with pytest.raises(CorruptMessage):
            follower.append_as_follower(bad, NOW_MS)
        assert follower.end_offset == 0
        assert follower.active.size == 0


def test_truncation_to_the_end_forgets_an_epoch_without_records() -> None:
    log = new_log()
    append(log, batch(b"a"), epoch=1)
    log.begin_epoch(2)
    log.truncate_to(1, NOW_MS, ignore)
    assert log.epochs.entries() == [(1, 0)]


def test_offsets_for_leader_epochs_follow_the_appends() -> None:
    log = new_log()
    append(log, batch(b"a", b"b"), epoch=1)
    append(log, batch(b"c"), epoch=4)
    assert log.epoch_end(1) == (1, 2)
    assert log.epoch_end(3) == (1, 2)
    assert log.epoch_end(4) == (4, 3)
    assert log.epoch_end(5) == (-1, -1)


def test_the_largest_timestamp_is_found_inside_its_batch() -> None:
    log = new_log()
    assert log.search_largest_time().run() is None
    records = [Record(0, NOW_MS, None, b"a"), Record(1, NOW_MS + 50, None, b"b")]
    records.append(Record(2, NOW_MS + 20, None, b"c"))
    for compression in range(5):
        append(log, build_batch(records, compression=compression))
    assert log.search_largest_time().run() == (NOW_MS + 50, 1, 0)
    assert log.search_time(NOW_MS + 1).run() == (NOW_MS + 50, 1, 0)
    assert log.search_time(NOW_MS + 51).run() is None


LATE, LATER, LATEST = (NOW_MS + ms for ms in (100, 200, 300))


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        (0, (LATEST, 1, 0)),
        (1, (LATEST, 1, 0)),
        (2, (LATER, 3, 0)),  # the batch was cut, and its largest time is gone
        (3, (LATER, 3, 0)),
        (4, (LATE, 5, 0)),  # of the rest of the segment
        (6, (NOW_MS, 6, 0)),  # of another segment
        (7, None),
    ],
)
@pytest.mark.parametrize("segments", [1, 2])
def test_a_largest_timestamp_that_was_deleted_does_not_hide_the_next(
    start_offset: int, expected: tuple[int, int, int] | None, segments: int
) -> None:
    log = new_log()
    for times in ((NOW_MS, LATEST, NOW_MS), (LATER,), (NOW_MS, LATE)):
        records = [Record(at, time, None, b"v") for at, time in enumerate(times)]
        append(log, build_batch(records))
    if segments == 2:
        assert log.roll(NOW_MS)
    append(log, batch(b"last", timestamp=NOW_MS))
    log.advance_start_offset(start_offset)
    assert log.search_largest_time().run() == expected


def test_on_a_full_disk_old_segments_can_still_go_and_the_log_recovers_by_itself() -> None:
    config = LogConfig(segment_bytes=2_000, retention_ms=-1, retention_bytes=4_000)
    log = aged(config=config)
    disk_of(log).fail_write(0, full=True)
    log.roll(NOW_MS)
    settle(log)
    assert log.chores.stalled
    assert forget_old(log)
    settle(log)
    assert segment_file(DIRECTORY, 0, LOG) + ".deleted" in disk_of(log).files()
    assert not log.chores.stalled
    assert all(segment.memory is None for segment in log.closed)
    log.close()
    assert reopen(disk_of(log), config).recovery.segments_rebuilt == 0


def test_a_clean_stop_writes_what_a_full_disk_held_up() -> None:
    log = aged()
    disk_of(log).fail_write(0, full=True)
    log.roll(NOW_MS)
    settle(log)
    append(log, batch(b"x"))
    assert log.chores.stalled
    log.close()
    again = reopen(disk_of(log))
    assert again.recovery.segments_rebuilt == 0
    assert stored(again) == stored(log)
