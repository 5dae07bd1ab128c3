"""Transactions that go wrong: what their errors say, and what is not waited for."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError as BareError
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as BarePartition
from producing import fresh_topic, run, values_of

from penstock import Producer
from penstock import sync as blocking
from penstock.client.failures import (
    ClientError,
    CommitUnknown,
    Fenced,
    TimedOut,
    TransactionFailed,
    is_fatal,
)
from penstock.client.producer import RecordsUndelivered
from penstock.client.producer.transactions.transactions import TransactionCalls
from penstock.testing import Cluster, Delay
from penstock.testing.external_cluster import ClusterLike


def transactional(cluster: ClusterLike, name: str | None = None) -> Producer[bytes, bytes]:
    given = {"transactional.id": name or f"txn-{uuid4().hex[:12]}"}
    return Producer(given, bootstrap=cluster.bootstrap)


def test_a_commit_that_is_not_confirmed_in_time_says_that_it_may_be_done() -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("late")

        async def story() -> None:
            async with transactional(cluster) as producer:
                async with producer.transaction():
                    await producer.send(topic, b"warm")
                with cluster.intercept("EndTxn", Delay(1.5)):
                    with pytest.raises(CommitUnknown, match="Do not repeat the block") as told:
                        async with producer.transaction(timeout_s=0.5):
                            await producer.send(topic, b"one")
                    assert not told.value.retriable and isinstance(told.value, TimedOut)
                    async with producer.transaction():
                        pass  # it is committed by now, or this would say why not
                assert values_of(cluster, topic, committed=True) == [b"warm", b"one"]

        def blocking_story() -> None:
            with blocking.Producer[bytes, bytes](
                {"transactional.id": "b"}, bootstrap=cluster.bootstrap
            ) as producer:
                with producer.transaction():
                    producer.post(topic, b"warm")
                with (
                    cluster.intercept("EndTxn", Delay(1.5)),
                    pytest.raises(CommitUnknown, match="Do not repeat the block"),
                    producer.transaction(timeout_s=0.5),
                ):
                    producer.post(topic, b"two")

        run(story())
        blocking_story()


@pytest.mark.parametrize("how", ["post", "send"])
def test_what_was_given_up_because_the_producer_is_fenced_says_so(
    penstock_cluster: ClusterLike, how: str
) -> None:
    topic, name = fresh_topic(penstock_cluster), f"fenced-{uuid4().hex[:8]}"

    async def write_late(producer: Producer[bytes, bytes]) -> None:
        async with producer.transaction():
            if how == "post":
                await producer.post(topic, b"late")
                await producer.flush()
            else:
                await producer.send(topic, b"late")

    async def story() -> None:
        async with (
            transactional(penstock_cluster, name) as first,
            transactional(penstock_cluster, name) as second,
        ):
            for each in (first, second):
                async with each.transaction():
                    await each.send(topic, b"x")
            with pytest.raises((RecordsUndelivered, Fenced)) as told:
                await write_late(first)
            assert "fenced by a newer instance" in str(told.value)
            assert "Purged" not in str(told.value) and is_fatal(told.value)

    run(story())


@pytest.mark.parametrize("twin", ["asyncio", "blocking"])
def test_a_transaction_that_has_failed_is_not_waited_for(
    penstock_cluster: ClusterLike, monkeypatch: pytest.MonkeyPatch, twin: str
) -> None:
    """librdkafka sends nothing more of it, and tells only who asks for something."""
    topic, looked = fresh_topic(penstock_cluster), list[float]()

    def failed(_calls: TransactionCalls, timeout_s: float) -> None:
        looked.append(timeout_s)
        raise TransactionFailed("so it was said")

    def late(_self: object, timeout_s: float | None = None) -> None:
        raise TimedOut(f"still under way after {timeout_s}")

    async def late_in_a_loop(self: object, timeout_s: float | None = None) -> None:
        late(self, timeout_s)

    monkeypatch.setattr(TransactionCalls, "check_state", failed)

    async def story() -> None:
        async with transactional(penstock_cluster) as producer:
            monkeypatch.setattr(Producer, "flush", late_in_a_loop)
            async with producer.transaction():
                await producer.post(topic, b"never")

    def blocking_story() -> None:
        with blocking.Producer[bytes, bytes](
            {"transactional.id": f"b-{uuid4().hex[:8]}"}, bootstrap=penstock_cluster.bootstrap
        ) as producer:
            monkeypatch.setattr(blocking.Producer, "flush", late)
            with producer.transaction():
                producer.post(topic, b"never")

    with pytest.raises(TransactionFailed, match="so it was said"):
        run(story()) if twin == "asyncio" else blocking_story()
    assert len(looked) == 1
    assert values_of(penstock_cluster, topic, committed=True) == []


def test_a_look_asks_librdkafka_for_what_changes_nothing() -> None:
    said: list[tuple[object, ...]] = []
    failures: list[Exception | None] = [None, KafkaException(BareError(BareError._STATE))]

    def send_offsets(*arguments: object) -> None:
        said.append(arguments)
        failure = failures.pop(0)
        if failure is not None:
            raise failure

    rdkafka = SimpleNamespace(send_offsets_to_transaction=send_offsets)
    core: Any = SimpleNamespace(handle=SimpleNamespace(rdkafka=rdkafka))
    calls = TransactionCalls(core)
    calls.check_state(1.0)
    assert said == [], "without offsets there is nothing that could be said again"
    calls._sent = ([BarePartition("t", 0, 5)], "member")
    calls.check_state(1.0)
    with pytest.raises(ClientError, match="cannot be committed"):
        calls.check_state(2.0)
    assert [each[1:] for each in said] == [("member", 1.0), ("member", 2.0)]
