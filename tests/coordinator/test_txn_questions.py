"""DescribeTransactions and ListTransactions, and records of other servers."""

from typing import Any

from txn_story import A0, B0, NAME, Story, error_of

from penstock.coordinator.records import CoordinatorRecord
from penstock.coordinator.transactions.events import DescribeTransaction, ListTransactionalIds
from penstock.coordinator.transactions.state import TxnStatus
from penstock.wire.records.group import OffsetCommitKey
from penstock.wire.records.transaction import TransactionLogKey, TransactionLogValue


def listed(story: Story, **wanted: Any) -> list[str]:
    return [each.transactional_id for each in story.tell(ListTransactionalIds(**wanted))]


def test_an_id_that_nobody_knows_cannot_be_described() -> None:
    assert error_of(Story().tell(DescribeTransaction("nobody"))) == "TRANSACTIONAL_ID_NOT_FOUND"


def three() -> Story:
    story = Story()
    story.begin(name="idle")
    writing = story.begin(name="writing")
    story.add(writing, A0, name="writing")
    story.wait(1_000)
    ending = story.begin(name="ending")
    story.add(ending, B0, name="ending")
    story.commit(ending, name="ending")
    return story


def test_all_ids_are_listed() -> None:
    assert listed(three()) == ["idle", "writing", "ending"]


def test_ids_are_listed_by_state() -> None:
    assert listed(three(), states=frozenset({"Ongoing"})) == ["writing"]
    assert listed(three(), states=frozenset({"Ongoing", "Empty"})) == ["idle", "writing"]
    assert listed(three(), states=frozenset({"NoSuchState"})) == []


def test_ids_are_listed_by_producer_id() -> None:
    assert listed(three(), producer_ids=frozenset({1002})) == ["writing"]


def test_ids_are_listed_by_how_long_they_are_open() -> None:
    assert listed(three(), longer_than_ms=999, states=frozenset({"Ongoing"})) == ["writing"]
    assert listed(three(), longer_than_ms=1_000, states=frozenset({"Ongoing"})) == []
    assert listed(three(), longer_than_ms=0, states=frozenset({"PrepareCommit"})) == []


def test_states_are_spelled_as_kafka_spells_them() -> None:
    assert [each.title for each in TxnStatus] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def value(status: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=5, producer_epoch=1, transaction_timeout_ms=10, transaction_status=status
    )


def test_an_id_on_its_way_to_be_forgotten_is_forgotten() -> None:
    story = Story()
    story.begin()
    story.machine.replay(
        CoordinatorRecord(TransactionLogKey(transactional_id=NAME), value(TxnStatus.DEAD))
    )
    assert error_of(story.tell(DescribeTransaction(NAME))) == "TRANSACTIONAL_ID_NOT_FOUND"


def test_a_fence_that_was_not_followed_by_its_abort_is_open_until_its_time_is_up() -> None:
    story = Story()
    fence = CoordinatorRecord(
        TransactionLogKey(transactional_id=NAME), value(TxnStatus.PREPARE_EPOCH_FENCE)
    )
    story.written.append(fence)
    story.restart()
    assert story.status == "Ongoing"
    story.wait(0)
    assert story.status == "PrepareAbort"


def test_states_and_records_of_a_newer_server_are_passed_over() -> None:
    story = Story()
    story.begin()
    story.machine.replay(CoordinatorRecord(TransactionLogKey(transactional_id=NAME), value(99)))
    story.machine.replay(
        CoordinatorRecord(OffsetCommitKey(group="g", topic="t", partition=0), None)
    )
    assert story.status == "Empty"
