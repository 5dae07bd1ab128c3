"""A certificate, a name or a password that is wrong is told to whoever waits, soon, with a way out.

Nobody but a person can mend these; librdkafka would try again for ever.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from access_work import (
    begin_a_transaction,
    post,
    read_a_partition,
    read_on,
    read_on_blocking,
    send,
)
from admin_server import AdminServer
from producing import run
from tls_front import TlsFront
from tls_stores import Stores

from penstock import Consumer, Producer
from penstock import sync as blocking
from penstock.client.admin.aio import Admin
from penstock.client.failures import AuthenticationFailure, ClientError, TlsFailure, next_step
from penstock.client.partitioners import RoundRobin
from penstock.client.producer import BatchFailed
from penstock.client.transport.connection import CannotReach
from penstock.errors import KafkaError
from penstock.wire.messages import k17_sasl_handshake as k17
from penstock.wire.messages import k36_sasl_authenticate as k36

SECONDS_MAX = 10.0
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Refusal(NamedTuple):
    settings: dict[str, str]
    bootstrap: str
    kind: type[ClientError]
    said: str


Refusals = dict[str, Refusal]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refusals]:
    def place() -> Path:
        return tmp_path_factory.mktemp("stores")

    stores, others = Stores.make(place()), Stores.make(place())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.path("server.pem"))
    refuse: dict[int, Callable[[Any], object]] = {
        17: lambda _: k17.SaslHandshakeResponse(mechanisms=["PLAIN"]),
        36: lambda _: k36.SaslAuthenticateResponse(error_code=58, error_message="wrong password"),
    }
    tls = {"security.protocol": "SSL", "ssl.truststore.type": "PEM"}
    with TlsFront(context) as front, AdminServer(refuse) as server:
        front.serve(*server.bootstrap.split(":"))  # type: ignore[arg-type]  # nobody gets there
        yield {
            "another authority": Refusal(
                {**tls, "ssl.truststore.location": others.path("ca.pem")},
                f"localhost:{front.port}",
                TlsFailure,
                "certificate",
            ),
            "another name": Refusal(
                {**tls, "ssl.truststore.location": stores.path("ca.pem")},
                f"127.0.0.1:{front.port}",
                TlsFailure,
                "certificate",
            ),
            "a wrong password": Refusal(
                {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": f'{LOGIN} username="anna" password="secret";',
                },
                server.bootstrap,
                AuthenticationFailure,
                "wrong password",
            ),
        }


async def send_where_a_partition_is_chosen(of: Refusal) -> None:
    async with Producer[bytes, bytes](
        of.settings, bootstrap=of.bootstrap, partitioner=RoundRobin()
    ) as producer:
        await producer.send("t", b"x")


async def send_a_batch(of: Refusal) -> None:
    async with Producer[bytes, bytes](of.settings, bootstrap=of.bootstrap) as producer:
        try:
            await producer.send_batch("t", [b"x", b"y"])
        except BatchFailed as failed:
            raise failed.failures[0].error from failed


def send_blocking(of: Refusal) -> None:
    with blocking.Producer[bytes, bytes](of.settings, bootstrap=of.bootstrap) as producer:
        producer.send("t", b"x").result()


WAITING: list[Callable[[Refusal], Any]] = [
    read_on,
    read_a_partition,
    read_on_blocking,
    send,
    send_where_a_partition_is_chosen,
    send_a_batch,
    post,
    begin_a_transaction,
    send_blocking,
]
SAID = ["another authority", "another name", "a wrong password"]


@pytest.mark.each_value
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("work", WAITING, ids=lambda work: work.__name__)
def test_whoever_waits_is_told_soon_and_with_a_way_out(
    refusals: Refusals, said: str, work: Callable[[Refusal], Any]
) -> None:
    refusal, begun = refusals[said], time.monotonic()
    with pytest.raises(refusal.kind) as told:
        run(work(refusal)) if asyncio.iscoroutinefunction(work) else work(refusal)
    assert time.monotonic() - begun < SECONDS_MAX
    assert refusal.said in str(told.value)
    assert told.value.next_step and told.value.next_step in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("said", SAID)
def test_admin_is_told_soon_and_with_a_way_out(refusals: Refusals, said: str) -> None:
    refusal = refusals[said]
    given = {**refusal.settings, "bootstrap.servers": refusal.bootstrap}

    async def ask() -> None:
        async with Admin(given) as admin:
            await admin.list_topics()

    def ask_blocking() -> None:
        with blocking.Admin(given) as admin:
            admin.list_topics()

    def ask_in_a_loop() -> None:
        run(ask())

    for work in (ask_in_a_loop, ask_blocking):
        begun = time.monotonic()
        with pytest.raises((CannotReach, KafkaError)) as told:
            work()
        assert time.monotonic() - begun < SECONDS_MAX
        assert refusal.said in str(told.value)
        assert next_step(told.value) and next_step(told.value) in str(told.value)
        assert "secret" not in str(told.value)


def test_what_is_sent_after_a_refusal_is_told_soon_as_well(refusals: Refusals) -> None:
    refusal = refusals["a wrong password"]

    async def story() -> None:
        async with Producer[bytes, bytes](refusal.settings, bootstrap=refusal.bootstrap) as sends:
            for _ in range(3):
                begun = time.monotonic()
                with pytest.raises(AuthenticationFailure):
                    await sends.send("t", b"x")
                assert time.monotonic() - begun < SECONDS_MAX

    run(story())


def test_a_consumer_that_could_not_begin_leaves_nothing_behind(refusals: Refusals) -> None:
    refusal = refusals["a wrong password"]
    places: Any = {("t", 0): "start"}

    async def story() -> None:
        consumer = Consumer(refusal.settings, bootstrap=refusal.bootstrap, assign=places)
        with pytest.raises(AuthenticationFailure):
            await consumer.__aenter__()
        assert consumer._core.engine.ended.done()

    run(story())
    consumer = blocking.Consumer(refusal.settings, bootstrap=refusal.bootstrap, assign=places)
    with pytest.raises(AuthenticationFailure):
        consumer.__enter__()
    assert consumer._core.engine.ended.done()
