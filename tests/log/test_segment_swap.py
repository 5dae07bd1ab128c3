"""A log takes compacted segments over: for readers at once, on the disk step by step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from log_builder import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    append,
    forget_old,
    new_log,
    reopen,
    settle,
    split,
    stored,
    sync,
)

from penstock.broker.cleaner.dirty_ratio import Budget, assess, make_order, segments_of
from penstock.log.compaction.clean import clean
from penstock.log.compaction.order import SegmentGroup
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.missing_segments import LogCorrupted
from penstock.log.recovery import open_log
from penstock.log.segment import ClosedSegment
from penstock.log.segment_swap import is_current, swap
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import ABORT_MARKER, Record, build_batch, read_records
from penstock.world import DiskFailed, TooManyFiles

COMPACTED = replace(SMALL, compact=True)
BUDGET = Budget(24 * 1_000, 0.9, float("inf"))


def keyed(key: bytes, value: bytes | None, *, producer: int = -1, sequence: int = -1) -> bytes:
    return build_batch(
        [Record(0, NOW_MS, key, value)],
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=sequence,
        transactional=producer >= 0,
    )


def dirty_log(
    disk: SimDisk | None = None, *, rounds: int = 6, config: LogConfig = COMPACTED
) -> Log:
    """Closed segments in which five keys come again and again, and an active one."""
    log = new_log(disk, config)
    for number in range(rounds):
        for key in range(5):
            append(log, keyed(b"key-%d" % key, b"%d" % number * 20))
        log.roll(NOW_MS)
    append(log, keyed(b"last", b"value"))
    settle(log)
    sync(log)
    return log


def cleaned(log: Log) -> tuple[list[SegmentGroup], dict[int, ClosedSegment]]:
    """What a cleaning says; its files are there, and nothing is taken over yet."""
    dirt = assess(log, None, log.end_offset, NOW_MS)
    said: list[Any] = []
    order = make_order(log, dirt, BUDGET, NOW_MS, 0)
    clean(log.disk, order, said.append, lambda: False)
    segments = {each.base_offset: each for each in segments_of(log, dirt)}
    return [each for each in said if isinstance(each, SegmentGroup)], segments


def take_over(log: Log) -> list[str]:
    groups, segments = cleaned(log)
    paths: list[str] = []

    def done(old: list[str], failure: DiskFailed | None) -> None:
        assert failure is None
        paths.extend(old)

    for group in groups:
        swap(log, group, [segments[base] for base in group.old], done)
        settle(log)
    return paths


def values(log: Log) -> dict[bytes | None, bytes | None]:
    found = {}
    for _, _, batch in split(stored(log)):
        found.update({each.key: each.value for each in read_records(batch)})
    return found


EXPECTED = {**{b"key-%d" % key: b"5" * 20 for key in range(5)}, b"last": b"value"}


def test_after_a_swap_the_log_holds_the_newest_of_each_key_at_its_old_offset() -> None:
    log = dirty_log()
    before = {each.offset: each.value for _, _, b in split(stored(log)) for each in read_records(b)}
    end, size = log.end_offset, log.size
    take_over(log)
    after = {each.offset: each.value for _, _, b in split(stored(log)) for each in read_records(b)}
    assert values(log) == EXPECTED
    assert all(before[offset] == value for offset, value in after.items())
    assert log.end_offset == end
    assert log.size < size
    assert log.size == sum(log.sizes().values())


def test_a_segment_ends_where_those_it_replaced_did() -> None:
    log = dirty_log()
    last = log.closed[-1].end_offset
    take_over(log)
    ends = [each.end_offset for each in log.closed]
    assert ends[-1] == last == log.active.base_offset
    assert [each.base_offset for each in log.closed[1:]] == ends[:-1]


def test_a_range_on_its_way_is_read_from_the_old_file() -> None:
    log = dirty_log()
    found = log.read(0, 2**20, upper_offset=log.end_offset, min_one_batch=True)
    assert found.file is not None
    before = found.file.read(found.position, found.size)
    paths = take_over(log)
    for path in paths:
        log.disk.remove_now(path)
    assert found.file.read(found.position, found.size) == before


def test_readers_find_the_new_segment_between_any_two_steps() -> None:
    log = dirty_log()
    groups, segments = cleaned(log)
    for group in groups:
        done: list[object] = []
        swap(log, group, [segments[b] for b in group.old], lambda *each, d=done: d.append(each))
        while not done:
            disk_step(log)
            log.files.drop_within(DIRECTORY)  # nobody has the files open
            assert values(log) == EXPECTED
    assert values(log) == EXPECTED


def disk_step(log: Log) -> None:
    assert isinstance(log.disk, SimDisk)
    log.disk.run_one()


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_between_any_two_steps_leaves_a_log_with_all_its_keys(power: bool) -> None:
    steps = 0
    while True:
        log = dirty_log(SimDisk(steps))
        groups, segments = cleaned(log)
        waiting = list(groups)

        def next_group(
            *_: object, log: Log = log, waiting: list[SegmentGroup] = waiting, known: Any = segments
        ) -> None:
            if waiting:
                group = waiting.pop(0)
                swap(log, group, [known[base] for base in group.old], next_group)

        next_group()
        for _ in range(steps):
            disk_step(log)
        over = not log.swapping and not waiting
        disk = log.disk
        assert isinstance(disk, SimDisk)
        disk._waiting.clear()  # the process is gone, and its threads
        after = disk.crash() if power else disk
        # The topic is no longer compacted: the log itself tells that holes are no loss.
        again = reopen(after, clean=False, recovery_point=log.recovery_point)
        assert values(again) == EXPECTED
        assert again.end_offset == log.end_offset
        assert not [name for name in after.list(DIRECTORY) if name.endswith((".swap", ".cleaned"))]
        files = after.files()
        assert values(reopen(after, clean=False, recovery_point=log.recovery_point)) == EXPECTED
        assert after.files() == files, "recovering twice changes nothing"
        if over:
            break
        steps += 1
    assert steps > 20


def test_a_stop_in_the_middle_of_a_swap_is_no_damage_to_the_next_start() -> None:
    log = dirty_log()
    groups, segments = cleaned(log)
    swap(log, groups[0], [segments[base] for base in groups[0].old], lambda *_: None)
    before = log.sizes()
    for step in range(40):
        disk_step(log)
        sizes = log.sizes() if step else before
        disk = log.disk
        assert isinstance(disk, SimDisk)
        copy = SimDisk()
        for path, data in disk.files().items():
            copy.put(path, data)
        log.disk = copy
        log.close()
        log.disk = disk
        opened = open_log(
            copy,
            DIRECTORY,
            COMPACTED,
            now_ms=NOW_MS,
            clean=True,
            recovery_point=log.end_offset,
            sizes=sizes,
        )
        assert values(opened) == EXPECTED


def test_what_a_broken_off_cleaning_left_does_not_undo_a_later_swap() -> None:
    log = dirty_log()
    groups, segments = cleaned(log)
    stale = f"{DIRECTORY}/00000000000000000000.txnindex.cleaned"
    log.disk.put_now(stale, b"left over")
    swap(log, groups[0], [segments[base] for base in groups[0].old], lambda *_: None)
    while not any(name.endswith(".log.swap") for name in log.disk.list(DIRECTORY)):
        disk_step(log)
    assert not log.disk.exists(stale)


def test_segments_that_retention_took_are_not_current_any_more() -> None:
    log = dirty_log()
    groups, segments = cleaned(log)
    old = [segments[base] for base in groups[0].old]
    assert is_current(log, old)
    log.advance_start_offset(log.closed[0].end_offset)
    forget_old(log)
    assert not is_current(log, old)


def test_nothing_is_forgotten_while_a_swap_is_under_way() -> None:
    log = dirty_log()
    groups, segments = cleaned(log)
    swap(log, groups[0], [segments[base] for base in groups[0].old], lambda *_: None)
    log.advance_start_offset(log.end_offset)
    assert forget_old(log) == 0
    settle(log)
    assert forget_old(log)


def test_a_disk_that_fails_in_a_swap_ends_it_and_the_log() -> None:
    failures: list[DiskFailed] = []
    log = dirty_log()
    groups, segments = cleaned(log)
    old = [segments[base] for base in groups[0].old]
    swap(log, groups[0], old, lambda _paths, failure: failures.append(failure))  # type: ignore[arg-type]
    disk_step(log)
    log.disk.rename = _failing  # type: ignore[method-assign, assignment]
    settle(log)
    assert [str(each) for each in failures] == ["broken"]
    assert not log.swapping
    assert log.failure is not None


def _failing(_source: str, _target: str, done: Callable[[DiskFailed | None], None]) -> None:
    done(DiskFailed("broken"))


def test_a_topic_that_is_deleted_meanwhile_ends_the_swap_and_fails_nothing() -> None:
    ended: list[DiskFailed | None] = []
    log = dirty_log()
    groups, segments = cleaned(log)
    old = [segments[base] for base in groups[0].old]
    swap(log, groups[0], old, lambda _paths, failure: ended.append(failure))
    disk_step(log)
    log.disk.remove_now(DIRECTORY)
    settle(log)
    assert len(ended) == 1
    assert log.failure is None or ended[0] is not None


# -- what a start finds


def swap_files(log: Log, base: int) -> dict[str, bytes]:
    """The files of a group as they are in the middle of a swap."""
    disk = log.disk
    assert isinstance(disk, SimDisk)
    return {
        name.removesuffix(".cleaned"): data
        for name, data in disk.files().items()
        if name.startswith(f"{DIRECTORY}/{base:020d}") and name.endswith(".cleaned")
    }


def test_a_swap_beside_a_cleaned_file_is_not_complete_and_is_dropped() -> None:
    log = dirty_log()
    groups, _ = cleaned(log)
    for path, data in swap_files(log, groups[0].base_offset).items():
        log.disk.replace_now(path + ".swap", data)
    # The .cleaned files are still there as well.
    again = reopen(log.disk, COMPACTED, clean=False, recovery_point=log.recovery_point)  # type: ignore[arg-type]
    assert [each.base_offset for each in again.closed] == [each.base_offset for each in log.closed]
    assert values(again) == EXPECTED


@pytest.mark.parametrize("missing", [(), (".index",), (".index", ".timeindex")])
def test_a_complete_swap_is_finished_also_without_its_indexes(missing: tuple[str, ...]) -> None:
    log = dirty_log()
    groups, _ = cleaned(log)
    for group in groups:
        for path, data in swap_files(log, group.base_offset).items():
            if not path.endswith(missing or "-"):
                log.disk.replace_now(path + ".swap", data)
    for name in log.disk.list(DIRECTORY):
        if name.endswith(".cleaned"):
            log.disk.remove_now(f"{DIRECTORY}/{name}")
    again = reopen(log.disk, COMPACTED, clean=False, recovery_point=log.recovery_point)  # type: ignore[arg-type]
    assert values(again) == EXPECTED
    assert again.size < log.size


def test_an_empty_swap_replaces_the_segment_of_its_name_and_its_transaction_index() -> None:
    log = new_log()
    append(log, keyed(b"a", b"1", producer=7, sequence=0))
    log.append_control(
        ABORT_MARKER,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    log.roll(NOW_MS)
    append(log, keyed(b"b", b"2"))
    settle(log)
    sync(log)
    assert log.closed[0].has_aborted
    for suffix in (".log", ".index", ".timeindex"):
        log.disk.replace_now(f"{DIRECTORY}/{0:020d}{suffix}.swap", b"")
    again = reopen(log.disk, COMPACTED, clean=False, recovery_point=log.recovery_point)  # type: ignore[arg-type]
    assert values(again) == {b"b": b"2"}
    assert not again.closed[0].has_aborted
    assert again.aborted_transactions(0, again.end_offset) == []


def test_sizes_of_a_clean_stop_are_still_compared_for_segments_that_no_swap_touched() -> None:
    log = dirty_log()
    take_over(log)
    log.close()
    sizes = log.sizes() | {log.active.base_offset: 1}
    with pytest.raises(LogCorrupted):
        open_log(log.disk, DIRECTORY, COMPACTED, now_ms=NOW_MS, clean=True, sizes=sizes)


# -- a log with holes


def test_a_log_cut_in_a_hole_ends_where_a_restart_finds_its_end() -> None:
    for offset in range(1, 31):
        log = dirty_log()
        take_over(log)
        done: list[object] = []
        log.truncate_to(offset, NOW_MS, done.append)
        settle(log)
        assert done == [None]
        assert log.end_offset <= offset
        log.close()
        again = reopen(log.disk, COMPACTED, recovery_point=log.recovery_point)  # type: ignore[arg-type]
        assert again.end_offset == log.end_offset


def test_an_emptied_segment_is_passed_over_by_readers_and_taken_by_retention() -> None:
    config = LogConfig(segment_bytes=2_000, retention_ms=-1, timestamp_after_ms_max=2**62)
    log = dirty_log(config=config)
    take_over(log)
    empty = [each for each in log.closed if each.size == 0]
    assert empty, "older rounds leave nothing behind"
    assert values(log) == EXPECTED
    assert log.search_time(NOW_MS).run() is not None
    log.advance_start_offset(log.active.base_offset)
    forget_old(log)
    assert log.closed == []


def test_snapshots_inside_of_a_merged_run_go_with_it() -> None:
    config = LogConfig(
        segment_bytes=100_000, retention_ms=-1, timestamp_after_ms_max=2**62, index_bytes_max=40_000
    )
    log = dirty_log(config=config)
    assert len(log.snapshots) == 6
    take_over(log)
    assert len(log.closed) == 1
    assert log.snapshots == [log.active.base_offset]
    names = [name for name in log.disk.list(DIRECTORY) if name.endswith(".snapshot")]
    assert names == [f"{log.active.base_offset:020d}.snapshot"]


def test_a_swap_that_could_not_be_finished_leaves_the_old_segments_and_the_way_for_another() -> (
    None
):
    log = dirty_log()
    groups, segments = cleaned(log)
    ended: list[DiskFailed | None] = []
    opened = log.disk.open

    def too_many(path: str, *, create: bool = False) -> Any:
        if path.endswith(".swap"):
            raise TooManyFiles("no more")
        return opened(path, create=create)

    log.disk.open = too_many  # type: ignore[method-assign]
    old = [segments[base] for base in groups[0].old]
    swap(log, groups[0], old, lambda _paths, failure: ended.append(failure))
    settle(log)
    log.disk.open = opened  # type: ignore[method-assign]
    assert [type(each) for each in ended] == [TooManyFiles]
    assert is_current(log, old)
    assert values(log) == EXPECTED
    take_over(log)
    assert values(log) == EXPECTED
    assert not [name for name in log.disk.list(DIRECTORY) if name.endswith(".swap")]


def test_files_change_their_names_in_the_order_that_a_restart_relies_on() -> None:
    config = LogConfig(
        segment_bytes=100_000, retention_ms=-1, timestamp_after_ms_max=2**62, index_bytes_max=40_000
    )
    log = dirty_log(config=config)
    renames: list[tuple[str, str]] = []
    rename = log.disk.rename

    def noting(source: str, target: str, done: Callable[[DiskFailed | None], None]) -> None:
        renames.append((source.rpartition("/")[2], target.rpartition("/")[2]))
        rename(source, target, done)

    log.disk.rename = noting  # type: ignore[method-assign]
    take_over(log)
    becoming_swap = [source for source, target in renames if target.endswith(".swap")]
    retired = [source for source, target in renames if target.endswith(".deleted")]
    arriving = [target for source, target in renames if source.endswith(".swap")]
    assert [*becoming_swap, *retired, *arriving] == [
        target if source.endswith(".swap") else source for source, target in renames
    ]
    assert becoming_swap[-1].endswith(".log.cleaned"), "from here on a restart finishes it"
    bases = [int(name[:20]) for name in retired]
    assert len(set(bases)) == 6
    assert bases == sorted(bases), "the oldest segment first"
    assert arriving[0].endswith(".log"), "an index without its log would be dropped"
