"""What an exception of our own costs: one transactional id at most."""

import logging
from typing import Any

import pytest
from hostile_world import HostileWorld

from penstock.coordinator.transactions import state
from penstock.coordinator.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    InitProducer,
    ProducerIdAndEpoch,
)
from penstock.coordinator.transactions.machine import TransactionCoordinator
from penstock.coordinator.transactions.state import TransactionMetadata, TxnStatus
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.errors import UnknownServerError
from penstock.model import TopicPartition
from penstock.wire.records.coordinator import TRANSACTION_RECORDS, write_coordinator_key
from penstock.wire.records.transaction import TransactionLogKey


class Transactions(HostileWorld):
    def __init__(self) -> None:
        settings = TransactionSettings(abort_interval_ms=10_000)
        make = lambda: TransactionCoordinator(settings, 7)  # noqa: E731
        super().__init__(1, make, TRANSACTION_RECORDS, lambda _: None)

    def say(self, event: Any) -> Any:
        heard: list[Any] = []
        self.ask(event, heard.append)
        return heard[0]

    def begin(self, name: str) -> ProducerIdAndEpoch:
        answer = self.say(InitProducer(name, 60_000, new_producer_id=1_000))
        assert isinstance(answer, ProducerIdAndEpoch)
        return answer


@pytest.fixture
def transactions(machine_failures: list[logging.LogRecord]) -> Transactions:  # noqa: ARG001
    return Transactions()


def test_an_id_that_cannot_be_replayed_is_set_aside_until_a_later_record(
    transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions.begin("bad")
    transactions.begin("good")
    read = state.from_record

    def fail_for_bad(name: str, value: Any) -> TransactionMetadata | None:
        if name == "bad":
            raise RuntimeError("ours")
        return read(name, value)

    with monkeypatch.context() as patch:
        patch.setattr(state, "from_record", fail_for_bad)
        transactions.restart()
        assert isinstance(transactions.say(DescribeTransaction("good")), TransactionMetadata)
        refused = transactions.say(InitProducer("bad", 60_000, new_producer_id=1_001))
        assert isinstance(refused, UnknownServerError)
        assert "'bad' was set aside" in refused.message
    transactions.restart()
    assert isinstance(transactions.say(DescribeTransaction("bad")), TransactionMetadata)


@pytest.mark.parametrize(
    "value",
    [b"", b"\x00", b"\x00\x01\x00", b"\x00\x63" + bytes(40)],
    ids=["empty", "half a version", "truncated", "unknown version"],
)
def test_an_unreadable_value_costs_its_id_and_no_other(
    transactions: Transactions, machine_failures: list[logging.LogRecord], value: bytes
) -> None:
    transactions.begin("bad")
    transactions.begin("good")
    key = write_coordinator_key(TransactionLogKey(transactional_id="bad"))
    transactions.log.append_raw(key, value)
    transactions.restart()
    assert isinstance(transactions.say(DescribeTransaction("good")), TransactionMetadata)
    rejected = transactions.say(DescribeTransaction("bad"))
    assert isinstance(rejected, UnknownServerError)
    assert "'bad' was set aside" in rejected.message
    assert [each.levelname for each in machine_failures] == ["ERROR"]


@pytest.mark.parametrize("key", [b"", b"\x00\x00\x00\x09bad"], ids=["empty", "truncated"])
def test_a_record_with_an_unreadable_key_is_passed_over(
    transactions: Transactions, key: bytes
) -> None:
    transactions.begin("good")
    transactions.log.append_raw(key, b"")
    transactions.restart()
    assert isinstance(transactions.say(DescribeTransaction("good")), TransactionMetadata)


def test_an_abort_that_fails_is_logged_once_and_tried_again(
    transactions: Transactions,
    monkeypatch: pytest.MonkeyPatch,
    machine_failures: list[logging.LogRecord],
) -> None:
    producer = transactions.begin("slow")
    place = TopicPartition("t", 0)
    transactions.say(AddPartitions("slow", producer.producer_id, 0, (place,), True))
    with monkeypatch.context() as patch:
        patch.setattr(TransactionMetadata, "fenced", lambda *_: 1 / 0)
        transactions.time.advance(200_000)
    assert len(machine_failures) == 1
    assert "transactional id 'slow', AbortTimedOut" in machine_failures[0].getMessage()
    transactions.time.advance(20_000)
    assert transactions.say(DescribeTransaction("slow")).status is TxnStatus.PREPARE_ABORT
