"""Shared by the tests of retries: a manual clock, and records in and out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from penstock import Consumer, Producer
from penstock.client.admin.aio import Admin
from penstock.client.records import Record
from penstock.client.values import At
from penstock.model import TopicPartition
from penstock.retry import Names, Retrying
from penstock.retry.whole_partitions import read_to_end
from penstock.testing.external_cluster import ClusterLike

T = TypeVar("T")
TEST_SECONDS_MAX = 30.0
# librdkafka asks for a producer id, and again after half a second if no connection is up yet.
WITHOUT_ID = {"enable.idempotence": False}
QUICK = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}
BEGIN_MS = 1_700_000_000_000


def run(work: Coroutine[Any, Any, T]) -> T:
    """On an event loop of its own, and not for ever."""

    async def within() -> T:
        async with asyncio.timeout(TEST_SECONDS_MAX):
            return await work

    return asyncio.run(within())


class ManualClock:
    """Stands still until it is told."""

    def __init__(self, now_ms: int = BEGIN_MS) -> None:
        self._now_ms = now_ms
        self._moved = asyncio.Condition()

    def now_ms(self) -> int:
        return self._now_ms

    async def until(self, moment_ms: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._now_ms >= moment_ms)

    async def advance(self, seconds: float) -> None:
        async with self._moved:
            self._now_ms += round(seconds * 1000)
            self._moved.notify_all()


class Happenings(list[T]):
    """A list that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Condition()

    async def add(self, what: T) -> None:
        async with self._changed:
            self.append(what)
            self._changed.notify_all()

    async def until(self, holds: Callable[[list[T]], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: holds(self))

    async def reach(self, count: int) -> None:
        await self.until(lambda all_of_it: len(all_of_it) >= count)


class Bench(NamedTuple):
    """A source topic with a group of its own."""

    cluster: ClusterLike
    names: Names

    @property
    def topic(self) -> str:
        return self.names.topic

    def retrying(self, **more: Any) -> Retrying:
        settings = {**QUICK, **more.pop("settings", {})}
        return Retrying(settings, bootstrap=self.cluster.bootstrap, group=self.names.group, **more)

    async def send(self, *pairs: tuple[str | None, str], **more: Any) -> None:
        async with Producer[Any, Any](WITHOUT_ID, bootstrap=self.cluster.bootstrap) as producer:
            for key, value in pairs:
                await producer.send(self.topic, value, key, **more)

    async def read(self, topic: str) -> list[Record[bytes, bytes]]:
        """All that is committed in a topic, partition by partition."""
        async with Admin(bootstrap=self.cluster.bootstrap) as admin:
            described = (await admin.describe_topics([topic]))[topic]
            partitions = getattr(described, "partitions", ())
            topic_partitions = [TopicPartition(topic, each.partition) for each in partitions]
            settings = {"bootstrap.servers": self.cluster.bootstrap}
            found = [each async for each in read_to_end(admin, settings, topic_partitions)]
        return sorted(found, key=lambda each: (each.partition, each.offset))

    async def arrive(self, topic: str, count: int = 1) -> list[Record[bytes, bytes]]:
        """The first records that are committed in a topic; waits for them."""
        async with Admin(bootstrap=self.cluster.bootstrap) as admin:
            described = (await admin.describe_topics([topic]))[topic]
        partitions = getattr(described, "partitions", ())
        topic_partitions: dict[TopicPartition, Any] = {
            TopicPartition(topic, each.partition): "start" for each in partitions
        }
        found: list[Record[bytes, bytes]] = []
        reader = Consumer(
            {"isolation.level": "read_committed"},
            bootstrap=self.cluster.bootstrap,
            assign=topic_partitions,
        )
        async with reader:
            async for record in reader:
                found.append(record)
                if len(found) == count:
                    break
        return found

    async def lag(self) -> int:
        """Records that the group has still to read, of the source and the topics beside it."""
        async with Admin(bootstrap=self.cluster.bootstrap) as admin:
            committed = await admin.groups.offsets(self.names.group, require_stable=True)
            ends = await admin.offsets(dict.fromkeys(committed, int(At.END)))
        return sum(
            getattr(ends[topic_partition], "offset", 0) - each.offset
            for topic_partition, each in committed.items()
        )


def bench(cluster: ClusterLike, partitions: int = 1) -> Bench:
    mark = uuid4().hex[:8]
    topic = cluster.create_topic(f"retry-{mark}", partitions, {})
    return Bench(cluster, Names(topic, f"group-{mark}"))


@asynccontextmanager
async def running(retrying: Retrying) -> AsyncIterator[Retrying]:
    """It runs in a task; at the end it is stopped in order, and what it raised is raised."""
    task, body = asyncio.create_task(retrying.run()), asyncio.current_task()
    assert body is not None, "a test runs in a task"
    task.add_done_callback(lambda done: done.exception() and body.cancel())
    try:
        yield retrying
    except BaseException:
        if task.done():
            body.uncancel()
            await task  # why it ended says more
        task.cancel()
        await asyncio.wait([task])
        raise
    retrying.stop()
    await task


def texts(records: Sequence[Record[bytes, bytes]]) -> list[str]:
    return [(each.value or b"").decode() for each in records]
