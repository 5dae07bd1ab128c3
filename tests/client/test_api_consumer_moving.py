"""Seek, rewind, pause and position: what the application sees, whatever was fetched before."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer as RdkafkaProducer
from consuming import (
    WAIT_SECONDS_MAX,
    at,
    committed,
    consumer_of,
    fill,
    filled_topic,
    fresh_group,
    numbers,
    read,
    until,
)
from producing import fresh_topic, run

from penstock.client.consumer import Consumer, PartitionWithoutOffset
from penstock.client.consumer.engine import engine
from penstock.client.failures import ClientError, NoOffset
from penstock.client.records import Record
from penstock.client.settings import SettingRefused
from penstock.model import TopicPartition
from penstock.testing.external_cluster import ClusterLike

BY_HAND = {"enable.auto.commit": False}


def offsets(records: Sequence[Record[Any, Any]]) -> list[int]:
    return [each.offset for each in records]


def test_after_a_seek_no_record_of_the_old_position_shows(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 100)

    async def consume() -> list[int]:
        seen = []
        async with consumer_of(penstock_cluster, topic) as consumer:
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == 3:
                    await consumer.seek(record, 90)
                if len(seen) == 6:
                    await consumer.seek(at(topic), 1)
                if len(seen) == 9:
                    return seen
        raise AssertionError("a loop ends when its consumer is closed")

    assert run(consume()) == [0, 1, 2, 90, 91, 92, 1, 2, 3]


def test_a_seek_counts_as_finished_up_to_there(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 50), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for record in consumer:
                await consumer.seek(record, 40)
                assert consumer.finished_offsets() == {at(topic): 40}
                break
            assert await consumer.position(at(topic)) == 40

    run(consume())
    assert committed(penstock_cluster, group, topic) == 40


def test_all_partitions_are_rewound_to_their_start_and_their_end(
    penstock_cluster: ClusterLike,
) -> None:
    topic = filled_topic(penstock_cluster, 3, 2)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            await read(consumer, 6)
            await consumer.rewind("start")
            assert len(await read(consumer, 6)) == 6
            await consumer.rewind("start")
            await consumer.rewind("end", at(topic, 0))
            assert [each.partition for each in await read(consumer, 3)] == [1, 1, 1]
            assert await consumer.lag() == {at(topic, 0): 0, at(topic, 1): 0}

    run(consume())


def test_a_rewind_to_a_moment_begins_with_the_first_record_of_it(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)
    # Of yesterday at the oldest: retention would take what is older, whenever it looks.
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=25)
    producer = RdkafkaProducer({"bootstrap.servers": penstock_cluster.bootstrap})
    for minute in range(10):
        stamp = int((begin + timedelta(minutes=minute)).timestamp() * 1000)
        producer.produce(topic, str(minute).encode(), timestamp=stamp)
    assert producer.flush(WAIT_SECONDS_MAX) == 0

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            await read(consumer, 10)
            await consumer.rewind(begin + timedelta(minutes=7))
            assert offsets(await read(consumer, 3)) == [7, 8, 9]
            moment = begin + timedelta(minutes=3, seconds=1)
            assert await consumer.offsets_for_times({at(topic): moment}) == {at(topic): 4}
            late = begin + timedelta(days=1)
            assert await consumer.offsets_for_times({at(topic): late}) == {at(topic): None}
            await consumer.rewind(late)
            assert await consumer.position(at(topic)) == 10

    run(consume())


def test_a_moment_without_a_time_zone_is_refused(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            await read(consumer, 1)
            with pytest.raises(ValueError, match="time zone"):
                await consumer.rewind(datetime(2026, 1, 1))
            with pytest.raises(ValueError, match="no position"):
                await consumer.rewind(-1)

    run(consume())


def test_what_is_not_assigned_cannot_be_moved(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            await read(consumer, 1)
            with pytest.raises(ClientError, match="not assigned"):
                await consumer.seek(at(topic, 7), 0)

    run(consume())


def test_the_position_is_what_the_application_has_seen(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 100)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            async for record in consumer:
                if record.offset == 4:
                    # All hundred are fetched; four are finished, the fifth is being worked on.
                    await until(lambda: consumer._core.shared.tracker.unread == 95)
                    assert await consumer.position(record) == 5
                    assert consumer.finished_offsets() == {at(topic): 4}
                    assert await consumer.lag() == {at(topic): 95}
                    return

    run(consume())


def test_before_the_first_record_the_position_is_asked_for(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            assert await consumer.position(at(topic)) == 0
            await until(lambda: bool(consumer.assignment))
            await consumer.commit({at(topic): 3})
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            assert await consumer.position(at(topic)) == 3
            assert await consumer.watermarks(at(topic)) == (0, 5)

    run(consume())


def test_of_a_paused_partition_nothing_shows_until_it_is_resumed(
    penstock_cluster: ClusterLike,
) -> None:
    topic = filled_topic(penstock_cluster, 20, 2)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            first = await consumer.poll(20)
            assert first is not None
            await until(lambda: consumer._core.shared.tracker.unread == 39)
            await consumer.pause(at(topic, 0))
            assert await consumer.paused() == [at(topic, 0)]
            seen = [first, *(await consumer.take(40, 0.5))]
            assert {each.partition for each in seen[1:]} == {1}
            await consumer.resume(at(topic, 0))
            seen += await consumer.take(40 - len(seen), 20)
            for partition in (0, 1):
                found = [each.offset for each in seen if each.partition == partition]
                assert found == list(range(20))

    run(consume())


def test_a_pause_keeps_the_record_in_hand(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 10), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    await consumer.pause()
                    assert consumer.finish(record)
                    break
            assert consumer.finished_offsets() == {at(topic): 3}
            assert await consumer.poll(0.1) is None
            await consumer.resume()
            assert offsets(await read(consumer, 7)) == list(range(3, 10))

    run(consume())
    assert committed(penstock_cluster, group, topic) == 10


def test_a_seek_while_it_is_paused_holds_when_it_is_resumed(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 50)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            await read(consumer, 5)
            await consumer.pause()
            await consumer.seek(at(topic), 30)
            await consumer.resume()
            assert offsets(await read(consumer, 2)) == [30, 31]

    run(consume())


def test_while_nobody_reads_polling_goes_on_and_memory_is_bounded(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)
    fill(penstock_cluster, topic, numbers(500))

    async def consume() -> None:
        settings = {"max.poll.records": 10}
        async with consumer_of(penstock_cluster, topic, settings=settings) as consumer:
            seen = await consumer.take(1, 20)
            await until(lambda: consumer._core.engine.partitions.held)
            assert consumer._core.shared.tracker.unread == 20
            seen += await read(consumer, 499)
            assert offsets(seen) == list(range(500))

    run(consume())


def test_large_records_are_not_hoarded(
    penstock_cluster: ClusterLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fresh_topic(penstock_cluster)
    fill(penstock_cluster, topic, [bytes(10_000)] * 300)
    monkeypatch.setattr(engine, "UNREAD_BYTES_MAX", 100_000)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            await consumer.take(1, 20)
            shared = consumer._core.shared
            await until(lambda: shared.unread_max == 10)
            seen = 1 + len(await consumer.take(300, 20))
            while seen < 300:
                taken = await consumer.take(300, 0.2)
                assert len(taken) <= 10
                seen += len(taken)

    run(consume())


def test_a_seek_while_everything_stands_still_is_heeded(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    fill(penstock_cluster, topic, numbers(200))

    async def consume() -> None:
        settings = {"max.poll.records": 5}
        async with consumer_of(penstock_cluster, topic, settings=settings) as consumer:
            await consumer.take(1, 20)
            await until(lambda: consumer._core.engine.partitions.held)
            await consumer.seek(at(topic), 150)
            assert offsets(await read(consumer, 50)) == list(range(150, 200))

    run(consume())


def test_a_group_without_an_offset_raises_if_it_is_told_to(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 4, 2)

    async def consume() -> None:
        settings = {"auto.offset.reset": "none"}
        async with consumer_of(penstock_cluster, topic, settings=settings) as consumer:
            missing: set[TopicPartition] = set()
            while len(missing) < 2:
                with pytest.raises(NoOffset, match=topic) as caught:
                    await consumer.poll(20)
                assert isinstance(caught.value, PartitionWithoutOffset)
                missing.add(caught.value.place)
            for place in sorted(missing):
                await consumer.seek(place, 1)
            found: list[Record[bytes, bytes]] = []
            while len(found) < 6:
                try:
                    found += await consumer.take(6 - len(found), 20)
                except NoOffset:
                    continue
            assert sorted(each.value for each in found if each.value) == [
                b"1",
                b"1",
                b"2",
                b"2",
                b"3",
                b"3",
            ]

    run(consume())


def test_a_group_without_an_offset_begins_so_long_ago(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, 2)
    producer = RdkafkaProducer({"bootstrap.servers": penstock_cluster.bootstrap})
    now = datetime.now(UTC)
    for hours in (5, 4, 2, 1, 0):
        stamp = int((now - timedelta(hours=hours)).timestamp() * 1000)
        producer.produce(topic, str(hours).encode(), partition=0, timestamp=stamp)
    assert producer.flush(WAIT_SECONDS_MAX) == 0

    async def consume() -> None:
        settings = {"auto.offset.reset": "by_duration:PT3H"}
        async with consumer_of(penstock_cluster, topic, settings=settings) as consumer:
            assert [each.value for each in await read(consumer, 3)] == [b"2", b"1", b"0"]
            await until(lambda: len(consumer.assignment) == 2)
            # Of a partition with nothing so young the end is taken.
            fill(penstock_cluster, topic, [b"new"], 1)
            assert [each.value for each in await read(consumer, 1)] == [b"new"]

    run(consume())


def test_an_offset_that_is_gone_is_reset_as_the_settings_say(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            await read(consumer, 1)
            await consumer.seek(at(topic), 1_000)
            assert offsets(await read(consumer, 3)) == [0, 1, 2]
            assert consumer.finished_offsets() == {at(topic): 3}

    run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_the_end_of_an_empty_partition_is_its_position(penstock_cluster: ClusterLike) -> None:
    topic, group = fresh_topic(penstock_cluster), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            assert await consumer.poll(0.1) is None
            await until(lambda: consumer._core.known_position(("x", 0)) is None)
            await until(lambda: consumer._core.known_position((topic, 0)) == 0)
            assert await consumer.lag() == {at(topic): 0}
            assert consumer.finished_offsets() == {}

    run(consume())
    assert committed(penstock_cluster, group, topic) is None


def test_subscriptions_can_be_changed(penstock_cluster: ClusterLike) -> None:
    first, second = filled_topic(penstock_cluster, 2), filled_topic(penstock_cluster, 3)
    group = fresh_group()

    async def consume() -> None:
        async with Consumer(
            {"auto.offset.reset": "earliest"}, bootstrap=penstock_cluster.bootstrap, group=group
        ) as consumer:
            await consumer.subscribe([first])
            assert len(await read(consumer, 2)) == 2
            await consumer.subscribe([second])
            assert [each.topic for each in await read(consumer, 3)] == [second] * 3
            with pytest.raises(ClientError, match="unsubscribe"):
                await consumer.assign({at(first): 0})
            await consumer.unsubscribe()
            assert consumer.assignment == ()
            await consumer.assign({at(first): 1})
            assert offsets(await read(consumer, 1)) == [1]
            await consumer.assign({at(second): 2})
            assert [(each.topic, each.offset) for each in await read(consumer, 1)] == [(second, 2)]

    run(consume())
    assert committed(penstock_cluster, group, first) == 2
    assert committed(penstock_cluster, group, second) == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_reads_topics_that_it_matches_wholly(
    penstock_cluster: ClusterLike, protocol: str
) -> None:
    name = fresh_topic(penstock_cluster)
    for suffix in ("-a", "-b", "-bb"):
        penstock_cluster.create_topic(name + suffix)
        fill(penstock_cluster, name + suffix, [suffix.encode()])

    async def consume() -> None:
        async with Consumer(
            {"auto.offset.reset": "earliest", "group.protocol": protocol},
            bootstrap=penstock_cluster.bootstrap,
            group=fresh_group(),
            pattern=f"{name}-[ab]",
        ) as consumer:
            found = {each.topic for each in await read(consumer, 2)}
            assert found == {f"{name}-a", f"{name}-b"}
            assert {each.topic for each in consumer.assignment} == found

    run(consume())


def test_a_pattern_passes_over_the_topics_of_the_cluster(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)

    async def consume() -> None:
        async with Consumer(
            {"auto.offset.reset": "earliest"},
            bootstrap=penstock_cluster.bootstrap,
            group=fresh_group(),
            pattern=".*",
        ) as consumer:
            await until(lambda: topic in {each.topic for each in consumer.assignment})
            assert not {each.topic for each in consumer.assignment if each.topic[:2] == "__"}
            with pytest.raises(SettingRefused, match=r"exclude\.internal\.topics"):
                await consumer.subscribe(["__consumer_offsets"])
        place = at("__consumer_offsets")
        async with Consumer(
            bootstrap=penstock_cluster.bootstrap, assign={place: "start"}
        ) as consumer:
            assert (await consumer.watermarks(place))[0] == 0

    run(consume())


def test_a_loop_that_waits_sees_a_seek_of_another_task(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 5)

    async def consume() -> None:
        seen: list[int] = []
        async with consumer_of(penstock_cluster, topic) as consumer:

            async def loop() -> None:
                async for record in consumer:
                    seen.append(record.offset)

            task = asyncio.create_task(loop())
            await until(lambda: seen == [0, 1, 2, 3, 4])
            await consumer.seek(at(topic), 3)
            await until(lambda: seen == [0, 1, 2, 3, 4, 3, 4])
            task.cancel()

    run(consume())
