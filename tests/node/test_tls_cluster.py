"""Three nodes whose listeners and links all use mutual TLS."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tls_stores import PASSWORD, Stores

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def cluster(stores: Stores) -> Iterator[Cluster]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.location": stores.path("node.pem"),
        "ssl.truststore.location": stores.path("ca.pem"),
    }
    with Cluster(settings, brokers=3) as made:
        yield made


def client(stores: Stores, cluster: Cluster) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": stores.path("ca.pem"),
        "ssl.certificate.location": stores.path("client.crt"),
        "ssl.key.location": stores.path("client.key"),
        "ssl.key.password": PASSWORD,
    }


def produce(stores: Stores, cluster: Cluster, count: int) -> None:
    failures: list[object] = []
    producer = Producer({**client(stores, cluster), "acks": "all"})
    for number in range(count):
        producer.produce(
            "t",
            bytes(500),
            partition=number % 3,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert not failures


def test_replicated_records_survive_the_loss_of_a_node(stores: Stores, cluster: Cluster) -> None:
    with admin(stores, cluster) as made:
        made.create_topics([NewTopic("t", partitions=3, replication_factor=3)])
    produce(stores, cluster, 300)
    cluster.kill(1)
    produce(stores, cluster, 300)
    cluster.start(1)


def admin(stores: Stores, cluster: Cluster) -> Admin:
    return Admin(
        {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.location": stores.path("ca.pem"),
            "ssl.keystore.location": stores.path("client.pem"),
            "ssl.key.password": PASSWORD,
        }
    )
