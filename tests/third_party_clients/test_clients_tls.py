"""Clients over TLS, with certificates of their own: what they send comes back whole."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from tls_stores import PASSWORD, Stores

from penstock.sync import Admin
from penstock.sync import Consumer as PenstockConsumer
from penstock.sync import Producer as PenstockProducer
from penstock.testing import Cluster

WAIT_SECONDS_MAX = 30
SIZES = [1, 900, 40_000, 300_000] * 5
Values = list[bytes]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def cluster(stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://localhost:0",
        "ssl.client.auth": "required",
        "ssl.keystore.location": stores.path("node.pem"),
        "ssl.truststore.location": stores.path("ca.pem"),
    }
    # On disk, so that ranges of files are sent.
    with Cluster(settings, data=tmp_path_factory.mktemp("data")) as made:
        yield made


def context(stores: Stores) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=stores.path("ca.pem"))
    made.load_cert_chain(stores.path("client.crt"), stores.path("client.key"), PASSWORD)
    return made


def librdkafka(stores: Stores, bootstrap: str, topic: str, values: Values) -> Values:
    keys = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": stores.path("ca.pem"),
        "ssl.certificate.location": stores.path("client.crt"),
        "ssl.key.location": stores.path("client.key"),
        "ssl.key.password": PASSWORD,
    }
    producer = Producer(keys)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    consumer = Consumer({**keys, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = consumer.consume(len(values), WAIT_SECONDS_MAX)
    consumer.close()
    return [each.value() or b"" for each in found]


def kafka_python(stores: Stores, bootstrap: str, topic: str, values: Values) -> Values:
    keys: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "ssl_context": context(stores),
    }
    producer = KafkaProducer(**keys)
    for value in values:
        producer.send(topic, value)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        **keys,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_SECONDS_MAX * 1000,
    )
    found = [record.value for _, record in zip(values, consumer, strict=False)]
    consumer.close()
    return found


def aiokafka(stores: Stores, bootstrap: str, topic: str, values: Values) -> Values:
    keys: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "ssl_context": context(stores),
    }

    async def work() -> Values:
        async with AIOKafkaProducer(**keys) as producer:
            for value in values:
                await producer.send_and_wait(topic, value)
        async with AIOKafkaConsumer(topic, **keys, auto_offset_reset="earliest") as consumer:
            return [(await consumer.getone()).value for _ in values]

    return asyncio.run(asyncio.wait_for(work(), WAIT_SECONDS_MAX))


def penstock(stores: Stores, bootstrap: str, topic: str, values: Values) -> Values:
    keys = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.truststore.location": stores.path("ca.pem"),
        "ssl.keystore.location": stores.path("client.p12"),
        "ssl.keystore.password": PASSWORD,
    }
    with Admin(keys) as admin:
        assert topic in [each.name for each in admin.list_topics()]
    with PenstockProducer(keys) as producer:
        for value in values:
            producer.send(topic, value)
    found: Values = []
    reading = keys | {"auto.offset.reset": "earliest", "group.id": topic}
    with PenstockConsumer(reading, topics=[topic]) as consumer:
        for record in consumer:
            found.append(record.value or b"")
            if len(found) == len(values):
                break
    return found


@pytest.mark.parametrize("client", [librdkafka, kafka_python, aiokafka, penstock])
def test_a_client_reads_over_tls_what_it_has_written(
    stores: Stores, cluster: Cluster, client: Callable[[Stores, str, str, Values], Values]
) -> None:
    _, port = cluster.addresses["SSL"]
    topic = client.__name__
    cluster.create_topic(topic)
    values = [bytes([number]) * size for number, size in enumerate(SIZES)]
    assert client(stores, f"localhost:{port}", topic, values) == values
