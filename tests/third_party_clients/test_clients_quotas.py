"""Real clients beyond their quotas learn their waits, and lose nothing."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.client.admin.access_values import QuotaEntity
from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.errors import ThrottlingQuotaExceeded
from penstock.testing import Cluster

VALUE = bytes(100_000)


@pytest.fixture(scope="module")
def limited() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster, Admin(bootstrap=cluster.bootstrap) as admin:
        cluster.create_topic("t")
        changes = {
            QuotaEntity.of({"client-id": "sends"}): {"producer_byte_rate": 100_000.0},
            QuotaEntity.of({"client-id": "gets"}): {"consumer_byte_rate": 100_000.0},
            QuotaEntity.of({"client-id": "creates"}): {"controller_mutation_rate": 1.0},
        }
        assert set(admin.quotas.alter(changes).values()) == {None}
        cluster.wait_until(
            lambda: all(cluster.broker_of(node).throttle.limits_fetch for node in cluster.nodes)
        )
        yield cluster


def test_librdkafka_learns_that_it_is_throttled_and_loses_nothing(limited: Cluster) -> None:
    from confluent_kafka import Consumer, Producer

    waits: list[float] = []
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": limited.bootstrap,
            "client.id": "sends",
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    for _ in range(11):  # a tenth more than ten seconds allow
        producer.produce("t", VALUE, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None] * 11
    while not waits:
        producer.poll(1)
    keys = {"bootstrap.servers": limited.bootstrap, "group.id": "g", "client.id": "gets"}
    found = 0
    with closing(Consumer({**keys, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe(["t"])
        while found < 11:
            found += sum(each.error() is None for each in consumer.consume(11, 1))


def test_a_client_of_any_node_is_held_to_its_quota_of_new_partitions(limited: Cluster) -> None:
    with Admin({"client.id": "creates"}, bootstrap=limited.bootstrap) as admin:
        admin.create_topics([NewTopic("large", partitions=60)])
        answers = admin.create_topics([NewTopic("one-more")])
        assert isinstance(answers["one-more"], ThrottlingQuotaExceeded)
