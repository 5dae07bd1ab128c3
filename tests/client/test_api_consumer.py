"""The asyncio Consumer against a node: what is read, what counts as finished, what is committed."""

import asyncio

import pytest
from consuming import (
    at,
    committed,
    consumer_of,
    fill,
    filled_topic,
    fresh_group,
    moment,
    numbers,
    read,
    until,
)
from producing import fresh_topic, run

from penstock.client.consumer import Consumer, Position
from penstock.client.failures import ClientClosed, ClientError, TimedOut, is_retriable
from penstock.client.records import Record
from penstock.client.settings import SettingRefused
from penstock.model import TopicPartition
from penstock.testing.external_cluster import ClusterLike

BY_HAND = {"enable.auto.commit": False}
AT_ONCE = {"auto.commit.interval.ms": 0}


def test_records_come_in_order_with_all_they_have(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 3)

    async def consume() -> list[Record[bytes, bytes]]:
        async with consumer_of(penstock_cluster, topic) as consumer:
            return await read(consumer, 3)

    first, second, third = run(consume())
    assert [first.value, second.value, third.value] == [b"0", b"1", b"2"]
    assert (first.topic, first.partition, first.offset, first.key) == (topic, 0, 0, None)
    assert first.headers == () and first.timestamp_ms is not None
    assert first.value == b"0", "its message is still there after its headers were read"


def test_a_close_commits_what_bodies_have_finished(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 10), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for record in consumer:
                if record.offset == 4:
                    break

    run(consume())
    # Of record 4 the body was left before its end.
    assert committed(penstock_cluster, group, topic) == 4


def test_nothing_is_committed_if_the_first_body_raises(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for record in consumer:
                raise LookupError(record.offset)

    with pytest.raises(LookupError):
        run(consume())
    assert committed(penstock_cluster, group, topic) is None


def test_a_body_that_raises_leaves_its_record_uncommitted(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    raise LookupError

    with pytest.raises(LookupError):
        run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_a_cancelled_body_leaves_its_record_uncommitted(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        reached = asyncio.Event()

        async def loop(consumer: Consumer[bytes, bytes]) -> None:
            async for record in consumer:
                if record.offset == 3:
                    reached.set()
                    await asyncio.Event().wait()

        async with consumer_of(penstock_cluster, topic, group) as consumer:
            task = asyncio.create_task(loop(consumer))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_who_is_cancelled_while_he_waits_has_finished_the_last_record(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 2), fresh_group()

    async def consume() -> None:
        seen = []

        async def loop(consumer: Consumer[bytes, bytes]) -> None:
            async for record in consumer:
                seen.append(record.offset)

        async with consumer_of(penstock_cluster, topic, group) as consumer:
            task = asyncio.create_task(loop(consumer))
            await until(lambda: consumer.finished_offsets() == {at(topic): 2})
            task.cancel()

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_a_record_whose_body_was_left_comes_again(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 4)

    async def consume() -> list[int]:
        seen = []
        async with consumer_of(penstock_cluster, topic) as consumer:
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == 1:
                    break
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == 3:
                    return seen
        raise AssertionError("a loop ends when its consumer is closed")

    assert run(consume()) == [0, 1, 1, 2, 3]


def test_a_record_that_is_finished_by_name_does_not_come_again(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> list[int]:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            first = await read(consumer, 2)
            rest = await read(consumer, 1)
            return [each.offset for each in first + rest]

    assert run(consume()) == [0, 1, 2]
    assert committed(penstock_cluster, group, topic) == 3


def test_finished_records_are_committed_by_the_clock(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=AT_ONCE) as consumer:
            async for record in consumer:
                if record.offset == 3:
                    await until(lambda: committed(penstock_cluster, group, topic) == 3)
                    # Prefetched records are there and do not count.
                    assert consumer.finished_offsets() == {at(topic): 3}
                    break

    run(consume())


def test_without_automatic_commits_a_close_commits_nothing(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            await read(consumer, 3)

    run(consume())
    assert committed(penstock_cluster, group, topic) is None


def test_a_commit_of_another_task_takes_what_is_finished(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    assert await asyncio.create_task(consumer.commit()) == {at(topic): 2}
                    assert await consumer.committed() == {at(topic): 2}
                    break

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_with_nothing_finished_a_commit_does_nothing(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 1), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            async for _ in consumer:
                assert await asyncio.create_task(consumer.commit()) == {}
                break

    run(consume())
    assert committed(penstock_cluster, group, topic) is None


def test_a_record_and_offsets_can_be_committed_by_name(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            async for record in consumer:
                assert await consumer.commit(record) == {at(topic): 1}
                assert committed(penstock_cluster, group, topic) == 1
                await consumer.commit({at(topic): 4})
                break

    run(consume())
    assert committed(penstock_cluster, group, topic) == 4


def test_an_automatic_commit_does_not_take_back_one_by_hand(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for record in consumer:
                if record.offset == 1:
                    await consumer.commit({at(topic): 4})
                    break

    run(consume())
    assert committed(penstock_cluster, group, topic) == 4


def test_batches_hold_at_most_so_many_and_come_when_they_are_full(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 25), fresh_group()

    async def consume() -> list[int]:
        sizes = []
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for batch in consumer.batches(max=10, timeout_s=0.2):
                sizes.append(len(batch))
                assert [each.offset for each in batch] == list(
                    range(10 * (len(sizes) - 1), 10 * (len(sizes) - 1) + len(batch))
                )
                if len(sizes) == 3:
                    return sizes
        raise AssertionError("a loop ends when its consumer is closed")

    assert run(consume()) == [10, 10, 5]
    assert committed(penstock_cluster, group, topic) == 20


def test_a_batch_is_a_sequence_of_its_records(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 4)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            async for batch in consumer.batches(max=4, timeout_s=5):
                assert batch[0] == batch.records[0] and batch[-1].offset == 3
                assert batch.values() == [b"0", b"1", b"2", b"3"]
                assert [each.offset for each in batch[1:3]] == [1, 2]
                assert batch[2] in batch and len(batch) == 4
                return

    run(consume())


@pytest.mark.parametrize("value", [None, "bytes"])
def test_a_batch_stays_valid_after_the_loop_has_gone_on(
    penstock_cluster: ClusterLike, value: str | None
) -> None:
    topic = filled_topic(penstock_cluster, 4)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, fresh_group(), value=value) as consumer:
            loop = consumer.batches(max=2, timeout_s=10)
            first = await anext(loop)
            records = iter(first)
            assert next(records).offset == 0
            await anext(loop)
            assert [each.offset for each in records] == [1]
            assert first.values() == [b"0", b"1"] and first[1].value == b"1"
            assert [each.headers for each in first.records] == [(), ()]

    run(consume())


def test_a_batch_is_committed_by_itself(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 6, 2), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            async for batch in consumer.batches(max=12, timeout_s=10):
                assert await batch.commit() == {at(topic, 0): 6, at(topic, 1): 6}
                break

    run(consume())
    assert [committed(penstock_cluster, group, topic, each) for each in (0, 1)] == [6, 6]


def test_a_batch_whose_body_raises_is_not_committed(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 9), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for batch in consumer.batches(max=3, timeout_s=10):
                if batch[0].offset == 3:
                    raise LookupError

    with pytest.raises(LookupError):
        run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_of_a_batch_records_can_be_finished_by_name(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 4), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            async for batch in consumer.batches(max=4, timeout_s=10):
                assert consumer.finish(batch[0]) and consumer.finish(batch[1])
                assert not consumer.finish(batch[1])
                break
            again = await consumer.take(4, 1)
            assert [each.offset for each in again] == [2, 3]

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_poll_gives_one_record_and_finishes_the_one_before(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 2), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            first = await consumer.poll(20)
            assert first is not None and first.offset == 0
            assert consumer.finished_offsets() == {}
            second = await consumer.poll(20)
            assert second is not None and second.offset == 1
            assert consumer.finished_offsets() == {at(topic): 1}
            assert await consumer.poll(0.05) is None
            assert consumer.finished_offsets() == {at(topic): 2}

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_take_gives_what_comes_in_time(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 5)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            assert len(await consumer.take(3, 20)) == 3
            assert [each.offset for each in await consumer.take(10, 0.3)] == [3, 4]
            assert await consumer.take(10, 0.05) == []

    run(consume())


def test_with_manual_finish_records_finish_in_any_order(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, manual_finish=True) as consumer:
            taken = await consumer.take(5, 20)
            assert consumer.finish(taken[2]) and consumer.finish(taken[4])
            assert consumer.finished_offsets() == {}
            assert consumer.finish(taken[0])
            assert consumer.finished_offsets() == {at(topic): 1}
            assert consumer.finish(taken[1])
            assert consumer.finished_offsets() == {at(topic): 3}
            assert await consumer.take(5, 0.05) == []
            assert consumer.finished_offsets() == {at(topic): 3}

    run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_with_manual_finish_bodies_finish_nothing(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, manual_finish=True) as consumer:
            seen = []
            async for record in consumer:
                seen.append(record)
                if len(seen) == 3:
                    break
            assert consumer.finished_offsets() == {}
            consumer.finish(seen[0])

    run(consume())
    assert committed(penstock_cluster, group, topic) == 1


def test_several_loops_share_one_consumer(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 40), fresh_group()

    async def consume() -> None:
        seen: list[int] = []

        async def loop(consumer: Consumer[bytes, bytes]) -> None:
            async for record in consumer:
                seen.append(record.offset)
                await moment()

        async with consumer_of(penstock_cluster, topic, group) as consumer:
            tasks = [asyncio.create_task(loop(consumer)) for _ in range(4)]
            await until(lambda: consumer.finished_offsets() == {at(topic): 40})
            for task in tasks:
                task.cancel()
        assert sorted(seen) == list(range(40))

    run(consume())
    assert committed(penstock_cluster, group, topic) == 40


def test_a_loop_ends_when_its_consumer_is_closed(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            seen = asyncio.Event()

            async def loop() -> None:
                async for _ in consumer:
                    seen.set()

            task = asyncio.create_task(loop())
            await seen.wait()
            await consumer.close()
            await task
            with pytest.raises(ClientClosed):
                await consumer.poll(1)
            with pytest.raises(ClientClosed):
                await consumer.commit()

    run(consume())


def test_others_run_while_records_are_at_hand(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    fill(penstock_cluster, topic, numbers(20_000))

    async def consume() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await moment()

        async with consumer_of(penstock_cluster, topic) as consumer:
            await consumer.take(1, 20)
            task = asyncio.create_task(count())
            await read(consumer, 15_000)
            task.cancel()
        return turns

    assert run(consume()) > 3


def test_a_consumer_without_a_group_reads_what_it_names_and_never_commits(
    penstock_cluster: ClusterLike,
) -> None:
    topic = filled_topic(penstock_cluster, 5, 2)

    async def consume() -> None:
        places: dict[TopicPartition, Position | None] = {at(topic, 0): 3, at(topic, 1): "end"}
        async with Consumer(bootstrap=penstock_cluster.bootstrap, assign=places) as consumer:
            assert set(consumer.assignment) == set(places)
            assert [each.value for each in await read(consumer, 2)] == [b"3", b"4"]
            fill(penstock_cluster, topic, [b"new"], 1)
            (record,) = await read(consumer, 1)
            assert (record.partition, record.value) == (1, b"new")
            with pytest.raises(ClientError, match="no group"):
                await consumer.commit()
            assert consumer.finished_offsets() == {at(topic, 0): 5, at(topic, 1): 6}

    run(consume())


def test_partitions_without_a_start_begin_where_the_settings_say(
    penstock_cluster: ClusterLike,
) -> None:
    topic = filled_topic(penstock_cluster, 2)

    async def consume() -> None:
        async with Consumer(
            {"auto.offset.reset": "earliest"},
            bootstrap=penstock_cluster.bootstrap,
            assign={at(topic): None},
        ) as consumer:
            assert len(await read(consumer, 2)) == 2

    run(consume())


def test_named_partitions_of_a_group_begin_where_it_is_and_are_committed(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 6), fresh_group()

    async def consume(count: int) -> list[int]:
        async with Consumer(
            {"auto.offset.reset": "earliest"},
            bootstrap=penstock_cluster.bootstrap,
            group=group,
            assign={at(topic): None},
        ) as consumer:
            return [each.offset for each in await read(consumer, count)]

    assert run(consume(2)) == [0, 1]
    assert committed(penstock_cluster, group, topic) == 2
    assert run(consume(3)) == [2, 3, 4]
    assert committed(penstock_cluster, group, topic) == 5


def test_to_subscribe_takes_a_group() -> None:
    with pytest.raises(SettingRefused, match=r"group\.id"):
        Consumer(bootstrap="127.0.0.1:1", topics=["orders"])


def test_only_one_of_topics_pattern_and_partitions_can_be_said() -> None:
    with pytest.raises(ValueError, match="one of"):
        Consumer(bootstrap="127.0.0.1:1", group="g", topics=["orders"], pattern="o.*")


def test_one_topic_as_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"topics=\['orders'\]"):
        Consumer(bootstrap="127.0.0.1:1", group="g", topics="orders")


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(TypeError, match="manual_finish"):
        Consumer(bootstrap="127.0.0.1:1", grup="g")  # type: ignore[call-overload]


def test_every_call_has_a_limit() -> None:
    async def consume() -> None:
        consumer = Consumer(bootstrap="127.0.0.1:1", group="g", topics=["orders"])
        try:
            with pytest.raises(TimedOut, match=r"0\.1 s"):
                await consumer.commit({at("orders"): 1}, timeout_s=0.1)
            with pytest.raises(ClientError) as caught:
                await consumer.committed(at("orders"), timeout_s=0.1)
            assert is_retriable(caught.value)
            with pytest.raises(ClientError) as caught:
                await consumer.watermarks(at("orders"), timeout_s=0.1)
            assert is_retriable(caught.value)
        finally:
            await consumer.close(timeout_s=1)

    run(consume())
