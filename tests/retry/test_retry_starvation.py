"""A record that takes long keeps back its own partition, and no other."""

import asyncio
from typing import Any

import pytest
from retry_running import Happenings, bench, run, running

from penstock.client.records import Record
from penstock.retry import starvation as starvation_module
from penstock.retry.ownership import SourcePartition
from penstock.retry.starvation import StarvationTracker
from penstock.testing.external_cluster import ClusterLike

A, B, C = (SourcePartition("orders", number) for number in range(3))


def test_who_holds_more_than_his_share_crowds() -> None:
    starvation = StarvationTracker(120)
    assert starvation.begin({A: range(31), B: range(30), C: ()}) == [A]
    assert starvation.others({A: range(31), B: range(30), C: ()}) == 30
    assert starvation.begin({A: range(31), B: range(30), C: ()}) == []


def test_who_crowds_is_let_in_when_half_of_the_share_is_left() -> None:
    starvation = StarvationTracker(120)
    starvation.begin({A: range(90), B: ()})
    starvation.end({A: range(21), B: ()})
    assert starvation.sources == {A}
    starvation.end({A: range(20), B: ()})
    assert starvation.sources == set()


def test_who_is_gone_does_not_crowd() -> None:
    starvation = StarvationTracker(120)
    starvation.begin({A: range(90), B: ()})
    assert starvation.eased({B: ()}) == [A]


def test_together_they_hold_no_more_than_twice_as_many() -> None:
    starvation = StarvationTracker(120)
    assert starvation.begin({A: range(100), B: ()}) == [A]
    assert starvation.begin({A: range(100), B: range(139)}) == [B]
    assert starvation.begin({A: range(100), B: range(139), C: range(100)}) == []


def test_other_partitions_go_on_while_a_record_takes_long(
    penstock_cluster: ClusterLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starvation_module, "STARVED_S", 0.05)
    topic_partition = bench(penstock_cluster, partitions=2)

    async def story() -> None:
        ends, seen = asyncio.Event(), Happenings[Any]()

        async def handle(record: Record[bytes, str]) -> None:
            if record.value == "slow":
                await ends.wait()
            await seen.add((record.partition, record.value))

        retrying = topic_partition.retrying(in_flight_max=20)
        # One lane per key: nothing but the offsets is in the way.
        retrying.add(topic_partition.topic, handle, value=str, concurrency=100)
        await topic_partition.send(("slow", "slow"), partition=0)
        await topic_partition.send(
            *[(f"a{number}", f"{number}") for number in range(60)], partition=0
        )
        await topic_partition.send(
            *[(f"b{number}", f"{number}") for number in range(40)], partition=1
        )
        async with running(retrying):
            await seen.until(lambda all_of_it: sum(part for part, _ in all_of_it) == 40)
            assert (0, "slow") not in seen and len(seen) < 100, "the others are not read yet"
            ends.set()
            await seen.reach(101)
        assert await topic_partition.lag() == 0

    run(story())
