"""Partitions come and go: what bodies are told, what is committed before, what others read then."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as RdkafkaConsumer
from consuming import (
    LOOK_SECONDS,
    at,
    committed,
    consumer_of,
    fill,
    filled_topic,
    fresh_group,
    members,
    moment,
    read,
    until,
)
from producing import run

from penstock.client.consumer import Consumer
from penstock.client.failures import HandlerTimedOut, PartitionsRevoked, is_fatal
from penstock.client.records import Record
from penstock.errors import FencedInstanceId
from penstock.model import TopicPartition
from penstock.testing import Cluster

PROTOCOLS = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
# Members hear of a rebalance at the next heartbeat. A process that stands still for some seconds
# keeps its membership.
SOON = {"heartbeat.interval.ms": 100, "session.timeout.ms": 30_000}
Places = Collection[TopicPartition]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Members are told of a rebalance quickly, and may have short sessions."""
    settings = {
        "group.min.session.timeout.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 100,
    }
    with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture(params=list(PROTOCOLS))
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The ways of a group to divide partitions."""
    chosen: dict[str, Any] = PROTOCOLS[request.param]
    return chosen if "group.protocol" in chosen else {**chosen, **SOON}


class Told:
    """What callbacks were told, as sets of partition numbers."""

    def __init__(self) -> None:
        self.assigned: set[int] = set()
        self.revoked: list[int] = []
        self.lost: list[int] = []

    def on_assigned(self, places: Places) -> None:
        self.assigned |= {each.partition for each in places}

    def on_revoked(self, places: Places) -> None:
        self.revoked += [each.partition for each in places]
        self.assigned -= {each.partition for each in places}

    def on_lost(self, places: Places) -> None:
        self.lost += [each.partition for each in places]
        self.assigned -= {each.partition for each in places}


async def loop(consumer: Consumer[Any, Any], into: list[Record[Any, Any]]) -> None:
    async for record in consumer:
        into.append(record)


def test_two_members_divide_the_partitions_and_read_everything_once(
    cluster: Cluster, protocol: dict[str, Any]
) -> None:
    topic, group = filled_topic(cluster, 5, 4), fresh_group()

    async def consume() -> None:
        one, two = Told(), Told()
        seen: list[Record[Any, Any]] = []
        options = {"settings": protocol}
        async with consumer_of(
            cluster, topic, group, on_assigned=one.on_assigned, on_revoked=one.on_revoked, **options
        ) as first:
            tasks = [asyncio.create_task(loop(first, seen))]
            await until(lambda: len(seen) == 20)
            assert one.assigned == {0, 1, 2, 3} and one.revoked == []
            async with consumer_of(
                cluster,
                topic,
                group,
                on_assigned=two.on_assigned,
                on_revoked=two.on_revoked,
                **options,
            ) as second:
                tasks.append(asyncio.create_task(loop(second, seen)))
                await until(lambda: len(one.assigned) == len(two.assigned) == 2)
                assert one.assigned | two.assigned == {0, 1, 2, 3}
                assert {each.partition for each in first.assignment} == one.assigned
                for partition in range(4):
                    fill(cluster, topic, [b"new"], partition)
                await until(lambda: len(seen) == 24)
            await until(lambda: one.assigned == {0, 1, 2, 3})
        for task in tasks:
            await task
        places = [(each.partition, each.offset) for each in seen]
        assert len(places) == len(set(places)), "nothing was read twice"

    run(consume())
    assert [committed(cluster, group, topic, each) for each in range(4)] == [6] * 4


@pytest.mark.each_value
@pytest.mark.parametrize("seed", [1, 2])
def test_members_that_come_and_go_read_everything_once(
    cluster: Cluster, protocol: dict[str, Any], seed: int
) -> None:
    topic, group = filled_topic(cluster, 150, 6), fresh_group()
    chance = random.Random(seed)
    done: list[tuple[int, int]] = []

    async def member(turns: int) -> None:
        """Reads for a while, and leaves in order; bodies take their time."""
        async with consumer_of(
            cluster, topic, group, settings={**protocol, "max.poll.records": 7}
        ) as consumer:
            async for record in consumer:
                if chance.random() < 0.05:
                    await moment()
                done.append((record.partition, record.offset))
                consumer.finish(record)
                turns -= 1
                if turns == 0:
                    return

    async def consume() -> None:
        everything = {(p, o) for p in range(6) for o in range(150)}
        last = asyncio.create_task(member(10_000))
        others: set[asyncio.Task[None]] = set()
        left = 6
        while len(set(done)) < len(everything):
            if left and len(others) < 2:
                left -= 1
                others.add(asyncio.create_task(member(chance.randint(1, 60))))
            others = {each for each in others if not each.done()}
            await moment(LOOK_SECONDS)
        for task in (last, *others):
            task.cancel()
        await asyncio.gather(last, *others, return_exceptions=True)
        assert set(done) == everything
        assert len(done) == len(everything), "nothing was read twice"

    run(consume())
    assert [committed(cluster, group, topic, each) for each in range(6)] == [150] * 6


def test_a_revocation_waits_for_the_body_and_commits_its_record(
    cluster: Cluster, protocol: dict[str, Any]
) -> None:
    topic, group = filled_topic(cluster, 3, 2), fresh_group()

    async def consume() -> None:
        release, working = asyncio.Event(), asyncio.Event()
        finished: list[tuple[int, int]] = []
        others: list[Record[Any, Any]] = []

        async def slow(consumer: Consumer[Any, Any]) -> None:
            async for record in consumer:
                working.set()
                await release.wait()
                finished.append((record.partition, record.offset))

        async with consumer_of(cluster, topic, group, settings=protocol) as first:
            task = asyncio.create_task(slow(first))
            await working.wait()
            async with consumer_of(cluster, topic, group, settings=protocol) as second:
                other = asyncio.create_task(loop(second, others))
                # The revocation has begun: what is unread of a leaving partition is dropped.
                tracker = first._core.shared.tracker
                await until(lambda: tracker.unread < 5)
                release.set()
                await until(lambda: len(finished) + len(others) >= 6)
                other.cancel()
            task.cancel()
        seen = finished + [(each.partition, each.offset) for each in others]
        assert sorted(seen) == [(p, o) for p in range(2) for o in range(3)]

    run(consume())


def test_a_body_that_outlasts_the_revocation_is_cancelled_and_not_committed(
    cluster: Cluster, protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = filled_topic(cluster, 1, 2), fresh_group()
    settings = {**protocol, "revoke.timeout.ms": 200}

    async def consume() -> None:
        working = asyncio.Event()
        others: list[Record[Any, Any]] = []

        async def slow() -> None:
            async with consumer_of(cluster, topic, group, settings=settings) as consumer:
                async for batch in consumer.batches(max=2, timeout_s=20):
                    assert len(batch) == 2
                    working.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(slow())
        await working.wait()
        async with consumer_of(cluster, topic, group, settings=settings) as second:
            other = asyncio.create_task(loop(second, others))
            with pytest.raises(PartitionsRevoked, match=f"{topic}-[01]") as caught:
                await task
            assert "is not committed" in str(caught.value)
            assert task.cancelling() == 0
            # Neither record was committed, so the other member gets both.
            await until(lambda: len(others) == 2)
            other.cancel()

    with caplog.at_level(logging.WARNING):
        run(consume())
    assert "went to another member" in caplog.text


def test_callbacks_may_be_coroutines_and_use_the_consumer(
    cluster: Cluster, protocol: dict[str, Any]
) -> None:
    topic, group = filled_topic(cluster, 10), fresh_group()

    async def consume() -> None:
        consumer: Consumer[Any, Any]
        told: list[object] = []

        async def assigned(places: Places) -> None:
            (place,) = places
            await consumer.seek(place, 6)
            told.append(await consumer.position(place))

        async def revoked(_: Places) -> None:
            told.append(await consumer.commit())

        settings = {**protocol, "enable.auto.commit": False}
        consumer = consumer_of(
            cluster, topic, group, settings=settings, on_assigned=assigned, on_revoked=revoked
        )
        async with consumer:
            assert [each.offset for each in await read(consumer, 2)] == [6, 7]
        assert told == [6, {at(topic): 8}]

    run(consume())
    assert committed(cluster, group, topic) == 8


def test_what_a_callback_raises_is_raised_by_the_next_step(cluster: Cluster) -> None:
    topic = filled_topic(cluster, 1)

    async def consume() -> None:
        def assigned(places: Places) -> None:
            raise LookupError(places)

        async with consumer_of(cluster, topic, on_assigned=assigned) as consumer:
            with pytest.raises(LookupError):
                await consumer.poll(20)
            assert await consumer.poll(20) is not None

    run(consume())


def test_with_manual_finish_the_callback_comes_before_the_commit(
    cluster: Cluster, protocol: dict[str, Any]
) -> None:
    topic, group = filled_topic(cluster, 5), fresh_group()

    async def consume() -> None:
        consumer: Consumer[Any, Any]
        taken: list[Record[Any, Any]] = []

        async def revoked(places: Places) -> None:
            assert list(places) == [at(topic)]
            for record in taken[:3]:
                assert consumer.finish(record)

        consumer = consumer_of(
            cluster, topic, group, settings=protocol, on_revoked=revoked, manual_finish=True
        )
        async with consumer:
            taken += await consumer.take(5, 20)

    run(consume())
    assert committed(cluster, group, topic) == 3


def test_a_record_of_a_partition_that_went_does_not_count_any_more(
    cluster: Cluster, protocol: dict[str, Any]
) -> None:
    topic, group = filled_topic(cluster, 2, 2), fresh_group()

    async def consume() -> None:
        told = Told()
        async with consumer_of(
            cluster,
            topic,
            group,
            settings=protocol,
            manual_finish=True,
            on_assigned=told.on_assigned,
            on_revoked=told.on_revoked,
        ) as first:
            taken = await first.take(4, 20)
            async with consumer_of(cluster, topic, group, settings=protocol) as second:
                others: list[Record[Any, Any]] = []
                tasks = [
                    asyncio.create_task(loop(first, taken)),
                    asyncio.create_task(loop(second, others)),
                ]
                await until(lambda: len(others) == 2 and len(first.assignment) == 1)
                (mine,) = first.assignment
                before = [each for each in taken[:4] if each.partition != mine.partition]
                assert not any(first.finish(each) for each in before)
                for task in tasks:
                    task.cancel()

    run(consume())


def test_a_body_beyond_its_time_is_cancelled(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 4), fresh_group()
    settings = {"handler.timeout.ms": 150}

    async def consume() -> None:
        async with consumer_of(cluster, topic, group, settings=settings) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    await asyncio.Event().wait()

    with pytest.raises(HandlerTimedOut, match="offset 2") as caught:
        run(consume())
    assert "handler.timeout.ms" in str(caught.value)
    assert committed(cluster, group, topic) == 2


def test_a_body_that_ends_though_it_was_cancelled_is_told_at_its_next_step(
    cluster: Cluster,
) -> None:
    topic, group = filled_topic(cluster, 2), fresh_group()
    settings = {"handler.timeout.ms": 100}

    async def consume() -> None:
        seen: list[int] = []
        async with consumer_of(cluster, topic, group, settings=settings) as consumer:

            async def stubborn() -> None:
                async for record in consumer:
                    seen.append(record.offset)
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()

            with pytest.raises(HandlerTimedOut):
                await stubborn()
            task = asyncio.current_task()
            assert task is not None and task.cancelling() == 0
            assert consumer.finished_offsets() == {}
            assert [each.offset for each in await read(consumer, 2)] == [0, 1]
        assert seen == [0]

    run(consume())
    assert committed(cluster, group, topic) == 2


def test_a_cancellation_by_others_stays_one(cluster: Cluster) -> None:
    topic = filled_topic(cluster, 1)

    async def consume() -> None:
        working = asyncio.Event()

        async def slow() -> None:
            async with consumer_of(cluster, topic) as consumer:
                async for _ in consumer:
                    working.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(slow())
        await working.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(consume())


def test_who_waits_in_another_task_is_told_by_the_with_block(cluster: Cluster) -> None:
    topic = filled_topic(cluster, 1)
    settings = {"handler.timeout.ms": 100}

    async def consume() -> None:
        async def slow(consumer: Consumer[Any, Any]) -> None:
            async for _ in consumer:
                await asyncio.Event().wait()

        async with consumer_of(cluster, topic, settings=settings) as consumer:
            task = asyncio.create_task(slow(consumer))
            await asyncio.wait([task])
            assert task.cancelled()

    with pytest.raises(HandlerTimedOut):
        run(consume())


def test_a_long_body_keeps_its_membership(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 30), fresh_group()
    settings = {
        "max.poll.interval.ms": 1000,
        "session.timeout.ms": 1000,
        "heartbeat.interval.ms": 100,
        "max.poll.records": 2,
    }
    # Another client with the same settings does not poll: when its group has put it out, the time
    # of a poll interval has passed for ours, too.
    idle = fresh_group()
    bare = RdkafkaConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": idle,
            **{name: value for name, value in settings.items() if name != "max.poll.records"},
        }
    )
    bare.subscribe([topic])

    async def consume() -> None:
        told = Told()
        async with consumer_of(
            cluster, topic, group, settings=settings, on_lost=told.on_lost
        ) as consumer:
            async for record in consumer:
                if record.offset == 1:
                    await until(lambda: bare.poll(0.05) is not None or bool(bare.assignment()))
                    await until(lambda: members(cluster, idle) == 1)
                    await until(lambda: members(cluster, idle) == 0)
                    assert members(cluster, group) == 1
                if record.offset == 29:
                    break
            assert told.lost == []

    try:
        run(consume())
    finally:
        bare.close()
    assert committed(cluster, group, topic) == 29


def test_partitions_that_are_lost_are_not_committed_and_the_body_is_cancelled() -> None:
    async def consume(cluster: Cluster) -> None:
        topic, group, told = filled_topic(cluster, 3), fresh_group(), Told()
        working = asyncio.Event()

        async def slow() -> None:
            async with consumer_of(
                cluster,
                topic,
                group,
                settings=SOON,
                on_lost=told.on_lost,
                on_revoked=told.on_revoked,
            ) as consumer:
                async for record in consumer:
                    if record.offset == 1:
                        working.set()
                        await asyncio.Event().wait()

        task = asyncio.create_task(slow())
        await working.wait()
        await asyncio.to_thread(lambda: cluster.advance(minutes=10))
        with pytest.raises(PartitionsRevoked):
            await task
        assert told.lost == [0]

    with Cluster() as cluster:
        run(consume(cluster))


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    cluster: Cluster,
) -> None:
    topic, group = filled_topic(cluster, 4, 2), fresh_group()

    async def consume() -> None:
        other = Told()
        mine = {**SOON, "group.instance.id": "one"}
        theirs = {**SOON, "group.instance.id": "two"}
        async with consumer_of(
            cluster,
            topic,
            group,
            settings=theirs,
            on_assigned=other.on_assigned,
            on_revoked=other.on_revoked,
        ) as second:
            seen: list[Record[Any, Any]] = []
            task = asyncio.create_task(loop(second, seen))
            async with consumer_of(cluster, topic, group, settings=mine) as first:
                await until(lambda: len(other.assigned) == 1)
                await until(lambda: len(first.assignment) == 1)
                before = first.assignment
            revocations = len(other.revoked)
            async with consumer_of(cluster, topic, group, settings=mine) as first:
                await until(lambda: first.assignment == before)
            assert len(other.revoked) == revocations
            task.cancel()

    run(consume())


def test_a_fenced_static_member_is_told_by_its_iterator(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 1), fresh_group()
    settings = {**SOON, "group.instance.id": "same"}

    async def consume() -> None:
        told = Told()
        async with consumer_of(
            cluster, topic, group, settings=settings, on_lost=told.on_lost
        ) as first:
            await read(first, 1)
            async with consumer_of(cluster, topic, group, settings=settings) as second:
                await until(lambda: bool(second.assignment))
                with pytest.raises(FencedInstanceId) as caught:
                    await first.poll(20)
                assert is_fatal(caught.value)
                with pytest.raises(FencedInstanceId):
                    await first.poll(20)
        assert told.lost == [0]

    run(consume())
