"""A partition moves to another log directory while it is written to, whatever happens meanwhile."""

import random

import pytest
from moving_life import Life, names
from simulated_node import FETCH, fetch, replies

from depth import seeds
from penstock.broker.moves import move
from penstock.log import future_log
from penstock.wire.batch import BASE_OFFSET, batch_headers

SEEDS = seeds(60, few=6, first=0)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of a few hundred bytes take many steps, as large ones do."""
    monkeypatch.setattr(future_log, "PIECE_BYTES", 150)
    monkeypatch.setattr(move, "HELD_BYTES_MAX", 200)


def test_a_partition_moves_with_all_it_has() -> None:
    life = Life()
    life.write(20)
    target = life.elsewhere
    assert life.ask(target) == 0
    life.arrive(target)
    assert life.values() == [b"%d" % number for number in range(20)]


def test_the_original_is_removed_when_its_time_has_come() -> None:
    life = Life()
    life.write(20)
    source, target = life.place, life.elsewhere
    life.ask(target)
    life.arrive(target)
    life.bench.settle(120_000)
    assert names(life) == {source: [], target: ["t-0"]}


def test_what_is_written_meanwhile_moves_too() -> None:
    life = Life()
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    while life.place != target:
        life.write()
    life.write(3)
    assert life.values() == life.acknowledged


def test_it_is_found_where_it_went_after_a_restart() -> None:
    life = Life()
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    life.arrive(target)
    life.restart(life.bench.stop())
    assert life.place == target
    assert life.values() == life.acknowledged


def test_a_reader_that_follows_notices_nothing() -> None:
    life = Life()
    life.write(10)
    connection, peer = life.bench.connect()
    life.ask(life.elsewhere)
    found: list[int] = []
    while len(found) < 20:
        life.write()
        request = fetch("t", [0], offset=len(found))
        life.bench.receive(connection, life.bench.frame(FETCH, request))
        life.bench.settle(2)
        (answer,) = replies(peer, [FETCH])
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == 0
        for _, header in batch_headers(memoryview(partition.records or b"")):
            if header[BASE_OFFSET] >= len(found):
                found.append(header[BASE_OFFSET])
    assert found == list(range(len(found)))


def test_a_move_that_is_under_way_is_described() -> None:
    life = Life()
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    (future,) = life.described()[target]
    assert future.is_future_key
    assert future.offset_lag > 0
    life.arrive(target)
    assert [each.is_future_key for each in life.described()[target]] == [False]


def test_asking_for_where_it_is_ends_a_move() -> None:
    life = Life()
    life.write(20)
    source, target = life.place, life.elsewhere
    life.ask(target)
    life.bench.settle(2)
    assert life.ask(source) == 0
    life.bench.settle(5_000)
    assert life.place == source
    assert names(life)[target] == []


@pytest.mark.parametrize(
    ("path", "topic", "code"),
    [("three", "t", 57), ("two", "nobody", 3), ("two", "__cluster_metadata", 17)],
)
def test_what_cannot_be_is_refused(path: str, topic: str, code: int) -> None:
    assert Life().ask(path, topic) == code


def test_a_topic_that_is_deleted_on_its_way_leaves_nothing() -> None:
    for wait_ms in range(0, 60, 3):
        life = Life(seed=wait_ms)
        life.write(20)
        life.ask(life.elsewhere)
        life.bench.settle(wait_ms)
        life.delete()
        life.bench.settle(200_000)
        assert names(life) == {"one": [], "two": []}, wait_ms


def test_a_target_that_fails_keeps_the_partition_where_it_is() -> None:
    life = Life()
    life.write(20)
    source, target = life.place, life.elsewhere
    life.ask(target)
    life.bench.world.disks[target].fail_write(2)
    life.bench.settle(1_000)
    life.write(3)
    assert life.place == source
    assert life.values() == life.acknowledged


def test_a_stop_in_the_middle_is_clean_and_the_move_goes_on_afterwards() -> None:
    life = Life()
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    life.bench.settle(4)
    life.restart(life.bench.stop())
    life.arrive(target)
    assert life.values() == life.acknowledged


def test_the_rate_is_kept() -> None:
    life = Life(settings={"replica.alter.log.dirs.io.max.bytes.per.second": "100"})
    life.write(20)
    target = life.elsewhere
    life.ask(target)
    life.bench.settle(10_000)
    assert life.place != target
    life.bench.settle(60_000)
    assert life.place == target


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whenever_it_dies_seed(seed: int) -> None:
    dice = random.Random(seed)
    life = Life(seed)
    for _ in range(4):
        life.write(dice.randrange(1, 12))
        life.ask(dice.choice(("one", "two")))
        for _ in range(dice.randrange(0, 8)):
            life.write()
            life.bench.settle(dice.choice((0.2, 1, 5)))
        if dice.random() < 0.7:
            life.die(power=dice.random() < 0.5)
        else:
            life.restart(life.bench.stop())
        found = life.values()
        kept = [value for value in found if value in set(life.acknowledged)]
        assert kept == life.acknowledged
        assert found == sorted(found, key=int)
    life.bench.settle(300_000)
    assert sorted(name for listed in names(life).values() for name in listed) == ["t-0"]
    life.write(2)
    assert life.values()[-2:] == life.acknowledged[-2:]
