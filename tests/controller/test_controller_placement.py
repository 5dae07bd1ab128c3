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


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 0, b"", (), {}, rack, fenced, False, ())


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
