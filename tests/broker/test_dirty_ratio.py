"""How dirty a log is: what may be cleaned of it, and when that is worth it."""

from collections.abc import Callable
from dataclasses import replace

from penstock.broker.cleaner.dirty_ratio import (
    TIMES_AT_ONCE_MAX,
    Budget,
    DirtyRange,
    assess,
    make_order,
    segments_of,
)
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.recovery import open_log
from penstock.testing.sim.disk import SimDisk, SimFile
from penstock.wire.batch import ABORT_MARKER, Record, build_batch, check_produced
from penstock.world import Cold

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=10_000, retention_ms=-1, compact=True, delete=False)
SEGMENT_RECORDS = 5


def log_with(segments: int, config: LogConfig = CONFIG) -> Log:
    """So many closed segments of five records, a second apart, and one more record."""
    log = Log.create(SimDisk(), "t-0", bytes(range(16)), config, NOW_MS)
    for number in range(segments):
        for _ in range(SEGMENT_RECORDS):
            append(log, NOW_MS + 1_000 * number)
        log.roll(NOW_MS)
    append(log, NOW_MS + 1_000 * segments)
    settle(log)
    return log


def append(log: Log, timestamp: int, producer: int = -1) -> None:
    batch = build_batch(
        [Record(0, timestamp, b"key", b"value")],
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        transactional=producer >= 0,
    )
    log.append([(memoryview(batch), check_produced(memoryview(batch)))], 0, timestamp)


def settle(log: Log) -> None:
    assert isinstance(log.disk, SimDisk)
    log.disk.run_callbacks()


def looked_at(log: Log, cleaned_to: int | None = None, *, later_ms: int = 0) -> DirtyRange:
    return assess(log, cleaned_to, log.end_offset, NOW_MS + later_ms)


def test_all_closed_segments_of_a_new_log_are_dirty() -> None:
    dirt = looked_at(log_with(3))
    assert (dirt.first_dirty_offset, dirt.upper_offset) == (0, 15)
    assert dirt.clean_bytes == 0
    assert dirt.ratio == 1.0


def test_what_was_cleaned_is_clean() -> None:
    log = log_with(4)
    dirt = looked_at(log, 10)
    assert (dirt.first_dirty_offset, dirt.upper_offset) == (10, 20)
    assert dirt.ratio == 0.5
    assert not dirt.is_worth_it(0.5)
    assert dirt.is_worth_it(0.49)


def test_a_log_without_closed_segments_is_not_worth_it() -> None:
    dirt = looked_at(log_with(0))
    assert not dirt.is_worth_it(0.0)


def test_a_segment_that_reaches_above_the_high_watermark_is_not_cleaned() -> None:
    log = log_with(3)
    assert assess(log, None, 12, NOW_MS).upper_offset == 10
    assert assess(log, None, 10, NOW_MS).upper_offset == 10
    assert assess(log, None, 12, NOW_MS).unstable


def test_an_open_transaction_is_not_cleaned_nor_what_follows_it() -> None:
    log = log_with(1)
    append(log, NOW_MS, producer=7)
    log.roll(NOW_MS)
    append(log, NOW_MS)
    log.roll(NOW_MS)
    settle(log)
    dirt = looked_at(log)
    assert dirt.upper_offset == 5
    assert dirt.unstable


def test_a_closed_segment_whose_indexes_are_not_durable_is_not_cleaned() -> None:
    log = log_with(2)
    log.roll(NOW_MS)
    assert looked_at(log).upper_offset == 10
    settle(log)
    assert looked_at(log).upper_offset == 11


def test_a_start_beyond_what_is_durable_leaves_nothing_to_clean() -> None:
    log = log_with(2)
    log.roll(NOW_MS)
    append(log, NOW_MS)
    log.advance_start_offset(11)
    assert not looked_at(log).is_worth_it(0.0)


def test_a_segment_younger_than_the_lag_is_left_until_it_is_older() -> None:
    log = log_with(3, replace(CONFIG, min_compaction_lag_ms=1_500))
    dirt = looked_at(log, later_ms=2_500)
    assert dirt.upper_offset == 10
    assert dirt.look_again_ms == NOW_MS + 2_000 + 1_500
    assert looked_at(log, later_ms=3_500).upper_offset == 15


def test_a_record_that_has_waited_too_long_is_worth_it_whatever_the_ratio() -> None:
    log = log_with(2, replace(CONFIG, max_compaction_lag_ms=60_000))
    dirt = looked_at(log, 5, later_ms=30_000)
    assert not dirt.is_worth_it(1.0)
    assert dirt.look_again_ms == NOW_MS + 1_000 + 60_000 + 1
    late = looked_at(log, 5, later_ms=70_000)
    assert late.overdue_ms == 9_000
    assert late.is_worth_it(1.0)


def test_a_checkpoint_outside_of_the_log_is_not_used() -> None:
    log = log_with(2)
    assert looked_at(log, 1_000).first_dirty_offset == 0
    assert "beyond the end" in (looked_at(log, 1_000).complaint or "")
    log.advance_start_offset(6)
    assert looked_at(log, 2).first_dirty_offset == 6
    assert "below the start" in (looked_at(log, 2).complaint or "")
    log.config = replace(CONFIG, delete=True)
    assert looked_at(log, 2).complaint is None  # deletion moves the start all the time


def test_an_order_names_what_reaches_from_later_segments_into_the_cleaned_ones() -> None:
    log = log_with(1)
    append(log, NOW_MS, producer=7)
    log.roll(NOW_MS)
    settle(log)
    marker = log.append_control(
        ABORT_MARKER,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    dirt = looked_at(log)
    assert dirt.upper_offset == log.active.base_offset
    order = make_order(log, dirt, Budget(1_000, 0.9, float("inf")), NOW_MS, 5)
    (aborted,) = order.aborted_later
    assert (aborted.producer_id, aborted.last_offset) == (7, marker)
    assert order.last_offsets == {7: marker - 1}
    bases = [each.base_offset for each in order.segments]
    assert bases == [each.base_offset for each in segments_of(log, dirt)]


# -- what a look costs

LAGS = replace(CONFIG, min_compaction_lag_ms=1, max_compaction_lag_ms=60_000)


class CountedDisk(SimDisk):
    """Counts what is opened."""

    opened = 0

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.opened += 1
        return super().open(path, create=create)


def restarted(segments: int) -> tuple[Log, CountedDisk]:
    """A log of so many closed segments that was just opened; nothing of it is in memory."""
    before = log_with(segments, LAGS)
    before.close()
    disk = CountedDisk(cold=True)
    assert isinstance(before.disk, SimDisk)
    for path, data in before.disk.files().items():
        disk.put(path, data)
    log = open_log(disk, "t-0", LAGS, now_ms=NOW_MS, clean=True)
    disk.opened = 0
    return log, disk


def looks_until(disk: CountedDisk, look: Callable[[], object]) -> list[int]:
    """How many files each look opened, until one had all that it reads in memory."""
    costs: list[int] = []
    while True:
        before = disk.opened
        try:
            look()
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, lambda _failure: None)
            disk.run_callbacks()
        else:
            return [*costs, disk.opened - before]
        costs.append(disk.opened - before)
        assert len(costs) < 10_000


def test_a_look_at_a_cold_log_opens_some_files_at_a_time_and_begins_anew_seldom() -> None:
    log, disk = restarted(300)
    costs = looks_until(disk, lambda: looked_at(log, later_ms=500_000))
    assert max(costs) <= TIMES_AT_ONCE_MAX + 1
    assert len(costs) < 30
    assert sum(costs) < 3 * 2 * 300
    assert looked_at(log, later_ms=500_000) == looked_at(log_with(300, LAGS), later_ms=500_000)


def test_a_second_look_opens_nothing() -> None:
    log, disk = restarted(20)
    looks_until(disk, lambda: looked_at(log, later_ms=90_000))
    log.files.drop_within("t-0")
    assert looks_until(disk, lambda: looked_at(log, later_ms=91_000)) == [0]


def test_what_was_written_by_this_process_is_known_without_a_look_into_files() -> None:
    log = log_with(20, LAGS)
    log.files.drop_within("t-0")
    log.disk.open = _nothing_is_opened  # type: ignore[method-assign]
    assert looked_at(log, later_ms=61_000).overdue_ms == 1_000


def _nothing_is_opened(path: str, *, create: bool = False) -> SimFile:
    raise AssertionError(f"{path} was opened, {create}")


def test_an_order_for_a_cold_log_begins_anew_seldom() -> None:
    log, disk = restarted(300)
    log.config = CONFIG
    dirt = looked_at(log)
    budget = Budget(1_000, 0.9, float("inf"))
    costs = looks_until(disk, lambda: make_order(log, dirt, budget, NOW_MS, 5))
    assert max(costs) <= TIMES_AT_ONCE_MAX + 1
    assert len(costs) < 20
