"""Several members, partitions that move, a broker that goes away, namespaces."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest
from retry_running import Bench, Happenings, bench, run, running

from penstock import Admin, Consumer, Producer
from penstock.model import TopicPartition
from penstock.retry import Names, Retrying, read_trail
from penstock.testing import Cluster
from penstock.testing.outside import ClusterLike

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200},
    "consumer": {"group.protocol": "consumer"},
}


def member(place: Bench, protocol: str, **more: Any) -> Retrying:
    return Retrying(
        PROTOCOLS[protocol], bootstrap=place.cluster.bootstrap, group=place.names.group, **more
    )


async def has_partitions(one: Retrying) -> None:
    await one.until(lambda: bool(one.partitions))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_move_between_members_without_a_record_handled_twice(
    penstock_cluster: ClusterLike, protocol: str
) -> None:
    place = bench(penstock_cluster, 4)

    async def story() -> None:
        handled = Happenings[tuple[str, str]]()
        members = {name: member(place, protocol) for name in ("first", "second")}
        for name, each in members.items():

            async def handler(record: Any, name: str = name) -> None:
                await handled.add((name, record.value))
                await asyncio.to_thread(int)

            each.add(place.topic, handler, value=str, ladder=("5s",), concurrency=4)
        wave = [(f"k{n}", f"v{n}") for n in range(600)]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(members["first"]))
            await place.send(*wave[:200])
            await handled.reach(50)
            await stack.enter_async_context(running(members["second"]))
            await has_partitions(members["second"])
            await place.send(*wave[200:])
            await handled.reach(600)
        assert Counter(value for _, value in handled) == Counter(value for _, value in wave)
        assert {name for name, _ in handled} == {"first", "second"}

    run(story())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_order_of_keys_is_kept_while_partitions_move(
    penstock_cluster: ClusterLike, protocol: str
) -> None:
    place = bench(penstock_cluster, 3)

    async def story() -> None:
        journal, settled = Happenings[tuple[int, int]](), Happenings[tuple[int, int]]()
        keys: dict[tuple[int, int], str] = {}
        violations: list[object] = []

        async def handler(record: Any) -> None:
            at = (record.partition, record.offset)
            keys[at] = record.key
            await journal.add(at)
            before = [e for e, k in keys.items() if k == record.key and e[0] == at[0] and e < at]
            violations.extend((at, each) for each in before if each not in settled)
            trail = read_trail(record.headers) if record.header("penstock-retry-topic") else None
            if record.offset % 3 == 0 and (trail is None or trail.attempts == 0):
                raise ValueError("the first attempt of every third fails")
            if at not in settled:
                await settled.add(at)

        members = [member(place, protocol) for _ in range(3)]
        for each in members:
            each.add(
                place.topic, handler, key=str, value=str, ladder=("30ms", "60ms", "90ms"),
                ordered=True, concurrency=4,
            )  # fmt: skip
        await place.send(*[(f"k{n % 12}", f"v{n}") for n in range(300)])
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(members[0]))
            await settled.reach(40)
            async with running(members[1]):
                await has_partitions(members[1])
                await settled.reach(120)
                await stack.enter_async_context(running(members[2]))
                await has_partitions(members[2])
                await settled.reach(160)
            await settled.reach(300)
        assert violations == []
        assert await place.read(place.names.dead) == []

    run(story())


def test_a_partition_rests_while_one_that_belongs_to_it_is_away(
    penstock_cluster: ClusterLike,
) -> None:
    """As it happens while members with different ladders share a group."""
    place = bench(penstock_cluster)

    async def story() -> None:
        handled = Happenings[str]()

        async def handler(record: Any) -> None:
            await handled.add(record.value)

        retrying = place.retrying()
        retrying.add(place.topic, handler, value=str, ladder=("5s",), ordered=True)
        step = [TopicPartition(place.names.retry(5_000), 0)]
        async with running(retrying):
            await place.send(("k", "one"))
            await retrying.until(lambda: retrying.counts[place.topic].succeeded == 1)
            life = retrying._life
            assert life is not None
            await life._revoked(step)
            assert retrying.partitions == []
            assert life.ownership.apart == [TopicPartition(place.topic, 0)]
            await place.send(("k", "two"), ("k", "three"))
            assert await life.consumer.paused() == [TopicPartition(place.topic, 0)]
            assert await life.consumer.poll(0.2) is None
            await life._assigned(step)
            await handled.reach(3)
        assert handled == ["one", "two", "three"]
        assert await place.lag() == 0

    run(story())


def test_a_broker_that_goes_away_for_a_while_costs_no_record() -> None:
    async def story(cluster: Cluster) -> None:
        place = Bench(cluster, Names(cluster.create_topic("orders", 2, {}), "g"))
        handled = Happenings[str]()

        async def handler(record: Any) -> None:
            await handled.add(record.value)
            if len(handled) == 70:
                await asyncio.to_thread(cluster.restart)
            if record.value.endswith("7"):
                raise ValueError("sevens fail")

        retrying = place.retrying()
        retrying.add(place.topic, handler, value=str, ladder=("20ms",))
        await place.send(*[(f"k{n}", f"v{n}") for n in range(150)])
        async with running(retrying):
            await retrying.until(lambda: retrying.counts["orders"].dead >= 15)
            letters = await place.arrive(place.names.dead, 15)
        assert {each.value for each in letters} == {f"v{n}".encode() for n in range(7, 150, 10)}
        assert len(await place.read(place.names.dead)) == 15
        assert set(handled) == {f"v{n}" for n in range(150)}

    with Cluster() as cluster:
        run(story(cluster))


def test_a_namespace_stands_before_all_its_topics(penstock_cluster: ClusterLike) -> None:
    place = bench(penstock_cluster)
    penstock_cluster.create_topic(f"dev.{place.topic}", 1, {})

    async def story() -> None:
        handled = Happenings[str]()

        async def handler(record: Any) -> None:
            await handled.add(record.topic)
            raise ValueError

        retrying = place.retrying(namespace="dev.")
        retrying.add(place.topic, handler, ladder=("10ms",))
        where = place.cluster.bootstrap
        async with Producer[Any, Any](bootstrap=where, namespace="dev.") as producer:
            await producer.send(place.topic, "v")
        async with running(retrying):
            await handled.reach(2)
            reader = Consumer(
                {"auto.offset.reset": "earliest"},
                bootstrap=where,
                namespace="dev.",
                group="reader",
                topics=[place.names.dead],
            )
            async with reader:
                async for letter in reader:
                    assert read_trail(letter.headers).topic == place.topic
                    break
        assert handled == [place.topic] * 2
        async with Admin(where) as admin:
            names = [each.name for each in await admin.list_topics()]
        assert f"dev.{place.names.dead}" in names and place.names.dead not in names

    run(story())


def test_more_partitions_of_the_source_are_met_at_the_next_start(
    penstock_cluster: ClusterLike,
) -> None:
    place = bench(penstock_cluster, 1)

    async def story() -> None:
        for count in (1, 3):
            handled = Happenings[int]()

            async def handler(record: Any, handled: Happenings[int] = handled) -> None:
                await handled.add(record.partition)

            async with Admin(place.cluster.bootstrap) as admin:
                if count > 1:
                    assert await admin.create_partitions({place.topic: count}) == {
                        place.topic: None
                    }
            retrying = place.retrying()
            retrying.add(place.topic, handler, ordered=True)
            for partition in range(count):
                await place.send(("k", "v"), partition=partition)
            async with running(retrying):
                await handled.reach(count)
            assert sorted(handled) == list(range(count))

    run(story())
