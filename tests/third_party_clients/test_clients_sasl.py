"""Real clients over SASL_PLAINTEXT: every mechanism, sessions that end, and wrong passwords."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.client.admin.access_values import ScramDeletion, ScramMechanism, ScramUpsertion
from penstock.client.admin.blocking import Admin
from penstock.client.consumer.blocking import Consumer
from penstock.client.failures import ClientError
from penstock.client.producer.blocking import Producer
from penstock.client.transport.connection import CannotReach, NotAuthenticated
from penstock.model import TopicPartition
from penstock.testing.cluster import Cluster, SettingValue

MODULES = "org.apache.kafka.common.security"
PASSWORD = "quite-secret"
LIFETIME_MS = 2_000
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS: dict[str, SettingValue] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,SHORT://127.0.0.1:0",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.short.connections.max.reauth.ms": LIFETIME_MS,
    **{
        f"listener.name.{each}.plain.sasl.jaas.config": (
            f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
        )
        for each in ("sasl", "short")
    },
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as cluster, Admin(bootstrap=cluster.bootstrap) as admin:
        for each in (ScramMechanism.SHA_256, ScramMechanism.SHA_512):
            assert admin.scram.alter([ScramUpsertion("alice", each, PASSWORD)]) == {"alice": None}
        cluster.create_topic("t")
        yield cluster


def address_of(cluster: Cluster, listener: str = "SASL") -> str:
    host, port = cluster.addresses[listener]
    return f"{host}:{port}"


def java_keys(mechanism: str, password: str = PASSWORD, user: str = "alice") -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f'{MODULES}.{module} required username="{user}" password="{password}";'
        ),
    }


def rdkafka_keys(cluster: Cluster, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": address_of(cluster),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_produces_and_consumes(secured: Cluster, mechanism: str) -> None:
    from confluent_kafka import Consumer as RdConsumer
    from confluent_kafka import Producer as RdProducer

    keys = rdkafka_keys(secured, mechanism)
    producer = RdProducer(keys)
    errors: list[Any] = []
    producer.produce("t", mechanism.encode(), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None]
    with closing(
        RdConsumer({**keys, "group.id": f"rd-{mechanism}", "auto.offset.reset": "earliest"})
    ) as consumer:
        consumer.subscribe(["t"])
        message = consumer.poll(20)
        assert message is not None and message.error() is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces(secured: Cluster, mechanism: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=address_of(secured),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=PASSWORD,
    )
    with closing(producer):
        assert producer.send("t", b"x").get(20).topic == "t"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_produces(secured: Cluster, mechanism: str) -> None:
    async def produce() -> str:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=address_of(secured),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=PASSWORD,
        )
        await producer.start()
        try:
            found = await producer.send_and_wait("t", b"x")
            return str(found.topic)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) == "t"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_clients_log_in(secured: Cluster, mechanism: str) -> None:
    keys = java_keys(mechanism)
    bootstrap = address_of(secured)
    with Producer(keys, bootstrap=bootstrap) as producer:
        assert producer.send("t", b"own").result(20).topic == "t"
    with Consumer(keys, bootstrap=bootstrap, assign={TopicPartition("t", 0): "start"}) as consumer:
        assert next(iter(consumer)).topic == "t"
    with Admin(keys, bootstrap=bootstrap) as admin:
        assert "t" in [each.name for each in admin.list_topics()]


def test_a_wrong_password_is_told_apart_from_a_silent_server(secured: Cluster) -> None:
    from confluent_kafka import Producer as RdProducer

    keys = java_keys("SCRAM-SHA-512", "wrong")
    with (
        pytest.raises((NotAuthenticated, ClientError), match="SCRAM-SHA-512"),
        Admin(keys, bootstrap=address_of(secured)) as admin,
    ):
        admin.list_topics()
    found: list[Any] = []
    producer = RdProducer(
        {**rdkafka_keys(secured, "PLAIN", "wrong"), "error_cb": found.append, "log_level": 0}
    )
    while not found:
        producer.poll(1)
    assert found[0].name() == "_AUTHENTICATION"


def test_librdkafka_logs_in_again_before_its_session_ends(secured: Cluster) -> None:
    from confluent_kafka import Producer as RdProducer

    keys = {
        **rdkafka_keys(secured, "SCRAM-SHA-512"),
        "bootstrap.servers": address_of(secured, "SHORT"),
    }
    found: list[Any] = []
    producer = RdProducer({**keys, "error_cb": found.append})
    listener = next(each for each in secured.broker.listeners if each.name == "SHORT")
    logins = listener.logins
    assert logins is not None
    before = logins.successful_again
    count = 0
    while logins.successful_again < before + 2:
        producer.produce("t", b"x")
        count += 1
        assert producer.flush(20) == 0
        producer.poll(0.05)
    assert (found, logins.expired) == ([], 0)


def test_a_user_who_was_removed_is_disconnected_at_once(secured: Cluster) -> None:
    sha_512 = ScramMechanism.SHA_512
    with Admin(bootstrap=secured.bootstrap) as admin:
        admin.scram.alter([ScramUpsertion("guest", sha_512, PASSWORD)])
        keys = java_keys("SCRAM-SHA-512", user="guest")
        with Admin(keys, bootstrap=address_of(secured)) as guest:
            guest.list_topics()
            assert admin.scram.alter([ScramDeletion("guest", sha_512)]) == {"guest": None}
            with pytest.raises((CannotReach, ClientError)):
                guest.list_topics()
