"""Opening what a kill, a failing disk or Kafka itself left behind."""

from dataclasses import replace

import pytest
from log_builder import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    append,
    batch,
    disk_of,
    ignore,
    new_log,
    reopen,
    settle,
    split,
    stored,
    sync,
)

from penstock.log.directory import (
    EPOCHS_FILE,
    INDEX,
    KEPT_SEGMENT,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    kept_segment,
    segment_file,
)
from penstock.log.log import Log
from penstock.log.missing_segments import LogCorrupted
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import ABORT_MARKER


def filled(count: int = 40, seed: int = 0) -> Log:
    """A log of several segments with producers, a transaction and an aborted one."""
    log = new_log(SimDisk(seed))
    for number in range(count):
        append(log, batch(b"v" * 100, timestamp=NOW_MS + number), epoch=number // 15)
        append(log, batch(b"i" * 50, producer=(1, 0, number)), epoch=number // 15)
    append(log, batch(b"t", producer=(2, 0, 0), transactional=True), epoch=3)
    log.append_control(
        ABORT_MARKER,
        producer_id=2,
        producer_epoch=0,
        coordinator_epoch=0,
        leader_epoch=3,
        now_ms=NOW_MS,
    )
    settle(log)
    sync(log)
    return log


def path(base: int, suffix: str) -> str:
    return segment_file(DIRECTORY, base, suffix)


def unsettle(log: Log, first: int = 0) -> None:
    """As if the power went before the closed segments from `first` on were known to be durable."""
    for segment in log.closed:
        if segment.base_offset >= first:
            disk_of(log).remove_now(path(segment.base_offset, INDEX))


def same(log: Log, before: Log) -> None:
    assert stored(log) == stored(before)
    assert log.epochs.entries() == before.epochs.entries()
    assert log.aborted_transactions(0, log.end_offset) == [(2, 80)]
    assert set(log.producers.states) == {1, 2}
    for timestamp in (NOW_MS, NOW_MS + 17, NOW_MS + 39):
        assert log.search_time(timestamp).run() == before.search_time(timestamp).run()


def test_a_clean_stop_needs_no_recovery() -> None:
    log = filled()
    log.close()
    again = reopen(disk_of(log))
    assert again.recovery.scanned_bytes == 0
    assert again.recovery.complaints == []
    same(again, log)
    assert again.synced_offset == again.end_offset


def test_padded_active_indexes_and_empty_checkpoints_of_a_kill_are_fine() -> None:
    log = filled()
    disk = disk_of(log)
    base = log.active.base_offset
    disk.put(path(base, INDEX), bytes(10 * 1024 * 1024))
    disk.put(path(base, TIME_INDEX), bytes(10_485_756))
    disk.put(f"{DIRECTORY}/{EPOCHS_FILE}", b"")
    again = reopen(disk, clean=False, recovery_point=0)
    same(again, log)
    assert any(EPOCHS_FILE in complaint for complaint in again.recovery.complaints)


def test_padded_indexes_after_a_clean_stop_are_read_up_to_the_padding() -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    base = log.active.base_offset
    for suffix, size in ((INDEX, 8_000), (TIME_INDEX, 12_000)):
        disk.put(path(base, suffix), disk.files()[path(base, suffix)].ljust(size, b"\0"))
    again = reopen(disk)
    assert again.recovery.scanned_bytes == 0
    same(again, log)


@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("damage", ["missing", "garbage", "cut", "zeros"])
@pytest.mark.parametrize("place", [0, 2, -1])
def test_a_damaged_index_is_rebuilt(suffix: str, damage: str, place: int) -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    bases = [*(segment.base_offset for segment in log.closed), log.active.base_offset]
    target = path(bases[place], suffix)
    good = disk.files()
    match damage:
        case "missing":
            disk.remove_now(target)
        case "garbage":
            disk.put(target, b"\x7f" * len(good[target]))
        case "cut":
            disk.put(target, good[target][:-3])
        case "zeros":
            disk.put(target, bytes(len(good[target])))
    again = reopen(disk, clean=False, recovery_point=log.end_offset)
    same(again, log)
    settle(again)
    again.close()
    rebuilt = disk_of(again).files()
    for base in bases:
        for each in (LOG, INDEX, TIME_INDEX):
            assert rebuilt[path(base, each)] == good[path(base, each)]


def test_a_missing_index_is_rebuilt_even_after_a_clean_stop() -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    good = disk.files()
    for base in (0, log.active.base_offset):
        disk.remove_now(path(base, INDEX))
    again = reopen(disk)
    assert again.recovery.segments_rebuilt == 2
    same(again, log)
    assert disk.files()[path(0, INDEX)] == good[path(0, INDEX)]


def test_a_lost_transaction_index_comes_back_with_its_offset_index() -> None:
    log = filled()
    for _ in range(20):
        append(log, batch(b"z" * 200), epoch=3)
    settle(log)
    log.close()
    disk = disk_of(log)
    names = [name for name in disk.files() if name.endswith(TXN_INDEX)]
    assert len(names) == 1
    disk.remove_now(names[0])
    disk.remove_now(names[0].replace(TXN_INDEX, INDEX))
    same(reopen(disk, clean=False, recovery_point=log.end_offset), log)


def test_the_log_ends_at_the_first_bad_batch_above_the_recovery_point() -> None:
    log = filled()
    disk = disk_of(log)
    batches = split(stored(log))
    bad = batches[len(batches) // 2]
    segment = max(base for base in log._bases if base <= bad[0])
    data = disk.files()[path(segment, LOG)]
    disk.corrupt(path(segment, LOG), data.index(bad[2]) + 70, b"!")
    unsettle(log, segment)
    again = reopen(disk, clean=False, recovery_point=0)
    assert split(stored(again)) == [each for each in batches if each[1] <= bad[0]]
    assert again.end_offset == bad[0]
    later = [base for base in (*log._bases, log.active.base_offset) if base > segment]
    assert len(later) > 1
    assert again.recovery.kept_segments == [
        f"{disk.root}/{DIRECTORY}/{kept_segment(base, 0)}" for base in later
    ]
    assert again.recovery.truncated_bytes == sum(
        len(each[2]) for each in batches if bad[0] <= each[0] < later[0]
    )
    assert again.aborted_transactions(0, 1_000) == []
    assert set(again.producers.states) == {1}
    assert again.epochs.entries()[-1][1] < bad[0]
    assert append(again, batch(b"new"), epoch=9) == [bad[0]]


def test_a_bad_checksum_below_the_recovery_point_is_reported_and_kept() -> None:
    log = filled()
    disk = disk_of(log)
    batches = split(stored(log))
    bad = next(each for each in batches if each[0] >= log.active.base_offset)
    data = disk.files()[log.active.file.path]
    position = data.index(bad[2])
    disk.corrupt(log.active.file.path, position + 70, b"!")
    again = reopen(disk, clean=False, recovery_point=log.end_offset)
    assert again.recovery.corrupt == [(bad[0], position, again.active.base_offset)]
    assert again.recovery.truncated_bytes == 0
    assert again.end_offset == log.end_offset


def test_damage_in_a_segment_that_was_closed_is_told_and_nothing_is_cut() -> None:
    """Killed before any checkpoint was written: the closed segments show that they were synced."""
    log = filled()
    disk = disk_of(log)
    batches = split(stored(log))
    bad = batches[len(batches) // 2]
    segment = max(base for base in log._bases if base <= bad[0])
    position = disk.files()[path(segment, LOG)].index(bad[2])
    disk.corrupt(path(segment, LOG), position + 70, b"!")
    sizes = {name: len(data) for name, data in disk.files().items() if name.endswith(LOG)}
    again = reopen(disk, clean=False, recovery_point=0)
    assert again.recovery.corrupt == [(bad[0], position, segment)]
    assert (again.recovery.segments_removed, again.recovery.truncated_bytes) == (0, 0)
    assert again.end_offset == log.end_offset
    assert again.synced_offset == log.active.base_offset
    assert {name: len(data) for name, data in disk.files().items() if name in sizes} == sizes


def test_a_closed_segment_without_a_batch_in_its_middle_stops_the_opening() -> None:
    log = filled()
    disk = disk_of(log)
    disk.corrupt(path(0, LOG), 600, bytes(300))
    before = disk.files()
    with pytest.raises(LogCorrupted, match=r"00000000000000000000\.log"):
        reopen(disk, clean=False, recovery_point=0)
    assert disk.files() == before


def test_a_segment_is_synced_before_its_snapshot_and_index_are_written() -> None:
    log = new_log()
    append(log, batch(b"x" * 500))
    log.roll(NOW_MS)
    disk_of(log).fail_sync(0)
    settle(log)
    assert log.failure is not None
    names = disk_of(log).files()
    assert path(0, INDEX) not in names
    assert path(1, SNAPSHOT) not in names


def test_the_index_of_a_clean_stop_does_not_make_later_batches_durable() -> None:
    log = new_log()
    append(log, batch(b"synced"))
    settle(log)
    log.close()
    disk = disk_of(log)
    disk.sync_everything_now()
    log = reopen(disk)
    append(log, batch(b"lost"))
    log.roll(NOW_MS)
    append(log, batch(b"lost too"))
    assert path(0, INDEX) in disk.files()
    disk.corrupt(path(0, LOG), len(disk.files()[path(0, LOG)]) - 2, b"!")
    again = reopen(disk, clean=False, recovery_point=1)
    assert again.end_offset == 1
    assert again.recovery.corrupt == []


def test_an_abort_between_a_clean_stop_and_a_roll_is_found_again() -> None:
    log = new_log()
    append(log, batch(b"t", producer=(2, 0, 0), transactional=True))
    settle(log)
    log.close()
    disk = disk_of(log)
    disk.sync_everything_now()
    log = reopen(disk)
    log.append_control(
        ABORT_MARKER,
        producer_id=2,
        producer_epoch=0,
        coordinator_epoch=0,
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    sync(log)
    point = log.recovery_point
    log.roll(NOW_MS)  # and killed before the transaction index was written
    assert point == log.active.base_offset
    again = reopen(disk, clean=False, recovery_point=point)
    assert again.aborted_transactions(0, again.end_offset) == [(2, 0)]


def test_a_log_that_ends_at_a_snapshot_is_synced_when_it_is_recovered() -> None:
    """Killed in the middle of a clean stop: rolled at once, its files would prove too much."""
    for seed in range(30):
        log = new_log(SimDisk(seed))
        append(log, batch(b"x" * 500))
        log.close()
        disk = disk_of(log)
        disk.kill()
        again = reopen(disk, clean=False)
        data = disk.files()[path(0, LOG)]
        assert again.end_offset == 1
        assert disk.crash().files()[path(0, LOG)] == data


def test_the_index_from_before_a_truncation_does_not_make_later_batches_durable() -> None:
    log = new_log()
    append(log, batch(b"kept"), batch(b"cut off"))
    log.roll(NOW_MS)
    append(log, batch(b"cut off"))
    settle(log)
    log.truncate_to(1, NOW_MS, ignore)
    settle(log)
    append(log, batch(b"new"))
    log.roll(NOW_MS)  # where the old segment ended, and before it is synced
    disk = disk_of(log)
    assert path(0, INDEX) in disk.files()
    disk.corrupt(path(0, LOG), len(disk.files()[path(0, LOG)]) - 2, b"!")
    assert reopen(disk, clean=False, recovery_point=1).end_offset == 1


def test_a_durable_log_that_breaks_off_stops_the_opening_unless_salvaged() -> None:
    log = filled()
    disk = disk_of(log)
    size = len(disk.files()[log.active.file.path])
    disk.corrupt(log.active.file.path, 0, bytes(size))
    with pytest.raises(LogCorrupted):
        reopen(disk, clean=False, recovery_point=log.end_offset)
    again = reopen(disk, clean=False, recovery_point=log.end_offset, salvage=True)
    assert again.end_offset == log.active.base_offset
    assert again.recovery.truncated_bytes == size


def test_segments_after_a_lost_tail_are_dropped() -> None:
    log = filled()
    disk = disk_of(log)
    batches = split(stored(log))
    first = [each for each in batches if each[1] <= log._bases[1]]
    disk.put(path(0, LOG), b"".join(each[2] for each in first[:-2]))
    unsettle(log)
    again = reopen(disk, clean=False, recovery_point=0)
    assert split(stored(again)) == first[:-2]
    assert again.closed == []


def with_a_hole() -> tuple[Log, SimDisk, dict[str, bytes], list[int]]:
    """A log, its disk without the second segment, its former files, and the later segments."""
    log = filled()
    disk = disk_of(log)
    unsettle(log)
    before = disk.files()
    missing, *later = [*log._bases[1:], log.active.base_offset]
    for suffix in SEGMENT_SUFFIXES:
        disk.remove_now(path(missing, suffix))
    assert len(later) > 1
    return log, disk, before, later


def test_whole_segments_behind_a_hole_are_kept_outside_of_the_log() -> None:
    log, disk, before, later = with_a_hole()
    hole = log._bases[1]
    for _ in range(2):  # the next start passes them over
        again = reopen(disk, clean=False)
        assert (again.end_offset, again.closed) == (hole, [])
        for base in later:
            kept = f"{DIRECTORY}/{kept_segment(base, 0)}"
            assert disk.crash().files()[kept] == disk.files()[kept] == before[path(base, LOG)]
    assert again.recovery.kept_segments == []
    for number in range(60):
        append(again, batch(b"new %d" % number + b"v" * 100))
    settle(again)
    assert len(again.closed) > 1


def test_a_log_is_whole_again_with_its_missing_and_its_kept_segments() -> None:
    log, disk, before, later = with_a_hole()
    reopen(disk, clean=False)
    for base in later:
        disk.rename_now(f"{DIRECTORY}/{kept_segment(base, 0)}", path(base, LOG))
    missing = path(log._bases[1], LOG)
    disk.put(missing, before[missing])
    again = reopen(disk, clean=False)
    assert stored(again) == stored(log)


def test_a_kept_segment_never_replaces_an_earlier_one() -> None:
    _, disk, before, later = with_a_hole()
    disk.put(f"{DIRECTORY}/{kept_segment(later[0], 0)}", b"earlier")
    reopen(disk, clean=False)
    assert disk.files()[f"{DIRECTORY}/{kept_segment(later[0], 0)}"] == b"earlier"
    second = f"{DIRECTORY}/{kept_segment(later[0], 1)}"
    assert disk.files()[second] == before[path(later[0], LOG)]


def test_segments_behind_a_hole_without_a_whole_batch_are_removed() -> None:
    _, disk, _, later = with_a_hole()
    for base in later:
        disk.put(path(base, LOG), bytes(900))
    again = reopen(disk, clean=False)
    assert again.recovery.segments_removed == len(later)
    assert not [name for name in disk.files() if KEPT_SEGMENT in name]


def test_bytes_appended_to_a_closed_segment_cost_no_later_one() -> None:
    log = filled()
    disk = disk_of(log)
    unsettle(log)
    disk.extend(path(0, LOG), b"foreign" * 70)
    again = reopen(disk, clean=False)
    assert stored(again) == stored(log)
    (complaint,) = again.recovery.complaints
    assert complaint.startswith(f"{path(0, LOG)} had 490 bytes behind its last batch")


def test_bytes_appended_to_a_segment_that_was_closed_durably_stop_the_opening() -> None:
    log = filled()
    disk = disk_of(log)
    last = log.closed[-1]
    disk.extend(path(last.base_offset, LOG), b"foreign" * 70)
    before = disk.files()
    with pytest.raises(LogCorrupted, match=f"Cut it to {last.size} bytes"):
        reopen(disk, clean=False, recovery_point=last.base_offset)
    assert disk.files() == before


def test_a_broken_snapshot_is_passed_over() -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    disk.put(path(log.end_offset, SNAPSHOT), b"half a snap")
    again = reopen(disk)
    same(again, log)
    assert any(SNAPSHOT in complaint for complaint in again.recovery.complaints)


def test_without_any_snapshot_producers_come_from_the_batches() -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    for name in disk.files():
        if name.endswith(SNAPSHOT):
            disk.remove_now(name)
    same(reopen(disk), log)


def test_snapshots_stay_with_their_segments_and_strays_go() -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    disk.put(path(3, SNAPSHOT), log.producers.to_snapshot())
    disk.put(path(10_000, SNAPSHOT), log.producers.to_snapshot())
    again = reopen(disk)
    names = [name for name in disk.files() if name.endswith(SNAPSHOT)]
    kept = [*(segment.base_offset for segment in again.closed[1:]), again.active.base_offset]
    assert names == [path(offset, SNAPSHOT) for offset in (*kept, again.end_offset)]


def test_leftovers_of_deletion_and_compaction_are_cleared() -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    files = disk.files()
    for name in ("00000000000000000000.log.deleted", "00000000000000000003.log.cleaned"):
        disk.put(f"{DIRECTORY}/{name}", b"x")
    disk.put(f"{DIRECTORY}/00000000000000000777.timeindex", b"orphan")
    same(reopen(disk), log)
    assert disk.files() == files


def test_a_compaction_that_was_about_to_swap_is_finished() -> None:
    log = filled()
    log.close()
    disk = disk_of(log)
    batches = split(stored(log))
    end = log._bases[2]
    compacted = [each for each in batches if each[1] <= end][::2]
    disk.put(path(0, LOG) + ".swap", b"".join(each[2] for each in compacted))
    again = reopen(disk, replace(SMALL, compact=True))
    expected = compacted + [each for each in batches if each[0] >= end]
    assert split(stored(again)) == expected


def test_a_start_offset_after_the_end_begins_an_empty_log() -> None:
    log = filled()
    log.close()
    again = reopen(disk_of(log), start_offset=5_000)
    assert (again.start_offset, again.end_offset, again.closed) == (5_000, 5_000, [])


def test_records_below_a_start_that_they_never_reached_are_kept_aside() -> None:
    log = filled()
    log.close()
    disk, end_offset = disk_of(log), log.end_offset
    before = {path: data for path, data in disk.files().items() if path.endswith(".log")}
    again = reopen(disk, start_offset=5_000)
    assert again.recovery.ended_at == end_offset
    aside = again.recovery.set_aside.removeprefix(f"{disk.root}/")
    assert aside.endswith("-stray")
    found = {path: data for path, data in disk.files().items() if path.startswith(aside)}
    for path, data in before.items():
        assert found[f"{aside}/{path.rpartition('/')[2]}"] == data
    third = reopen(disk, start_offset=5_000)
    assert (third.start_offset, third.recovery.set_aside) == (5_000, "")


def test_a_log_without_records_has_nothing_to_keep() -> None:
    again = reopen(disk_of(new_log(SimDisk())), clean=False, start_offset=5_000)
    assert (again.start_offset, again.recovery.set_aside) == (5_000, "")
    assert append(again, batch(b"x")) == [5_000]


def test_an_empty_directory_becomes_an_empty_log() -> None:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    log = reopen(disk, clean=False)
    assert (log.start_offset, log.end_offset) == (0, 0)


@pytest.mark.parametrize("offsets", [{"start_offset": 7}, {"recovery_point": 7}], ids=str)
@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_directory_with_records_in_its_checkpoints_is_refused(
    offsets: dict[str, int], clean: bool
) -> None:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    with pytest.raises(LogCorrupted, match="holds no segment any more, and offsets below 7"):
        reopen(disk, clean=clean, **offsets)  # type: ignore[arg-type]
    log = reopen(disk, clean=clean, salvage=True, **offsets)  # type: ignore[arg-type]
    assert log.start_offset == log.end_offset == offsets.get("start_offset", 0)
    assert log.recovery_point <= log.end_offset


def test_the_recovery_point_waits_for_the_indexes_of_closed_segments() -> None:
    log = new_log()
    append(log, batch(b"x" * 500))
    log.roll(NOW_MS)
    append(log, batch(b"y"))
    files, offset = log.begin_sync()
    for file in files:
        file.sync_now()
    log.synced_to(offset)
    assert (log.synced_offset, log.recovery_point) == (2, 0)
    settle(log)
    assert log.recovery_point == 2


def test_damage_in_what_was_durable_is_told_while_the_indexes_of_its_segment_wait() -> None:
    log = new_log()
    for _ in range(5):
        append(log, batch(b"x" * 100))
    sync(log)
    log.roll(NOW_MS)
    assert log.recovery_point == 4
    disk = disk_of(log)
    disk.kill()
    disk.remove_now(path(0, INDEX))
    disk.corrupt(path(0, LOG), 100, b"????")
    again = reopen(disk, clean=False, recovery_point=4)
    assert again.end_offset == 5
    assert [each.offset for each in again.damaged] == [0]


def test_a_sync_round_begun_before_a_truncation_counts_only_up_to_it() -> None:
    log = new_log()
    append(log, batch(b"a"), batch(b"b"), batch(b"c"))
    _, offset = log.begin_sync()
    log.truncate_to(1, NOW_MS, ignore)
    settle(log)
    append(log, batch(b"d"), batch(b"e"))
    log.synced_to(offset)
    assert log.synced_offset == 1


def test_a_log_opened_on_cold_files_answers_after_warming() -> None:
    log = filled()
    log.close()
    cold = SimDisk(3, cold=True)
    for name, data in disk_of(log).files().items():
        cold.put(name, data)
    again = reopen(cold, SMALL)
    assert stored(again, max_bytes=700) == stored(log)


def test_what_recovery_cut_off_never_comes_back() -> None:
    log = filled()
    end = len(disk_of(log).files()[log.active.file.path])
    for seed in range(30):
        disk = SimDisk(seed)
        for name, data in disk_of(log).files().items():
            disk.put(name, data)
        disk.corrupt(log.active.file.path, end // 2, b"!!!!")
        again = reopen(disk, clean=False)
        assert again.active.size < end
        after = disk.crash().files()[log.active.file.path]
        assert len(after) == again.active.size


def test_a_segment_that_reaches_into_the_next_one_is_cut_before_it() -> None:
    log = filled()
    disk = disk_of(log)
    batches = split(stored(log))
    second = log._bases[1]
    data = disk.files()[path(0, LOG)]
    into = next(each for each in batches if each[0] == second)
    disk.put(path(0, LOG), data + into[2])
    unsettle(log)
    again = reopen(disk, clean=False)
    assert split(stored(again)) == batches


# -- a start that went back


def deleted_up_to(log: Log, offset: int) -> SimDisk:
    """DeleteRecords, and a kill before the directory's checkpoint told of it."""
    log.advance_start_offset(offset)
    settle(log)
    return disk_of(log)


def test_the_epochs_of_records_that_come_back_are_learned_from_them() -> None:
    log = filled()
    before = log.epochs.entries()
    assert len(before) == 4
    disk = deleted_up_to(log, log.end_offset)
    again = reopen(disk, clean=False, recovery_point=0)
    assert again.start_offset == 0
    assert again.epochs.entries() == before


def test_epochs_of_segments_that_are_not_scanned_are_learned_from_their_first_batches() -> None:
    log = filled()
    disk = deleted_up_to(log, log.end_offset)
    again = reopen(disk, clean=False, recovery_point=log.end_offset)
    assert again.recovery.segments_rebuilt == 1
    bases = [segment.base_offset for segment in again.closed]
    assert [again.epochs.at(base) for base in bases] == [base // 30 for base in bases]
    assert again.epochs.latest == 3


def test_they_are_learned_where_nothing_is_left_to_scan() -> None:
    log = new_log()
    append(log, batch(b"a"), batch(b"b"))
    log.roll(NOW_MS)
    settle(log)
    sync(log)
    disk = deleted_up_to(log, 2)
    again = reopen(disk, clean=False, recovery_point=2)
    assert (again.start_offset, again.end_offset) == (0, 2)
    assert again.epochs.entries() == [(0, 0)]
    assert disk.files()[f"{DIRECTORY}/{EPOCHS_FILE}"] == b"0\n1\n0 0\n"


def test_where_the_start_is_where_it_was_nothing_before_it_is_looked_at() -> None:
    log = filled()
    offset = log.closed[1].base_offset + 1
    disk = deleted_up_to(log, offset)
    again = reopen(disk, clean=False, recovery_point=log.end_offset, start_offset=offset)
    assert again.epochs.entries() == log.epochs.entries()
