"""What groups and transactions have promised, and whether a server still keeps it."""

import time
from contextlib import closing
from dataclasses import dataclass, field
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bench import topics
from compat.data import PROMISED, quiet
from compat.report import Report

SECONDS_MAX = 60.0
PARTITIONS = 2
OFFSET_IN_TRANSACTION = 9
PASSING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(slots=True)
class Promises:
    """Committed offsets per group, and what is committed in topics that transactions wrote."""

    offsets: dict[tuple[str, str, int], tuple[int, str]] = field(default_factory=dict)
    committed: dict[str, list[bytes]] = field(default_factory=dict)
    transactional_ids: dict[str, str] = field(default_factory=dict)  # by topic


def _consumer(bootstrap: str, group: str, **more: object) -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer(quiet({**settings, **more}))


def make_promises(bootstrap: str, promises: Promises, prefix: str) -> None:
    """A group with offsets, a transaction that counts, one that does not, one left open."""
    topic = f"{prefix}{PROMISED}"
    topics.create(bootstrap, topic, PARTITIONS)
    group = f"{prefix}-group"
    with closing(_consumer(bootstrap, group)) as consumer:
        for partition in range(PARTITIONS):
            place = TopicPartition(topic, partition, partition + 5, metadata=f"note {partition}")
            _commit(consumer, place)
            promises.offsets[group, topic, partition] = (partition + 5, f"note {partition}")
        promises.transactional_ids[topic] = f"{prefix}-txn"
        _write(bootstrap, promises, topic, group, consumer)


def _commit(consumer: Consumer, place: TopicPartition) -> None:
    """A server that has just made its offsets topic may need a moment."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            consumer.commit(offsets=[place], asynchronous=False)
            return
        except KafkaException as refusal:
            if refusal.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _write(bootstrap: str, promises: Promises, topic: str, group: str, consumer: Consumer) -> None:
    """Three transactions; the last one is never ended by its producer."""
    transactional_id = promises.transactional_ids[topic]
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    producer = Producer(quiet({**settings, "transaction.timeout.ms": 600_000}))
    producer.init_transactions(SECONDS_MAX)
    for name in ("kept", "dropped", "open"):
        producer.begin_transaction()
        value = f"{name}-{uuid4().hex}".encode()
        for partition in range(PARTITIONS):
            producer.produce(topic, value, partition=partition)
        if producer.flush(SECONDS_MAX):
            raise RuntimeError(f"{topic} could not be written to")
        if name == "kept":
            place = TopicPartition(topic, 0, OFFSET_IN_TRANSACTION)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([place], metadata, SECONDS_MAX)
            promises.offsets[group, topic, 0] = (OFFSET_IN_TRANSACTION, "")
            producer.commit_transaction(SECONDS_MAX)
            promises.committed[topic] = [value] * PARTITIONS
        elif name == "dropped":
            producer.abort_transaction(SECONDS_MAX)


def _read_committed(bootstrap: str, topic: str) -> list[bytes]:
    group = f"reader-{uuid4().hex}"
    found: list[bytes] = []
    how = {"isolation.level": "read_committed", "enable.partition.eof": True}
    with closing(_consumer(bootstrap, group, **how)) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(SECONDS_MAX)
            if message is None:
                raise RuntimeError(f"the end of {topic} did not come")
            if message.error() is not None:
                ends += 1
            else:
                found.append(message.value() or b"")
    return found


def expect_promises(report: Report, bootstrap: str, promises: Promises, where: str) -> None:
    """Offsets are where they were, transactions are whole; the open one ends with its id's next
    producer, and what that one writes counts."""
    wrong = []
    for (group, topic, partition), wanted in promises.offsets.items():
        with closing(_consumer(bootstrap, group)) as consumer:
            (found,) = consumer.committed([TopicPartition(topic, partition)], SECONDS_MAX)
        seen = (found.offset, found.metadata or "")
        if seen != wanted:
            wrong.append(f"{group} {topic}-{partition}: {seen}, not {wanted}")
    report.expect(not wrong, f"{where}: committed offsets", "\n".join(wrong))
    for topic, transactional_id in promises.transactional_ids.items():
        settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
        producer = Producer(quiet(settings))
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        value = f"next-{uuid4().hex}".encode()
        producer.produce(topic, value, partition=0)
        producer.commit_transaction(SECONDS_MAX)
        promises.committed[topic].append(value)
        found_values = _read_committed(bootstrap, topic)
        report.expect(
            sorted(found_values) == sorted(promises.committed[topic]),
            f"{where}: {topic} shows what was committed, and nothing else",
            f"{found_values} != {promises.committed[topic]}",
        )
