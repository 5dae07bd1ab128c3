"""A batch is there until the loop asks for the next: its messages go as others come."""

import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError as RdkafkaError
from confluent_kafka import KafkaException
from consuming import committed, consumer_of, filled_topic, fresh_group
from producing import run
from rdkafka_stand_in import A, Message, Rdkafka, engine_of

from penstock.client.consumer import engine as engine_module
from penstock.client.consumer.aio_loops import Batch
from penstock.client.consumer.desk import Fetched
from penstock.client.consumer.engine import Engine
from penstock.client.consumer.ledger import Work
from penstock.client.failures import BatchOver, ClientError
from penstock.sync import Consumer as BlockingConsumer
from penstock.testing.outside import ClusterLike

USES: dict[str, Callable[[Any], object]] = {
    "iterate": iter,
    "index": lambda batch: batch[0],
    "slice": lambda batch: batch[:1],
    "values": lambda batch: batch.values(),
    "records": lambda batch: batch.records,
}


async def two_batches(
    cluster: ClusterLike, **options: Any
) -> AsyncIterator[tuple[Batch[Any, Any], Batch[Any, Any]]]:
    """The first of two, when the second has come."""
    topic = filled_topic(cluster, 4)
    async with consumer_of(cluster, topic, fresh_group(), **options) as consumer:
        loop = consumer.batches(max=2, timeout_s=10)
        first = await anext(loop)
        yield first, await anext(loop)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("value", [None, "str"])
def test_a_batch_that_was_kept_says_that_it_is_over(
    penstock_cluster: ClusterLike, use: str, value: str | None
) -> None:
    async def consume() -> None:
        async for first, _ in two_batches(penstock_cluster, value=value):
            with pytest.raises(BatchOver, match=r"batch\.records"):
                USES[use](first)

    run(consume())


def test_a_blocking_batch_that_was_kept_says_that_it_is_over(
    penstock_cluster: ClusterLike,
) -> None:
    topic = filled_topic(penstock_cluster, 4)
    with BlockingConsumer(
        {"auto.offset.reset": "earliest"},
        bootstrap=penstock_cluster.bootstrap,
        group=fresh_group(),
        topics=[topic],
    ) as consumer:
        loop = consumer.batches(max=2, timeout_s=10)
        first = next(loop)
        assert next(loop)[0].offset == 2
        with pytest.raises(BatchOver):
            first.values()


def test_the_length_of_a_batch_outlives_it(penstock_cluster: ClusterLike) -> None:
    async def consume() -> None:
        async for first, _ in two_batches(penstock_cluster):
            assert len(first) == 2 and "2 records" in repr(first)

    run(consume())


def test_records_of_a_batch_outlive_it(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 4)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, fresh_group()) as consumer:
            loop = consumer.batches(max=2, timeout_s=10)
            kept = (await anext(loop)).records
            await anext(loop)
            assert [(each.offset, each.value, each.headers) for each in kept] == [
                (0, b"0", ()),
                (1, b"1", ()),
            ]

    run(consume())


def test_a_batch_outlives_a_loop_that_is_left(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 4)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, fresh_group()) as consumer:
            async for batch in consumer.batches(max=2, timeout_s=10):
                kept = batch
                break
            assert kept.values() == [b"0", b"1"]

    run(consume())


def test_an_iterator_that_was_kept_does_not_end_as_if_that_were_all(
    penstock_cluster: ClusterLike,
) -> None:
    topic = filled_topic(penstock_cluster, 4)

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, fresh_group()) as consumer:
            loop = consumer.batches(max=2, timeout_s=10)
            records = iter(await anext(loop))
            assert next(records).offset == 0
            await anext(loop)
            with pytest.raises(BatchOver):
                list(records)

    run(consume())


def test_a_batch_that_is_over_is_not_committed_by_name(penstock_cluster: ClusterLike) -> None:
    async def consume() -> None:
        async for first, _ in two_batches(penstock_cluster):
            with pytest.raises(BatchOver):
                await first.commit()

    run(consume())


def test_a_batch_whose_records_are_finished_one_by_one_stays(
    penstock_cluster: ClusterLike,
) -> None:
    async def consume() -> None:
        async for first, _ in two_batches(penstock_cluster, manual_finish=True):
            assert first.values() == [b"0", b"1"]

    run(consume())


def test_a_batch_that_is_over_is_committed_with_the_rest(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 4), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group) as consumer:
            loop = consumer.batches(max=2, timeout_s=10)
            await anext(loop)
            await anext(loop)

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


# -- how they go


class Endless(Rdkafka):
    """Has as many as one asks for; the last call of some brings fewer, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.last: Callable[[int], list[Message]] | None = None
        self.calls_max = 100
        self._next = 0

    def consume(self, count: int, timeout: float) -> list[Message]:
        assert timeout == 0
        self.asked.append(count)
        if self.last is not None and len(self.asked) >= self.calls_max:
            return self.last(count)
        self._next += count
        return [Message(A, number) for number in range(self._next - count, self._next)]


def endless() -> tuple[Engine, Endless, Work[Fetched]]:
    """One whose reader has finished a thousand."""
    engine, _ = engine_of("range")
    source = Endless()
    engine.rdkafka = engine.partitions._rdkafka = source  # type: ignore[assignment]
    engine._failed = KafkaException
    engine.desk.wanted_max = 2000
    assert engine.fetch_here(1000)
    work = engine.desk.step(None, 1000, None)
    assert work is not None
    engine.desk.finish(work)
    source.asked.clear()
    return engine, source, work


def test_as_many_go_as_come() -> None:
    engine, source, spent = endless()
    assert engine.fetch_here(1000, spent)
    assert source.asked == [250, 250, 250, 250] and spent.messages == []


def test_with_nothing_to_go_all_come_at_once() -> None:
    engine, source, _ = endless()
    assert engine.fetch_here(1000)
    assert source.asked == [1000]


def test_what_came_before_a_failure_is_kept() -> None:
    engine, source, spent = endless()

    def fail(_: int) -> list[Message]:
        raise KafkaException(RdkafkaError(RdkafkaError._FAIL))

    source.calls_max, source.last = 3, fail
    assert not engine.fetch_here(1000, spent)
    assert engine.desk.ledger.unread == 500
    with pytest.raises(ClientError):
        engine.desk.step(None, 1000, None)
    work = engine.desk.step(None, 1000, None)
    assert work is not None
    assert [each.offset() for each in work.messages] == list(range(1000, 1500))


@contextmanager
def collections_counted() -> Iterator[list[int]]:
    seen: list[int] = []

    def count(phase: str, _: object) -> None:
        if phase == "start":
            seen.append(1)

    thresholds, was_on = gc.get_threshold(), gc.isenabled()
    gc.enable()
    gc.collect()
    gc.set_threshold(700, 10, 10)  # not all versions of Python have the same
    gc.callbacks.append(count)
    try:
        yield seen
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*thresholds)
        if not was_on:
            gc.disable()


@pytest.mark.parametrize("part", [250, 1000])
def test_the_garbage_collector_stays_out_of_a_loop_over_large_batches(
    monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(engine_module, "PART_RECORDS", part)
    engine, _, spent = endless()
    with collections_counted() as seen:
        for _ in range(20):
            engine.fetch_here(1000, spent)
            work = engine.desk.step(None, 1000, None)
            assert work is not None
            engine.desk.finish(work)
            spent = work
    assert (len(seen) < 5) == (part == 250)
