"""Three nodes that log in to each other over TLS, and real clients that log in to them."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tls_stores import Stores

from penstock.client.admin.access_values import ScramMechanism, ScramUpsertion
from penstock.client.admin.blocking import Admin
from penstock.client.failures import ClientError
from penstock.client.transport.connection import CannotReach
from penstock.client.values import NewTopic
from penstock.testing.cluster import Cluster, SettingValue

MODULES = "org.apache.kafka.common.security"
PASSWORD = "quite-secret"
MECHANISM = "SCRAM-SHA-256"
LOGIN = (
    f'{MODULES}.plain.PlainLoginModule required username="node" password="{PASSWORD}" '
    f'user_node="{PASSWORD}";'
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def secured(stores: Stores) -> Iterator[Cluster]:
    settings: dict[str, SettingValue] = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
        "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
        "listener.name.controller.plain.sasl.jaas.config": LOGIN,
        "ssl.keystore.location": stores.path("node.pem"),
        "ssl.truststore.location": stores.path("ca.pem"),
    }
    with Cluster(settings, brokers=3) as cluster:
        node = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": LOGIN,
            "ssl.truststore.location": stores.path("ca.pem"),
        }
        with Admin(node, bootstrap=cluster.bootstrap) as admin:
            alice = ScramUpsertion("alice", ScramMechanism.SHA_256, PASSWORD)
            assert admin.scram.alter([alice]) == {"alice": None}
            admin.create_topics([NewTopic("t", partitions=3, replication_factor=3)])
        yield cluster


def test_librdkafka_produces_and_consumes(secured: Cluster, stores: Stores) -> None:
    keys: dict[str, Any] = {
        "bootstrap.servers": secured.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "ssl.ca.location": stores.path("ca.pem"),
    }
    errors: list[Any] = []
    producer = Producer({**keys, "acks": "all"})
    for partition in range(3):
        producer.produce(
            "t", b"x", partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(20) == 0
    assert errors == [None] * 3
    with closing(Consumer({**keys, "group.id": "g", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe(["t"])
        message = consumer.poll(20)
        assert message is not None and message.error() is None


def test_kafka_python_produces(secured: Cluster, stores: Stores) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=secured.bootstrap.split(","),
        security_protocol="SASL_SSL",
        sasl_mechanism=MECHANISM,
        sasl_plain_username="alice",
        sasl_plain_password=PASSWORD,
        ssl_cafile=stores.path("ca.pem"),
    )
    with closing(producer):
        assert producer.send("t", b"x").get(20).topic == "t"


def test_aiokafka_produces(secured: Cluster, stores: Stores) -> None:
    async def produce() -> str:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=secured.bootstrap,
            security_protocol="SASL_SSL",
            sasl_mechanism=MECHANISM,
            sasl_plain_username="alice",
            sasl_plain_password=PASSWORD,
            ssl_context=ssl.create_default_context(cafile=stores.path("ca.pem")),
        )
        await producer.start()
        try:
            found = await producer.send_and_wait("t", b"x")
            return str(found.topic)
        finally:
            await producer.stop()

    assert asyncio.run(produce()) == "t"


def test_a_login_without_tls_is_closed(secured: Cluster) -> None:
    plain = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN,
    }
    with (
        pytest.raises((CannotReach, ClientError)),
        Admin(plain, bootstrap=secured.bootstrap) as admin,
    ):
        admin.list_topics()
