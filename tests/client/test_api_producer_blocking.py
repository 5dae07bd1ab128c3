"""The blocking Producer of penstock.sync: the same promises, without a loop."""

import gc
import os
import threading
import time
import warnings
from typing import Any

import pytest
from producing import dead_address, fresh_topic, read_back, values_of

from penstock import BatchDelivered, Delivered, OutRecord, ProducerInterceptor
from penstock.client.failures import (
    AllBrokersDown,
    BufferExhausted,
    ClientClosed,
    ClientError,
    MessageTimedOut,
    TimedOut,
    UsedAfterFork,
)
from penstock.client.partitioners import RoundRobin
from penstock.client.producer import BatchFailed, RecordsUndelivered
from penstock.errors import MessageTooLarge
from penstock.sync import Producer
from penstock.testing.external_cluster import ClusterLike


def bytes_producer(cluster: ClusterLike, **settings: Any) -> Producer[bytes, bytes]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(given, bootstrap=cluster.bootstrap)


def nobody(**settings: Any) -> Producer[bytes, bytes]:
    """A producer without a broker."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(given, bootstrap=dead_address())


def test_result_says_where_the_record_was_written(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    with bytes_producer(penstock_cluster) as producer:
        written = producer.send(topic, b"one").result()
        assert (written.topic, written.partition, written.offset) == (topic, 0, 0)
        later = producer.send(topic, b"two", b"key", headers={"h": "1"})
        assert later.result(30).offset == 1 and later.done()
    assert values_of(penstock_cluster, topic) == [b"one", b"two"]


def test_a_delivery_is_done_without_anybody_asking(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    heard = threading.Event()

    class Listener(ProducerInterceptor):
        def on_acknowledgement(self, delivered: Delivered | None, error: Exception | None) -> None:
            assert error is None and delivered is not None
            heard.set()

    with Producer[bytes, bytes](
        bootstrap=penstock_cluster.bootstrap, interceptors=[Listener()]
    ) as producer:
        delivery = producer.send(topic, b"x")
        assert heard.wait(30)
        assert delivery.done()


def test_order_is_kept_when_there_is_no_room(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    wanted = [b"%d" % number for number in range(3000)]
    with bytes_producer(penstock_cluster, queue_buffering_max_messages=50) as producer:
        for value in wanted[:1000]:
            producer.send(topic, value)
        for value in wanted[1000:2000]:
            producer.post(topic, value)
        assert producer.send_batch(topic, wanted[2000:]) == BatchDelivered(topic, 1000)
    assert values_of(penstock_cluster, topic) == wanted


def test_several_threads_may_send_at_once(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    with bytes_producer(penstock_cluster) as producer:

        def work(name: int) -> None:
            for number in range(1000):
                producer.post(topic, b"%d-%d" % (name, number))
            assert producer.send(topic, b"%d-1000" % name).result().topic == topic

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        producer.flush()
    found = values_of(penstock_cluster, topic)
    for name in range(4):
        mine = [value for value in found if value and value.startswith(b"%d-" % name)]
        assert mine == [b"%d-%d" % (name, number) for number in range(1001)]


def test_posts_that_failed_are_raised_by_flush(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)
    with bytes_producer(penstock_cluster) as producer:
        producer.post(topic, bytes(3000), b"large")
        with pytest.raises(RecordsUndelivered) as raised:
            producer.flush()
        assert [each.key for each in raised.value.failures] == [b"large"]
        with pytest.raises(MessageTooLarge):
            producer.send(topic, bytes(3000)).result()
        with pytest.raises(BatchFailed) as failed:
            producer.send_batch(topic, [bytes(3000)])
        assert failed.value.failures[0].index == 0


def test_a_batch_of_all_kinds_arrives(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    with bytes_producer(penstock_cluster) as producer:
        sent = producer.send_batch(
            topic, [b"value", (b"key", b"pair"), OutRecord(b"headers", headers={"a": "b"})]
        )
        assert sent.count == 3
    found = [(each.key(), each.value()) for each in read_back(penstock_cluster, topic)]
    assert found == [(None, b"value"), (b"key", b"pair"), (None, b"headers")]


def test_partitioners_and_namespaces_work_here_too(penstock_cluster: ClusterLike) -> None:
    full = fresh_topic(penstock_cluster, 3)
    with Producer[bytes, bytes](
        bootstrap=penstock_cluster.bootstrap, partitioner=RoundRobin(), namespace=full[:4]
    ) as producer:
        written = [producer.send(full[4:], b"x").result() for _ in range(3)]
        assert {each.topic for each in written} == {full[4:]}
        assert sorted(each.partition for each in written) == [0, 1, 2]
        assert len(producer.partitions_of(full[4:])) == 3


def test_without_room_it_waits_max_block_ms_and_says_so() -> None:
    producer = nobody(queue_buffering_max_messages=2, max_block_ms=200)
    producer.send("topic", b"1")
    producer.post("topic", b"2")
    begun = time.monotonic()
    with pytest.raises(BufferExhausted, match=r"max\.block\.ms \(200 ms\)"):
        producer.send("topic", b"3")
    assert 0.15 < time.monotonic() - begun < 10.0
    with pytest.raises(RecordsUndelivered):
        producer.close(timeout_s=0.1)


def test_without_a_broker_nothing_waits_for_ever() -> None:
    producer = nobody(delivery_timeout_ms=500, linger_ms=0)
    delivery = producer.send("topic", b"x")
    with pytest.raises(TimedOut):
        delivery.result(0.05)
    with pytest.raises(TimedOut):
        producer.flush(0.05)
    # The record times out, or is given up because nothing listens: whichever comes first.
    with pytest.raises((MessageTimedOut, AllBrokersDown)):
        delivery.result()
    unsent = producer.send("topic", b"y")
    begun = time.monotonic()
    with pytest.raises(RecordsUndelivered):
        producer.close(timeout_s=0.05)
    assert time.monotonic() - begun < 10.0
    assert isinstance(unsent.exception(), AllBrokersDown)
    with pytest.raises(ClientClosed):
        producer.send("topic", b"z")
    producer.close()


def test_with_failures_only_posts_are_counted_by_flush(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    with bytes_producer(penstock_cluster, delivery_report_only_error=True) as producer:
        for _ in range(3000):
            producer.post(topic, b"x")
        producer.flush()
        assert len(values_of(penstock_cluster, topic)) == 3000
        with pytest.raises(ClientError, match="post"):
            producer.send(topic, b"x")


def test_one_that_was_dropped_unclosed_warns(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    producer = bytes_producer(penstock_cluster)
    producer.send(topic, b"x").result()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del producer
        gc.collect()
    assert [each.category for each in seen] == [ResourceWarning]


def test_the_child_of_a_fork_may_not_use_it(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    with bytes_producer(penstock_cluster) as producer:
        producer.send(topic, b"parent").result()
        child = os.fork()
        if child == 0:
            os._exit(_refused(producer, topic))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        producer.send(topic, b"parent again").result()
    assert values_of(penstock_cluster, topic) == [b"parent", b"parent again"]


def _refused(producer: Producer[bytes, bytes], topic: str) -> int:
    try:
        producer.send(topic, b"child")
    except UsedAfterFork:
        producer.close()
        return 0
    return 1
