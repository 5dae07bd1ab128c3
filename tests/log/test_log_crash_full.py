"""Power failures followed by starts on a disk that is full: the log is opened all the same, nothing
is believed that could not be written, and it is written when there is room.

PENSTOCK_SIM_RUNS sets how many seeds are tried; PENSTOCK_SIM_SEED sets the first.
"""

import dataclasses
from contextlib import suppress

import pytest
from log_builder import DIRECTORY, NOW_MS, SMALL, batch, produced, reopen, split, stored
from log_life import PARTITION, Run, check_derived

from depth import seeds
from penstock.log.checkpoints import RECOVERY_POINTS, read_offsets
from penstock.log.directory import DAMAGE_FILE, EPOCHS_FILE, LOG, SNAPSHOT, TIME_INDEX
from penstock.log.log import Log
from penstock.log.recovery import open_log
from penstock.testing.sim.disk import SimDisk
from penstock.world import DiskFailed, DiskFull

SEEDS = seeds(300, few=30, first=0)
Batches = list[tuple[int, int, bytes]]


def fill(disk: SimDisk, writes_left: int = 0, *, but_for: str = "") -> None:
    """So many more writes are let through, until there is room again; `but_for` is the only name
    for which there is none."""
    left = [writes_left]

    def before_write(path: str) -> None:
        left[0] -= 1
        if left[0] < 0 and path.endswith(but_for):
            raise DiskFull(f"injected: {path}")

    disk.before_write = before_write  # type: ignore[method-assign]


def make_room(disk: SimDisk) -> None:
    disk.__dict__.pop("before_write", None)


def open_on_full(disk: SimDisk, recovery_point: int) -> Log:
    log = open_log(
        disk,
        DIRECTORY,
        SMALL,
        now_ms=NOW_MS,
        clean=False,
        recovery_point=recovery_point,
        sync_follows=True,
        may_wait=True,
    )
    disk.sync_everything_now()
    return log


class FullRun(Run):
    """Every recovery meets a disk that is full, or fills up meanwhile."""

    def recover(self) -> Log:
        point = read_offsets(self.disk, RECOVERY_POINTS).offsets.get(PARTITION, 0)
        fill(self.disk, self.dice.choice((0, 0, 0, 1, 2, 4)))
        return open_on_full(self.disk, point)

    def half_close(self) -> None:
        with suppress(DiskFull):
            super().half_close()

    def recover_again(self, found: Batches) -> None:
        for _ in range(self.dice.randrange(4)):
            self.dice.choice((self.begin_round, self.finish_some, self.checkpoint))()
        if self.dice.random() < 0.3:
            self.crash()  # again, and all that is not durable is a gamble
            return
        make_room(self.disk)
        if self.dice.random() < 0.3:
            return  # it goes on, and somebody looks later
        self.log.chores.retry()
        self.disk.run_callbacks()
        self.rounds.begin(self.log)
        self.disk.run_callbacks()
        assert all(each.memory is None for each in self.log.closed)
        assert self.log.recovery_point == self.log.end_offset
        check_derived(self.log, found)
        self._check_files(found)

    def _check_files(self, found: Batches) -> None:
        """A recovery with room finds nothing to do."""
        before = self.disk.files()
        log = super().recover()
        check_derived(log, found)
        after = self.disk.files()
        if not log.closed:  # of one segment they are found in its batches
            before.pop(f"{DIRECTORY}/{EPOCHS_FILE}", None)
            after.pop(f"{DIRECTORY}/{EPOCHS_FILE}", None)
        # One that no segment begins with stays until the next start: the last that was durable.
        superfluous = [name for name in before if name not in after]
        assert all(name.endswith(SNAPSHOT) for name in superfluous)
        assert after == {name: before.get(name) for name in after}

    def checkpoint(self) -> None:
        """For such a small file there may still be room."""
        filled = self.disk.__dict__.pop("before_write", None)
        super().checkpoint()
        if filled is not None:
            self.disk.before_write = filled  # type: ignore[method-assign]

    def restart(self) -> None:
        self.log.chores.retry()
        super().restart()

    def truncate(self) -> None:
        self.log.chores.retry()
        super().truncate()


def test_a_start_on_a_full_disk_opens_the_log_and_believes_nothing_that_is_not_durable() -> None:
    for seed in SEEDS:
        run = FullRun(seed)
        try:
            for _ in range(3):
                run.live(run.dice.randrange(5, 60))
                run.crash()
            run.live(20)
            run.log.chores.retry()
            run.disk.run_callbacks()
            run.log.close()
            log = reopen(run.disk)
            assert split(stored(log)) == run.written
            check_derived(log, run.written)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def killed(segments: int = 4) -> tuple[SimDisk, Log]:
    """A log of some segments whose node was killed before it noted any of them as durable."""
    disk = SimDisk()
    log = Log.create(disk, DIRECTORY, bytes(range(16)), SMALL, NOW_MS)
    for number in range(segments):
        for _ in range(8):
            log.append(produced(batch(b"v" * 200)), number, NOW_MS)
        log.roll(NOW_MS)
    disk.kill()
    for name in disk.list(DIRECTORY):
        if not name.endswith((".log", "metadata")):
            disk.remove_now(f"{DIRECTORY}/{name}")
    return disk, log


def test_what_there_was_no_room_for_is_written_when_there_is() -> None:
    disk, before = killed()
    fill(disk)
    log = open_on_full(disk, 0)
    assert stored(log) == stored(before)
    assert log.epochs.entries() == before.epochs.entries()
    assert log.recovery.full is not None
    disk.run_callbacks()
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(("index", "snapshot"))]
    make_room(disk)
    log.chores.retry()
    disk.run_callbacks()
    plain, _ = killed()
    reopen(plain, clean=False)
    assert disk.files() == plain.files()


def test_the_recovery_point_stays_where_it_was_until_that_is_written() -> None:
    disk, _ = killed()
    fill(disk)
    log = open_on_full(disk, 5)
    log.all_is_synced()
    assert log.recovery_point == 5
    make_room(disk)
    log.chores.retry()
    disk.run_callbacks()
    assert log.recovery_point == log.end_offset


def test_without_room_for_the_epochs_alone_the_recovery_point_stays_too() -> None:
    disk, _ = killed()
    fill(disk, but_for=EPOCHS_FILE)
    log = open_on_full(disk, 5)
    assert all(each.memory is None for each in log.closed)
    assert not disk.exists(f"{DIRECTORY}/{EPOCHS_FILE}")
    log.all_is_synced()
    assert log.recovery_point == 5
    make_room(disk)
    log.chores.retry()
    disk.run_callbacks()
    assert log.recovery_point == log.end_offset
    assert disk.exists(f"{DIRECTORY}/{EPOCHS_FILE}")


def test_segments_after_one_that_there_was_no_room_for_wait_with_it() -> None:
    disk, before = killed()
    fill(disk, but_for=before.closed[1].path(TIME_INDEX))
    log = open_on_full(disk, 0)
    written = [each.memory is None for each in log.closed]
    assert written == [True] + [False] * (len(written) - 1)


def test_damage_that_could_not_be_noted_is_noted_by_a_clean_stop() -> None:
    disk, before = killed()
    disk.corrupt(before.closed[0].path(LOG), 100, b"????")
    fill(disk)
    log = open_on_full(disk, before.closed[0].end_offset - 1)
    (damaged,) = log.damaged
    make_room(disk)
    log.close()
    assert reopen(disk).damaged == [damaged]


def test_a_clean_stop_writes_the_snapshots_that_there_was_no_room_for() -> None:
    disk, before = killed()
    for name in disk.list(DIRECTORY):
        if name.endswith(SNAPSHOT):
            disk.remove_now(f"{DIRECTORY}/{name}")
    fill(disk)
    log = open_on_full(disk, 0)
    disk.run_callbacks()
    make_room(disk)
    log.close()
    found = {name for name in disk.list(DIRECTORY) if name.endswith(SNAPSHOT)}
    assert {f"{each.end_offset:020d}{SNAPSHOT}" for each in before.closed} <= found


def test_damage_that_could_not_be_noted_does_not_keep_retention_from_making_room() -> None:
    disk, before = killed()
    disk.corrupt(before.closed[0].path(LOG), 100, b"????")
    fill(disk)
    log = open_on_full(disk, before.closed[0].end_offset - 1)
    assert log.damaged
    log.config = dataclasses.replace(log.config, retention_bytes=1)
    renamed: list[object] = []
    log.delete_old_segments(NOW_MS, log.end_offset, renamed.extend)
    disk.run_callbacks()
    log.chores.retry()
    disk.run_callbacks()
    assert renamed


def test_a_sync_that_fails_for_want_of_room_is_a_failure_of_the_disk() -> None:
    """It is never tried again: the second one may succeed although the bytes are gone."""
    disk, _ = killed()

    def before_sync(path: str) -> None:
        if path.endswith(LOG):
            raise DiskFull(f"injected: {path}")

    disk.before_sync = before_sync  # type: ignore[method-assign]
    with pytest.raises(DiskFailed) as raised:
        open_on_full(disk, 0)
    assert not isinstance(raised.value, DiskFull)


def test_a_damaged_segment_gets_no_new_indexes_before_the_damage_is_noted() -> None:
    """With those nobody would look into it again."""
    disk, before = killed()
    disk.corrupt(before.closed[0].path(LOG), 100, b"????")
    fill(disk, but_for=DAMAGE_FILE)
    with pytest.raises(DiskFull):
        open_on_full(disk, before.end_offset)
    make_room(disk)
    (damaged,) = open_on_full(disk, before.end_offset).damaged
    assert damaged.offset == 0


def test_a_log_of_one_segment_owes_nothing() -> None:
    """All that was not written is found in its batches again."""
    disk = SimDisk()
    log = Log.create(disk, DIRECTORY, bytes(range(16)), SMALL, NOW_MS)
    log.append(produced(batch(b"v")), 3, NOW_MS)
    disk.kill()
    fill(disk)
    log = open_on_full(disk, 0)
    assert log.recovery.full is not None
    log.all_is_synced()
    assert log.recovery_point == 1
    disk.run_callbacks()
    assert not log.chores.stalled
