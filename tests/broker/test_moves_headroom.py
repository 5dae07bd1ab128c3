"""Moves into a directory whose disk is nearly full: its own partitions come first."""

import logging
import random

import pytest
from moving_life import Life, names

from depth import seeds
from penstock.broker.moves import move
from penstock.errors import from_code
from penstock.log import future_log
from penstock.world import DiskFull

STORAGE_ERROR = 56
RESERVE = 1_000_000
SEEDS = seeds(40, few=4, first=0)
SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "100"}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


def begun(**settings: str) -> Life:
    life = Life(settings={"log.disk.reserve.bytes": str(RESERVE), **settings})
    life.write(20)
    return life


def leave(life: Life, root: str, free_bytes: int) -> None:
    life.bench.world.disks[root].free = free_bytes
    life.bench.settle(2_000)


def copied(life: Life, root: str) -> list[str]:
    """What of the partition's records lies there."""
    files = life.bench.world.disks[root].files()
    return [name for name in files if name.startswith("t-0") and name.endswith(".log")]


def test_what_does_not_fit_above_the_reserve_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    life = begun()
    target = life.elsewhere
    leave(life, target, RESERVE + life.partition.log.size - 1)
    with caplog.at_level(logging.WARNING):
        assert life.ask(target) == STORAGE_ERROR
    assert [each for each in caplog.messages if "log.disk.reserve.bytes" in each]
    assert names(life)[target] == []


def test_who_is_refused_for_want_of_room_is_told_of_room() -> None:
    assert "room" in from_code(STORAGE_ERROR).message


def test_what_fits_above_the_reserve_moves() -> None:
    life = begun()
    target = life.elsewhere
    leave(life, target, RESERVE + life.partition.log.size)
    assert life.ask(target) == 0
    life.arrive(target)


def test_a_move_counts_on_no_room_that_another_one_was_promised() -> None:
    life = begun(**SLOW)
    source, target = life.place, life.elsewhere
    life.bench.create_topic("u", partitions=2)
    (other,) = [
        each
        for each in life.bench.broker.replicas.by_name["u"].values()
        if each.directory.disk.root == source
    ]
    leave(life, target, RESERVE + life.partition.log.size)
    assert life.ask(target) == 0
    other.log.active.size += 10  # as if something were in it
    assert life.ask(target, "u", other.index) == STORAGE_ERROR


def test_a_move_that_meets_the_reserve_gives_its_room_back_and_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = begun(**SLOW)
    target = life.elsewhere
    leave(life, target, RESERVE + 2 * life.partition.log.size)
    life.ask(target)
    life.bench.simulation.run_until(lambda: bool(copied(life, target)))
    with caplog.at_level(logging.WARNING):
        leave(life, target, RESERVE - 1)
        life.bench.settle(60_000)
    assert copied(life, target) == []
    (progress,) = life.bench.broker.moves.progress()
    assert "room" in progress.note
    assert len([each for each in caplog.messages if "t-0" in each and "room" in each]) == 1


def test_a_log_whose_move_waits_for_room_is_retained_and_cleaned_as_ever() -> None:
    life = begun(**SLOW)
    target = life.elsewhere
    leave(life, target, RESERVE + 2 * life.partition.log.size)
    life.ask(target)
    life.bench.simulation.run_until(lambda: bool(copied(life, target)))
    assert life.bench.broker.cleaner._paused
    leave(life, target, RESERVE - 1)
    life.bench.settle(5_000)
    assert not life.partition.held
    assert life.bench.broker.cleaner._paused == {}


def test_a_move_that_waited_for_room_arrives_when_there_is_some() -> None:
    life = begun(**SLOW)
    target = life.elsewhere
    leave(life, target, RESERVE + 2 * life.partition.log.size)
    life.ask(target)
    life.bench.simulation.run_until(lambda: bool(copied(life, target)))
    leave(life, target, RESERVE - 1)
    life.write(3)
    leave(life, target, 2 * RESERVE)
    life.arrive(target)
    assert life.values() == life.acknowledged
    life.bench.settle(60_000)
    assert names(life)[target] == ["t-0"]


def test_a_move_that_waits_for_room_is_not_forgotten_over_a_stop() -> None:
    life = begun(**SLOW)
    target = life.elsewhere
    leave(life, target, RESERVE + 2 * life.partition.log.size)
    life.ask(target)
    life.bench.simulation.run_until(lambda: bool(copied(life, target)))
    leave(life, target, RESERVE - 1)
    life.restart(life.bench.stop())
    leave(life, target, 2 * RESERVE)
    life.arrive(target)
    assert life.values() == life.acknowledged


def test_a_move_that_waits_for_room_can_be_called_off() -> None:
    life = begun(**SLOW)
    source, target = life.place, life.elsewhere
    leave(life, target, RESERVE + 2 * life.partition.log.size)
    life.ask(target)
    life.bench.simulation.run_until(lambda: bool(copied(life, target)))
    leave(life, target, RESERVE - 1)
    assert life.ask(source) == 0
    life.bench.settle(5_000)
    assert names(life)[target] == []
    assert list(life.bench.broker.moves.progress()) == []


@pytest.mark.parametrize("writes", range(0, 24, 2))
def test_a_disk_that_is_full_all_at_once_holds_no_producer_up(writes: int) -> None:
    life = begun()
    target = life.elsewhere
    life.ask(target)
    life.bench.world.disks[target].fail_write(writes, full=True, within="t-0.")
    began_ms = life.bench.simulation.now_ms
    for _ in range(10):
        life.write()
        life.bench.settle(5)
    life.quiet()
    assert life.bench.simulation.now_ms - began_ms < move.ROOM_REST_MS / 2
    life.arrive(target)
    assert life.values() == life.acknowledged


def test_a_full_disk_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    life = begun()
    target = life.elsewhere
    disk = life.bench.world.disks[target]
    tries = 0
    write = disk.before_write

    def full(path: str) -> None:
        nonlocal tries
        write(path)
        if path.endswith(".log"):
            tries += 1
            raise DiskFull(path)

    monkeypatch.setattr(disk, "before_write", full)
    life.ask(target)
    life.bench.settle(60_000)
    assert 2 <= tries <= 8


def test_a_move_that_was_called_off_between_two_pieces_does_not_disturb_the_next() -> None:
    life = begun(**SLOW)
    source, target = life.place, life.elsewhere
    life.ask(target)
    life.bench.simulation.run_until(lambda: bool(copied(life, target)))
    life.bench.settle(100)  # it pauses, to keep to its rate
    life.ask(source)
    life.ask(target)
    life.bench.settle(3_000)
    assert life.bench.broker.cleaner._paused
    life.arrive(target)
    assert life.values() == life.acknowledged


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_while_room_comes_and_goes_seed(seed: int) -> None:
    dice = random.Random(seed)
    life = Life(seed, {"log.disk.reserve.bytes": str(RESERVE)})
    for _ in range(4):
        for _ in range(dice.randrange(2, 12)):
            disk = life.bench.world.disks[dice.choice(("one", "two"))]
            disk.free = dice.choice((RESERVE - 1, RESERVE + 500, RESERVE + 3_000, 2 * RESERVE))
            if dice.random() < 0.1:
                disk.fail_write(dice.randrange(8), full=True, within="t-0.")
            life.ask(dice.choice(("one", "two")))
            life.write(dice.randrange(1, 4))
            life.bench.settle(dice.choice((1, 20, 1_500)))
        if dice.random() < 0.5:
            life.die(power=dice.random() < 0.5)
        kept = [value for value in life.values() if value in set(life.acknowledged)]
        assert kept == life.acknowledged
    for root in ("one", "two"):
        leave(life, root, 2 * RESERVE)
    life.bench.settle(300_000)
    assert sorted(name for listed in names(life).values() for name in listed) == ["t-0"]
    life.write(2)
    assert life.values()[-2:] == life.acknowledged[-2:]
