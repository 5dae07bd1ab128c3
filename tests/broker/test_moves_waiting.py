"""Moves that take long: who waits for them, what outlives the node, and what is said of them."""

import logging
from collections.abc import Callable

import pytest
from moving_life import Life, names

from penstock.broker.moves import move
from penstock.log import future_log
from penstock.world import DiskFailed, Done

SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "100"}
SYNC_MS = 8_000.0


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


def slow_down(
    life: Life, root: str, monkeypatch: pytest.MonkeyPatch, *, held_only: bool = False
) -> None:
    """From now on everything that waits for this disk takes seconds; or only while producers do
    too."""
    disk, world = life.bench.world.disks[root], life.bench.world
    really = disk.later

    def later(work: Callable[[], None], done: Done) -> None:
        if held_only and not life.partition.held:
            really(work, done)
            return
        world.simulation.schedule(SYNC_MS, world, lambda: really(work, done), "slow")

    monkeypatch.setattr(disk, "later", later)


# -- the last moment


def test_producers_wait_only_so_long_for_a_target_that_is_slow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life()
    life.write(20)
    source, target = life.place, life.elsewhere
    slow_down(life, target, monkeypatch, held_only=True)
    life.ask(target)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            life.bench.simulation.run_until(lambda: life.partition.held)
            began_ms = life.bench.simulation.now_ms
            life.write()
            life.quiet()
            took_ms = life.bench.simulation.now_ms - began_ms
            assert move.HOLD_MS_MAX / 2 < took_ms < move.HOLD_MS_MAX + 100
    assert life.place == source
    assert len([each for each in caplog.messages if "producers" in each]) == 1
    monkeypatch.undo()
    life.arrive(target)
    assert life.values() == life.acknowledged


def test_producers_do_not_wait_at_all_for_a_target_that_is_slow_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = Life()
    life.write(20)
    source, target = life.place, life.elsewhere
    slow_down(life, target, monkeypatch)
    life.ask(target)
    for _ in range(500):
        life.bench.settle(1_000)
        assert not life.partition.held
    assert life.place == source
    monkeypatch.undo()
    life.arrive(target)


def test_a_partition_that_is_written_to_all_the_time_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each sync takes a while, in which more is written than producers should wait for."""
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 40)
    life = Life()
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    for _ in range(400):
        life.write()
        if life.place == target:
            break
    assert life.place == target
    assert life.values() == life.acknowledged


def test_a_move_that_rests_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life()
    life.write(20)
    target = life.elsewhere
    slow_down(life, target, monkeypatch)
    life.ask(target)

    def note() -> str:
        return next(iter(life.bench.broker.moves.progress())).note

    life.bench.simulation.run_until(lambda: "slow" in note())


def test_the_last_moment_syncs_no_whole_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life()
    life.write(20)
    target = life.elsewhere

    def never() -> None:
        raise AssertionError("all that others write there would be waited for")

    monkeypatch.setattr(life.bench.world.disks[target], "sync_everything_now", never)
    life.ask(target)
    life.arrive(target)


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_that_has_arrived_outlives_a_loss_of_power_seed(seed: int) -> None:
    life = Life(seed, {"log.durability": "page-cache"})
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    life.bench.simulation.run_until(lambda: life.place == target)
    before = life.acknowledged
    life.die(power=True)
    assert life.values() == before


# -- wishes


def test_a_move_that_waits_behind_another_is_not_forgotten_over_a_kill() -> None:
    life = Life(settings=SLOW)
    life.write(20)
    source, target = life.place, life.elsewhere
    life.bench.create_topic("u", partitions=4)
    hosted = life.bench.broker.replicas.by_name["u"]
    others = [index for index, each in hosted.items() if each.directory.disk.root == source]
    assert len(others) == 2
    life.ask(target)
    for index in others:
        assert life.ask(target, "u", index) == 0
    life.bench.settle(100)
    life.die(power=True)
    life.arrive(target)
    life.bench.settle(60_000)
    hosted = life.bench.broker.replicas.by_name["u"]
    assert [hosted[index].directory.disk.root for index in others] == [target, target]


def test_a_wish_survives_a_start_that_is_killed_too() -> None:
    life = Life(settings=SLOW)
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    for _ in range(3):
        life.bench.settle(20)
        life.die(power=False)
    life.arrive(target)
    life.bench.settle(60_000)
    assert names(life)[target] == ["t-0"]


def test_a_wish_that_was_called_off_leaves_nothing() -> None:
    life = Life(settings=SLOW)
    life.write(20)
    source, target = life.place, life.elsewhere
    life.ask(target)
    life.ask(source)
    life.bench.settle(1_000)
    assert names(life)[target] == []


# -- failures


def test_a_source_that_cannot_be_read_does_not_take_the_target_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = Life()
    life.write(20)
    source, target = life.place, life.elsewhere

    def broken(*_arguments: object, **_options: object) -> None:
        raise DiskFailed("injected")

    life.ask(target)
    monkeypatch.setattr(life.bench.world.disks[source], "open", broken)
    life.bench.settle(1_000)
    failed = {each.disk.root: each.failed for each in life.bench.broker.replicas.directories}
    assert failed[target] is None
    assert failed[source] is not None


def test_what_a_full_source_could_not_write_down_is_not_left_behind() -> None:
    life = Life()
    target = life.elsewhere
    source = life.bench.world.disks[life.place]
    life.write(3)
    source.fail_write(0, full=True, within="t-0/00000000000000000000.timeindex")
    life.write(10)
    life.bench.settle(100)
    assert life.partition.log.chores.stalled
    life.ask(target)
    life.arrive(target)
    assert life.values() == life.acknowledged
    life.die(power=True)
    assert life.values() == life.acknowledged


# -- what is said


def test_a_move_that_comes_no_closer_is_told_of_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = Life(settings=SLOW)
    life.write(30)
    target = life.elsewhere
    life.ask(target)
    with caplog.at_level(logging.WARNING):
        for _ in range(400):
            life.write(2)
            life.bench.settle(1_000)
    said = [each for each in caplog.messages if "does not come closer" in each]
    assert len(said) == 1
    assert "replica.alter.log.dirs.io.max.bytes.per.second" in said[0]
    (progress,) = life.bench.broker.moves.progress()
    assert "replica.alter.log.dirs.io.max.bytes.per.second" in progress.note


def test_a_move_that_comes_closer_is_not_told_of() -> None:
    pace = move.StallDetector(0)
    for minute in range(600):
        assert not pace.should_warn(minute * 60_000, 10_000_000 - minute)


def test_a_stuck_move_is_told_of_again_after_a_while() -> None:
    pace = move.StallDetector(0)
    told = [minute for minute in range(120) if pace.should_warn(minute * 60_000, 5 + minute % 2)]
    assert told == [5, 35, 65, 95]
