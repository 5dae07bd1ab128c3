"""Keys and values as objects, names without their namespace, interceptors, and types."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
    read,
    until,
)
from producing import fresh_topic, run

from penstock import serde
from penstock import sync as blocking
from penstock.client.consumer import Consumer
from penstock.client.failures import ClientError, DeserializationError
from penstock.client.interceptors import ConsumerInterceptor
from penstock.client.records import Record, TimestampType
from penstock.model import TopicPartition
from penstock.testing.external_cluster import ClusterLike

EARLIEST = {"auto.offset.reset": "earliest"}


@dataclass
class Order:
    number: int
    customer: str


def test_keys_and_values_come_as_objects(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    producer = RdkafkaProducer({"bootstrap.servers": penstock_cluster.bootstrap})
    producer.produce(
        topic, b'{"number": 7, "customer": "ada"}', (5).to_bytes(8, "big"), headers=[("a", b"b")]
    )
    producer.produce(topic, None, (6).to_bytes(8, "big"))
    assert producer.flush(WAIT_SECONDS_MAX) == 0

    async def consume() -> None:
        async with Consumer(
            EARLIEST,
            bootstrap=penstock_cluster.bootstrap,
            group=fresh_group(),
            topics=[topic],
            key=serde.LONG,
            value=Order,
        ) as consumer:
            first, second = await read(consumer, 2)
            assert (first.key, first.value) == (5, Order(7, "ada"))
            assert first.header("a") == b"b" and first.timestamp_type is TimestampType.CREATE_TIME
            assert first.leader_epoch == 0
            assert (second.key, second.value) == (6, None), "a tombstone stays one"

    run(consume())


def test_deserializers_are_named_in_settings_too(penstock_cluster: ClusterLike) -> None:
    topic = filled_topic(penstock_cluster, 1)

    async def consume() -> None:
        settings = {
            **EARLIEST,
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        }
        async with consumer_of(penstock_cluster, topic, settings=settings) as consumer:
            (record,) = await read(consumer, 1)
            assert record.value == "0"

    run(consume())


def decimal(data: bytes) -> int:
    return int(data)


def test_what_cannot_be_read_says_where_it_is_and_stays_before_the_position(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = fresh_topic(penstock_cluster), fresh_group()
    fill(penstock_cluster, topic, [b"0", b"one", b"2"])

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, value=decimal) as consumer:
            loop = aiter(consumer)
            assert (await anext(loop)).value == 0
            for _ in range(2):
                with pytest.raises(DeserializationError) as caught:
                    await anext(loop)
                error = caught.value
                assert error.place == at(topic) and error.offset == 1 and not error.is_key
                assert isinstance(error.__cause__, ValueError)
                assert topic in str(error) and "skip" in str(error)
                assert await consumer.position(at(topic)) == 1
            assert consumer.skip(error)
            assert not consumer.skip(error)
            assert (await anext(loop)).value == 2

    run(consume())
    assert committed(penstock_cluster, group, topic) == 2


def test_a_batch_ends_before_what_cannot_be_read(penstock_cluster: ClusterLike) -> None:
    topic, group = fresh_topic(penstock_cluster), fresh_group()
    fill(penstock_cluster, topic, [b"0", b"1", b"two", b"3"])

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, value=decimal) as consumer:
            loop = aiter(consumer.batches(max=4, timeout_s=0.3))
            assert [each.value for each in await anext(loop)] == [0, 1]
            with pytest.raises(DeserializationError) as caught:
                await anext(loop)
            assert consumer.finished_offsets() == {at(topic): 2}
            consumer.skip(caught.value)
            assert [each.value for each in await consumer.take(4, 0.3)] == [3]

    run(consume())


def test_a_skipped_record_is_committed_though_nothing_follows(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = fresh_topic(penstock_cluster), fresh_group()
    fill(penstock_cluster, topic, [b"nothing"])

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, value=decimal) as consumer:
            with pytest.raises(DeserializationError) as caught:
                await consumer.poll(20)
            consumer.skip(caught.value)

    run(consume())
    assert committed(penstock_cluster, group, topic) == 1


def test_a_namespace_is_before_topics_and_groups_and_not_in_records(
    penstock_cluster: ClusterLike,
) -> None:
    inside, group = f"orders-{fresh_group()}", fresh_group()
    topic = penstock_cluster.create_topic(f"dev.{inside}")
    fill(penstock_cluster, topic, [b"0", b"1"])

    async def consume() -> None:
        told: list[TopicPartition] = []
        async with consumer_of(
            penstock_cluster, inside, group, namespace="dev.", on_assigned=told.extend
        ) as consumer:
            (record,) = await read(consumer, 1)
            assert record.topic == inside and record.place == at(inside)
            assert told == [at(inside)] and consumer.assignment == (at(inside),)
            assert consumer.finished_offsets() == {at(inside): 1}
            assert await consumer.commit() == {at(inside): 1}
            assert await consumer.position(record) == 1
            await consumer.seek(record, 0)
            assert [each.offset for each in await read(consumer, 2)] == [0, 1]

    run(consume())
    assert committed(penstock_cluster, f"dev.{group}", topic) == 2
    assert committed(penstock_cluster, group, topic) is None


def test_a_pattern_stays_within_its_namespace(penstock_cluster: ClusterLike) -> None:
    name = fresh_group()
    for prefix in ("dev.", "test.", ""):
        topic = penstock_cluster.create_topic(f"{prefix}{name}-a")
        fill(penstock_cluster, topic, [prefix.encode()])

    async def consume() -> None:
        async with Consumer(
            EARLIEST,
            bootstrap=penstock_cluster.bootstrap,
            group=fresh_group(),
            pattern=f"{name}-.*",
            namespace="dev.",
        ) as consumer:
            (record,) = await read(consumer, 1)
            assert (record.topic, record.value) == (f"{name}-a", b"dev.")
            assert consumer.assignment == (at(f"{name}-a"),)

    run(consume())


class Noting(ConsumerInterceptor):
    """Keeps odd records to itself, and notes what it is told."""

    def __init__(self) -> None:
        self.committed: list[Mapping[TopicPartition, int]] = []
        self.closed = 0

    def on_consume(self, records: Sequence[Record[Any, Any]]) -> Sequence[Record[Any, Any]]:
        return [each for each in records if each.offset % 2 == 0]

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        asyncio.get_running_loop()  # on the thread that uses the consumer
        self.committed.append(offsets)

    def close(self) -> None:
        self.closed += 1


def test_interceptors_see_records_and_commits(penstock_cluster: ClusterLike) -> None:
    topic, group, noting = filled_topic(penstock_cluster, 6), fresh_group(), Noting()

    async def consume() -> None:
        async with consumer_of(
            penstock_cluster,
            topic,
            group,
            interceptors=[noting],
            settings={"auto.commit.interval.ms": 0},
        ) as consumer:
            assert [each.offset for each in await read(consumer, 2)] == [0, 2]
            async for batch in consumer.batches(max=3, timeout_s=10):
                assert [each.offset for each in batch] == [4]
                break
            await until(lambda: committed(penstock_cluster, group, topic) == 3)
            assert [each.offset for each in await consumer.take(9, 0.2)] == [4]
            assert await consumer.take(9, 0.05) == []

    run(consume())
    assert noting.committed[-1] == {at(topic): 6} and noting.closed == 1
    assert committed(penstock_cluster, group, topic) == 6


def test_with_manual_finish_what_an_interceptor_keeps_is_finished(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 4), fresh_group()

    async def consume() -> None:
        async with consumer_of(
            penstock_cluster, topic, group, interceptors=[Noting()], manual_finish=True
        ) as consumer:
            taken = await consumer.take(4, 20)
            assert [each.offset for each in taken] == [0, 2]
            for record in taken:
                consumer.finish(record)
            assert consumer.finished_offsets() == {at(topic): 4}

    run(consume())


def test_offsets_go_into_a_transaction_when_their_bodies_have_ended(
    penstock_cluster: ClusterLike,
) -> None:
    from penstock import Producer

    source, group = filled_topic(penstock_cluster, 6), fresh_group()
    target = fresh_topic(penstock_cluster)

    async def transform() -> None:
        settings = {"enable.auto.commit": False}
        async with (
            Producer[bytes, bytes](
                {"transactional.id": f"tx-{group}"}, bootstrap=penstock_cluster.bootstrap
            ) as producer,
            consumer_of(penstock_cluster, source, group, settings=settings) as consumer,
        ):
            async for batch in consumer.batches(max=2, timeout_s=10):
                async with producer.transaction():
                    for record in batch:
                        await producer.post(target, record.value)
                        consumer.finish(record)
                    await producer.send_offsets(consumer)
                if batch[-1].offset == 3:
                    break

    run(transform())
    assert committed(penstock_cluster, group, source) == 4


TYPED = """
from typing import assert_type
from penstock import Consumer, Record
from penstock import sync
from penstock import serde
from penstock.client.consumer import Batch

class Order: ...

def order(data: bytes) -> Order:
    return Order()

async def asyncio_ones() -> None:
    plain = Consumer(bootstrap="", group="g", topics=["orders"])
    assert_type(plain, Consumer[bytes, bytes])
    async for record in plain:
        assert_type(record.value, bytes | None)
    valued = Consumer({"max.poll.records": 5}, group="g", value=order)
    assert_type(valued, Consumer[bytes, Order])
    async with Consumer(group="g", key=serde.LONG, value=str) as both:
        assert_type(both, Consumer[int, str])
        async for batch in both.batches(max=5):
            assert_type(batch[0], Record[int, str])
            assert_type(batch.records[0].key, int | None)
        assert_type(await both.poll(1), Record[int, str] | None)
        assert_type(await both.take(1, 1), list[Record[int, str]])

def blocking_ones() -> None:
    with sync.Consumer(group="g", key=str) as consumer:
        assert_type(consumer, sync.Consumer[str, bytes])
        for record in consumer:
            assert_type(record, Record[str, bytes])

Consumer(group="g", topics=["a"], on_assigned=print, manual_finish=True)
Consumer(grup="g")  # type: ignore[call-overload]
Consumer(group=7)  # type: ignore[call-overload]
"""


def test_types_of_keys_and_values_are_known_to_a_type_checker(tmp_path: Path) -> None:
    program = tmp_path / "typed_consumers.py"
    program.write_text(TYPED)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("kind", [Consumer, blocking.Consumer])
@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("orders(", "missing ), unterminated subpattern at position 6"),
        ("[a", "unterminated character set at position 0"),
        ("*x", "nothing to repeat at position 0"),
        ("", "matches no topic"),
    ],
)
def test_a_pattern_that_is_none_is_named_with_what_is_wrong(
    kind: Any, pattern: str, wrong: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"pattern {pattern!r}")) as refused:
        kind(bootstrap="127.0.0.1:1", group="g", pattern=pattern)
    assert wrong in str(refused.value)


def test_a_pattern_is_text() -> None:
    compiled: Any = re.compile("orders.*")
    with pytest.raises(TypeError, match="a regular expression as text"):
        Consumer(bootstrap="127.0.0.1:1", group="g", pattern=compiled)


def test_a_pattern_that_only_librdkafka_refuses_is_named_as_well() -> None:
    async def story() -> None:
        consumer = Consumer(bootstrap="127.0.0.1:1", group="g", pattern="a(?=b)")
        with pytest.raises(ClientError, match=re.escape("'^(a(?=b))$'")):
            await consumer.__aenter__()
        await consumer.close()

    run(story())
