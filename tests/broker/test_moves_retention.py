"""A log that moves forgets as ever what it should forget, and what moved starts where it did."""

import random
from dataclasses import replace

import pytest
from moving_life import Life, names

from depth import seeds
from penstock.broker.moves import move
from penstock.log import future_log

SLOW = {"replica.alter.log.dirs.io.max.bytes.per.second": "300"}
SEEDS = seeds(40, few=4, first=0)
SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


def delete_before(life: Life, offset: int) -> None:
    """DeleteRecords, and the segments go at once."""
    partition = life.partition
    partition.delete_before(min(offset, partition.leader.high_watermark))
    life.bench.broker.replicas.start_offsets_moved([partition.directory])
    forget(life)


def forget(life: Life) -> None:
    partition, hosting = life.partition, life.bench.broker.replicas
    directory = partition.directory

    def renamed(paths: list[str]) -> None:
        for path in paths:
            hosting.remove_later(directory, path, 50)

    partition.forget_old(life.bench.world.clock.wall_ms(), renamed)


def bases(life: Life, root: str, directory: str) -> set[int]:
    files = life.bench.world.disks[root].files()
    found = [name.rpartition("/") for name in files]
    return {
        int(name[:20])
        for where, _, name in found
        if where.startswith(directory) and name.endswith(".log")
    }


def test_a_log_that_moves_forgets_as_ever() -> None:
    life = Life(settings=SLOW)
    life.write(30)
    source, target = life.place, life.elsewhere
    life.ask(target)
    life.bench.settle(100)
    before = bases(life, source, "t-0")
    delete_before(life, 20)
    life.bench.settle(1_000)
    assert bases(life, source, "t-0") < before
    life.arrive(target)
    assert life.values() == [b"%d" % each for each in range(30)][life.partition.log.start_offset :]


def test_what_was_copied_and_is_forgotten_leaves_the_copy_too() -> None:
    life = Life(settings=SLOW)
    life.write(40)
    target = life.elsewhere
    life.ask(target)
    life.bench.simulation.run_until(lambda: len(bases(life, target, "t-0.")) > 2)
    delete_before(life, 30)
    life.arrive(target)
    first = life.partition.log.closed[0].base_offset
    files = [
        name.rpartition("/")[2]
        for name in life.bench.world.disks[target].files()
        if name.startswith("t-0/") and name.endswith(SEGMENT_FILES)
    ]
    assert min(int(name[:20]) for name in files) == first


def test_a_move_that_never_ends_does_not_fill_the_disks() -> None:
    life = Life(settings=SLOW)
    life.partition.log.config = replace(life.partition.log.config, retention_bytes=2_000)
    life.write(30)
    target = life.elsewhere
    life.ask(target)
    for _ in range(200):
        life.write(4)
        forget(life)
        life.bench.settle(200)
        assert life.partition.log.size < 4_000
        files = life.bench.world.disks[target].files().items()
        assert sum(len(data) for name, data in files if name.endswith(".log")) < 6_000
    assert life.place != target


@pytest.mark.parametrize("wait_ms", [0, 1, 2, 3, 5, 8, 20, 200])
def test_records_that_were_deleted_do_not_come_back_with_a_move(wait_ms: int) -> None:
    for seed in range(6):
        life = Life(seed)
        life.write(20)
        target = life.elsewhere
        life.partition.delete_before(3)  # in the middle of a segment
        life.bench.broker.replicas.start_offsets_moved([life.partition.directory])
        life.bench.settle(200)
        life.ask(target)
        while life.place != target:
            life.bench.simulation.step()
        life.bench.settle(wait_ms)
        life.die(power=False)
        assert (life.place, life.partition.log.start_offset) == (target, 3)
        life.die(power=True)
        assert life.partition.log.start_offset == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_that_forgets_and_moves_and_dies_keeps_what_it_should_seed(seed: int) -> None:
    dice = random.Random(seed)
    life = Life(seed, SLOW if seed % 2 else None)
    deleted = 0
    for _ in range(5):
        for _ in range(dice.randrange(2, 10)):
            life.write(dice.randrange(1, 6))
            life.ask(dice.choice(("one", "two")))
            life.bench.settle(dice.choice((1, 5, 50, 2_000)))
            if dice.random() < 0.4:
                life.quiet()
                ends = life.partition.log.end_offset
                deleted = max(deleted, dice.randrange(ends + 1))
                delete_before(life, deleted)
        if dice.random() < 0.7:
            life.die(power=dice.random() < 0.5)
        else:
            life.restart(life.bench.stop())
        assert life.partition.log.start_offset <= deleted
        found = life.values()
        assert found == sorted(found, key=int)
        kept = set(found)
        first = int(found[0]) if found else life.sent
        late = [value for value in life.acknowledged if int(value) > first]
        assert [value for value in late if value not in kept] == []
    life.bench.settle(300_000)
    assert sorted(name for listed in names(life).values() for name in listed) == ["t-0"]
    life.write(2)
    assert life.values()[-2:] == life.acknowledged[-2:]
