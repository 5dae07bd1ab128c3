"""A node that has answered stops: interrupted clients end soon and count the records given up."""

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from producing import fresh_topic, run, values_of

from penstock import Consumer, Producer
from penstock import sync as blocking
from penstock.client.failures import ClientError
from penstock.client.producer.delivery import delivery_tracker
from penstock.client.producer.transactions.transactions import TransactionCalls
from penstock.client.runtime.dedup_logger import DedupLogger
from penstock.testing import Cluster

# The limit of the clients is 2 s; the rest is for a busy machine.
END_SECONDS_MAX = 4.0
Work = Callable[[Cluster, asyncio.Event], Awaitable[object]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


async def post(cluster: Cluster, paused: asyncio.Event) -> None:
    topic = fresh_topic(cluster)
    async with Producer(bootstrap=cluster.bootstrap) as producer:
        await producer.send(topic, b"x")
        cluster.pause()
        await producer.post(topic, b"y")
        paused.set()
        await asyncio.Event().wait()


async def post_in_transaction(cluster: Cluster, paused: asyncio.Event) -> None:
    topic, settings = fresh_topic(cluster), {"transactional.id": "t"}
    producer: Producer[bytes, bytes] = Producer(settings, bootstrap=cluster.bootstrap)
    async with producer, producer.transaction():
        await producer.send(topic, b"x")
        cluster.pause()
        await producer.post(topic, b"y")
        paused.set()
        await asyncio.Event().wait()


async def commit(cluster: Cluster, paused: asyncio.Event) -> None:
    topic, settings = fresh_topic(cluster), {"transactional.id": "t"}
    producer: Producer[bytes, bytes] = Producer(settings, bootstrap=cluster.bootstrap)
    async with producer, producer.transaction():
        await producer.send(topic, b"x")
        cluster.pause()
        paused.set()  # the next wait of this task is the commit


async def read_by_group(cluster: Cluster, paused: asyncio.Event) -> None:
    topic = fresh_topic(cluster)
    with blocking.Producer(bootstrap=cluster.bootstrap) as producer:
        producer.send(topic, b"x").result()
    settings = {"auto.offset.reset": "earliest"}
    group = Consumer(settings, bootstrap=cluster.bootstrap, group="g", topics=[topic])
    async with group as consumer:
        await anext(aiter(consumer))
        cluster.pause()
        paused.set()
        await asyncio.Event().wait()


async def end_seconds(work: Work, cluster: Cluster) -> float:
    """Cancel the work of a client once its node is paused; return how long the end took."""
    paused = asyncio.Event()
    task = asyncio.ensure_future(work(cluster, paused))
    await paused.wait()
    cancelled_at = time.monotonic()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    return time.monotonic() - cancelled_at


@pytest.mark.parametrize("work", [post, post_in_transaction, commit, read_by_group])
def test_a_cancelled_client_of_a_paused_node_ends_soon(work: Work, cluster: Cluster) -> None:
    assert asyncio.run(end_seconds(work, cluster)) < END_SECONDS_MAX


def test_a_cancelled_producer_counts_the_records_given_up(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.client"):
        asyncio.run(end_seconds(post, cluster))
    assert "1 record was not delivered" in caplog.text
    assert "REQTMOUT" not in caplog.text


def test_an_interrupted_blocking_consumer_of_a_paused_node_ends_soon(cluster: Cluster) -> None:
    topic = fresh_topic(cluster)
    with blocking.Producer(bootstrap=cluster.bootstrap) as producer:
        producer.send(topic, b"x").result()
    settings = {"auto.offset.reset": "earliest"}
    with (
        contextlib.suppress(KeyboardInterrupt),
        blocking.Consumer(
            settings, bootstrap=cluster.bootstrap, group="g", topics=[topic]
        ) as consumer,
    ):
        next(iter(consumer))
        cluster.pause()
        begun_at = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - begun_at < END_SECONDS_MAX


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_blocking_producer_of_a_paused_node_ends_soon(
    cluster: Cluster, kind: type[BaseException]
) -> None:
    topic, interruption = fresh_topic(cluster), kind()
    with contextlib.suppress(kind), blocking.Producer(bootstrap=cluster.bootstrap) as producer:
        producer.send(topic, b"x").result()
        cluster.pause()
        producer.post(topic, b"y")
        begun_at = time.monotonic()
        raise interruption
    assert time.monotonic() - begun_at < END_SECONDS_MAX
    assert "1 record was not delivered" in interruption.__notes__[0]


def test_an_interrupted_transaction_of_a_paused_node_ends_soon(cluster: Cluster) -> None:
    topic, settings = fresh_topic(cluster), {"transactional.id": "t"}
    with (
        contextlib.suppress(KeyboardInterrupt),
        blocking.Producer(settings, bootstrap=cluster.bootstrap) as producer,
        producer.transaction(),
    ):
        producer.send(topic, b"x").result()
        cluster.pause()
        producer.post(topic, b"y")
        begun_at = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - begun_at < END_SECONDS_MAX


def interrupt_commit(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, paused: bool
) -> tuple[KeyboardInterrupt, float]:
    """Press Ctrl-C when a commit has begun; return the exception, and how long its end took."""
    commit, begun_at = TransactionCalls.commit, 0.0

    def press_and_commit(calls: TransactionCalls, timeout_s: float) -> None:
        nonlocal begun_at
        begun_at = time.monotonic()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        commit(calls, timeout_s)

    def work() -> None:
        settings = {"transactional.id": "t"}
        with (
            blocking.Producer(settings, bootstrap=cluster.bootstrap) as producer,
            producer.transaction(),
        ):
            producer.send("t", b"x").result()
            if paused:
                cluster.pause()

    monkeypatch.setattr(TransactionCalls, "commit", press_and_commit)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        work()
    return interrupted.value, time.monotonic() - begun_at


def test_ctrl_c_during_a_commit_that_gets_no_answer_says_that_its_outcome_is_unknown(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted, took_s = interrupt_commit(cluster, monkeypatch, paused=True)
    assert "whether it is committed is unknown" in interrupted.__notes__[0]
    assert took_s < END_SECONDS_MAX


def test_ctrl_c_during_a_commit_that_ends_says_that_it_was_committed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted, took_s = interrupt_commit(cluster, monkeypatch, paused=False)
    assert "was committed" in interrupted.__notes__[0]
    assert values_of(cluster, "t", committed=True) == [b"x"]
    assert took_s < END_SECONDS_MAX


def test_ctrl_c_during_a_commit_that_fails_says_that_it_was_aborted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = TransactionCalls._end

    def fail_commit(calls: TransactionCalls, how: Any, until: float) -> None:
        if how == "commit":
            error = ClientError("a record failed")
            error.txn_requires_abort = True
            raise error
        end(calls, how, until)

    monkeypatch.setattr(TransactionCalls, "_end", fail_commit)
    interrupted, took_s = interrupt_commit(cluster, monkeypatch, paused=False)
    assert "was aborted" in interrupted.__notes__[0]
    assert took_s < END_SECONDS_MAX


def test_a_cancelled_producer_delivers_to_a_node_that_answers(cluster: Cluster) -> None:
    topic = fresh_topic(cluster)

    async def work() -> None:
        async with Producer({"linger.ms": 500}, bootstrap=cluster.bootstrap) as producer:
            for value in (b"x", b"y", b"z"):
                await producer.post(topic, value)
            raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        run(work())
    assert values_of(cluster, topic) == [b"x", b"y", b"z"]


def interrupt(_error: object, _message: object) -> None:
    """Raise what the handler of a signal raises inside a delivery report."""
    raise KeyboardInterrupt


def test_a_flush_waits_for_no_report_that_an_interruption_has_cost(cluster: Cluster) -> None:
    topic = fresh_topic(cluster)
    with blocking.Producer(bootstrap=cluster.bootstrap) as producer:
        tracker = producer._core.tracker
        counted, tracker.posted = tracker.posted, interrupt
        producer.post(topic, b"x")
        tracker.posted = counted
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        producer.post(topic, b"y")
        producer.flush(END_SECONDS_MAX)
    assert values_of(cluster, topic) == [b"x", b"y"]


def test_a_flush_waits_for_no_batch_that_an_interruption_has_left(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reporting(_failed: object) -> tuple[Callable[..., None], Callable[[], int]]:
        return interrupt, lambda: 0

    monkeypatch.setattr(delivery_tracker, "_batch_report", reporting)
    topic = fresh_topic(cluster)
    with blocking.Producer(bootstrap=cluster.bootstrap) as producer:
        with pytest.raises(KeyboardInterrupt):
            producer.send_batch(topic, [b"x"])
        producer.flush(END_SECONDS_MAX)
    assert values_of(cluster, topic) == [b"x"]


def test_a_flush_settles_a_record_whose_post_was_interrupted(cluster: Cluster) -> None:
    topic = fresh_topic(cluster)
    with blocking.Producer(bootstrap=cluster.bootstrap) as producer:
        window = producer._core.tracker.window
        producer.post(topic, b"x")
        producer.post(topic, b"y")
        assert producer._core.wait_until(lambda: window.settled == 2, END_SECONDS_MAX)
        window.sent -= 1  # handed over, and not counted
        producer.flush(END_SECONDS_MAX)
    assert values_of(cluster, topic) == [b"x", b"y"]


def test_a_producer_whose_transaction_was_interrupted_can_go_on(cluster: Cluster) -> None:
    topic, settings = fresh_topic(cluster), {"transactional.id": "t"}
    with blocking.Producer(settings, bootstrap=cluster.bootstrap) as producer:
        with contextlib.suppress(KeyboardInterrupt), producer.transaction():
            producer.post(topic, b"x")
            raise KeyboardInterrupt
        with producer.transaction():
            producer.post(topic, b"y")
    assert values_of(cluster, topic, committed=True) == [b"y"]


PREFIX = "[penstock#producer-1] [thrd:127.0.0.1:29471/1]: 127.0.0.1:29471/1: "


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [
                f"REQTMOUT {PREFIX}Timed out ProduceRequest in flight (after 30123ms, timeout #0)",
                f"REQTMOUT {PREFIX}Timed out 3 in-flight, 0 retry-queued, 2 out-queue, "
                "0 partially-sent requests",
                f"FAIL {PREFIX}5 request(s) timed out: disconnect (average rtt 1.2ms) "
                "(after 40120ms in state UP)",
            ],
            ["127.0.0.1:29471 does not answer (5 requests)"],
        ),
        (
            [
                "REQTMOUT [c#consumer-1] [thrd:GroupCoordinator]: GroupCoordinator: "
                "127.0.0.1:29471: Timed out 1 in-flight, 0 retry-queued, 0 out-queue, "
                "0 partially-sent requests"
            ],
            ["127.0.0.1:29471 does not answer (1 request)"],
        ),
        (
            [
                "REQTMOUT [c#consumer-1] [thrd:GroupCoordinator]: GroupCoordinator/1: "
                "Timed out 1 in-flight, 0 retry-queued, 0 out-queue, 0 partially-sent requests"
            ],
            ["GroupCoordinator does not answer (1 request)"],
        ),
        (
            [
                "TXNERR [penstock#producer-1] [thrd:main]: Current transaction failed in state "
                "InTransaction: no answer"
            ],
            [],
        ),
        (
            [
                "GETPID [penstock#producer-1] [thrd:main]: Failed to acquire idempotence PID from "
                "broker 127.0.0.1:29471/1: Local: Broker transport failure: retrying"
            ],
            [],
        ),
    ],
)
def test_librdkafkas_lines_about_lost_answers_become_one_sentence(
    lines: list[str], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    dedup_logger = DedupLogger(logging.getLogger("penstock.client.producer"))
    with caplog.at_level(logging.INFO, "penstock.client"):
        for line in lines:
            dedup_logger.log(logging.WARNING, line)
    assert [each.getMessage() for each in caplog.records] == told
