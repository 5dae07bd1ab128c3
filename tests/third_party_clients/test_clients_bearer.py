"""Real clients over SASL_PLAINTEXT with OAUTHBEARER, and tokens that end under load."""

import asyncio
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import NotAuthenticated
from penstock.testing.cluster import Cluster, SettingValue
from token_issuer import AUDIENCE, ISSUER, Issuer, key_set

FIRST = Issuer()
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOKEN_SECONDS = 12  # librdkafka looks once a second whether a token is four fifths old


class _Keys(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/keys" else 302)
        self.send_header("Location", "/keys")
        self.end_headers()
        self.wfile.write(key_set(FIRST))

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    server = HTTPServer(("127.0.0.1", 0), _Keys)
    thread = Thread(target=server.serve_forever)
    thread.start()
    settings: dict[str, SettingValue] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"http://127.0.0.1:{server.server_port}/keys",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    try:
        with Cluster(settings) as cluster:
            cluster.create_topic("t")
            yield cluster
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def address_of(cluster: Cluster) -> str:
    return ":".join(map(str, cluster.addresses["SASL"]))


def token(lifetime_s: int = 60) -> str:
    """Return a token that ends to the millisecond: a client must not think that it lives longer."""
    now_s = time.time()
    return FIRST.token(iat=now_s, exp=now_s + lifetime_s)


@pytest.mark.parametrize(("lifetime_s", "is_good"), [(60, True), (-60, False)])
def test_our_own_client_logs_in_with_a_token_of_a_file(
    secured: Cluster, tmp_path: Path, lifetime_s: int, is_good: bool
) -> None:
    file = tmp_path / "token"
    file.write_text(token(lifetime_s))
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        "sasl.jaas.config": f"{MODULE} required;",
    }
    with Admin(keys, bootstrap=address_of(secured)) as admin:
        if is_good:
            assert [each.name for each in admin.list_topics()] == ["t"]
        else:
            with pytest.raises(NotAuthenticated, match="refused to authenticate by OAUTHBEARER"):
                admin.list_topics()


def test_librdkafka_takes_another_token_before_one_ends(secured: Cluster) -> None:
    from confluent_kafka import Producer

    made: list[str] = []
    errors: list[Any] = []

    def fetch(_config: str) -> tuple[str, float]:
        made.append(token(TOKEN_SECONDS))
        return made[-1], time.time() + TOKEN_SECONDS

    producer = Producer(
        {
            "bootstrap.servers": address_of(secured),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": fetch,
            "error_cb": errors.append,
        }
    )
    logins = next(each for each in secured.broker.listeners if each.name == "SASL").logins
    assert logins is not None
    while not logins.successful_again:
        producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
        producer.poll(0.05)
    assert len(made) > 1
    assert [each for each in errors if each is not None] == []
    assert logins.expired == 0


def test_aiokafka_logs_in(secured: Cluster) -> None:
    async def produce() -> str:
        from aiokafka import AIOKafkaProducer
        from aiokafka.abc import AbstractTokenProvider

        class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
            async def token(self) -> str:
                return token()

        producer = AIOKafkaProducer(
            bootstrap_servers=address_of(secured),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        await producer.start()
        try:
            found = await producer.send_and_wait("t", b"x")
            return str(found.topic)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) == "t"
