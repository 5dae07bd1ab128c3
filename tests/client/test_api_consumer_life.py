"""A consumer's beginning and end, and what happens when brokers do not play along."""

import asyncio
import gc
import logging
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from consuming import (
    at,
    committed,
    consumer_of,
    fill,
    filled_topic,
    fresh_group,
    read,
    until,
)
from producing import dead_address, fresh_topic, run

from penstock.client.consumer import Consumer
from penstock.client.failures import ClientClosed, ClientError, TimedOut
from penstock.errors import (
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    KafkaError,
    RebalanceInProgress,
    TopicAuthorizationFailed,
)
from penstock.testing import Cluster, Delay, Fail, Silence
from penstock.testing.external_cluster import ClusterLike

# A close that was to take half a second must not take much more, however busy the machine is.
SLACK_S = 4.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One that a test may break."""
    with Cluster() as cluster:
        yield cluster


async def timed_close(consumer: Consumer[Any, Any], timeout_s: float) -> float:
    begin = time.monotonic()
    await consumer.close(timeout_s)
    return time.monotonic() - begin


def test_a_close_does_not_wait_for_a_broker_that_was_never_there() -> None:
    async def consume() -> None:
        consumer = Consumer(bootstrap=dead_address(), group="g", topics=["orders"])
        assert await consumer.poll(0.2) is None
        assert await timed_close(consumer, 0.5) < SLACK_S

    run(consume())


def test_a_close_does_not_wait_for_a_broker_that_died(cluster: Cluster) -> None:
    topic = filled_topic(cluster, 5)

    async def consume() -> None:
        consumer = consumer_of(cluster, topic)
        await read(consumer, 3)
        cluster.kill()
        assert await timed_close(consumer, 0.5) < SLACK_S

    run(consume())


def test_a_close_does_not_wait_for_a_silent_coordinator(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 5), fresh_group()

    async def consume() -> None:
        consumer = consumer_of(cluster, topic, group)
        await read(consumer, 3)
        with (
            cluster.intercept("OffsetCommit", Silence()),
            cluster.intercept("LeaveGroup", Silence()),
        ):
            assert await timed_close(consumer, 0.5) < SLACK_S

    run(consume())


def test_a_close_waits_for_a_body_and_then_cancels_it(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        working = asyncio.Event()

        async def slow() -> None:
            async for record in consumer:
                if record.offset == 2:
                    working.set()
                    await asyncio.Event().wait()

        consumer = consumer_of(penstock_cluster, topic, group)
        task = asyncio.create_task(slow())
        await working.wait()
        assert await timed_close(consumer, 1.5) < 1.5 + SLACK_S
        await asyncio.wait([task])
        assert task.cancelled()

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_a_close_lets_a_body_end_that_ends_in_time(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        working, closing = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            async for record in consumer:
                if record.offset == 2:
                    working.set()
                    await closing.wait()

        consumer = consumer_of(penstock_cluster, topic, group)
        task = asyncio.create_task(slow())
        await working.wait()
        close = asyncio.create_task(consumer.close())
        await until(lambda: consumer._core.shared.stopping)
        closing.set()
        await close
        await task

    run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_a_body_may_close_its_consumer(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 5), fresh_group()

    async def consume() -> None:
        consumer = consumer_of(penstock_cluster, topic, group)
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            if record.offset == 1:
                assert await timed_close(consumer, 20) < SLACK_S
        assert seen == [0, 1]

    run(consume())
    assert committed(penstock_cluster, group, topic) == 1


def test_a_close_can_be_repeated(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)

    async def consume() -> None:
        consumer = consumer_of(penstock_cluster, topic)
        await read(consumer, 1)
        await asyncio.gather(consumer.close(), consumer.close())
        await consumer.close()
        with pytest.raises(ClientClosed):
            await anext(aiter(consumer))

    run(consume())


def test_a_consumer_that_was_never_used_closes_too() -> None:
    async def consume() -> None:
        await Consumer(bootstrap=dead_address(), group="g", topics=["orders"]).close()

    run(consume())


def test_a_consumer_that_nobody_closes_warns_and_ends(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        consumer = consumer_of(penstock_cluster, topic, group)
        await read(consumer, 2)
        ended = consumer._core.engine.ended
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del consumer
            gc.collect()
        assert [each.category for each in caught] == [ResourceWarning]
        assert "never closed" in str(caught[0].message)
        await until(ended.done)

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_a_consumer_of_another_process_is_refused(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 3)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic) as consumer:
            await read(consumer, 1)
            # A close is nothing there: the consumer is the parent's.
            assert _in_child(consumer) == " ".join(["UsedAfterFork"] * 4 + ["nothing"])
            assert len(await read(consumer, 2)) == 2

    run(consume())


def _in_child(consumer: Consumer[Any, Any]) -> str:
    """What a child of a fork gets when it uses the consumer of its parent."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        told = []
        for use in (
            lambda: _step(consumer.poll(1)),
            lambda: _step(consumer.commit()),
            consumer.finished_offsets,
            lambda: consumer.assignment,
            lambda: _step(consumer.close()),
        ):
            try:
                use()
                told.append("nothing")
            except BaseException as error:
                told.append(type(error).__name__)
        os.write(into, " ".join(told).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def _step(awaitable: Any) -> None:
    """Run a coroutine to its first wait: the parent's loop is of no use here."""
    try:
        awaitable.send(None)
    except StopIteration:
        pass  # it did not wait for anything
    finally:
        awaitable.close()


def test_a_second_event_loop_is_refused(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 3)
    consumer = consumer_of(penstock_cluster, topic)
    run(read(consumer, 1))
    with pytest.raises(RuntimeError, match="event loop"):
        run(read(consumer, 1))
    with pytest.raises(ClientError, match="event loop"):
        run(consumer.poll(1))
    run(consumer.close())


def test_settings_that_librdkafka_refuses_are_told_when_it_is_opened() -> None:
    async def consume() -> None:
        consumer = Consumer(
            {"fetch.min.bytes": 1, "group.instance.id": "x" * 10, "debug": "nonsense"},
            bootstrap=dead_address(),
            group="g",
            topics=["orders"],
        )
        with pytest.raises(Exception, match="nonsense"):
            await consumer.poll(1)
        await consumer.close()

    run(consume())


@pytest.mark.parametrize(
    ("api", "error"),
    [("JoinGroup", GroupAuthorizationFailed), ("Metadata", TopicAuthorizationFailed)],
)
def test_a_missing_permission_is_raised_by_the_iterator(
    cluster: Cluster, api: str, error: type[KafkaError]
) -> None:
    topic = filled_topic(cluster, 1)

    async def consume() -> None:
        with cluster.intercept(api, Fail(error)):
            async with consumer_of(cluster, topic) as consumer:
                with pytest.raises(error) as caught:
                    await consumer.poll(20)
                assert str(caught.value).count(".") >= 1, "the text says what to do"

    run(consume())


def test_what_heals_by_itself_is_not_raised(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 3), fresh_group()

    async def consume() -> None:
        with cluster.intercept("JoinGroup", Fail(CoordinatorLoadInProgress), times=1):
            async with consumer_of(cluster, topic, group) as consumer:
                assert len(await read(consumer, 3)) == 3

    run(consume())
    assert committed(cluster, group, topic) == 3


def test_a_broker_that_comes_back_is_read_on_from(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = filled_topic(cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(cluster, topic, group) as consumer:
            await read(consumer, 3)
            cluster.stop()
            assert await consumer.poll(0.5) is None
            cluster.start()
            fill(cluster, topic, [b"new"])
            assert [each.offset for each in await read(consumer, 1)] == [3]

    with caplog.at_level(logging.WARNING, "penstock.client.consumer"):
        run(consume())
    assert any("refused" in each.message.lower() for each in caplog.records)
    assert committed(cluster, group, topic) == 4


def test_a_topic_that_comes_later_is_waited_for(penstock_cluster: ClusterLike) -> None:
    topic = f"{fresh_topic(penstock_cluster)}-later"

    async def consume() -> None:
        settings = {"metadata.max.age.ms": 200, "allow.auto.create.topics": False}
        async with consumer_of(penstock_cluster, topic, settings=settings) as consumer:
            assert await consumer.poll(0.3) is None
            penstock_cluster.create_topic(topic)
            fill(penstock_cluster, topic, [b"first"])
            (record,) = await read(consumer, 1)
            assert record.value == b"first"

    run(consume())


def test_a_commit_that_fails_is_told_and_the_offsets_stay_due(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 3), fresh_group()

    async def consume() -> None:
        settings = {"enable.auto.commit": False}
        consumer = consumer_of(cluster, topic, group, settings=settings)
        await read(consumer, 2)
        with (
            cluster.intercept("OffsetCommit", Fail(GroupAuthorizationFailed)),
            pytest.raises(GroupAuthorizationFailed),
        ):
            await consumer.commit()
        with cluster.intercept("OffsetCommit", Silence()), pytest.raises(TimedOut):
            await consumer.commit(timeout_s=0.2)
        assert consumer.finished_offsets() == {at(topic): 2}
        await consumer.close(0.5)

    run(consume())


def test_reading_goes_on_while_a_commit_is_not_answered(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 5), fresh_group()

    async def consume() -> None:
        settings = {"auto.commit.interval.ms": 0}
        consumer = consumer_of(cluster, topic, group, settings=settings)
        with cluster.intercept("OffsetCommit", Silence()):
            await read(consumer, 5)
            fill(cluster, topic, [b"new"])
            assert len(await read(consumer, 1)) == 1
            await consumer.close(0.5)

    run(consume())


def test_the_last_commit_outlasts_a_rebalance(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(cluster, topic, group) as consumer:
            await read(consumer, 3)
            refused = cluster.intercept("OffsetCommit", Fail(RebalanceInProgress), times=2)
        refused.end()

    run(consume())
    assert committed(cluster, group, topic) == 3


def test_offsets_that_were_not_committed_by_the_clock_are_sent_again(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 3), fresh_group()

    async def consume() -> None:
        settings = {"auto.commit.interval.ms": 0}
        with cluster.intercept("OffsetCommit", Fail(GroupAuthorizationFailed), times=2):
            async with consumer_of(cluster, topic, group, settings=settings) as consumer:
                await read(consumer, 3)
                await until(lambda: committed(cluster, group, topic) == 3)

    run(consume())


def test_read_committed_shows_no_aborted_records_and_commits_past_the_markers(
    penstock_cluster: ClusterLike,
) -> None:
    from confluent_kafka import Producer as RdkafkaProducer

    topic, group = fresh_topic(penstock_cluster), fresh_group()
    producer = RdkafkaProducer(
        {"bootstrap.servers": penstock_cluster.bootstrap, "transactional.id": f"tx-{topic}"}
    )
    producer.init_transactions(20)
    for value, commits in ((b"a", True), (b"b", False), (b"c", True), (b"d", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        (producer.commit_transaction if commits else producer.abort_transaction)(20)

    async def consume() -> None:
        settings = {"isolation.level": "read_committed"}
        async with consumer_of(penstock_cluster, topic, group, settings=settings) as consumer:
            assert [each.value for each in await read(consumer, 2)] == [b"a", b"c"]
            await until(lambda: consumer.finished_offsets() == {at(topic): 8})
            assert await consumer.lag() == {at(topic): 0}

    run(consume())
    assert committed(penstock_cluster, group, topic) == 8


def test_a_close_does_not_wait_for_a_body_that_waits_for_its_commit(cluster: Cluster) -> None:
    topic, group = filled_topic(cluster, 3), fresh_group()

    async def consume() -> None:
        settings = {"enable.auto.commit": False, "revoke.timeout.ms": 20_000}
        consumer = consumer_of(cluster, topic, group, settings=settings)

        async def work() -> None:
            async for record in consumer:
                await consumer.commit({at(topic): record.offset + 1})
                return

        with cluster.intercept("OffsetCommit", Delay(1.0)) as delayed:
            working = asyncio.create_task(work())
            await until(lambda: delayed.count > 0, "the commit is under way")
            assert await timed_close(consumer, 20) < 10
            await working

    run(consume())
    assert committed(cluster, group, topic) == 1
