"""Translated settings at work: librdkafka's own clients against a node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from penstock.client.failures import NoOffset, from_rdkafka
from penstock.client.settings import consumer_settings, producer_settings
from penstock.testing import Cluster

PATIENCE_S = 20.0
LEFT_OUT = ("bootstrap.servers", "group.protocol", "enable.metrics.push")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def kafkas_defaults(client: str) -> dict[str, Any]:
    lines = (Path(__file__).parent / "kafka_4_3_client_keys.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {
        name: default
        for who, name, _, default, _ in rows
        if who == client and default not in ("(none)", "(required)") and name not in LEFT_OUT
    }


def sent(cluster: Cluster, topic: str, given: dict[str, Any]) -> None:
    rdkafka = producer_settings(given, bootstrap=cluster.bootstrap).rdkafka
    producer = confluent_kafka.Producer(rdkafka)
    errors: list[object] = []
    if "transactional.id" in rdkafka:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
    producer.produce(topic, b"value", b"key", on_delivery=lambda error, _: errors.append(error))
    if "transactional.id" in rdkafka:
        producer.commit_transaction(PATIENCE_S)
    producer.flush(PATIENCE_S)
    assert errors == [None]


def first_read(cluster: Cluster, topic: str, given: dict[str, Any]) -> confluent_kafka.Message:
    settings = consumer_settings(given, bootstrap=cluster.bootstrap)
    consumer = confluent_kafka.Consumer(settings.rdkafka)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(PATIENCE_S)
    finally:
        consumer.close()
    assert message is not None
    return message


def test_all_of_kafkas_defaults_send_and_read(cluster: Cluster) -> None:
    cluster.create_topic("defaults")
    sent(cluster, "defaults", kafkas_defaults("producer"))
    defaults = {**kafkas_defaults("consumer"), "group.id": "g1", "auto.offset.reset": "earliest"}
    message = first_read(cluster, "defaults", defaults)
    assert (message.error(), message.key(), message.value()) == (None, b"key", b"value")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_written(cluster: Cluster, codec: str) -> None:
    topic = f"packed-{codec}"
    cluster.create_topic(topic)
    levels = {f"compression.{each}.level": 3 for each in ("gzip", "lz4", "zstd")}
    sent(cluster, topic, {"compression.type": codec, **levels, "linger.ms": 0})
    given = {"group.id": f"g-{codec}", "auto.offset.reset": "earliest"}
    assert first_read(cluster, topic, given).value() == b"value"


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_acks_is_answered(cluster: Cluster, acks: str) -> None:
    cluster.create_topic(f"acks-{acks}")
    sent(cluster, f"acks-{acks}", {"acks": acks})


def test_a_transaction_is_seen_by_those_who_read_what_is_committed(cluster: Cluster) -> None:
    cluster.create_topic("committed")
    sent(cluster, "committed", {"transactional.id": "t1", "transaction.timeout.ms": 5000})
    given = {
        "group.id": "g2",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    assert first_read(cluster, "committed", given).value() == b"value"


def test_a_group_of_the_new_protocol_reads(cluster: Cluster) -> None:
    cluster.create_topic("assigned")
    sent(cluster, "assigned", {})
    given = {
        "group.id": "g3",
        "group.protocol": "consumer",
        "group.remote.assignor": "uniform",
        "auto.offset.reset": "earliest",
    }
    assert first_read(cluster, "assigned", given).value() == b"value"


def test_a_group_without_an_offset_is_told_so_where_nothing_may_be_reset(cluster: Cluster) -> None:
    cluster.create_topic("unread")
    sent(cluster, "unread", {})
    message = first_read(cluster, "unread", {"group.id": "g4", "auto.offset.reset": "none"})
    error = message.error()
    assert error is not None
    assert isinstance(from_rdkafka(error), NoOffset)
