"""Clients whose connections are cut: an idempotent producer writes each record once, in order."""

from contextlib import closing
from typing import Any

import pytest
from client_adapters import WAIT_SECONDS_MAX, Client, Confluent, How, MakeTopic, Sent

from penstock.testing.cluster import Cluster

pytest_plugins = ["client_fixtures"]

QUICK: dict[str, dict[str, Any]] = {
    "confluent": {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50},
    "kafka-python": {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50},
    "aiokafka": {"retry_backoff_ms": 20},
}


class Scissors:
    """Cuts every connection of a node, from its own loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.cuts = 0

    def __call__(self) -> None:
        broker = self._cluster.broker

        def cut() -> None:
            for listener in broker.listeners:
                for connection in list(listener.connections):
                    connection.close()

        self._cluster.call(cut)
        self.cuts += 1


@pytest.mark.each_value
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_an_idempotent_producer_writes_each_record_once_whatever_is_cut(
    client: Client, make_topic: MakeTopic, disk_cluster: Cluster, codec: str
) -> None:
    topic = make_topic()
    scissors = Scissors(disk_cluster)
    sent = [Sent(b"%04d" % place + b"." * 200) for place in range(400)]
    how = How(codec, idempotent=True, between=scissors, settings=QUICK[client.name])
    client.produce(topic, sent, how)
    assert scissors.cuts == 20
    assert client.watermarks(topic) == (0, 400)
    got = client.consume(topic, 400)
    assert [each.value for each in got] == [each.value for each in sent]


def test_a_cut_consumer_goes_on_where_it_was(make_topic: MakeTopic, disk_cluster: Cluster) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = make_topic()
    client = Confluent(disk_cluster)
    client.produce(topic, [Sent(b"0"), Sent(b"1")])
    consumer = Consumer(
        {
            "bootstrap.servers": disk_cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            **QUICK["confluent"],
        }
    )
    values = []
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        for following in (b"2", b"3", b"4"):
            message = consumer.poll(WAIT_SECONDS_MAX)
            assert message is not None
            values.append(message.value())
            Scissors(disk_cluster)()
            client.produce(topic, [Sent(following)])
    assert values == [b"0", b"1", b"2"]
