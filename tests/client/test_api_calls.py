"""The thread for what blocks: limits that hold although a call does not come back."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from producing import fresh_topic, run

from penstock import Producer
from penstock import sync as blocking
from penstock.client.failures import TimedOut
from penstock.client.producer.transactions import transactions
from penstock.client.runtime.call_thread import CallStuck, CallThread
from penstock.client.settings import producer_settings
from penstock.testing.external_cluster import ClusterLike

SOON_S = 0.05


@pytest.fixture
def barrier() -> Iterator[threading.Event]:
    """What stuck calls wait for; they are let go at the end."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_that_does_not_come_back_is_given_up(barrier: threading.Event) -> None:
    thread = CallThread("calls")
    with pytest.raises(CallStuck):
        run(thread.finish(barrier.wait, SOON_S))
    assert thread.stuck


def test_nothing_is_asked_of_a_stuck_thread_any_more(barrier: threading.Event) -> None:
    thread = CallThread("calls")
    with pytest.raises(CallStuck):
        thread.wait(barrier.wait, SOON_S)
    with pytest.raises(CallStuck):
        run(thread.finish(lambda: None, 60))


def test_a_call_that_raises_a_timeout_is_not_stuck() -> None:
    thread = CallThread("calls")

    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        thread.wait(fail, 60)
    assert not thread.stuck


def test_a_cancellation_waits_for_the_end_of_the_call(barrier: threading.Event) -> None:
    async def work() -> None:
        begun: Future[None] = Future()
        thread = CallThread("calls")

        def call() -> None:
            begun.set_result(None)
            barrier.wait()

        task = asyncio.create_task(thread.finish(call, 60))
        await asyncio.wrap_future(begun)
        task.cancel()
        done, _waiting = await asyncio.wait([task], timeout=SOON_S)
        assert not done
        barrier.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())


@pytest.fixture
def stuck_commits(barrier: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        transactions.TransactionCalls, "commit", lambda _calls, _timeout_s: barrier.wait()
    )
    for name in ("aio_transactions", "blocking_transactions"):
        monkeypatch.setattr(f"penstock.client.producer.transactions.{name}.MARGIN_SECONDS", 0.0)


@pytest.mark.usefixtures("stuck_commits")
def test_a_producer_whose_commit_never_ends_is_lost_and_closes(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)

    async def work() -> None:
        producer = Producer[bytes, bytes](
            {"transactional.id": f"of-{topic}"}, bootstrap=penstock_cluster.bootstrap
        )

        async def transact() -> None:
            async with producer.transaction(timeout_s=2):
                await producer.send(topic, b"a")

        with pytest.raises(TimedOut, match="the producer is lost") as told:
            await transact()
        assert told.value.fatal and not told.value.retriable
        with pytest.raises(TimedOut, match="the producer is lost"):
            await transact()
        with pytest.raises(TimedOut, match="the producer is lost"):
            producer.post(topic, b"b")
        began = time.monotonic()
        await producer.close(1)
        assert time.monotonic() - began < 10

    run(work())


@pytest.mark.usefixtures("stuck_commits")
def test_a_blocking_producer_whose_commit_never_ends_is_lost_and_closes(
    penstock_cluster: ClusterLike,
) -> None:
    topic = fresh_topic(penstock_cluster)
    producer = blocking.Producer[bytes, bytes](
        {"transactional.id": f"of-{topic}"}, bootstrap=penstock_cluster.bootstrap
    )

    def transact() -> None:
        with producer.transaction(timeout_s=2):
            producer.send(topic, b"a").result()

    with pytest.raises(TimedOut, match="the producer is lost"):
        transact()
    began = time.monotonic()
    producer.close(1)
    assert time.monotonic() - began < 10


def test_a_transactional_producer_does_not_begin_anew_unless_told() -> None:
    key = "metadata.recovery.strategy"
    transactional = {"transactional.id": "a"}
    assert producer_settings(transactional, bootstrap="a:1").rdkafka[key] == "none"
    told = {**transactional, key: "rebootstrap"}
    assert producer_settings(told, bootstrap="a:1").rdkafka[key] == "rebootstrap"
    assert key not in producer_settings({}, bootstrap="a:1").rdkafka
