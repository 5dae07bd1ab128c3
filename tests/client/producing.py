"""What the tests of producers share: topics, dead addresses, and reading back what was written."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import uuid4

from confluent_kafka import Consumer, Message, TopicPartition

from penstock.testing.external_cluster import ClusterLike

T = TypeVar("T")
TEST_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 20.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """On an event loop of its own, and not for ever."""

    async def within() -> T:
        async with asyncio.timeout(TEST_SECONDS_MAX):
            return await work

    return asyncio.run(within())


def fresh_topic(cluster: ClusterLike, partitions: int = 1, **config: Any) -> str:
    """A topic that no other test has; settings with underscores for dots."""
    settings = {name.replace("_", "."): str(value) for name, value in config.items()}
    return cluster.create_topic(f"api-{uuid4().hex[:12]}", partitions, settings)


def dead_address() -> str:
    """host:port where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"


def read_back(cluster: ClusterLike, topic: str, *, committed: bool = False) -> list[Message]:
    """Everything in a topic, partition by partition in the order of offsets."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"read-{uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    try:
        known = reader.list_topics(topic, timeout=READ_SECONDS_MAX).topics[topic].partitions
        reader.assign([TopicPartition(topic, partition, 0) for partition in known])
        found: list[Message] = []
        ended: set[int] = set()
        while len(ended) < len(known):
            message = reader.poll(READ_SECONDS_MAX)
            assert message is not None, f"the ends of {topic} were not reached in time"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(message.partition() or 0)
        return sorted(found, key=lambda each: (each.partition(), each.offset()))
    finally:
        reader.close()


def values_of(cluster: ClusterLike, topic: str, *, committed: bool = False) -> list[bytes | None]:
    return [message.value() for message in read_back(cluster, topic, committed=committed)]
