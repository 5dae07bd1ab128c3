"""Transactions through real clients: commit, abort, fencing, offsets sent with the records."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from client_adapters import MakeTopic
from cluster_sizes import ALSO_ON_THREE
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from group_members import silent
from kafka import KafkaProducer

from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.testing.cluster import Cluster

pytest_plugins = ["client_fixtures"]
pytestmark = ALSO_ON_THREE

SECONDS_MAX = 20.0
PARTITIONS = 3
ENDING = ("PrepareCommit", "PrepareAbort")


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(PARTITIONS)


@pytest.fixture
def name() -> str:
    return f"txn-{uuid4().hex[:12]}"


def producer(cluster: Cluster, transactional_id: str, **config: Any) -> Producer:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    made = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            **settings,
        },
        logger=silent,
    )
    made.init_transactions(SECONDS_MAX)
    return made


def write(made: Producer, topic: str, *values: bytes) -> None:
    for number, value in enumerate(values):
        made.produce(topic, value, partition=number % PARTITIONS)
    assert made.flush(SECONDS_MAX) == 0


@pytest.fixture
def read_all(disk_cluster: Cluster, topic: str) -> Callable[..., list[bytes]]:
    """Everything a consumer sees between the beginning and the end, as it sees both."""

    def is_settled() -> bool:
        """A commit is answered before its markers are in the partitions."""
        with Admin(bootstrap=disk_cluster.bootstrap) as admin:
            return not admin.transactions.list_all(TransactionFilter(states=ENDING))

    def read(isolation: str = "read_committed") -> list[bytes]:
        disk_cluster.wait_until(is_settled)
        consumer = Consumer(
            {
                "bootstrap.servers": disk_cluster.bootstrap,
                "group.id": f"reader-{uuid4().hex}",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            },
            logger=silent,
        )
        with closing(consumer):
            places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
            consumer.assign(places)
            got: list[bytes] = []
            ends = 0
            while ends < PARTITIONS:
                message = consumer.poll(SECONDS_MAX)
                assert message is not None, "nothing more came"
                if message.error() is not None:
                    ends += 1
                else:
                    got.append(message.value() or b"")
            return sorted(got)

    return read


def test_a_committed_transaction_is_read_whole(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    made = producer(disk_cluster, name)
    made.begin_transaction()
    write(made, topic, b"a", b"b", b"c")
    made.commit_transaction(SECONDS_MAX)
    assert read_all() == [b"a", b"b", b"c"]


def test_an_aborted_transaction_is_not_read_by_those_who_read_committed(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    made = producer(disk_cluster, name)
    made.begin_transaction()
    write(made, topic, b"a", b"b")
    made.abort_transaction(SECONDS_MAX)
    made.begin_transaction()
    write(made, topic, b"c")
    made.commit_transaction(SECONDS_MAX)
    assert (read_all(), read_all("read_uncommitted")) == ([b"c"], [b"a", b"b", b"c"])


def test_an_open_transaction_holds_the_last_stable_offset(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    made = producer(disk_cluster, name)
    made.begin_transaction()
    write(made, topic, b"a")
    plain = Producer({"bootstrap.servers": disk_cluster.bootstrap}, logger=silent)
    plain.produce(topic, b"later", partition=0)
    assert plain.flush(SECONDS_MAX) == 0
    assert read_all() == []
    made.commit_transaction(SECONDS_MAX)
    assert read_all() == [b"a", b"later"]


def test_a_producer_that_was_replaced_is_fenced(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    old = producer(disk_cluster, name)
    old.begin_transaction()
    write(old, topic, b"old")
    new = producer(disk_cluster, name)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(SECONDS_MAX)
    assert refused.value.args[0].fatal()
    new.begin_transaction()
    write(new, topic, b"new")
    new.commit_transaction(SECONDS_MAX)
    assert read_all() == [b"new"]


def test_many_transactions_one_after_the_other_all_count(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    made = producer(disk_cluster, name)
    for number in range(50):
        made.begin_transaction()
        write(made, topic, b"%02d" % number)
        if number % 5:
            made.commit_transaction(SECONDS_MAX)
        else:
            made.abort_transaction(SECONDS_MAX)
    assert read_all() == [b"%02d" % number for number in range(50) if number % 5]


def test_an_empty_transaction_may_be_committed(disk_cluster: Cluster, name: str) -> None:
    made = producer(disk_cluster, name)
    for _ in range(3):
        made.begin_transaction()
        made.commit_transaction(SECONDS_MAX)


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_count_only_if_their_transaction_does(
    disk_cluster: Cluster, topic: str, name: str, committed: bool
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": disk_cluster.bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "log_level": 0,
        },
        logger=silent,
    )
    with closing(consumer):
        made = producer(disk_cluster, name)
        made.begin_transaction()
        write(made, topic, b"out")
        made.send_offsets_to_transaction(
            [TopicPartition(topic, 1, 7)], consumer.consumer_group_metadata(), SECONDS_MAX
        )
        if committed:
            made.commit_transaction(SECONDS_MAX)
        else:
            made.abort_transaction(SECONDS_MAX)
        (found,) = consumer.committed([TopicPartition(topic, 1)], SECONDS_MAX)
    assert found.offset == (7 if committed else -1001)


def test_a_transaction_that_times_out_is_aborted(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    made = producer(disk_cluster, name, transaction_timeout_ms=1000)
    made.begin_transaction()
    write(made, topic, b"lost")
    consumer = Consumer(
        {
            "bootstrap.servers": disk_cluster.bootstrap,
            "group.id": name,
            "isolation.level": "read_committed",
            "log_level": 0,
        },
        logger=silent,
    )
    with closing(consumer):
        place = TopicPartition(topic, 0)
        while consumer.get_watermark_offsets(place, SECONDS_MAX)[1] < 2:
            pass  # the marker comes after the record
    assert read_all() == []


def test_aiokafka_commits_and_aborts(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    async def run() -> None:
        made = AIOKafkaProducer(bootstrap_servers=disk_cluster.bootstrap, transactional_id=name)
        await made.start()
        try:
            async with made.transaction():
                await made.send_and_wait(topic, b"kept", partition=0)
                await made.send_offsets_to_transaction({TP(topic, 2): 5}, f"{name}-group")
            await made.begin_transaction()
            await made.send_and_wait(topic, b"dropped", partition=1)
            await made.abort_transaction()
        finally:
            await made.stop()
        reader = AIOKafkaConsumer(
            bootstrap_servers=disk_cluster.bootstrap, group_id=f"{name}-group"
        )
        await reader.start()
        try:
            assert await reader.committed(TP(topic, 2)) == 5
        finally:
            await reader.stop()

    from aiokafka import TopicPartition as TP

    asyncio.run(asyncio.wait_for(run(), 60))
    assert read_all() == [b"kept"]


def test_kafka_python_commits_and_aborts(
    disk_cluster: Cluster, topic: str, name: str, read_all: Any
) -> None:
    made = KafkaProducer(bootstrap_servers=disk_cluster.bootstrap, transactional_id=name)
    made.init_transactions()
    made.begin_transaction()
    made.send(topic, b"kept", partition=0).get(SECONDS_MAX)
    made.commit_transaction()
    made.begin_transaction()
    made.send(topic, b"dropped", partition=0).get(SECONDS_MAX)
    made.abort_transaction()
    made.close()
    assert read_all() == [b"kept"]
