"""Replica placement."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.image import BrokerImage
from penstock.controller.placement import assign_replicas
from penstock.controller.seeded_random import SeededRandom
from penstock.errors import InvalidReplicationFactor
from penstock.model import id_to_text


def broker(
    broker_id: int, rack: str | None = None, fenced: bool = False, stopping: bool = False
) -> BrokerImage:
    return BrokerImage(broker_id, 0, b"", (), {}, rack, fenced, stopping, ())


@given(
    st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(1, 60),
    st.integers(0, 2**32),
    st.integers(0, 2**12 - 1),
)
def test_replicas_differ_and_the_leader_is_up(
    racks: list[str | None], factor: int, partitions: int, seed: int, fenced_bits: int
) -> None:
    brokers = [
        broker(index, rack, fenced=bool(fenced_bits >> index & 1))
        for index, rack in enumerate(racks)
    ]
    up = {each.broker_id for each in brokers if not each.fenced}
    chance = SeededRandom(seed.to_bytes(8, "big"))
    if not up or factor > len(brokers):
        with pytest.raises(InvalidReplicationFactor):
            assign_replicas(brokers, partitions, factor, chance)
        return
    placed = assign_replicas(brokers, partitions, factor, chance)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in up


@given(st.integers(1, 10), st.integers(0, 2**32))
def test_leaders_and_replicas_are_spread_evenly(count: int, seed: int) -> None:
    factor = min(3, count)
    brokers = [broker(index) for index in range(count)]
    placed = assign_replicas(brokers, count * 10, factor, SeededRandom(seed.to_bytes(8, "big")))
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {10}


@given(st.integers(0, 2**32))
def test_each_replica_is_in_another_rack_while_there_are_racks(seed: int) -> None:
    brokers = [broker(index, "abc"[index % 3]) for index in range(9)]
    for replicas in assign_replicas(brokers, 40, 3, SeededRandom(seed.to_bytes(8, "big"))):
        assert len({brokers[each].rack for each in replicas}) == 3


@given(
    st.integers(1, 5), st.integers(1, 6), st.integers(1, 5), st.integers(1, 8), st.integers(0, 99)
)
def test_racks_of_one_size_lead_and_hold_the_same(
    racks: int, size: int, factor: int, rounds: int, seed: int
) -> None:
    count = racks * size
    factor = min(factor, racks)
    brokers = [broker(index, str(index % racks)) for index in range(count)]
    placed = assign_replicas(brokers, count * rounds, factor, SeededRandom(bytes([seed])))
    leaders = Counter(replicas[0] for replicas in placed)
    held = Counter(each for replicas in placed for each in replicas)
    assert max(leaders.values()) - min(leaders[each] for each in range(count)) <= 1
    assert max(held.values()) - min(held[each] for each in range(count)) <= factor
    assert all(len({each % racks for each in replicas}) == factor for replicas in placed)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(2, 5), st.integers(0, 99))
def test_replicas_go_to_as_many_racks_as_there_are(
    sizes: list[int], factor: int, seed: int
) -> None:
    rack_of = [str(rack) for rack, size in enumerate(sizes) for _ in range(size)]
    factor = min(factor, len(rack_of))
    brokers = [broker(index, rack) for index, rack in enumerate(rack_of)]
    for replicas in assign_replicas(brokers, 30, factor, SeededRandom(bytes([seed]))):
        assert len({rack_of[each] for each in replicas}) == min(factor, len(sizes))


def test_a_fenced_broker_gets_replicas_only_where_no_other_is_left() -> None:
    brokers = [broker(0), broker(1), broker(2, fenced=True)]
    chance = SeededRandom(b"x")
    assert all(2 not in replicas for replicas in assign_replicas(brokers, 20, 2, chance))
    assert all(2 in replicas[1:] for replicas in assign_replicas(brokers, 20, 3, chance))


def test_a_broker_in_controlled_shutdown_does_not_count() -> None:
    brokers = [broker(0), broker(1), broker(2, stopping=True)]
    with pytest.raises(InvalidReplicationFactor) as raised:
        assign_replicas(brokers, 1, 3, SeededRandom(b"x"))
    assert (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
        "reached because only 2 broker(s) are registered." in str(raised.value)
    )


def test_the_start_varies() -> None:
    brokers = [broker(index) for index in range(5)]
    starts = {
        assign_replicas(brokers, 1, 1, SeededRandom(bytes([seed])))[0][0] for seed in range(50)
    }
    assert starts == set(range(5))


def test_the_same_seed_places_the_same() -> None:
    brokers = [broker(index) for index in range(5)]
    first, second = (assign_replicas(brokers, 20, 3, SeededRandom(b"x")) for _ in range(2))
    assert first == second


@given(st.binary(min_size=16, max_size=16))
def test_ids_are_version_4_and_easy_to_type(seed: bytes) -> None:
    value = SeededRandom(seed).uuid()
    assert value[6] >> 4 == 4
    assert not id_to_text(value).startswith("-")
