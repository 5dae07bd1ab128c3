"""Offsets that are committed in a transaction: they count when the transaction does."""

from collections.abc import Callable, Iterator

import pytest
from api_asking import Asker, asking
from txn_asking import Txn, committed_offset, found_group

from penstock import errors
from penstock.broker.coordinators.coordinators import Coordinators
from penstock.broker.transactions.txn_verification import (
    Errors,
    TxnVerification,
    VerificationRequest,
)
from penstock.testing.cluster import Cluster

pytest_plugins = ["api_fixtures"]


@pytest.fixture
def other(penstock_cluster: Cluster) -> Iterator[Asker]:
    """A second connection."""
    with asking(penstock_cluster) as opened:
        yield opened


def test_offsets_count_when_the_transaction_does(asker: Asker, topic: str) -> None:
    group, txn = found_group(asker), Txn(asker).begun()
    assert txn.commit_offset(group, topic, 17, version=5) == 0
    assert committed_offset(asker, group, topic) == -1
    txn.ended(committed=True)
    assert committed_offset(asker, group, topic) == 17


def test_an_answer_to_an_earlier_leadership_lets_no_offset_in(
    asker: Asker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, txn = found_group(asker), Txn(asker).begun()
    ask = TxnVerification.ask

    def ask_before_an_election(
        verification: TxnVerification,
        question: VerificationRequest,
        done: Callable[[Errors], None],
    ) -> bool:
        leader = verification._broker.find(*question.topic_partitions[0]).leader

        def answered(found: Errors) -> None:
            leader.epoch += 1
            try:
                done(found)
            finally:
                leader.epoch -= 1  # other tests use the same group coordinator

        return ask(verification, question, answered)

    monkeypatch.setattr(TxnVerification, "ask", ask_before_an_election)
    assert txn.commit_offset(group, topic, 17, version=5) == errors.NotCoordinator.code


def test_offsets_of_an_aborted_transaction_do_not_count(asker: Asker, topic: str) -> None:
    group, txn = found_group(asker), Txn(asker).begun()
    txn.commit_offset(group, topic, 17, version=5)
    txn.ended(committed=False)
    assert committed_offset(asker, group, topic) == -1


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_an_older_client_adds_the_group_itself(asker: Asker, topic: str, version: int) -> None:
    group, txn = found_group(asker), Txn(asker, v2=False).begun()
    assert txn.add_offsets(group, version=min(version, 3)) == 0
    assert txn.commit_offset(group, topic, 17, version=version) == 0
    txn.ended(committed=True)
    assert committed_offset(asker, group, topic) == 17


@pytest.mark.parametrize(
    ("version", "error"), [(3, errors.InvalidTxnState), (4, errors.TransactionAbortable)]
)
def test_an_older_client_must_have_added_the_group(
    asker: Asker, topic: str, version: int, error: type[errors.KafkaError]
) -> None:
    group, txn = found_group(asker), Txn(asker, v2=False).begun()
    assert txn.commit_offset(group, topic, 17, version=version) == error.code


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, errors.CoordinatorNotAvailable),
        (1, errors.CoordinatorNotAvailable),
        (2, errors.CoordinatorLoadInProgress),
        (5, errors.CoordinatorLoadInProgress),
    ],
)
def test_older_clients_do_not_know_that_a_coordinator_may_be_loading(
    asker: Asker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    error: type[errors.KafkaError],
) -> None:
    group, txn = found_group(asker), Txn(asker).begun()

    def loading(_coordinators: Coordinators, _group_id: str) -> None:
        raise errors.CoordinatorLoadInProgress("the coordinator is loading")

    monkeypatch.setattr(Coordinators, "group_runtime", loading)
    assert txn.commit_offset(group, topic, 17, version=version) == error.code


def test_offsets_of_a_topic_that_does_not_exist_are_refused(asker: Asker) -> None:
    group, txn = found_group(asker), Txn(asker).begun()
    code = txn.commit_offset(group, "no-such-topic", 1, version=5)
    assert code == errors.UnknownTopicOrPartition.code


def test_a_fenced_producer_commits_no_offsets(asker: Asker, other: Asker, topic: str) -> None:
    group, old = found_group(asker), Txn(asker).begun()
    Txn(other, name=old.name).begun()
    code = old.commit_offset(group, topic, 17, version=5)
    assert code == errors.InvalidProducerEpoch.code


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_offsets_of_a_group_without_a_name_are_refused(
    asker: Asker, topic: str, version: int
) -> None:
    txn = Txn(asker).begun()
    found_group(asker)
    assert txn.commit_offset("", topic, 17, version=version) == errors.InvalidGroupId.code
    assert txn.describe().topics == [], "nothing takes part in the transaction"
