"""Words for histories told by hand, one fact after the other."""

from collections.abc import Mapping

from penstock.model import TopicPartition
from penstock.testing.history import (
    Anomaly,
    OpenTransaction,
    Pipeline,
    Place,
    Polled,
    Process,
    Recorder,
    check,
)

ORDERS = TopicPartition("orders", 0)
OTHER_ORDERS = TopicPartition("orders", 1)
BILLS = TopicPartition("bills", 0)


def sent(
    process: Process,
    offset: int | None,
    value: bytes,
    partition: TopicPartition = ORDERS,
    transaction: OpenTransaction | None = None,
    source: Place | None = None,
) -> None:
    """Sent and acknowledged."""
    process.send(partition, value, transaction=transaction, source=source).ok(offset)


def read(
    process: Process, records: Mapping[int, bytes], partition: TopicPartition = ORDERS
) -> None:
    """One poll that returned these records in this order."""
    process.poll().got(Polled(partition, offset, value) for offset, value in records.items())


def read_to_end(process: Process, end: int, partition: TopicPartition = ORDERS) -> None:
    process.read_to_end(partition).reached(end)


def committed(transaction: OpenTransaction) -> None:
    transaction.commit_asked()
    transaction.committed()


def found(recorder: Recorder, *pipelines: Pipeline) -> list[Anomaly]:
    return list(check(recorder.history(), pipelines=pipelines).anomalies)


def kinds(recorder: Recorder, *pipelines: Pipeline) -> list[type[Anomaly]]:
    return [type(each) for each in found(recorder, *pipelines)]
