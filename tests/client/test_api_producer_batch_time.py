"""A batch whose time is up: said so, what is under way stays so, and flush tells of it."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from producing import fresh_topic, run, values_of

from penstock import Producer
from penstock import sync as blocking
from penstock.client.failures import MessageTimedOut, TimedOut
from penstock.client.partitioners import RoundRobin
from penstock.client.producer import RecordsUndelivered
from penstock.testing.cluster import Cluster

VALUES = [b"%d" % number for number in range(5)]
NOBODY = {"delivery.timeout.ms": 1_000, "linger.ms": 0}
NO_ROOM = {**NOBODY, "queue.buffering.max.messages": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def silent() -> Iterator[str]:
    """Return an address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def kinds(told: RecordsUndelivered) -> list[tuple[bytes | None, type[Exception]]]:
    return sorted(
        ((each.value, type(each.error)) for each in told.failures), key=lambda each: each[0] or b""
    )


@pytest.mark.parametrize(
    ("settings", "said", "sent"),
    [
        (NOBODY, r"a batch of 5 records for t was not delivered within 0\.2 s\.", 5),
        (NO_ROOM, r"within 0\.2 s, and 2 of them were not sent\.", 3),
    ],
)
def test_flush_tells_which_records_of_it_were_not_delivered(
    settings: dict[str, Any], said: str, sent: int, silent: str
) -> None:
    wanted = [(v, MessageTimedOut if n < sent else TimedOut) for n, v in enumerate(VALUES)]

    async def story() -> None:
        async with Producer[bytes, bytes](settings, bootstrap=silent) as producer:
            with pytest.raises(TimedOut, match=said):
                await producer.send_batch("t", VALUES, timeout_s=0.2)
            with pytest.raises(RecordsUndelivered) as told:
                await producer.flush()
            assert kinds(told.value) == wanted

    run(story())
    with blocking.Producer[bytes, bytes](settings, bootstrap=silent) as producer:
        with pytest.raises(TimedOut, match=said):
            producer.send_batch("t", VALUES, timeout_s=0.2)
        with pytest.raises(RecordsUndelivered) as told:
            producer.flush()
        assert kinds(told.value) == wanted


def test_a_batch_that_was_cancelled_is_told_of_as_well(silent: str) -> None:
    async def story() -> None:
        async with Producer[bytes, bytes](NOBODY, bootstrap=silent) as producer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await producer.send_batch("t", VALUES)
            with pytest.raises(RecordsUndelivered) as told:
                await producer.flush()
            assert told.value.count == len(VALUES)

    run(story())


def test_what_is_delivered_after_all_is_no_failure(cluster: Cluster) -> None:
    topic = fresh_topic(cluster)

    async def story() -> None:
        async with Producer[bytes, bytes](bootstrap=cluster.bootstrap) as producer:
            await producer.send_batch(topic, [b"before"], timeout_s=30)
            cluster.pause()
            try:
                with pytest.raises(TimedOut):
                    await producer.send_batch(topic, VALUES, timeout_s=0.2)
            finally:
                cluster.resume()
            await producer.flush()

    run(story())
    with blocking.Producer[bytes, bytes](bootstrap=cluster.bootstrap) as producer:
        producer.send_batch(topic, [b"between"], timeout_s=30)
        cluster.pause()
        try:
            with pytest.raises(TimedOut):
                producer.send_batch(topic, VALUES, timeout_s=0.2)
        finally:
            cluster.resume()
        producer.flush()
    assert values_of(cluster, topic) == [b"before", *VALUES, b"between", *VALUES]


def test_the_time_holds_for_the_question_about_partitions_too(silent: str) -> None:
    async def story() -> None:
        async with Producer[bytes, bytes](bootstrap=silent, partitioner=RoundRobin()) as producer:
            begun = asyncio.get_running_loop().time()
            with pytest.raises(Exception, match="the partitions of t"):
                await producer.send_batch("t", VALUES, timeout_s=0.2)
            assert asyncio.get_running_loop().time() - begun < 5

    run(story())
