"""The asyncio Producer at its limits: no room, no broker, no loop, no parent."""

import asyncio
import gc
import os
import subprocess
import sys
import time
import warnings
from typing import Any

import pytest
from producing import dead_address, fresh_topic, run, values_of

from penstock import Producer
from penstock.client.failures import (
    AllBrokersDown,
    BufferExhausted,
    ClientClosed,
    ClientError,
    MessageTimedOut,
    TimedOut,
    UsedAfterFork,
)
from penstock.client.partitioners import PartitionerRefused, RoundRobin
from penstock.client.producer import BatchFailed, RecordsUndelivered, WrongLoop
from penstock.testing.external_cluster import ClusterLike

SMALL_QUEUE = {"queue.buffering.max.messages": 50}


def test_records_keep_their_order_while_they_wait_for_room(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    wanted = [b"%d" % number for number in range(3000)]

    async def send() -> None:
        async with Producer[bytes, bytes](
            SMALL_QUEUE, bootstrap=penstock_cluster.bootstrap
        ) as producer:
            deliveries = []
            for number, value in enumerate(wanted):
                if number % 3 == 0:
                    producer.post(topic, value)
                elif number % 3 == 1:
                    deliveries.append(producer.send(topic, value))
                else:
                    deliveries.append(producer.send(topic, value, headers={"slow": "path"}))
            for each in deliveries:
                await each

    run(send())
    assert values_of(penstock_cluster, topic) == wanted


def test_a_batch_keeps_its_order_while_it_waits_for_room(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    wanted = [b"%d" % number for number in range(3000)]

    async def send() -> None:
        async with Producer[bytes, bytes](
            SMALL_QUEUE, bootstrap=penstock_cluster.bootstrap
        ) as producer:
            for value in wanted[:500]:
                producer.post(topic, value)
            assert (await producer.send_batch(topic, wanted[500:])).count == 2500

    run(send())
    assert values_of(penstock_cluster, topic) == wanted


def test_several_batches_at_once_all_arrive(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, 2)

    async def send() -> None:
        async with Producer[bytes, bytes](bootstrap=penstock_cluster.bootstrap) as producer:
            batches = [producer.send_batch(topic, [b"x"] * 5000) for _ in range(6)]
            assert [each.count for each in await asyncio.gather(*batches)] == [5000] * 6

    run(send())
    assert len(values_of(penstock_cluster, topic)) == 30_000


def test_awaiting_a_post_waits_for_room_so_nothing_is_lost(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        settings = {**SMALL_QUEUE, "buffer.memory": 20_000}
        async with Producer[bytes, bytes](
            settings, bootstrap=penstock_cluster.bootstrap
        ) as producer:
            for _ in range(2000):
                await producer.post(topic, b"x" * 100)
            await producer.flush()

    run(send())
    assert len(values_of(penstock_cluster, topic)) == 2000


def nobody(**settings: Any) -> Producer[bytes, bytes]:
    """A producer without a broker."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(given, bootstrap=dead_address())


def test_without_room_a_delivery_fails_after_max_block_ms() -> None:
    async def send() -> None:
        producer = nobody(queue_buffering_max_messages=5, max_block_ms=200)
        begun = time.monotonic()
        deliveries = [producer.send("topic", b"x") for _ in range(8)]
        with pytest.raises(BufferExhausted, match=r"max\.block\.ms \(200 ms\)"):
            await deliveries[5]
        assert 0.15 < time.monotonic() - begun < 10.0
        with pytest.raises(BufferExhausted):
            await deliveries[7]
        assert not deliveries[0].done()
        with pytest.raises(RecordsUndelivered):
            await producer.close(timeout_s=0.1)
        assert isinstance(deliveries[0].exception(), AllBrokersDown)

    run(send())


def test_a_post_without_room_says_so_to_who_awaits_it_or_to_flush() -> None:
    async def send() -> None:
        producer = nobody(
            queue_buffering_max_messages=5, max_block_ms=200, delivery_timeout_ms=1000
        )
        posts = [producer.post("topic", b"%d" % number) for number in range(7)]
        with pytest.raises(BufferExhausted):
            await posts[5]
        with pytest.raises(RecordsUndelivered) as raised:
            await producer.flush()
        assert raised.value.count == 6  # all but the one that was raised already
        kinds = {type(each.error) for each in raised.value.failures}
        # Each record times out, or is given up because nothing listens: whichever comes first.
        assert BufferExhausted in kinds
        assert len(kinds) > 1
        assert kinds <= {BufferExhausted, MessageTimedOut, AllBrokersDown}
        await producer.close()

    run(send())


def test_more_than_buffer_memory_is_refused_at_once() -> None:
    async def send() -> None:
        producer = nobody(queue_buffering_max_messages=1, buffer_memory=5000)
        refused = None
        for _ in range(100):
            try:
                producer.send("topic", bytes(500))
            except BufferExhausted as error:
                refused = error
                break
        assert refused is not None
        assert "buffer.memory is 5,000" in str(refused) and "Await" in str(refused)
        with pytest.raises(RecordsUndelivered):
            await producer.close(timeout_s=0.1)

    run(send())


def test_a_batch_without_room_names_what_was_not_sent() -> None:
    async def send() -> None:
        producer = nobody(
            queue_buffering_max_messages=3, max_block_ms=200, delivery_timeout_ms=1000
        )
        with pytest.raises(BatchFailed) as raised:
            await producer.send_batch("topic", [b"%d" % number for number in range(5)])
        kinds = [type(each.error) for each in raised.value.failures]
        # The records time out, or are given up because nothing listens: whichever comes first.
        assert set(kinds[:3]) <= {MessageTimedOut, AllBrokersDown}
        assert kinds[3:] == [BufferExhausted] * 2
        assert [each.value for each in raised.value.failures] == [b"0", b"1", b"2", b"3", b"4"]
        await producer.close()

    run(send())


def test_without_a_broker_records_fail_after_delivery_timeout_ms() -> None:
    async def send() -> None:
        producer = nobody(delivery_timeout_ms=500, linger_ms=0)
        delivery = producer.send("topic", b"x", b"key")
        begun = time.monotonic()
        await producer.flush()
        assert time.monotonic() - begun < 20.0
        # The record times out, or is given up because nothing listens: whichever comes first.
        with pytest.raises((MessageTimedOut, AllBrokersDown)):
            await delivery
        await producer.close()

    run(send())


def test_flush_gives_up_when_its_time_is_over() -> None:
    async def send() -> None:
        producer = nobody()
        delivery = producer.send("topic", b"x")
        with pytest.raises(TimedOut, match=r"1 records are still under way after 0\.2 s"):
            await producer.flush(0.2)
        assert not delivery.done()
        with pytest.raises(RecordsUndelivered):
            await producer.close(timeout_s=0.1)

    run(send())


def test_close_never_hangs_and_fails_what_is_left() -> None:
    async def send() -> None:
        producer = nobody()
        delivery = producer.send("topic", b"sent")
        producer.post("topic", b"posted")
        waiting = asyncio.create_task(_awaited(delivery))
        begun = time.monotonic()
        with pytest.raises(RecordsUndelivered) as raised:
            await producer.close(timeout_s=0.2)
        assert time.monotonic() - begun < 10.0
        assert [each.value for each in raised.value.failures] == [b"posted"]
        assert isinstance(await waiting, AllBrokersDown)

    async def _awaited(delivery: Any) -> Exception | None:
        try:
            await delivery
        except Exception as error:
            return error
        return None

    run(send())


def test_records_that_wait_for_room_fail_when_the_producer_is_closed() -> None:
    async def send() -> None:
        producer = nobody(queue_buffering_max_messages=1)
        producer.send("topic", b"x")
        waits = producer.send("topic", b"waits")
        with pytest.raises(RecordsUndelivered):
            await producer.close(timeout_s=0.1)
        assert isinstance(waits.exception(), AllBrokersDown)

    run(send())


def test_a_partitioner_waits_for_the_cluster_at_most_max_block_ms() -> None:
    async def send() -> None:
        producer = Producer[bytes, bytes](
            {"max.block.ms": 300}, bootstrap=dead_address(), partitioner=RoundRobin()
        )
        with pytest.raises(TimedOut, match="how many partitions topic has"):
            await producer.send("topic", b"x")
        await producer.close()

    run(send())


def test_a_partitioner_that_chooses_nonsense_fails_its_record(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, 2)

    async def send() -> None:
        async with Producer[bytes, bytes](
            bootstrap=penstock_cluster.bootstrap, partitioner=lambda _t, _k, _v, count: count
        ) as producer:
            with pytest.raises(PartitionerRefused, match="chose 2"):
                await producer.send(topic, b"x")

    run(send())


def test_another_event_loop_is_told_so(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    producer = Producer[bytes, bytes](bootstrap=penstock_cluster.bootstrap)

    async def first() -> None:
        await producer.send(topic, b"x")

    async def second() -> None:
        with pytest.raises(WrongLoop, match="another event loop"):
            await producer.send(topic, b"y")
        with pytest.raises(WrongLoop):
            await producer.flush()
        await producer.close()  # its own loop is gone, so any may

    run(first())
    run(second())
    with pytest.raises(ClientClosed):
        producer.send(topic, b"z")


def test_without_an_event_loop_it_says_so() -> None:
    producer = Producer[bytes, bytes](bootstrap="127.0.0.1:1")
    with pytest.raises(WrongLoop, match="no event loop"):
        producer.send("topic", b"x")


def test_a_producer_that_was_dropped_unclosed_warns(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        producer = Producer[bytes, bytes](bootstrap=penstock_cluster.bootstrap)
        await producer.send(topic, b"x")
        gc.collect()  # what other tests dropped is not what is watched
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            del producer
            gc.collect()
        assert [each.category for each in seen] == [ResourceWarning]
        assert "never closed" in str(seen[0].message)

    run(send())


def test_the_child_of_a_fork_may_not_use_it_and_ends_cleanly(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with Producer[bytes, bytes](bootstrap=penstock_cluster.bootstrap) as producer:
            await producer.send(topic, b"parent")
            child = os.fork()
            if child == 0:
                os._exit(_refusals(producer, topic))
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            await producer.send(topic, b"parent again")

    run(send())
    assert values_of(penstock_cluster, topic) == [b"parent", b"parent again"]


def _refusals(producer: Producer[bytes, bytes], topic: str) -> int:
    """In the child: 0 if everything is refused as it should be."""
    try:
        producer.send(topic, b"child")
    except UsedAfterFork:
        pass
    else:
        return 1
    try:
        producer.post(topic, b"child")
    except UsedAfterFork:
        pass
    else:
        return 2
    del producer
    gc.collect()
    return 0


def test_with_failures_only_posts_are_all_there_is(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=100_000)

    async def send() -> None:
        async with Producer[bytes, bytes](
            {"delivery.report.only.error": True}, bootstrap=penstock_cluster.bootstrap
        ) as producer:
            for _ in range(3000):
                await producer.post(topic, b"x")
            await producer.flush()
            await producer.post(topic, bytes(200_000))
            with pytest.raises(RecordsUndelivered) as raised:
                await producer.flush()
            assert raised.value.count == 1
            await producer.post(topic, b"x")  # the hot path is open
            with pytest.raises(ClientError, match="post"):
                producer.send(topic, b"x")

    run(send())
    assert len(values_of(penstock_cluster, topic)) == 3001


def test_importing_the_package_loads_neither_librdkafka_nor_the_client() -> None:
    program = (
        "import sys, penstock, penstock.sync; "
        "loaded = [each for each in sys.modules if each.startswith(('confluent', 'penstock.c'))]; "
        "assert not loaded, loaded; "
        "assert 'Producer' in dir(penstock); from penstock import Producer; "
        "from penstock.sync import Producer; "
        "assert 'confluent_kafka' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("name", ["Consumer", "Producer"])
def test_a_client_of_bytes_loads_neither_http_nor_the_protocol(name: str) -> None:
    program = (
        f"import sys, confluent_kafka; before = set(sys.modules); from penstock import {name}; "
        f"{name}(bootstrap='127.0.0.1:1'); loaded = set(sys.modules) - before; "
        "useless = [each for each in loaded "
        "if each.startswith(('http', 'urllib', 'email', 'tempfile', 'penstock.wire'))]; "
        "assert not useless, useless"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
