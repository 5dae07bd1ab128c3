"""Real clients that log in, under access control: denied at first, then allowed what they need."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.client.admin.access_values import Acl, AclFilter, AclOperation, AclResourceType
from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import Connection, NotAuthenticated
from penstock.client.transport.security import Security
from penstock.testing.cluster import Cluster, SettingValue

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = " ".join(f'user_{name}="{name}-secret"' for name in ("alice", "bob", "node"))
SETTINGS: dict[str, SettingValue] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN} {USERS};",
    "group.initial.rebalance.delay.ms": "0",
}
ALICE = "User:alice"
Op, Kind = AclOperation, AclResourceType


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as cluster:
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture
def admin(guarded: Cluster) -> Iterator[Admin]:
    """An administrator, who removes all ACLs at the end."""
    with Admin(bootstrap=guarded.bootstrap) as admin:
        yield admin
        admin.acls.delete([AclFilter()])


def allow(admin: Admin, *acls: tuple[AclResourceType, str, AclOperation]) -> None:
    wanted = [Acl(kind, name, ALICE, operation) for kind, name, operation in acls]
    assert set(admin.acls.create(wanted).values()) == {None}


def keys(cluster: Cluster) -> dict[str, Any]:
    host, port = cluster.addresses["SASL"]
    return {
        "bootstrap.servers": f"{host}:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }


def produced(cluster: Cluster) -> KafkaError | None:
    reports: list[KafkaError | None] = []
    producer = Producer(keys(cluster))
    producer.produce("orders", b"value", on_delivery=lambda error, _: reports.append(error))
    producer.flush(20)
    return reports[0]


def consumed(cluster: Cluster) -> KafkaError | None:
    """Return the first error that a consumer of a group sees, None after a record."""
    settings = {**keys(cluster), "group.id": "billing", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["orders"])
        message = consumer.poll(20)
        assert message is not None
        return message.error()


def test_librdkafka_writes_and_reads_with_just_enough(guarded: Cluster, admin: Admin) -> None:
    denied = produced(guarded)
    assert denied is not None and denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(admin, (Kind.TOPIC, "orders", Op.WRITE))
    assert produced(guarded) is None
    without_group = consumed(guarded)
    assert without_group is not None
    assert without_group.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(admin, (Kind.GROUP, "billing", Op.READ))
    without_topic = consumed(guarded)
    assert without_topic is not None
    assert without_topic.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(admin, (Kind.TOPIC, "orders", Op.READ))
    assert consumed(guarded) is None


def test_a_transaction_needs_its_id(guarded: Cluster, admin: Admin) -> None:
    allow(admin, (Kind.TOPIC, "orders", Op.WRITE))
    denied = Producer({**keys(guarded), "transactional.id": "shop"})
    with pytest.raises(KafkaException) as caught:
        denied.init_transactions(20)
    assert caught.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(admin, (Kind.TRANSACTIONAL_ID, "shop", Op.WRITE))
    producer = Producer({**keys(guarded), "transactional.id": "shop"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction(20)


def test_librdkafka_lists_what_it_may_describe(guarded: Cluster, admin: Admin) -> None:
    client = AdminClient(keys(guarded))
    assert client.list_topics(timeout=20).topics == {}
    allow(admin, (Kind.TOPIC, "orders", Op.DESCRIBE))
    assert list(client.list_topics(timeout=20).topics) == ["orders"]
    with pytest.raises(KafkaException) as caught:
        client.create_topics([NewTopic("mine", 1, 1)])["mine"].result(20)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(admin, (Kind.TOPIC, "mine", Op.CREATE))
    client.create_topics([NewTopic("mine", 1, 1)])["mine"].result(20)


def test_kafka_python_is_denied_and_allowed(guarded: Cluster, admin: Admin) -> None:
    from kafka import KafkaProducer
    from kafka.errors import TopicAuthorizationFailedError

    def send() -> Any:
        producer = KafkaProducer(
            bootstrap_servers=keys(guarded)["bootstrap.servers"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="alice-secret",
            enable_idempotence=False,
            max_block_ms=10_000,
        )
        with closing(producer):
            return producer.send("orders", b"x").get(20)

    with pytest.raises(TopicAuthorizationFailedError):
        send()
    allow(admin, (Kind.TOPIC, "orders", Op.WRITE))
    assert send().topic == "orders"


def test_aiokafka_is_denied_and_allowed(guarded: Cluster, admin: Admin) -> None:
    async def send() -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=keys(guarded)["bootstrap.servers"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="alice-secret",
        )
        async with producer:
            return await producer.send_and_wait("orders", b"x")

    from aiokafka.errors import TopicAuthorizationFailedError

    with pytest.raises(TopicAuthorizationFailedError):
        asyncio.run(send())
    allow(admin, (Kind.TOPIC, "orders", Op.WRITE))
    assert asyncio.run(send()).topic == "orders"


def test_logins_are_on_record(guarded: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.audit")
    host, port = guarded.addresses["SASL"]
    for password in ("bob-secret", "wrong"):
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} username="bob" password="{password}";',
        }
        with suppress(NotAuthenticated):
            Connection(host, port, security=Security.from_properties(login)).close()
    audited = [each.getMessage() for each in caplog.records if each.name == "penstock.audit"]
    lines = [json.loads(each) for each in audited]
    found = [(each["principal"], each["verdict"]) for each in lines if each["api"] == "Login"]
    assert found == [("User:bob", "allowed"), ("User:ANONYMOUS", "denied")]
    assert "bob-secret" not in caplog.text


def test_three_nodes_that_log_in_are_super_users_and_their_clients_are_not() -> None:
    login = f'{PLAIN} username="node" password="node-secret" {USERS};'
    settings: dict[str, SettingValue] = {
        "authorizer.class.name": SETTINGS["authorizer.class.name"],
        "super.users": "User:node",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
    }
    with Cluster(settings, brokers=3) as cluster:
        as_node: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "node",
            "sasl.password": "node-secret",
        }
        as_alice = {**as_node, "sasl.username": "alice", "sasl.password": "alice-secret"}
        client, node = AdminClient(as_alice), AdminClient(as_node)
        with pytest.raises(KafkaException) as caught:
            client.create_topics([NewTopic("a", 3, 3)])["a"].result(20)
        assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        node.create_topics([NewTopic("a", 3, 3)])["a"].result(20)
        reports: list[KafkaError | None] = []
        producer = Producer({**as_node, "acks": "all"})
        for index in range(3):
            producer.produce(
                "a", b"x", partition=index, on_delivery=lambda error, _: reports.append(error)
            )
        producer.flush(20)
        assert reports == [None] * 3
