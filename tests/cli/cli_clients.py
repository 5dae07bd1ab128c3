"""Groups and transactions that real clients make, for commands to look at."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.client.cluster.nodes import parse_bootstrap
from penstock.client.transport.connection import Connection
from penstock.errors import CoordinatorLoadInProgress
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k22_init_producer_id as k22

WAIT_SECONDS_MAX = 30.0
POLL_SECONDS = 0.05
# The last version of Produce with which a partition does not join a transaction by itself.
PRODUCE_WITHOUT_JOINING = 11
TWO_PHASE = 6  # the first version of InitProducerId that knows of it

silent = logging.getLogger("tests.cli.silent")
silent.addHandler(logging.NullHandler())
silent.propagate = False


def _settings(bootstrap: str, **config: Any) -> dict[str, Any]:
    more = {name.replace("_", "."): value for name, value in config.items()}
    return {"bootstrap.servers": bootstrap, "log_level": 0, **more}


def produce(bootstrap: str, topic: str, counts: Mapping[int, int], **config: Any) -> None:
    """So many records into each partition."""
    producer = Producer(_settings(bootstrap, **config), logger=silent)
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


def commit(bootstrap: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit for a group without joining it."""
    consumer = Consumer(_settings(bootstrap, group_id=group), logger=silent)
    try:
        consumer.commit(
            offsets=[TopicPartition(topic, *each) for each in offsets.items()], asynchronous=False
        )
    finally:
        consumer.close()


@contextmanager
def joined(bootstrap: str, group: str, topic: str, **config: Any) -> Iterator[Consumer]:
    """A member that has its partitions, for as long as the block runs."""
    settings = {"client_id": "reader", "enable_auto_commit": False, **config}
    consumer = Consumer(_settings(bootstrap, group_id=group, **settings), logger=silent)
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not consumer.assignment():
            assert time.monotonic() < deadline, "no partition was assigned"
            consumer.poll(POLL_SECONDS)
        yield consumer
    finally:
        consumer.close()


def transactional(bootstrap: str, transactional_id: str, **config: Any) -> Producer:
    """A producer in a transaction that has just begun."""
    producer = Producer(
        _settings(bootstrap, transactional_id=transactional_id, **config), logger=silent
    )
    producer.init_transactions(WAIT_SECONDS_MAX)
    producer.begin_transaction()
    return producer


def begin_two_phase(bootstrap: str, transactional_id: str) -> None:
    """A participant of a two-phase commit, without a transaction so far. The server makes the
    coordinator when it is first asked for."""
    transactional(bootstrap, f"{transactional_id}-before")
    ((host, port),) = parse_bootstrap(bootstrap)
    request = k22.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000, enable_2pc=True
    )
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with Connection(host, port) as connection:
        made = connection.request(request, k22.InitProducerIdResponse, TWO_PHASE)
        while made.error_code == CoordinatorLoadInProgress.code:
            assert time.monotonic() < deadline, "the coordinator does not load"
            made = connection.request(request, k22.InitProducerIdResponse, TWO_PHASE)
    assert made.error_code == 0


def write_open(producer: Producer, topic: str, *, partition: int = 0, value: bytes = b"x") -> None:
    """A record that is stored, in the transaction that is open."""
    producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


def write_hanging(bootstrap: str, topic: str, *, last_write_ms: int) -> int:
    """A record of a transaction that no coordinator was told of; its producer id.

    A server refuses that unless transaction.partition.verification.enable is off.
    """
    ((host, port),) = parse_bootstrap(bootstrap)
    with Connection(host, port) as connection:
        made = connection.request(
            k22.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            k22.InitProducerIdResponse,
        )
        assert made.error_code == 0
        batch = build_batch(
            [Record(0, last_write_ms, None, b"x")],
            producer_id=made.producer_id,
            producer_epoch=made.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        partition = k00.PartitionProduceData(index=0, records=batch)
        request = k00.ProduceRequest(
            transactional_id=f"hanging-{made.producer_id}",
            acks=-1,
            timeout_ms=10_000,
            topic_data=[k00.TopicProduceData(name=topic, partition_data=[partition])],
        )
        answer = connection.request(request, k00.ProduceResponse, PRODUCE_WITHOUT_JOINING)
    (stored,) = answer.responses[0].partition_responses
    assert stored.error_code == 0, stored
    return int(made.producer_id)
