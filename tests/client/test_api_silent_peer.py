"""A peer takes connections and never answers: cancelled clients end soon, and name the address."""

import asyncio
import contextlib
import logging
import re
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock import sync as blocking
from penstock.client.failures import PurgedInQueue
from penstock.client.producer import RecordsUndelivered
from penstock.client.runtime.dedup_logger import unreachable
from penstock.testing import Cluster

END_SECONDS_MAX = 3.0
SILENT = "h:9 takes connections and does not answer"
Work = Callable[[str], Awaitable[object]]


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a listener: the kernel takes connections, and no process reads them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield address_of(listener)


async def send(address: str) -> None:
    async with Producer(bootstrap=address) as producer:
        await producer.send("orders", b"x")


async def post(address: str) -> None:
    async with Producer(bootstrap=address) as producer:
        await producer.post("orders", b"x")
        await asyncio.Event().wait()


async def send_to_chosen_partition(address: str) -> None:
    async with Producer(bootstrap=address, partitioner=lambda *_: 0) as producer:
        await producer.send("orders", b"x")


async def send_batch(address: str) -> None:
    async with Producer(bootstrap=address) as producer:
        await producer.send_batch("orders", [b"x"])


async def begin_transaction(address: str) -> None:
    producer: Producer[bytes, bytes] = Producer({"transactional.id": "t"}, bootstrap=address)
    async with producer, producer.transaction():
        pass


async def read_by_group(address: str) -> None:
    async with Consumer(bootstrap=address, group="g", topics=["orders"]) as consumer:
        await anext(aiter(consumer))


async def read_partition(address: str) -> None:
    start: Any = {TopicPartition("orders", 0): "start"}
    async with Consumer(bootstrap=address, assign=start) as consumer:
        await anext(aiter(consumer))


async def describe(address: str) -> None:
    async with Admin(bootstrap=address) as admin:
        await admin.describe_cluster()


async def end_seconds(work: Work) -> float:
    """Cancel the work once the peer has its request; return how long its end took."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        task = asyncio.ensure_future(work(address_of(listener)))
        taken, _ = await loop.sock_accept(listener)
        with taken:
            await loop.sock_recv(taken, 1)
            return await cancel_seconds(task)


async def cancel_seconds(task: "asyncio.Future[object]") -> float:
    cancelled_at = time.monotonic()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    return time.monotonic() - cancelled_at


@pytest.mark.parametrize(
    "work",
    [
        send,
        post,
        send_batch,
        send_to_chosen_partition,
        begin_transaction,
        read_by_group,
        read_partition,
        describe,
    ],
)
def test_a_cancelled_client_of_a_silent_peer_ends_soon(work: Work) -> None:
    assert asyncio.run(end_seconds(work)) < END_SECONDS_MAX


@pytest.mark.parametrize("work", [send, post, send_batch, send_to_chosen_partition])
def test_a_cancelled_producer_logs_the_silent_address_and_the_count(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.client"):
        asyncio.run(end_seconds(work))
    assert "1 record was not delivered" in caplog.text
    assert re.search(r"no broker at 127\.0\.0\.1:\d+ has ever answered", caplog.text)


def test_an_interrupted_blocking_producer_of_a_silent_peer_ends_soon(silent: str) -> None:
    interrupt = KeyboardInterrupt()
    with contextlib.suppress(KeyboardInterrupt), blocking.Producer(bootstrap=silent) as producer:
        producer.post("orders", b"x")
        begun_at = time.monotonic()
        raise interrupt
    assert time.monotonic() - begun_at < END_SECONDS_MAX
    assert f"no broker at {silent} has ever answered" in interrupt.__notes__[0]


def test_a_close_without_a_cancel_waits_for_a_silent_peer(silent: str) -> None:
    producer = blocking.Producer(bootstrap=silent)
    producer.post("orders", b"x")
    with pytest.raises(RecordsUndelivered) as failed:
        producer.close(1.5)
    assert isinstance(failed.value.failures[0].error, PurgedInQueue)


def test_an_interrupt_keeps_the_records_of_a_cluster_that_answers() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with (
            contextlib.suppress(KeyboardInterrupt),
            blocking.Producer({"linger.ms": 50}, bootstrap=cluster.bootstrap) as producer,
        ):
            delivery = producer.send("orders", b"x")
            raise KeyboardInterrupt
        assert delivery.result().offset == 0


@pytest.mark.parametrize(
    "line",
    [
        "FAIL [c#1] [thrd:h:9/bootstrap]: h:9/bootstrap: ApiVersionRequest failed: Local: Timed "
        "out: probably due to broker version < 0.10 (after 10019ms in state APIVERSION_QUERY)",
        "FAIL [c#1] [thrd:h:9/bootstrap]: h:9/bootstrap: Connection setup timed out in state "
        "APIVERSION_QUERY (after 10044ms in state APIVERSION_QUERY)",
        "FAIL [c#1] [thrd:h:9/bootstrap]: h:9/bootstrap: Connection setup timed out in state "
        "SSL_HANDSHAKE (after 10044ms in state SSL_HANDSHAKE)",
    ],
)
def test_librdkafkas_line_about_a_silent_peer_becomes_a_sentence(line: str) -> None:
    assert unreachable(line).startswith(f"{SILENT}. Is a node running there?")


def test_a_connection_that_is_never_made_has_its_own_sentence() -> None:
    line = (
        "FAIL [c#1] [thrd:h:9/bootstrap]: h:9/bootstrap: Connection setup timed out in state "
        "CONNECT (after 30001ms in state CONNECT)"
    )
    assert unreachable(line).startswith("h:9 does not take connections (timed out)")


def test_a_program_ends_although_a_producer_was_never_closed(silent: str) -> None:
    program = (
        "from penstock import sync\n"
        f"producer = sync.Producer(bootstrap={silent!r})\n"
        "producer.post('orders', b'x')\n"
        "raise KeyboardInterrupt\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False
    )
    assert "KeyboardInterrupt" in ran.stderr


def test_an_interrupted_close_logs_the_records_left(silent: str) -> None:
    program = (
        "import os, signal, threading\n"
        "from penstock import sync\n"
        f"producer = sync.Producer(bootstrap={silent!r})\n"
        "producer.post('orders', b'x')\n"
        "threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "producer.close()\n"
    )
    err = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False
    ).stderr
    assert f"the close was interrupted: 1 records in flight to {silent} may be lost" in err


def test_a_cancelled_close_logs_the_records_left(
    silent: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def close_and_end() -> None:
        producer = Producer(bootstrap=silent)
        await producer.post("orders", b"x")
        async with asyncio.timeout(0.1):
            await producer.close()

    with contextlib.suppress(TimeoutError):
        asyncio.run(close_and_end())  # the end of the loop cancels the close
    assert f"the close was interrupted: 1 records in flight to {silent} may be lost" in caplog.text
