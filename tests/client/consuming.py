"""What the tests of consumers share: filled topics, what a group has committed, waiting."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka import Producer as RdkafkaProducer
from confluent_kafka import TopicPartition as RdkafkaPartition
from confluent_kafka.admin import AdminClient
from producing import fresh_topic

from penstock.client.consumer import Consumer
from penstock.client.records import Record
from penstock.model import TopicPartition
from penstock.testing.external_cluster import ClusterLike

WAIT_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.01


def fresh_group() -> str:
    return f"group-{uuid4().hex[:12]}"


def fill(cluster: ClusterLike, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
    """Write values to one partition, in order."""
    producer = RdkafkaProducer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


def numbers(count: int, begin: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(begin, begin + count)]


def filled_topic(cluster: ClusterLike, count: int, partitions: int = 1) -> str:
    """A topic with as many records in each partition: their offsets as text."""
    topic = fresh_topic(cluster, partitions)
    for partition in range(partitions):
        fill(cluster, topic, numbers(count), partition)
    return topic


def committed(cluster: ClusterLike, group: str, topic: str, partition: int = 0) -> int | None:
    """What a group has committed, asked by a client that is not of it."""
    asking = RdkafkaConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        (answer,) = asking.committed([RdkafkaPartition(topic, partition)], WAIT_SECONDS_MAX)
        offset: int = answer.offset
        return offset if offset >= 0 else None
    finally:
        asking.close()


def members(cluster: ClusterLike, group: str) -> int:
    """How many a group has."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (future,) = admin.describe_consumer_groups([group]).values()
    return len(future.result().members)


def consumer_of(
    cluster: ClusterLike, topic: str, group: str | None = None, **options: Any
) -> Consumer[Any, Any]:
    """Return a consumer from the beginning of a topic; settings with dots go as `settings`.

    A short fetch wait lets seeks and revocations take effect soon: librdkafka first waits for the
    answer to the fetch under way.
    """
    settings = {
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 50,
        **options.pop("settings", {}),
    }
    return Consumer(
        settings,
        bootstrap=cluster.bootstrap,
        group=group or fresh_group(),
        topics=[topic],
        **options,
    )


async def read(consumer: Consumer[Any, Any], count: int) -> list[Record[Any, Any]]:
    """So many records, finished but for the last: that one is finished by name."""
    found = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            consumer.finish(record)
            break
    return found


async def moment(seconds: float = 0.0) -> None:
    """Let others run."""
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
    await passed


async def until(holds: Callable[[], bool], what: str = "") -> None:
    """Wait for a fact of another thread."""
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, f"it did not come about: {what or holds}"
        await moment(LOOK_SECONDS)


def at(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)
