"""Compacted topics through real clients: what stays, what goes, and that groups outlive it."""

import logging
import queue
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from client_adapters import CLIENTS, WAIT_SECONDS_MAX, Client, Got, Sent

from penstock.log.log import Log
from penstock.testing.cluster import Cluster, SettingValue
from penstock.wire.batch import ATTRIBUTES, CONTROL, batch_headers, read_records
from penstock.world import Cold

BACKOFF_SECONDS = 3_600
SETTINGS: dict[str, SettingValue] = {
    "log.cleaner.backoff.ms": BACKOFF_SECONDS * 1000,
    "log.retention.check.interval.ms": BACKOFF_SECONDS * 1000,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "transaction.state.log.num.partitions": 1,
}
COMPACT: dict[str, SettingValue] = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 6_000,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": BACKOFF_SECONDS * 1000,
}
KEYS, ROUNDS = 10, 40
COMMITS = 200
# The process starts at a low priority, perhaps beside a test that takes all there is.
CLEANED_SECONDS_MAX = 15
HOURS_MAX = 8
TOGETHER = 5  # rounds per batch, which must fit a segment


class Cleaned(logging.Handler):
    """Hears which partitions were cleaned."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._said.put(record.getMessage())

    def wait(self, cluster: Cluster, topic: str) -> None:
        """An hour passes, and the cleaner has been through all closed segments. Another one, if the
        disk was late with what belongs to them."""
        while not self._said.empty():
            self._said.get()
        end = log_of(cluster, topic).active.base_offset
        awaited = re.compile(rf"cleaned {re.escape(topic)}-0 up to offset (\d+):")
        for _ in range(HOURS_MAX):
            cluster.advance(seconds=BACKOFF_SECONDS + 1)
            try:
                while not _reaches(awaited.match(self._said.get(timeout=CLEANED_SECONDS_MAX)), end):
                    pass
            except queue.Empty:
                continue
            return
        raise TimeoutError(f"{topic} is not cleaned up to {end}")


def _reaches(found: re.Match[str] | None, end: int) -> bool:
    return found is not None and int(found[1]) >= end


@pytest.fixture
def cleaned() -> Iterator[Cleaned]:
    logger = logging.getLogger("penstock.cleaning")
    handler, level = Cleaned(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as made:
        yield made


@pytest.fixture(params=CLIENTS, ids=[each.name for each in CLIENTS])
def client(request: pytest.FixtureRequest, cluster: Cluster) -> Client:
    made: Client = request.param(cluster)
    return made


def new_topic(cluster: Cluster, **configs: Any) -> str:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return cluster.create_topic(f"compacted-{uuid4().hex[:8]}", config={**COMPACT, **dotted})


def log_of(cluster: Cluster, topic: str) -> Log:
    return cluster.broker.find(topic, 0).log


def count(cluster: Cluster, topic: str) -> int:
    """How many records are there, looked up in the log itself."""
    log = log_of(cluster, topic)
    found, offset = 0, log.start_offset
    while offset < log.end_offset:
        try:
            read = log.read(offset, 1, upper_offset=log.end_offset, min_one_batch=True)
        except Cold as cold:
            cold.file.read_now(cold.position, cold.size)
            continue
        if read.file is None or not read.size:
            break
        data = read.file.read_now(read.position, read.size)
        for _, header in batch_headers(data):
            if not header[ATTRIBUTES] & CONTROL:
                found += sum(each.offset >= log.start_offset for each in read_records(data))
            offset = header[0] + header[6] + 1
    return found


def read_all(client: Client, cluster: Cluster, topic: str) -> list[Got]:
    return client.consume(topic, count(cluster, topic), offset=log_of(cluster, topic).start_offset)


def written(round_number: int) -> list[Sent]:
    return [Sent(b"%d-%d" % (round_number, key) * 10, b"key-%d" % key) for key in range(KEYS)]


def fill(client: Client, topic: str) -> dict[bytes, bytes | None]:
    """Every key again and again; what each holds in the end."""
    for first in range(0, ROUNDS, TOGETHER):
        records = [each for number in range(first, first + TOGETHER) for each in written(number)]
        client.produce(topic, records)
    return {each.key: each.value for each in written(ROUNDS - 1) if each.key is not None}


def alter(cluster: Cluster, topic: str, key: str, value: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    change = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_SECONDS_MAX)


def test_the_last_value_of_each_key_survives_at_its_offset(
    client: Client, cluster: Cluster, cleaned: Cleaned
) -> None:
    topic = new_topic(cluster)
    latest = fill(client, topic)
    before = {each.offset: each for each in client.consume(topic, KEYS * ROUNDS)}
    size = log_of(cluster, topic).size
    cleaned.wait(cluster, topic)
    after = read_all(client, cluster, topic)
    assert {each.key: each.value for each in after} == latest
    assert all(before[each.offset] == each for each in after)
    assert len(after) < KEYS * ROUNDS / 2
    assert log_of(cluster, topic).size < size / 2
    assert client.watermarks(topic) == (0, KEYS * ROUNDS)
    # Whoever was in the middle goes on where records are left.
    assert client.consume(topic, 1, offset=5)[0].offset == after[0].offset > 5


def test_a_deleted_key_is_gone_when_its_tombstone_has_been_there_long_enough(
    client: Client, cluster: Cluster, cleaned: Cleaned
) -> None:
    topic = new_topic(cluster)
    fill(client, topic)
    client.produce(topic, [Sent(None, b"key-3")])
    client.produce(topic, [Sent(b"x" * 4_000, b"long")])  # closes the segment
    cleaned.wait(cluster, topic)
    kept = {each.key: each.value for each in read_all(client, cluster, topic)}
    assert kept[b"key-3"] is None
    client.produce(topic, [Sent(b"y" * 4_000, b"long")])
    client.produce(topic, [Sent(b"z" * 4_000, b"long")])
    cleaned.wait(cluster, topic)
    keys = {each.key for each in read_all(client, cluster, topic)}
    assert b"key-3" not in keys
    assert b"key-4" in keys


def test_old_records_leave_a_topic_that_is_compacted_and_deleted(
    cluster: Cluster, cleaned: Cleaned
) -> None:
    client: Client = CLIENTS[0](cluster)
    topic = new_topic(cluster, cleanup_policy="compact,delete", retention_ms=30 * 24 * 3_600_000)
    latest = fill(client, topic)
    cleaned.wait(cluster, topic)
    assert {each.key: each.value for each in read_all(client, cluster, topic)} == latest
    cluster.advance(seconds=32 * 24 * 3_600)
    assert client.watermarks(topic) == (KEYS * ROUNDS, KEYS * ROUNDS)


def test_a_topic_can_become_a_compacted_one_while_it_is_used(
    cluster: Cluster, cleaned: Cleaned
) -> None:
    client: Client = CLIENTS[0](cluster)
    topic = new_topic(cluster, cleanup_policy="delete")
    latest = fill(client, topic)
    alter(cluster, topic, "cleanup.policy", "compact")
    cleaned.wait(cluster, topic)
    assert {each.key: each.value for each in read_all(client, cluster, topic)} == latest


def test_aborted_records_are_taken_out_and_committed_ones_stay(
    cluster: Cluster, cleaned: Cleaned
) -> None:
    from confluent_kafka import Producer

    client: Client = CLIENTS[0](cluster)
    topic = new_topic(cluster)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"txn-{uuid4()}"}
    )
    producer.init_transactions(WAIT_SECONDS_MAX)
    expected: dict[bytes | None, bytes | None] = {}
    for number in range(60):
        producer.begin_transaction()
        values: dict[bytes | None, bytes | None] = {
            b"key-%d" % key: b"%d" % number * 20 for key in range(KEYS)
        }
        for key, value in values.items():
            producer.produce(topic, key=key, value=value)
        producer.flush(WAIT_SECONDS_MAX)
        if number % 3 == 2 or number == 59:
            producer.abort_transaction(WAIT_SECONDS_MAX)
        else:
            producer.commit_transaction(WAIT_SECONDS_MAX)
            expected.update(values)
    client.produce(topic, [Sent(b"x" * 4_000, b"long"), Sent(b"y", b"last")])
    size = log_of(cluster, topic).size
    cleaned.wait(cluster, topic)
    assert log_of(cluster, topic).size < size
    assert committed(cluster, topic) == {**expected, b"long": b"x" * 4_000, b"last": b"y"}


def committed(cluster: Cluster, topic: str) -> dict[bytes | None, bytes | None]:
    """What a reader of committed records sees, up to the record that was written last."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: dict[bytes | None, bytes | None] = {}
    while b"last" not in found:
        message = consumer.poll(WAIT_SECONDS_MAX)
        assert message is not None and message.error() is None, message
        found[message.key()] = message.value()
    consumer.close()
    return found


def test_groups_are_as_they_were_after_their_offsets_were_compacted_and_the_node_restarted(
    cleaned: Cleaned,
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    with Cluster({**SETTINGS, "log.cleaner.min.cleanable.ratio": 0.01}, memory=False) as cluster:
        topic = cluster.create_topic("orders")
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        alter(cluster, "__consumer_offsets", "internal.segment.bytes", "4000")
        for number in range(1, COMMITS + 1):
            consumer.commit(offsets=[TopicPartition(topic, 0, number)], asynchronous=False)
        before = log_of(cluster, "__consumer_offsets").size
        cleaned.wait(cluster, "__consumer_offsets")
        assert log_of(cluster, "__consumer_offsets").size < before / 2
        consumer.close()
        cluster.stop()
        cluster.start()
        again = Consumer({**settings, "bootstrap.servers": cluster.bootstrap})
        (found,) = again.committed([TopicPartition(topic, 0)], timeout=WAIT_SECONDS_MAX)
        assert found.offset == COMMITS
        again.close()
