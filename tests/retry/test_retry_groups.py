"""Several members, partitions that move, a broker that goes away, namespaces."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from retry_running import Bench, Happenings, bench, run, running

from penstock import Admin, Consumer, Producer
from penstock.model import TopicPartition
from penstock.retry import Names, Retrying, read_trail
from penstock.testing import Cluster
from penstock.testing.external_cluster import ClusterLike

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="module")
def brisk_cluster() -> Iterator[Cluster]:
    """A node whose members of groups hear of a rebalance quickly."""
    settings = {
        "group.consumer.min.heartbeat.interval.ms": 200,
        "group.consumer.heartbeat.interval.ms": 200,
        "group.consumer.assignment.interval.ms": 0,
    }
    with Cluster(settings) as cluster:
        yield cluster


def member(node_bench: Bench, protocol: str, **more: Any) -> Retrying:
    return Retrying(
        PROTOCOLS[protocol],
        bootstrap=node_bench.cluster.bootstrap,
        group=node_bench.names.group,
        **more,
    )


async def has_partitions(one: Retrying) -> None:
    await one.until(lambda: bool(one.partitions))


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.deep), "consumer"])
def test_partitions_move_between_members_without_a_record_handled_twice(
    brisk_cluster: Cluster, protocol: str
) -> None:
    node_bench = bench(brisk_cluster, 4)

    async def story() -> None:
        handled = Happenings[tuple[str, str]]()
        members = {name: member(node_bench, protocol) for name in ("first", "second")}
        for name, each in members.items():

            async def handler(record: Any, name: str = name) -> None:
                await handled.add((name, record.value))
                await asyncio.to_thread(int)

            each.add(node_bench.topic, handler, value=str, ladder=("5s",), concurrency=4)
        wave = [(f"k{n}", f"v{n}") for n in range(600)]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(members["first"]))
            await node_bench.send(*wave[:200])
            await handled.reach(50)
            await stack.enter_async_context(running(members["second"]))
            await has_partitions(members["second"])
            await node_bench.send(*wave[200:])
            await handled.reach(600)
        assert Counter(value for _, value in handled) == Counter(value for _, value in wave)
        assert {name for name, _ in handled} == {"first", "second"}

    run(story())


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.deep)])
def test_the_order_of_keys_is_kept_while_partitions_move(
    brisk_cluster: Cluster, protocol: str
) -> None:
    node_bench = bench(brisk_cluster, 3)

    async def story() -> None:
        journal, state_changed = Happenings[tuple[int, int]](), Happenings[tuple[int, int]]()
        keys: dict[tuple[int, int], str] = {}
        violations: list[object] = []

        async def handler(record: Any) -> None:
            at = (record.partition, record.offset)
            keys[at] = record.key
            await journal.add(at)
            before = [e for e, k in keys.items() if k == record.key and e[0] == at[0] and e < at]
            violations.extend((at, each) for each in before if each not in state_changed)
            trail = read_trail(record.headers) if record.header("penstock-retry-topic") else None
            if record.offset % 3 == 0 and (trail is None or trail.attempts == 0):
                raise ValueError("the first attempt of every third fails")
            if at not in state_changed:
                await state_changed.add(at)

        members = [member(node_bench, protocol) for _ in range(3)]
        for each in members:
            each.add(
                node_bench.topic, handler, key=str, value=str, ladder=("30ms", "60ms", "90ms"),
                ordered=True, concurrency=4,
            )  # fmt: skip
        await node_bench.send(*[(f"k{n % 12}", f"v{n}") for n in range(300)])
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(members[0]))
            await state_changed.reach(40)
            async with running(members[1]):
                await has_partitions(members[1])
                await state_changed.reach(120)
                await stack.enter_async_context(running(members[2]))
                await has_partitions(members[2])
                await state_changed.reach(160)
            await state_changed.reach(300)
        assert violations == []
        assert await node_bench.read(node_bench.names.dead) == []

    run(story())


def test_a_partition_rests_while_one_that_belongs_to_it_is_away(
    penstock_cluster: ClusterLike,
) -> None:
    """As it happens while members with different ladders share a group."""
    node_bench = bench(penstock_cluster)

    async def story() -> None:
        handled = Happenings[str]()

        async def handler(record: Any) -> None:
            await handled.add(record.value)

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, value=str, ladder=("5s",), ordered=True)
        step = [TopicPartition(node_bench.names.retry(5_000), 0)]
        async with running(retrying):
            await node_bench.send(("k", "one"))
            await retrying.until(lambda: retrying.counts[node_bench.topic].succeeded == 1)
            session = retrying._session
            assert session is not None
            await session._revoked(step)
            assert retrying.partitions == []
            assert session.ownership.separated == [TopicPartition(node_bench.topic, 0)]
            await node_bench.send(("k", "two"), ("k", "three"))
            assert await session.consumer.paused() == [TopicPartition(node_bench.topic, 0)]
            assert await session.consumer.poll(0.2) is None
            await session._assigned(step)
            await handled.reach(3)
        assert handled == ["one", "two", "three"]
        assert await node_bench.lag() == 0

    run(story())


def test_a_broker_that_goes_away_for_a_while_costs_no_record() -> None:
    async def story(cluster: Cluster) -> None:
        node_bench = Bench(cluster, Names(cluster.create_topic("orders", 2, {}), "g"))
        handled = Happenings[str]()

        async def handler(record: Any) -> None:
            await handled.add(record.value)
            if len(handled) == 70:
                await asyncio.to_thread(cluster.restart)
            if record.value.endswith("7"):
                raise ValueError("sevens fail")

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, value=str, ladder=("20ms",))
        await node_bench.send(*[(f"k{n}", f"v{n}") for n in range(150)])
        async with running(retrying):
            await retrying.until(lambda: retrying.counts["orders"].dead >= 15)
            letters = await node_bench.arrive(node_bench.names.dead, 15)
        assert {each.value for each in letters} == {f"v{n}".encode() for n in range(7, 150, 10)}
        assert len(await node_bench.read(node_bench.names.dead)) == 15
        assert set(handled) == {f"v{n}" for n in range(150)}

    with Cluster() as cluster:
        run(story(cluster))


def test_a_namespace_stands_before_all_its_topics(penstock_cluster: ClusterLike) -> None:
    node_bench = bench(penstock_cluster)
    penstock_cluster.create_topic(f"dev.{node_bench.topic}", 1, {})

    async def story() -> None:
        handled = Happenings[str]()

        async def handler(record: Any) -> None:
            await handled.add(record.topic)
            raise ValueError

        retrying = node_bench.retrying(namespace="dev.")
        retrying.add(node_bench.topic, handler, ladder=("10ms",))
        where = node_bench.cluster.bootstrap
        async with Producer[Any, Any](bootstrap=where, namespace="dev.") as producer:
            await producer.send(node_bench.topic, "v")
        async with running(retrying):
            await handled.reach(2)
            reader = Consumer(
                {"auto.offset.reset": "earliest"},
                bootstrap=where,
                namespace="dev.",
                group="reader",
                topics=[node_bench.names.dead],
            )
            async with reader:
                async for letter in reader:
                    assert read_trail(letter.headers).topic == node_bench.topic
                    break
        assert handled == [node_bench.topic] * 2
        async with Admin(bootstrap=where) as admin:
            names = [each.name for each in await admin.list_topics()]
        assert f"dev.{node_bench.names.dead}" in names and node_bench.names.dead not in names

    run(story())


def test_more_partitions_of_the_source_are_met_at_the_next_start(
    penstock_cluster: ClusterLike,
) -> None:
    node_bench = bench(penstock_cluster, 1)

    async def story() -> None:
        for count in (1, 3):
            handled = Happenings[int]()

            async def handler(record: Any, handled: Happenings[int] = handled) -> None:
                await handled.add(record.partition)

            async with Admin(bootstrap=node_bench.cluster.bootstrap) as admin:
                if count > 1:
                    assert await admin.create_partitions({node_bench.topic: count}) == {
                        node_bench.topic: None
                    }
            retrying = node_bench.retrying()
            retrying.add(node_bench.topic, handler, ordered=True)
            for partition in range(count):
                await node_bench.send(("k", "v"), partition=partition)
            async with running(retrying):
                await handled.reach(count)
            assert sorted(handled) == list(range(count))

    run(story())
