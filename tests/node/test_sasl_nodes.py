"""Nodes that log in to each other: controllers by PLAIN, brokers by SCRAM, with short sessions."""

from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from penstock.client.admin.access_values import ScramMechanism, ScramUpsertion
from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import NotAuthenticated
from penstock.client.values import NewTopic
from penstock.config.broker import BrokerConfig
from penstock.formatting import format_directories, new_cluster_id
from penstock.testing.cluster import Cluster, SettingValue

MODULES = "org.apache.kafka.common.security"
LIFETIME_MS = 2_000
LOAD_SECONDS = 5.0
NODE_PLAIN = (
    f'{MODULES}.plain.PlainLoginModule required username="node" password="node-secret" '
    'user_node="node-secret" user_admin="admin-secret";'
)
NODE_SCRAM = (
    f'{MODULES}.scram.ScramLoginModule required username="broker" password="broker-secret";'
)
# The names of the listeners are the cluster's; their protocol is another one.
SETTINGS: dict[str, SettingValue] = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.plaintext.plain.sasl.jaas.config": NODE_PLAIN,
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": NODE_SCRAM,
    "listener.name.controller.plain.sasl.jaas.config": NODE_PLAIN,
    "connections.max.reauth.ms": LIFETIME_MS,
}
ADMIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required username="admin" password="admin-secret";'
    ),
}
RDKAFKA = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "admin",
    "sasl.password": "admin-secret",
}


def logins_of(cluster: Cluster, node: int, listener: str) -> Any:
    listeners = cluster.broker_of(node).listeners
    return next(each for each in listeners if each.name == listener).logins


def test_three_nodes_replicate_over_sessions_that_end() -> None:
    with Cluster(SETTINGS, brokers=3) as cluster:
        with Admin(ADMIN, bootstrap=cluster.bootstrap) as admin:
            broker = ScramUpsertion("broker", ScramMechanism.SHA_256, "broker-secret")
            assert admin.scram.alter([broker]) == {"broker": None}
            admin.create_topics([NewTopic("t", partitions=3)])
        keys = {**RDKAFKA, "bootstrap.servers": cluster.bootstrap}
        errors: list[Any] = []
        producer = Producer({**keys, "acks": "all", "enable.idempotence": True})
        count, until = 0, monotonic() + LOAD_SECONDS
        while monotonic() < until:
            producer.produce("t", b"%d" % count, on_delivery=lambda e, _: errors.append(e))
            count += 1
            producer.poll(0.01)
        assert producer.flush(30) == 0
        assert errors == [None] * count
        cluster.wait_until(lambda: _all_in_sync(cluster))
        consumer = Consumer({**keys, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        values: list[bytes | None] = []
        while len(values) < count:
            values += [each.value() or b"" for each in consumer.consume(count, 1)]
        consumer.close()
        assert sorted(filter(None, values)) == sorted(b"%d" % each for each in range(count))
        again = 0
        for node in cluster.nodes:
            for listener in ("PLAINTEXT", "CONTROLLER"):
                logins = logins_of(cluster, node, listener)
                assert (logins.expired, logins.failed_again) == (0, 0)
                again += logins.successful_again
        assert again >= 6


def _all_in_sync(cluster: Cluster) -> bool:
    topic = cluster.broker_of(1).image.topics["t"]
    return all(len(each.isr) == 3 for each in topic.partitions.values())


def test_controllers_with_another_password_form_no_quorum(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = NODE_PLAIN.replace('password="node-secret"', 'password="other-secret"')
    settings = {**SETTINGS, "listener.name.controller.plain.sasl.jaas.config": wrong}
    monkeypatch.setattr("penstock.testing.embedded.START_SECONDS_MAX", 2.0)
    with pytest.raises(TimeoutError):
        Cluster(settings, brokers=2).start()
    assert "by PLAIN failed: Authentication failed" in caplog.text
    assert "-secret" not in caplog.text


def test_a_user_of_the_format_logs_in_at_the_first_start(tmp_path: Path) -> None:
    settings: dict[str, SettingValue] = {
        "listeners": "SASL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    texts = {name: str(value) for name, value in settings.items()}
    config = BrokerConfig.of({**texts, "log.dirs": str(tmp_path)})
    user = "SCRAM-SHA-512=[name=alice,password=alice-secret]"
    format_directories(config, new_cluster_id(), standalone=True, users=[user])
    module = f"{MODULES}.scram.ScramLoginModule required username=alice"
    with Cluster(settings, data=tmp_path) as cluster:
        host, port = cluster.addresses["SASL"]
        for password, knows in (("alice-secret", True), ("another", False)):
            keys = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{module} password="{password}";',
            }
            with Admin(keys, bootstrap=f"{host}:{port}") as admin:
                if knows:
                    assert list(admin.scram.describe()) == ["alice"]
                else:
                    with pytest.raises(NotAuthenticated):
                        admin.scram.describe()
