"""Consume, transform, produce: what a transaction has committed is done, and done once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from consuming import at, committed, fill, filled_topic, fresh_group, numbers
from producing import fresh_topic, run, values_of

from penstock import Consumer, Producer
from penstock import sync as blocking
from penstock.client.failures import ClientError, PartitionsRevoked, TimedOut
from penstock.client.producer import RecordsUndelivered
from penstock.testing import Cluster, Delay
from penstock.testing.external_cluster import ClusterLike


def reader(cluster: ClusterLike, topic: str, group: str) -> Consumer[bytes, bytes]:
    """As the guides have it: with automatic commits."""
    settings = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 10}
    return Consumer(settings, bootstrap=cluster.bootstrap, group=group, topics=[topic])


def writer(cluster: ClusterLike, topic: str) -> Producer[bytes, bytes]:
    return Producer({"transactional.id": f"of-{topic}"}, bootstrap=cluster.bootstrap)


@pytest.mark.parametrize("named", [True, False])
def test_a_close_does_not_take_back_what_a_transaction_has_committed(
    penstock_cluster: ClusterLike, named: bool
) -> None:
    source, target = filled_topic(penstock_cluster, 25), fresh_topic(penstock_cluster)
    group = fresh_group()

    async def transform(count: int) -> None:
        async with (
            writer(penstock_cluster, source) as producer,
            reader(penstock_cluster, source, group) as consumer,
        ):
            async for batch in consumer.batches(max=10, timeout_s=0.2):
                async with producer.transaction():
                    for record in batch.records:
                        producer.post(target, record.value)
                    await producer.send_offsets(consumer, batch if named else None)
                count -= len(batch.records)
                if count == 0:
                    break

    run(transform(25))
    assert committed(penstock_cluster, group, source) == 25
    fill(penstock_cluster, source, numbers(5, 25))
    run(transform(5))
    assert values_of(penstock_cluster, target, committed=True) == numbers(30)


def test_the_record_in_hand_goes_with_the_transaction_of_its_body(
    penstock_cluster: ClusterLike,
) -> None:
    source, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def work() -> None:
        async with (
            writer(penstock_cluster, source) as producer,
            reader(penstock_cluster, source, group) as consumer,
        ):
            async for _record in consumer:
                async with producer.transaction():
                    await producer.send_offsets(consumer)
                break

    run(work())
    assert committed(penstock_cluster, group, source) == 1


def test_a_task_that_has_nothing_in_hand_has_to_name_what_it_is_about(
    penstock_cluster: ClusterLike,
) -> None:
    source, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def work() -> None:
        async with (
            writer(penstock_cluster, source) as producer,
            reader(penstock_cluster, source, group) as consumer,
        ):

            async def commit(named: bool) -> None:
                offsets = consumer.finished_offsets() if named else None
                async with producer.transaction():
                    await producer.send_offsets(consumer, offsets)

            count = 0
            async for _record in consumer:
                count += 1
                if count == 2:
                    with pytest.raises(ClientError, match="belong to other callers"):
                        await asyncio.create_task(commit(named=False))
                    await asyncio.create_task(commit(named=True))
                    break

    run(work())
    assert committed(penstock_cluster, group, source) == 1


def test_a_body_that_outlived_its_partition_commits_nothing(penstock_cluster: ClusterLike) -> None:
    """It goes on though its partition went: what it writes was written by the new owner, too."""
    source, target, group = (
        filled_topic(penstock_cluster, 2),
        fresh_topic(penstock_cluster),
        fresh_group(),
    )
    settings = {"auto.offset.reset": "earliest", "revoke.timeout.ms": 100}
    with (
        blocking.Consumer[bytes, bytes](
            settings, bootstrap=penstock_cluster.bootstrap, group=group, topics=[source]
        ) as slow,
        blocking.Producer[bytes, bytes](
            {"transactional.id": f"of-{source}"}, bootstrap=penstock_cluster.bootstrap
        ) as producer,
    ):
        batch = slow.take(1, timeout_s=30)
        assert len(batch) == 1
        slow.unsubscribe()  # as if another member had come

        def write(named: bool) -> None:
            with producer.transaction():
                producer.post(target, b"twice")
                producer.send_offsets(slow, batch if named else None)

        for named in (True, False):
            with pytest.raises(PartitionsRevoked):
                write(named)
    assert values_of(penstock_cluster, target, committed=True) == []


def test_the_next_loop_does_not_get_what_was_committed_before_the_break(
    penstock_cluster: ClusterLike,
) -> None:
    source, group = filled_topic(penstock_cluster, 4), fresh_group()

    async def work() -> list[bytes | None]:
        seen: list[bytes | None] = []
        async with (
            writer(penstock_cluster, source) as producer,
            reader(penstock_cluster, source, group) as consumer,
        ):
            for _ in range(4):
                async for record in consumer:
                    async with producer.transaction():
                        await producer.send_offsets(consumer, record)
                    seen.append(record.value)
                    break
        return seen

    assert run(work()) == numbers(4)


def test_an_aborted_transaction_gives_its_record_back(penstock_cluster: ClusterLike) -> None:
    source, group = filled_topic(penstock_cluster, 2), fresh_group()

    async def work() -> list[bytes | None]:
        seen: list[bytes | None] = []
        async with (
            writer(penstock_cluster, source) as producer,
            reader(penstock_cluster, source, group) as consumer,
        ):
            for failing in (True, False):
                try:
                    async for record in consumer:
                        async with producer.transaction():
                            seen.append(record.value)
                            await producer.send_offsets(consumer)
                            if failing:
                                raise KeyError
                        break
                except KeyError:
                    pass
        return seen

    assert run(work()) == [b"0", b"0"]
    assert committed(penstock_cluster, group, source) == 1


def test_offsets_of_an_aborted_transaction_do_not_count_with_the_next(
    penstock_cluster: ClusterLike,
) -> None:
    source, target, group = (
        filled_topic(penstock_cluster, 2),
        fresh_topic(penstock_cluster),
        fresh_group(),
    )

    async def work() -> list[bytes | None]:
        seen: list[bytes | None] = []
        async with (
            writer(penstock_cluster, source) as producer,
            reader(penstock_cluster, source, group) as consumer,
        ):
            for _ in range(2):
                async for record in consumer:
                    async with producer.transaction() as transaction:
                        await producer.send_offsets(consumer)
                        await transaction.abort()
                    async with producer.transaction():
                        producer.post(target, b"something else")
                    seen.append(record.value)
                    break
        return seen

    assert run(work()) == [b"0", b"0"]


def test_the_blocking_twins_do_the_same(penstock_cluster: ClusterLike) -> None:
    source, group = filled_topic(penstock_cluster, 3), fresh_group()
    settings = {"auto.offset.reset": "earliest"}
    with blocking.Producer[bytes, bytes](
        {"transactional.id": f"of-{source}"}, bootstrap=penstock_cluster.bootstrap
    ) as producer, blocking.Consumer[bytes, bytes](
        settings, bootstrap=penstock_cluster.bootstrap, group=group, topics=[source]
    ) as consumer:  # fmt: skip
        seen = []
        for _ in range(2):
            for record in consumer:
                with producer.transaction():
                    producer.send_offsets(consumer)
                seen.append(record.value)
                break
    assert seen == [b"0", b"1"]
    assert committed(penstock_cluster, group, source) == 2


def _refusing(_topic: str, _key: object, value: bytes | None, _count: int) -> int:
    if value == b"refused":
        raise ValueError("no partition for it")
    return 0


def test_a_send_that_failed_unheard_aborts_its_transaction(penstock_cluster: ClusterLike) -> None:
    topic = fresh_topic(penstock_cluster)

    async def work() -> None:
        async with Producer[bytes, bytes](
            {"transactional.id": f"of-{topic}"},
            bootstrap=penstock_cluster.bootstrap,
            partitioner=_refusing,
        ) as producer:

            async def send_both() -> None:
                async with producer.transaction():
                    producer.send(topic, b"refused")
                    producer.send(topic, b"fine")

            with pytest.raises(RecordsUndelivered, match="no partition for it"):
                await send_both()
            async with producer.transaction():
                producer.send(topic, b"after it")

    run(work())
    assert values_of(penstock_cluster, topic, committed=True) == [b"after it"]


def test_two_producers_do_not_take_offsets_of_one_partition_at_a_time(
    penstock_cluster: ClusterLike,
) -> None:
    source, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def work() -> None:
        async with (
            writer(penstock_cluster, source) as first,
            writer(penstock_cluster, f"{source}-too") as second,
            reader(penstock_cluster, source, group) as consumer,
        ):

            async def take() -> None:
                async with second.transaction():
                    await second.send_offsets(consumer)

            async for _record in consumer:
                async with first.transaction():
                    await first.send_offsets(consumer)
                    with pytest.raises(ClientError, match="another transaction"):
                        await take()
                await take()
                break

    run(work())
    assert committed(penstock_cluster, group, source) == 1


def test_an_automatic_commit_under_way_does_not_arrive_after_the_transaction() -> None:
    async def work(cluster: Cluster) -> None:
        source = filled_topic(cluster, 10)
        async with writer(cluster, source) as producer, reader(cluster, source, "late") as consumer:
            held = cluster.intercept("OffsetCommit", Delay(1), times=1)
            count = 0
            async for _record in consumer:
                count += 1
                if count == 5:
                    await asyncio.to_thread(held.wait)
                    async with producer.transaction():
                        await producer.send_offsets(consumer)
                    break
        assert committed(cluster, "late", source) == 5

    with Cluster() as cluster:
        run(work(cluster))


def test_what_a_late_commit_has_committed_is_not_done_again() -> None:
    async def work(cluster: Cluster) -> None:
        source, target = filled_topic(cluster, 3), fresh_topic(cluster)

        async def transform(seconds: float) -> None:
            async for record in consumer:
                async with producer.transaction(timeout_s=seconds):
                    producer.post(target, record.value)
                    await producer.send_offsets(consumer)
                break

        async with writer(cluster, source) as producer, reader(cluster, source, "late") as consumer:
            await transform(30)
            cluster.intercept("EndTxn", Delay(2), times=1)
            with pytest.raises(TimedOut):
                await transform(0.5)
            with pytest.raises(ClientError, match="committed after all"):
                await transform(30)
            await transform(30)
        assert values_of(cluster, target, committed=True) == numbers(3)

    with Cluster() as cluster:
        run(work(cluster))


def test_a_blocking_transaction_says_what_failed_and_a_close_does_not_repeat_it(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster, max_message_bytes=1000)
    with blocking.Producer[bytes, bytes](
        {"transactional.id": f"of-{topic}"}, bootstrap=penstock_cluster.bootstrap
    ) as producer:

        def transact() -> None:
            with producer.transaction():
                producer.send(topic, bytes(3000))

        with pytest.raises(RecordsUndelivered, match="MessageTooLarge"):
            transact()


def test_after_a_revocation_the_next_records_can_be_committed(
    penstock_cluster: ClusterLike,
) -> None:
    """Records that are finished by hand: nobody hears of the end of a body."""
    source, group = filled_topic(penstock_cluster, 2), fresh_group()

    async def work() -> None:
        async with (
            writer(penstock_cluster, source) as producer,
            Consumer[bytes, bytes](
                {"auto.offset.reset": "earliest"},
                bootstrap=penstock_cluster.bootstrap,
                group=group,
                topics=[source],
                manual_finish=True,
            ) as consumer,
        ):
            await consumer.take(1, 30)
            await consumer.unsubscribe()
            await consumer.subscribe([source])
            (record,) = await consumer.take(1, 30)
            async with producer.transaction():
                await producer.send_offsets(consumer, record)

    run(work())
    assert committed(penstock_cluster, group, source) == 1


def test_offsets_by_name_do_not_take_back_what_another_member_has_committed(
    penstock_cluster: ClusterLike,
) -> None:
    """A worker's offsets from before its partition went to another member, and came back."""
    source, target, group = (
        filled_topic(penstock_cluster, 3),
        fresh_topic(penstock_cluster),
        fresh_group(),
    )
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}

    def member() -> blocking.Consumer[bytes, bytes]:
        return blocking.Consumer(
            {**settings, "revoke.timeout.ms": 100},
            bootstrap=penstock_cluster.bootstrap,
            group=group,
            topics=[source],
            manual_finish=True,
        )

    with (
        member() as consumer,
        blocking.Producer[bytes, bytes](
            {"transactional.id": f"of-{source}"}, bootstrap=penstock_cluster.bootstrap
        ) as producer,
        ThreadPoolExecutor(1) as worker,
    ):

        def write(offset: int) -> None:
            with producer.transaction():
                producer.post(target, str(offset).encode())
                producer.send_offsets(consumer, {at(source): offset})

        assert len(consumer.take(1, timeout_s=30)) == 1
        consumer.unsubscribe()
        with pytest.raises(PartitionsRevoked):
            worker.submit(write, 1).result()
        with member() as other:
            assert len(other.take(2, timeout_s=30)) == 2
            other.commit({at(source): 2})
        consumer.subscribe([source])
        (record,) = consumer.take(1, timeout_s=30)
        assert record.offset == 2
        with pytest.raises(PartitionsRevoked):
            worker.submit(write, 1).result()
        assert committed(penstock_cluster, group, source) == 2
        for again in (2, 3):
            worker.submit(write, again).result()
    assert values_of(penstock_cluster, target, committed=True) == [b"2", b"3"]
    assert committed(penstock_cluster, group, source) == 3
