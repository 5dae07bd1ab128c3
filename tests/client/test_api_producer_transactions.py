"""Transactions of both producers: all or nothing, one at a time, never half done."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import KafkaError as BareError
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as BarePartition
from producing import dead_address, fresh_topic, run, values_of

from penstock import Consumer, Producer, Record
from penstock import sync as blocking
from penstock.client.failures import (
    ClientClosed,
    ClientError,
    Fenced,
    PurgedInQueue,
    TimedOut,
    TransactionFailed,
)
from penstock.client.producer import RecordsUndelivered
from penstock.client.producer.transactions.transactions import TransactionCalls, offsets_of
from penstock.errors import MessageTooLarge
from penstock.model import TopicPartition
from penstock.testing.cluster import Cluster
from penstock.testing.external_cluster import ClusterLike

READ_SECONDS = 20.0


def transactional(
    cluster: ClusterLike, name: str | None = None, **settings: Any
) -> Producer[bytes, bytes]:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    given["transactional.id"] = name or f"txn-{uuid4().hex[:12]}"
    return Producer(given, bootstrap=cluster.bootstrap)


def test_a_transaction_is_seen_once_it_is_committed(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster, 2)

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:
            async with producer.transaction():
                written = await producer.send(topic, b"sent", partition=0)
                await producer.post(topic, b"posted", partition=1)
                await producer.send_batch(topic, [b"batch"], partition=1)
                assert written.offset == 0
                assert values_of(penstock_cluster, topic, committed=True) == []
            async with producer.transaction():
                producer.send(topic, b"second", partition=0)

    run(send())
    found = values_of(penstock_cluster, topic, committed=True)
    assert found == [b"sent", b"second", b"posted", b"batch"]


def test_an_exception_aborts_and_goes_on(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:
            with contextlib.suppress(KeyError):
                async with producer.transaction():
                    await producer.send(topic, b"never")
                    producer.send(topic, b"under way")
                    producer.post(topic, b"posted")
                    raise KeyError
            async with producer.transaction():
                producer.send(topic, b"seen")

    run(send())
    assert values_of(penstock_cluster, topic, committed=True) == [b"seen"]


def test_an_abort_by_hand_leaves_the_block_quietly(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:
            async with producer.transaction() as transaction:
                await producer.send(topic, b"never")
                await transaction.abort()
                with pytest.raises(ClientError, match="no transaction is open"):
                    producer.send(topic, b"too late")
            async with producer.transaction():
                await producer.send(topic, b"seen")

    run(send())
    assert values_of(penstock_cluster, topic, committed=True) == [b"seen"]


def test_a_cancellation_inside_the_block_aborts(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:
            inside = asyncio.Event()

            async def work() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"never")
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(topic, b"seen")

    run(send())
    assert values_of(penstock_cluster, topic, committed=True) == [b"seen"]


def test_a_cancellation_while_it_begins_leaves_nothing_open(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:

            async def work() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"never")

            for _ in range(3):
                task = asyncio.create_task(work())
                await asyncio.wait([task], timeout=0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            async with producer.transaction():
                await producer.send(topic, b"seen")

    run(send())
    assert values_of(penstock_cluster, topic, committed=True) == [b"seen"]


def test_a_second_transaction_waits_for_the_first(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    order: list[str] = []

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:

            async def work(name: str, hold: asyncio.Event) -> None:
                async with producer.transaction():
                    order.append(f"{name} begins")
                    await producer.send(topic, name.encode())
                    await hold.wait()
                    order.append(f"{name} ends")

            gate, free = asyncio.Event(), asyncio.Event()
            free.set()
            first = asyncio.create_task(work("first", gate))
            while not order:
                await asyncio.wait([first], timeout=0.01)
            second = asyncio.create_task(work("second", free))
            await asyncio.wait([second], timeout=0.1)
            assert order == ["first begins"]
            gate.set()
            await asyncio.gather(first, second)

    run(send())
    assert order == ["first begins", "first ends", "second begins", "second ends"]
    assert values_of(penstock_cluster, topic, committed=True) == [b"first", b"second"]


def test_waiting_for_the_first_has_a_limit_and_nesting_none(penstock_cluster: ClusterLike) -> None:
    async def send() -> None:
        async with transactional(penstock_cluster) as producer, producer.transaction():
            with pytest.raises(ClientError, match="the caller has a transaction open"):
                await producer.transaction().__aenter__()

            async def other() -> None:
                async with producer.transaction(timeout_s=0.1):
                    pass

            with pytest.raises(TimedOut, match="another transaction"):
                await asyncio.create_task(other())

    run(send())


def test_outside_a_transaction_nothing_is_sent(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        async with transactional(penstock_cluster, "named") as producer:
            for attempt in (producer.send, producer.post):
                with pytest.raises(ClientError, match=r"\(named\) and no transaction is open"):
                    attempt(topic, b"x")
            with pytest.raises(ClientError, match="no transaction is open"):
                await producer.send_batch(topic, [b"x"])

    run(send())


def test_without_a_transactional_id_there_are_no_transactions(
    penstock_cluster: ClusterLike,
) -> None:
    async def send() -> None:
        async with Producer[bytes, bytes](bootstrap=penstock_cluster.bootstrap) as producer:
            with pytest.raises(ClientError, match=r"no transactional\.id"):
                await producer.transaction().__aenter__()

    run(send())


def test_a_record_that_failed_aborts_the_transaction_and_is_raised(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:

            async def posting() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"good")
                    await producer.post(topic, bytes(3000))

            async def sending() -> None:
                async with producer.transaction():
                    producer.send(topic, bytes(3000))

            with pytest.raises(RecordsUndelivered):
                await posting()
            # Nobody looks at this delivery, and it is told all the same.
            with pytest.raises(RecordsUndelivered):
                await sending()
            await _retry(producer, topic)

    async def _retry(producer: Producer[bytes, bytes], topic: str) -> None:
        # librdkafka skips the sequence numbers of what failed, and the broker may refuse the next
        # transaction because of that; the one after it begins anew.
        for _ in range(3):
            try:
                async with producer.transaction():
                    await producer.send(topic, b"seen")
            except PurgedInQueue:
                continue
            return

    run(send())
    assert values_of(penstock_cluster, topic, committed=True) == [b"seen"]


def test_a_second_producer_with_the_same_id_fences_the_first(
    penstock_cluster: ClusterLike,
) -> None:
    topic, name = fresh_topic(penstock_cluster), f"txn-{uuid4().hex[:12]}"

    async def send() -> None:
        old = transactional(penstock_cluster, name)

        async def overtaken() -> None:
            async with old.transaction():
                await old.send(topic, b"old")
                async with transactional(penstock_cluster, name) as new, new.transaction():
                    await new.send(topic, b"new")

        with pytest.raises(Fenced) as raised:
            await overtaken()
        assert raised.value.fatal
        with pytest.raises(Fenced):  # it stays of no use, and says why
            await old.transaction().__aenter__()
        with pytest.raises(Fenced):
            old.send(topic, b"again")
        await old.close()

    run(send())
    assert values_of(penstock_cluster, topic, committed=True) == [b"new"]


def test_without_a_broker_beginning_gives_up_in_time() -> None:
    async def send() -> None:
        producer = Producer[bytes, bytes]({"transactional.id": "nobody"}, bootstrap=dead_address())
        with pytest.raises(Exception, match="transactions cannot be prepared"):
            await producer.transaction(timeout_s=0.3).__aenter__()
        await producer.close()

    run(send())


def test_closing_inside_a_transaction_aborts_it(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def send() -> None:
        producer = transactional(penstock_cluster)
        async with producer.transaction():
            await producer.send(topic, b"never")
            await producer.close()
            with pytest.raises(ClientClosed):
                producer.send(topic, b"closed")

    with pytest.raises(ClientClosed, match="its transaction aborted"):
        run(send())
    assert values_of(penstock_cluster, topic, committed=True) == []


def test_an_open_transaction_does_not_keep_a_producer_from_closing_without_its_broker() -> None:
    async def send(cluster: Cluster, topic: str) -> None:
        producer = transactional(cluster)
        transaction = producer.transaction()
        await transaction.__aenter__()
        await producer.send(topic, b"x")
        cluster.kill()
        producer.send(topic, b"y")
        begun = time.monotonic()
        with pytest.raises(RecordsUndelivered):
            await producer.close(timeout_s=0.5)
        assert time.monotonic() - begun < 20.0

    with Cluster() as cluster:
        run(send(cluster, cluster.create_topic("topic")))


class Reader:
    """A consumer as send_offsets sees one, over librdkafka's."""

    def __init__(self, cluster: ClusterLike, group: str, topic: str) -> None:
        self.bare = BareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self.bare.subscribe([topic])
        self.finished: dict[TopicPartition, int] = {}

    def read(self) -> bytes:
        message = self.bare.poll(READ_SECONDS)
        assert message is not None and message.error() is None
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        self.finished[TopicPartition(topic, partition)] = offset + 1
        return message.value() or b""

    def leave_to_transactions(
        self, _taker: object, said: Mapping[TopicPartition, int] | None, _of_records: bool, /
    ) -> Mapping[TopicPartition, int]:
        return self.finished if said is None else said

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        pass

    def group_metadata(self) -> object:
        return self.bare.consumer_group_metadata()

    def committed(self, topic: str) -> int | None:
        return self.bare.committed([BarePartition(topic, 0)], timeout=READ_SECONDS)[0].offset


def test_offsets_are_committed_with_the_transaction_and_only_then(
    penstock_cluster: ClusterLike,
) -> None:
    source, target = fresh_topic(penstock_cluster), fresh_topic(penstock_cluster)
    group = f"group-{uuid4().hex[:12]}"

    async def work() -> None:
        async with Producer[bytes, bytes](bootstrap=penstock_cluster.bootstrap) as feeder:
            await feeder.send_batch(source, [b"a", b"b"])
        reader = Reader(penstock_cluster, group, source)
        async with transactional(penstock_cluster) as producer:
            with contextlib.suppress(KeyError):
                async with producer.transaction():
                    producer.send(target, await asyncio.to_thread(reader.read))
                    await producer.send_offsets(reader)
                    raise KeyError
            assert (await asyncio.to_thread(reader.committed, source) or -1) < 0
            async with producer.transaction() as transaction:
                producer.send(target, b"a again")
                await transaction.send_offsets(reader)
            assert await asyncio.to_thread(reader.committed, source) == 1
            async with producer.transaction():
                await producer.send_offsets(reader, {TopicPartition(source, 0): 2})
            assert await asyncio.to_thread(reader.committed, source) == 2
            with pytest.raises(ClientError, match="transaction"):
                await producer.send_offsets(reader)
        await asyncio.to_thread(reader.bare.close)

    run(work())
    assert values_of(penstock_cluster, target, committed=True) == [b"a again"]


def test_consume_transform_produce_counts_every_record_once(penstock_cluster: ClusterLike) -> None:
    source, target = fresh_topic(penstock_cluster, 2), fresh_topic(penstock_cluster)
    prefix, name = source[:4], source[4:]
    group = f"group-{uuid4().hex[:12]}"
    failing = iter([True, False, True])
    done = 0

    def consumer() -> Consumer[bytes, bytes]:
        return Consumer(
            {"enable.auto.commit": False, "auto.offset.reset": "earliest"},
            bootstrap=penstock_cluster.bootstrap,
            topics=[name],
            group=group,
            namespace=prefix,
        )

    async def transform(producer: Producer[bytes, bytes]) -> None:
        nonlocal done
        async with consumer() as reading:
            async for batch in reading.batches(max=30, timeout_s=0.2):
                async with producer.transaction():
                    for record in batch.records:
                        await producer.post(target, record.value)
                    await producer.send_offsets(reading, batch)
                    if next(failing, False):
                        raise KeyError
                done += len(batch.records)
                if done == 200:
                    break

    async def work() -> None:
        async with Producer[bytes, bytes](bootstrap=penstock_cluster.bootstrap) as feeder:
            await feeder.send_batch(source, [b"%d" % number for number in range(200)])
        async with transactional(penstock_cluster) as producer:
            while done < 200:
                with contextlib.suppress(KeyError):
                    await transform(producer)

    run(work())
    found = values_of(penstock_cluster, target, committed=True)
    assert sorted(int(value or b"-1") for value in found) == list(range(200))


def test_a_record_or_a_batch_can_be_said_instead_of_offsets() -> None:
    first: Record[None, None] = Record("t", 0, 7, None, None)
    second: Record[None, None] = Record("t", 0, 9, None, None)

    class Batch:
        records: tuple[Record[None, None], ...] = (second, first, Record("t", 1, 0, None, None))

    assert offsets_of(first) == {TopicPartition("t", 0): 8}
    assert offsets_of(Batch()) == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 1}
    assert offsets_of({TopicPartition("t", 0): 3}) == {TopicPartition("t", 0): 3}


# -- the blocking twin


def transactional_blocking(
    cluster: ClusterLike, name: str | None = None
) -> blocking.Producer[bytes, bytes]:
    return blocking.Producer(
        {"transactional.id": name or f"txn-{uuid4().hex[:12]}"}, bootstrap=cluster.bootstrap
    )


def test_the_blocking_one_commits_and_aborts(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    with transactional_blocking(penstock_cluster) as producer:
        with pytest.raises(ClientError, match="no transaction is open"):
            producer.send(topic, b"outside")
        with contextlib.suppress(KeyError), producer.transaction():
            producer.send(topic, b"never").result()
            producer.post(topic, b"nor this")
            raise KeyError
        with producer.transaction():
            assert producer.send(topic, b"sent").result().topic == topic
            producer.post(topic, b"posted")
            producer.send_batch(topic, [b"batch"])
        with producer.transaction() as transaction:
            producer.send(topic, b"never either")
            transaction.abort()
    assert values_of(penstock_cluster, topic, committed=True) == [b"sent", b"posted", b"batch"]


def test_the_blocking_one_is_fenced_too(penstock_cluster: ClusterLike) -> None:
    topic, name = fresh_topic(penstock_cluster), f"txn-{uuid4().hex[:12]}"
    old = transactional_blocking(penstock_cluster, name)

    def overtaken() -> None:
        with old.transaction():
            old.send(topic, b"old").result()
            with transactional_blocking(penstock_cluster, name) as new, new.transaction():
                new.send(topic, b"new")

    with pytest.raises(Fenced):
        overtaken()
    old.close()
    assert values_of(penstock_cluster, topic, committed=True) == [b"new"]


def test_threads_wait_for_each_others_transactions(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)
    with transactional_blocking(penstock_cluster) as producer:

        def work(name: bytes) -> None:
            with producer.transaction():
                for _ in range(10):
                    producer.send(topic, name)

        threads = [threading.Thread(target=work, args=(b"%d" % n,)) for n in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
    found = values_of(penstock_cluster, topic, committed=True)
    assert len(found) == 40
    assert all(len(set(found[begin : begin + 10])) == 1 for begin in range(0, 40, 10))


def test_a_transaction_that_has_failed_says_so_to_the_next_record(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)

    async def send() -> None:
        async with transactional(penstock_cluster) as producer:

            async def posting() -> None:
                async with producer.transaction():
                    with contextlib.suppress(MessageTooLarge):
                        await producer.send(topic, bytes(3000))
                    await producer.post(topic, b"late")

            with pytest.raises(TransactionFailed):
                await posting()

    run(send())
    assert values_of(penstock_cluster, topic, committed=True) == []


class NoCluster:
    """As much of a producer's core as calls of transactions need."""

    def __init__(self) -> None:
        self.failed_for_good: list[Exception] = []
        self.fail_permanently = self.failed_for_good.append
        self.tracker = SimpleNamespace(refusal=None)
        self.handle = SimpleNamespace(poll=lambda: None)
        self.is_interrupted = False

    def within_interruption(self, seconds: float) -> float:
        return seconds


@pytest.mark.parametrize(
    ("fatal", "requires_abort", "attempts"), [(True, False, 1), (False, True, 1), (False, False, 3)]
)
def test_a_call_is_made_again_only_where_that_may_help(
    fatal: bool, requires_abort: bool, attempts: int
) -> None:
    core, made = NoCluster(), list[float]()

    def call(left_s: float) -> None:
        made.append(left_s)
        if len(made) < 3:
            raise KafkaException(
                BareError(BareError._TIMED_OUT, "late", fatal, True, requires_abort)
            )

    calls = TransactionCalls(core)  # type: ignore[arg-type]
    if attempts == 3:
        calls._retry(call, time.monotonic() + READ_SECONDS, "it")
    else:
        with pytest.raises(ClientError):
            calls._retry(call, time.monotonic() + READ_SECONDS, "it")
    assert len(made) == attempts
    assert len(core.failed_for_good) == fatal
