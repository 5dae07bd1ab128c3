"""What came out of a pipeline: the committed records as librdkafka reads them, and what is open."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned

from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.client.values import At, FoundOffset
from penstock.model import TopicPartition

READ_SECONDS_MAX = 30.0
RECORDS_AT_ONCE_MAX = 10_000
TRANSACTIONS_NAMED_MAX = 10


class Found(NamedTuple):
    partition: int
    value: bytes


class Unread(Exception):
    """The end of a topic was not reached in time."""


def committed_records(bootstrap: str, topic: str, partitions: int) -> list[Found]:
    """Up to the end, as a client that is not ours reads it; in order within a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([Assigned(topic, each, 0) for each in range(partitions)])
    found: list[Found] = []
    ended: set[int | None] = set()
    until = time.monotonic() + READ_SECONDS_MAX
    try:
        while len(ended) < partitions:
            if time.monotonic() > until:
                raise Unread(f"{topic} was read to the end of {len(ended)} partitions")
            for message in consumer.consume(RECORDS_AT_ONCE_MAX, 1.0):
                if message.error() is not None:
                    ended.add(message.partition())
                else:
                    found.append(Found(message.partition() or 0, message.value() or b""))
    finally:
        consumer.close()
    return found


def left_open(bootstrap: str, topics: Sequence[str], partitions: int) -> str:
    """Transactions that are open, and partitions whose readers are held back; empty if none."""
    places = [TopicPartition(topic, each) for topic in topics for each in range(partitions)]
    with Admin(bootstrap=bootstrap) as admin:
        ongoing = admin.transactions.list_all(TransactionFilter(states=("Ongoing",)))
        held = [
            f"{each.topic}-{each.partition}"
            for each in places
            if _end(admin, each, committed_only=True) != _end(admin, each, committed_only=False)
        ]
    names = [each.transactional_id for each in ongoing[:TRANSACTIONS_NAMED_MAX]]
    return ", ".join([*names, *held])


def _end(admin: Admin, place: TopicPartition, *, committed_only: bool) -> int:
    found = admin.offsets({place: At.END}, committed_only=committed_only)[place]
    assert isinstance(found, FoundOffset), found
    return found.offset
