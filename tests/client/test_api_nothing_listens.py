"""Nothing listens at the address: clients say so at once, in their own words, and end promptly."""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from producing import dead_address, values_of

from penstock import Consumer, Producer, TopicPartition
from penstock import sync as blocking
from penstock.client.failures import AllBrokersDown, MessageTimedOut, TimedOut
from penstock.client.producer import RecordsUndelivered
from penstock.client.runtime import protocol_probe
from penstock.client.runtime.dedup_logger import unreachable
from penstock.client.transport.diagnosis import nothing_listens
from penstock.testing import Cluster

NOWHERE = "127.0.0.1:1"
TOLD = f"nothing listens at {NOWHERE} (Connection refused). Is a node running there?"
TOLD_SECONDS_MAX = 2.0
END_SECONDS_MAX = 3.0
RAISED_SECONDS_MAX = 6.0  # some calls take two looks of a second; the rest is for a busy machine
RECOVERY_SECONDS_MAX = 20.0
# Clients that other tests abandoned log in this process too; librdkafka's lines name the client.
NAMED = {"client.id": "nowhere"}
InFlight = Callable[[], Awaitable[object]]


async def send() -> None:
    async with Producer(NAMED, bootstrap=NOWHERE) as producer:
        await producer.send("orders", b"x")


async def send_to_chosen_partition() -> None:
    async with Producer(NAMED, bootstrap=NOWHERE, partitioner=lambda *_: 0) as producer:
        await producer.send("orders", b"x")


async def begin_transaction() -> None:
    settings = {**NAMED, "transactional.id": "t"}
    producer: Producer[bytes, bytes] = Producer(settings, bootstrap=NOWHERE)
    async with producer, producer.transaction():
        pass


async def read_by_group() -> None:
    async with Consumer(NAMED, bootstrap=NOWHERE, group="g", topics=["orders"]) as consumer:
        await anext(aiter(consumer))


async def read_partition() -> None:
    start: Any = {TopicPartition("orders", 0): "start"}
    async with Consumer(NAMED, bootstrap=NOWHERE, assign=start) as consumer:
        await anext(aiter(consumer))


class Told(logging.Handler):
    """Hears the sentence, on whichever thread."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.heard = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith(TOLD):
            self._loop.call_soon_threadsafe(self.heard.set)


async def told_then_cancelled(work: InFlight) -> float:
    """Cancel the work as soon as the log has the sentence; return how long its end took."""
    told = Told()
    log = logging.getLogger("penstock.client")
    log.addHandler(told)
    task = asyncio.ensure_future(work())
    try:
        async with asyncio.timeout(TOLD_SECONDS_MAX):
            await told.heard.wait()
    finally:
        log.removeHandler(told)
    cancelled_at = time.monotonic()
    task.cancel()
    await asyncio.wait([task])
    return time.monotonic() - cancelled_at


@pytest.mark.parametrize(
    "work", [send, send_to_chosen_partition, begin_transaction, read_by_group, read_partition]
)
def test_a_client_names_the_address_and_ends_soon_when_cancelled(
    work: InFlight, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.client"):
        took_s = asyncio.run(told_then_cancelled(work))
    assert took_s < END_SECONDS_MAX
    raw = [each.getMessage() for each in caplog.records if "[nowhere#" in each.getMessage()]
    assert raw == []


def take_for_a_group() -> None:
    with blocking.Consumer(bootstrap=NOWHERE, group="g", topics=["orders"]) as consumer:
        consumer.take(1)


def take_for_long() -> None:
    with blocking.Consumer(bootstrap=NOWHERE, group="g", topics=["orders"]) as consumer:
        consumer.take(1, timeout_s=60.0)


def take_from_partition() -> None:
    start: Any = {TopicPartition("orders", 0): "start"}
    with blocking.Consumer(bootstrap=NOWHERE, assign=start) as consumer:
        consumer.take(1)


def ask_for_watermarks() -> None:
    start: Any = {TopicPartition("orders", 0): "start"}
    with blocking.Consumer(bootstrap=NOWHERE, assign=start) as consumer:
        consumer.watermarks(("orders", 0))


def await_delivery() -> None:
    with blocking.Producer(bootstrap=NOWHERE) as producer:
        producer.send("orders", b"x").result()


def ask_for_partitions() -> None:
    with blocking.Producer(bootstrap=NOWHERE) as producer:
        producer.partitions_of("orders")


def send_to_chosen_partition_blocking() -> None:
    with blocking.Producer(bootstrap=NOWHERE, partitioner=lambda *_: 0) as producer:
        producer.send("orders", b"x").result()


def write_in_transaction() -> None:
    with (
        blocking.Producer({"transactional.id": "t"}, bootstrap=NOWHERE) as producer,
        producer.transaction(),
    ):
        producer.send("orders", b"x")


async def take() -> None:
    async with Consumer(bootstrap=NOWHERE, group="g", topics=["orders"]) as consumer:
        await consumer.take(1, timeout_s=60.0)


@pytest.mark.parametrize(
    "work",
    [
        take_for_a_group,
        take_for_long,
        take_from_partition,
        ask_for_watermarks,
        await_delivery,
        ask_for_partitions,
        send_to_chosen_partition_blocking,
        write_in_transaction,
        lambda: asyncio.run(take()),
        lambda: asyncio.run(send()),
        lambda: asyncio.run(send_to_chosen_partition()),
        lambda: asyncio.run(begin_transaction()),
    ],
)
def test_each_call_that_waits_for_a_broker_raises_the_same_error(work: Callable[[], None]) -> None:
    begun_at = time.monotonic()
    with pytest.raises(AllBrokersDown, match=f"nothing listens at {NOWHERE}"):
        work()
    assert time.monotonic() - begun_at < RAISED_SECONDS_MAX


def flush() -> None:
    with blocking.Producer(bootstrap=NOWHERE) as producer:
        producer.post("orders", b"x")
        producer.flush()


def send_batch() -> None:
    with blocking.Producer(bootstrap=NOWHERE) as producer:
        producer.send_batch("orders", [b"x"])


@pytest.mark.parametrize("work", [flush, send_batch])
def test_the_records_of_a_call_have_that_error_too(work: Callable[[], None]) -> None:
    begun_at = time.monotonic()
    with pytest.raises(RecordsUndelivered) as failed:
        work()
    assert isinstance(failed.value.failures[0].error, AllBrokersDown)
    assert time.monotonic() - begun_at < RAISED_SECONDS_MAX


def test_a_producer_goes_on_when_its_node_has_started() -> None:
    address = dead_address()
    host, port = address.split(":")
    with blocking.Producer({"reconnect.backoff.max.ms": 200}, bootstrap=address) as producer:
        with pytest.raises(AllBrokersDown):
            producer.send("orders", b"x").result()
        with Cluster({"listeners": f"PLAINTEXT://{host}:{port}"}) as cluster:
            core = producer._core
            assert core.wait_until(lambda: core.tracker.refusal is None, RECOVERY_SECONDS_MAX)
            producer.send("orders", b"y").result()
            assert values_of(cluster, "orders") == [b"y"]


def test_close_gives_up_records_that_a_cluster_which_never_answered_cannot_take() -> None:
    producer = blocking.Producer(bootstrap=NOWHERE)
    producer.post("orders", b"x")
    begun_at = time.monotonic()
    with pytest.raises(RecordsUndelivered) as failed:
        producer.close()
    assert time.monotonic() - begun_at < END_SECONDS_MAX
    assert isinstance(failed.value.failures[0].error, AllBrokersDown)
    assert f"nothing listens at {NOWHERE}" in str(failed.value)


def test_a_blocking_producer_names_the_address(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TimedOut), blocking.Producer(bootstrap=NOWHERE) as producer:
        producer.send("orders", b"x").result(0.5)
    assert TOLD in caplog.text


def test_every_address_is_tried_before_nothing_is_said_to_listen() -> None:
    dead = [("127.0.0.1", port) for port in (1, 2, 3)]
    assert nothing_listens(dead).startswith("nothing listens at 127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert nothing_listens([*dead, listener.getsockname()]) == ""


def test_an_address_that_is_slow_may_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", wait)
    assert nothing_listens([("127.0.0.1", 1)]) == ""


def test_a_record_that_could_never_be_sent_names_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol_probe, "no_listener", lambda _bootstrap: None)
    settings: dict[str, Any] = {"delivery.timeout.ms": 2_000, "request.timeout.ms": 1_900}
    with blocking.Producer(settings, bootstrap=NOWHERE) as producer:
        delivery = producer.send("orders", b"x")
        with pytest.raises(MessageTimedOut) as failed:
            delivery.result()
    assert TOLD in str(failed.value)
    assert "may have been written" not in str(failed.value)


class Relay:
    """Takes connections for a broker until `stop`; those taken stay."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._broker = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                for pair in ((taken, broker), (broker, taken)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.mark.parametrize("ends_by_error", [False, True])
def test_a_closed_producer_delivers_although_its_bootstrap_address_is_gone(
    *, ends_by_error: bool
) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        relay = Relay(cluster.bootstrap)
        with (
            contextlib.suppress(ZeroDivisionError),
            blocking.Producer({"linger.ms": 50}, bootstrap=relay.address) as producer,
        ):
            producer.send("orders", b"x").result()
            relay.stop()
            producer.post("orders", b"y")
            if ends_by_error:
                raise ZeroDivisionError
        assert values_of(cluster, "orders") == [b"x", b"y"]


def test_an_asyncio_producer_delivers_although_its_bootstrap_address_is_gone() -> None:
    async def work(relay: Relay) -> None:
        async with Producer({"linger.ms": 50}, bootstrap=relay.address) as producer:
            await producer.send("orders", b"x")
            relay.stop()
            await producer.post("orders", b"y")

    with Cluster() as cluster:
        cluster.create_topic("orders")
        asyncio.run(work(Relay(cluster.bootstrap)))
        assert values_of(cluster, "orders") == [b"x", b"y"]


def test_a_close_keeps_records_while_a_node_that_has_answered_is_gone() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        producer = blocking.Producer(bootstrap=cluster.bootstrap)
        producer.partitions_of("orders")
        cluster.stop()
        producer.post("orders", b"x")
        with pytest.raises(RecordsUndelivered) as failed:
            producer.close(1.5)
    assert not isinstance(failed.value.failures[0].error, AllBrokersDown)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "FAIL [c#1] [thrd:h:9/bootstrap]: h:9/bootstrap: Connect to ipv4#10.0.0.1:9 failed: "
            "Connection refused (after 0ms in state CONNECT)",
            "nothing listens at h:9 (Connection refused). Is a node running there?",
        ),
        (
            "FAIL [c#1] [thrd:h:9/7]: h:9/7: Connect to ipv6#[::1]:9 failed: No route to host",
            "nothing listens at h:9 (No route to host). Broker 7 says that it is there: see its "
            "advertised.listeners.",
        ),
        (
            "FAIL [c#1] [thrd:h:9/bootstrap]: h:9/bootstrap: Failed to resolve 'h:9': Name or "
            "service not known (after 1ms in state CONNECT)",
            "the host of h:9 is not known (Name or service not known). Is a node running there?",
        ),
        ("FAIL [c#1] [thrd:h:9/7]: h:9/7: Disconnected (after 9ms in state UP)", ""),
    ],
)
def test_librdkafkas_line_becomes_a_sentence(line: str, told: str) -> None:
    assert unreachable(line).startswith(told)
    assert bool(unreachable(line)) == bool(told)
