"""Which open transactions hang."""

from penstock.cli.txn.open_transactions import (
    Coordinated,
    hanging_transactions,
    idle_longer_than,
    open_transactions,
)
from penstock.client.admin.coordinator_values import ProducerState, TransactionDescription
from penstock.model import TopicPartition

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def producer(producer_id: int, *, start: int | None = 5, last_ms: int = 1000) -> ProducerState:
    return ProducerState(producer_id, 0, 9, last_ms, 0, start)


def described(name: str, *partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription(name, 1, "Ongoing", 7, 0, 60_000, 1000, partitions)


def test_a_producer_without_a_transaction_has_none_open() -> None:
    found = open_transactions({HERE: [producer(7, start=None), producer(8, start=0)]})
    assert [(each.producer.producer_id, each.start_offset) for each in found] == [(8, 0)]


def test_a_transaction_that_was_just_written_to_is_not_suspected() -> None:
    opened = open_transactions({HERE: [producer(7, last_ms=1000), producer(8, last_ms=1001)]})
    late = idle_longer_than(opened, 500, now_ms=1501)
    assert [each.producer.producer_id for each in late] == [7]


def test_a_transaction_of_a_producer_that_no_coordinator_knows_hangs() -> None:
    opened = open_transactions({HERE: [producer(7)]})
    assert hanging_transactions(opened, Coordinated({}, {})) == opened


def test_a_transaction_whose_id_is_gone_hangs() -> None:
    opened = open_transactions({HERE: [producer(7)]})
    assert hanging_transactions(opened, Coordinated({7: "pay"}, {})) == opened


def test_a_transaction_that_its_coordinator_will_end_does_not_hang() -> None:
    opened = open_transactions({HERE: [producer(7)]})
    assert (
        hanging_transactions(opened, Coordinated({7: "pay"}, {"pay": described("pay", HERE)})) == []
    )


def test_a_partition_that_its_coordinator_has_left_out_hangs() -> None:
    opened = open_transactions({HERE: [producer(7)], THERE: [producer(7)]})
    stuck = hanging_transactions(opened, Coordinated({7: "pay"}, {"pay": described("pay", THERE)}))
    assert [each.partition for each in stuck] == [HERE]
