"""The asyncio Producer against a node: what arrives, and what its deliveries say."""

import asyncio
import time
from typing import Any

import pytest
from producing import fresh_topic, read_back, run, values_of

from penstock import BatchDelivered, Delivered, Outgoing, OutRecord, Producer, ProducerInterceptor
from penstock.client.failures import (
    ClientClosed,
    SerializationError,
    UnknownPartition,
)
from penstock.client.partitioners import partition_for_key
from penstock.client.producer import BatchFailed, RecordsUndelivered
from penstock.errors import MessageTooLarge
from penstock.model import TopicPartition
from penstock.testing.external_cluster import ClusterLike


def bytes_producer(cluster: ClusterLike, **settings: Any) -> Producer[bytes, bytes]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(given, bootstrap=cluster.bootstrap)


def test_a_delivery_says_where_the_record_was_written(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> list[Delivered]:
        async with bytes_producer(penstock_cluster) as producer:
            return [await producer.send(topic, b"one"), await producer.send(topic, b"two")]

    first, second = run(send())
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert second.place == TopicPartition(topic, 0) and second.offset == 1
    assert first.timestamp_ms is not None
    assert abs(first.timestamp_ms - time.time() * 1000) < 60_000


def test_key_headers_time_and_partition_arrive(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, 3)
    stamp = int(time.time() * 1000) - 1_000

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            await producer.send(
                topic,
                b"value",
                b"key",
                partition=2,
                headers=[("a", "text"), ("a", b"bytes"), ("none", None)],
                timestamp_ms=stamp,
            )

    run(send())
    (message,) = read_back(penstock_cluster, topic)
    assert (message.key(), message.value(), message.partition()) == (b"key", b"value", 2)
    assert message.headers() == [("a", b"text"), ("a", b"bytes"), ("none", None)]
    assert message.timestamp()[1] == stamp


def test_a_record_without_a_value_is_a_tombstone(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            await producer.send(topic, None, b"gone")
            await producer.send(topic, b"", b"empty")

    run(send())
    found = [(message.key(), message.value()) for message in read_back(penstock_cluster, topic)]
    assert found == [(b"gone", None), (b"empty", b"")]


def test_keys_go_where_javas_producer_puts_them(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, 7)
    keys = [f"customer-{number}".encode() for number in range(50)]

    async def send() -> list[Delivered]:
        async with bytes_producer(penstock_cluster) as producer:
            pending = [producer.send(topic, b"", key) for key in keys]
            return [await each for each in pending]

    written = run(send())
    assert [each.partition for each in written] == [partition_for_key(key, 7) for key in keys]


def test_the_hot_path_writes_what_the_slow_one_writes(penstock_cluster: ClusterLike) -> None:
    hot, slow = fresh_topic(penstock_cluster, 3), fresh_topic(penstock_cluster, 3)
    records = [(b"k%d" % number, b"v%d" % number) for number in range(100)]

    async def send() -> None:
        async with (
            bytes_producer(penstock_cluster) as fluent,
            Producer[bytes, bytes](
                bootstrap=penstock_cluster.bootstrap, interceptors=[ProducerInterceptor()]
            ) as halting,
        ):
            for key, value in records:
                fluent.send(hot, value, key)
                halting.send(slow, value, key)

    run(send())

    def seen(topic: str) -> list[tuple[Any, ...]]:
        found = read_back(penstock_cluster, topic)
        return [(each.partition(), each.offset(), each.key(), each.value()) for each in found]

    assert len(seen(hot)) == len(records)
    assert seen(hot) == seen(slow)


def test_text_is_sent_as_utf_8_without_a_serializer(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with Producer[str, str](bootstrap=penstock_cluster.bootstrap) as producer:
            await producer.send(topic, "größer", "schlüssel")

    run(send())
    (message,) = read_back(penstock_cluster, topic)
    assert (message.key(), message.value()) == ("schlüssel".encode(), "größer".encode())


def test_what_cannot_be_serialized_is_refused_before_it_is_sent(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with Producer[int, Any](
            bootstrap=penstock_cluster.bootstrap, key=int, value=bytes
        ) as producer:
            with pytest.raises(SerializationError, match="the value of a record") as refused:
                producer.send(topic, 3.5, 1)
            assert refused.value.topic == topic and not refused.value.is_key
            with pytest.raises(SerializationError, match="the key"):
                producer.send(topic, b"", "one")  # type: ignore[arg-type]

    run(send())
    assert values_of(penstock_cluster, topic) == []


def test_a_partition_that_does_not_exist_fails_its_record(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            await producer.send(topic, b"here")
            with pytest.raises(UnknownPartition, match=topic):
                await producer.send(topic, b"nowhere", partition=5)

    run(send())


def test_max_request_size_is_held_with_a_clear_error(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with bytes_producer(penstock_cluster, max_request_size=2000) as producer:
            for headers in (None, {"slow": b"path"}):
                with pytest.raises(MessageTooLarge, match=r"max\.request\.size \(2,000\)"):
                    producer.send(topic, bytes(3000), headers=headers)
                with pytest.raises(MessageTooLarge, match=r"max\.request\.size"):
                    producer.post(topic, bytes(3000), headers=headers)
            await producer.send(topic, bytes(1000))

    run(send())


def test_a_record_too_large_for_the_topic_fails_as_the_broker_says(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            large = producer.send(topic, bytes(5000))
            with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes"):
                await large
            assert isinstance(large.exception(), MessageTooLarge)
            assert (await producer.send(topic, b"small")).offset == 0

    run(send())


def test_posts_that_failed_are_raised_together_by_the_next_flush(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            await producer.send(topic, b"known")
            for number in range(3):
                await producer.post(topic, bytes(3000), b"large-%d" % number)
            with pytest.raises(RecordsUndelivered) as raised:
                await producer.flush()
            assert raised.value.count == 3
            assert {each.key for each in raised.value.failures} == {
                b"large-0",
                b"large-1",
                b"large-2",
            }
            assert {type(each.error) for each in raised.value.failures} == {MessageTooLarge}
            assert "3 records were not delivered (3 x MessageTooLarge" in str(raised.value)
            await producer.flush()  # said once

    run(send())


def test_close_raises_what_nobody_asked_for(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)

    async def send() -> None:
        producer = bytes_producer(penstock_cluster)
        producer.send(topic, bytes(3000), b"unawaited")
        await producer.post(topic, bytes(3000), b"posted")
        with pytest.raises(RecordsUndelivered) as raised:
            await producer.close()
        assert {each.key for each in raised.value.failures} == {b"unawaited", b"posted"}

    run(send())


def test_an_error_of_the_block_is_not_hidden_by_that_of_its_close(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)

    async def send() -> None:
        async def broken() -> None:
            async with bytes_producer(penstock_cluster) as producer:
                await producer.post(topic, bytes(3000))
                raise KeyError

        with pytest.raises(KeyError) as raised:
            await broken()
        assert "1 record was not delivered" in "".join(raised.value.__notes__)

    run(send())


def test_a_closed_producer_says_so(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            await producer.send(topic, b"in time")
        with pytest.raises(ClientClosed):
            producer.send(topic, b"late")
        with pytest.raises(ClientClosed):
            await producer.flush()
        await producer.close()  # twice is no error

    run(send())


def test_a_producer_that_was_never_used_closes_without_a_broker() -> None:
    async def close() -> None:
        await Producer[bytes, bytes](bootstrap="127.0.0.1:1").close()

    run(close())


def test_flush_waits_for_what_was_sent_before_it_and_for_no_more(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            sending = True

            async def go_on() -> None:
                while sending:
                    await producer.send(topic, b"later")

            others = asyncio.create_task(go_on())
            before = [producer.send(topic, b"%d" % number) for number in range(100)]
            await producer.flush()
            assert all(each.done() for each in before)
            sending = False
            await others

    run(send())


def test_flush_does_not_wait_for_linger(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> float:
        async with bytes_producer(penstock_cluster, linger_ms=30_000) as producer:
            begun = time.monotonic()
            delivery = producer.send(topic, b"soon")
            await producer.flush()
            assert delivery.done()
            return time.monotonic() - begun

    assert run(send()) < 15.0


def test_a_poster_that_never_waits_lets_others_have_the_loop(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await _turn()

        async with bytes_producer(penstock_cluster) as producer:
            counting = asyncio.create_task(count())
            for _ in range(20_000):
                await producer.post(topic, b"x")
            counting.cancel()
        return turns

    assert run(send()) >= 5


async def _turn() -> None:
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    await done


def test_one_awaiter_can_be_cancelled_without_the_other(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            delivery = producer.send(topic, b"shared")

            async def wait() -> Delivered:
                return await delivery

            first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
            await _turn()
            first.cancel()
            assert (await second).offset == 0
            with pytest.raises(asyncio.CancelledError):
                await first

    run(send())


def test_deliveries_can_be_gathered_and_waited_for(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            written = await asyncio.gather(*(producer.send(topic, b"x") for _ in range(10)))
            assert [each.offset for each in written] == list(range(10))
            last = await asyncio.wait_for(producer.send(topic, b"x"), 30)
            assert last.place == TopicPartition(topic, 0)
            assert "@10" in repr(last)

    run(send())


def test_a_batch_of_values_pairs_and_records_arrives_in_order(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, 2)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            values = await producer.send_batch(
                topic, [b"%d" % number for number in range(5000)], partition=1
            )
            assert values == BatchDelivered(topic, 5000)
            pairs = await producer.send_batch(topic, [(b"k", b"a"), (b"k", None)], partition=0)
            assert pairs == BatchDelivered(topic, 2)
            mixed = await producer.send_batch(
                topic,
                [
                    b"plain",
                    OutRecord(b"with headers", b"k", headers={"h": "1"}),
                    (b"k", b"pair"),
                    OutRecord(b"elsewhere", partition=1),
                ],
                partition=0,
            )
            assert mixed.count == 4
            assert await producer.send_batch(topic, []) == BatchDelivered(topic, 0)

    run(send())
    found = read_back(penstock_cluster, topic)
    zero = [message for message in found if message.partition() == 0]
    one = [message.value() for message in found if message.partition() == 1]
    assert one == [*(b"%d" % number for number in range(5000)), b"elsewhere"]
    assert [message.value() for message in zero] == [b"a", None, b"plain", b"with headers", b"pair"]
    assert zero[3].headers() == [("h", b"1")]


def test_a_batch_that_failed_in_part_names_the_records(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, 3)

    async def send() -> None:
        async with bytes_producer(penstock_cluster, max_request_size=2000) as producer:
            await producer.partitions_of(topic)
            with pytest.raises(BatchFailed) as raised:
                await producer.send_batch(topic, [b"a", bytes(3000), b"b", bytes(4000)])
            failed = raised.value
            assert [each.index for each in failed.failures] == [1, 3]
            assert [each.value for each in failed.failures] == [bytes(3000), bytes(4000)]
            assert failed.delivered == 2
            assert "2 of 4 records of the batch" in str(failed)

    run(send())
    assert sorted(value or b"" for value in values_of(penstock_cluster, topic)) == [b"a", b"b"]


def test_a_batch_the_broker_refused_names_its_records(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)

    async def send() -> None:
        async with bytes_producer(penstock_cluster) as producer:
            with pytest.raises(BatchFailed) as raised:
                await producer.send_batch(topic, [bytes(2000), bytes(2000)])
            assert [each.index for each in raised.value.failures] == [0, 1]
            assert {type(each.error) for each in raised.value.failures} == {MessageTooLarge}
            assert raised.value.delivered == 0

    run(send())


class Stamp(ProducerInterceptor):
    """Marks what is sent and remembers what came of it."""

    def __init__(self) -> None:
        self.delivered: list[Delivered] = []
        self.errors: list[Exception] = []
        self.closed = False

    def on_send(self, record: Outgoing[Any, Any]) -> Outgoing[Any, Any]:
        from dataclasses import replace

        return replace(record, headers=(*record.headers, ("stamped", b"yes")))

    def on_acknowledgement(self, delivered: Delivered | None, error: Exception | None) -> None:
        if delivered is not None:
            self.delivered.append(delivered)
        if error is not None:
            self.errors.append(error)

    def close(self) -> None:
        self.closed = True


class Broken(ProducerInterceptor):
    def on_send(self, _record: Outgoing[Any, Any]) -> Outgoing[Any, Any]:
        raise RuntimeError("broken")


def test_interceptors_see_records_out_and_acknowledgements_back(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)
    stamp = Stamp()

    async def send() -> None:
        async with Producer[bytes, bytes](
            bootstrap=penstock_cluster.bootstrap, interceptors=[Broken(), stamp]
        ) as producer:
            await producer.send(topic, b"sent")
            await producer.post(topic, b"posted")
            await producer.send_batch(topic, [b"in a batch"])
            with pytest.raises(MessageTooLarge):
                await producer.send(topic, bytes(3000))

    run(send())
    assert sorted(each.offset for each in stamp.delivered) == [0, 1, 2]
    assert [type(each) for each in stamp.errors] == [MessageTooLarge]
    assert stamp.closed
    found = read_back(penstock_cluster, topic)
    assert [message.headers() for message in found] == [[("stamped", b"yes")]] * 3


def test_an_interceptor_may_send_with_its_own_producer(penstock_cluster: ClusterLike) -> None:
    topic, audit = fresh_topic(penstock_cluster), fresh_topic(penstock_cluster)

    class Audit(ProducerInterceptor):
        producer: Producer[bytes, bytes]

        def on_acknowledgement(self, delivered: Delivered | None, error: Exception | None) -> None:
            assert error is None and delivered is not None
            if delivered.topic == topic:
                self.producer.post(audit, b"%d" % delivered.offset)

    async def send() -> None:
        auditing = Audit()
        async with Producer[bytes, bytes](
            bootstrap=penstock_cluster.bootstrap, interceptors=[auditing]
        ) as producer:
            auditing.producer = producer
            for _ in range(3):
                await producer.send(topic, b"x")
            await producer.flush()

    run(send())
    assert values_of(penstock_cluster, audit) == [b"0", b"1", b"2"]


def test_a_partitioner_of_ones_own_is_asked_with_bytes(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, 4)
    asked: list[tuple[Any, ...]] = []

    def last(name: str, key: bytes | None, value: bytes | None, count: int) -> int:
        asked.append((name, key, value, count))
        return count - 1

    async def send() -> None:
        async with Producer[str, str](
            bootstrap=penstock_cluster.bootstrap, partitioner=last
        ) as producer:
            pending = [producer.send(topic, f"{number}", "key") for number in range(3)]
            assert [(await each).partition for each in pending] == [3, 3, 3]
            await producer.send_batch(topic, ["a", "b"])

    run(send())
    assert asked[0] == (topic, b"key", b"0", 4)
    assert values_of(penstock_cluster, topic) == [b"0", b"1", b"2", b"a", b"b"]


def test_a_namespace_goes_before_topics_and_is_not_seen(penstock_cluster: ClusterLike) -> None:
    full = fresh_topic(penstock_cluster)
    prefix, name = full[:4], full[4:]

    async def send() -> None:
        async with Producer[bytes, bytes](
            bootstrap=penstock_cluster.bootstrap, namespace=prefix
        ) as producer:
            assert (await producer.send(name, b"hot")).topic == name
            assert (await producer.send(name, b"slow", headers={"a": "b"})).topic == name
            assert (await producer.send_batch(name, [b"batch"])).topic == name
            assert [each.partition for each in await producer.partitions_of(name)] == [0]

    run(send())
    assert values_of(penstock_cluster, full) == [b"hot", b"slow", b"batch"]
