"""The checker on transactions: whole or not at all, with the progress of groups in them."""

import pytest
from history_stories import BILLS, ORDERS, committed, found, kinds, read, read_to_end, sent

from penstock.testing.history import (
    LostOffsets,
    LostWrite,
    OpenTransaction,
    Process,
    Recorder,
    TornTransaction,
)

GROUP = "billing"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def alice(recorder: Recorder) -> Process:
    return recorder.process("alice")


@pytest.fixture
def bob(recorder: Recorder) -> Process:
    return recorder.process("bob")


def begin_with_two_records(alice: Process) -> OpenTransaction:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    sent(alice, 0, b"b", BILLS, transaction=transaction)
    return transaction


def begin_with_progress(alice: Process, value: bytes, offset: int, at: int = 0) -> OpenTransaction:
    """A bill, and in the same transaction the group's place among the orders."""
    transaction = alice.begin("t")
    sent(alice, at, value, BILLS, transaction=transaction)
    alice.commit_offsets(GROUP, {ORDERS: offset}, transaction).ok()
    return transaction


# -- records


def test_a_whole_transaction_is_clean(recorder: Recorder, alice: Process, bob: Process) -> None:
    committed(begin_with_two_records(alice))
    read(bob, {0: b"a"})
    read(bob, {0: b"b"}, BILLS)
    read_to_end(bob, 2)
    read_to_end(bob, 2, BILLS)
    assert found(recorder) == []


def test_a_committed_transaction_of_which_one_record_is_missing_is_torn(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    committed(begin_with_two_records(alice))
    read(bob, {0: b"a"})
    read_to_end(bob, 2, BILLS)
    [torn] = found(recorder)
    assert isinstance(torn, TornTransaction)
    assert str(torn) == (
        "TornTransaction: of transaction 1 of alice (t), committed: b'a' in orders-0 took effect, "
        "b'b' in bills-0 did not"
    )


def test_a_transaction_whose_other_partition_was_not_read_yet_is_not_torn(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    committed(begin_with_two_records(alice))
    read(bob, {0: b"a"})
    assert found(recorder) == []


def test_an_end_read_before_the_commit_was_answered_tears_nothing(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = begin_with_two_records(alice)
    transaction.commit_asked()
    read_to_end(bob, 0, BILLS)
    transaction.committed()
    read(bob, {0: b"a"})
    assert found(recorder) == []


def test_a_transaction_without_an_answer_may_be_there_or_not(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    begin_with_two_records(alice).commit_asked()
    read_to_end(bob, 2)
    read_to_end(bob, 2, BILLS)
    assert found(recorder) == []


def test_a_transaction_without_an_answer_is_there_as_a_whole_or_torn(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    begin_with_two_records(alice).commit_asked()
    read(bob, {0: b"a"})
    read_to_end(bob, 2, BILLS)
    assert kinds(recorder) == [TornTransaction]


# -- progress


def test_progress_that_follows_its_commits_is_clean(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    bob.fetch_offsets(GROUP).got({ORDERS: None})
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    bob.fetch_offsets(GROUP).got({ORDERS: 3})
    alice.commit_offsets(GROUP, {ORDERS: 2}).ok()  # to go back is the group's own affair
    bob.fetch_offsets(GROUP).got({ORDERS: 2})
    assert found(recorder) == []


def test_progress_must_not_go_back_by_itself(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    alice.commit_offsets(GROUP, {ORDERS: 5}).ok()
    bob.fetch_offsets(GROUP).got({ORDERS: 3})
    [lost] = found(recorder)
    assert isinstance(lost, LostOffsets)
    assert str(lost) == (
        "LostOffsets: bob got the answer that group billing has committed offset 3 for orders-0, "
        "where only 5 was possible"
    )


def test_progress_must_not_be_forgotten(recorder: Recorder, alice: Process, bob: Process) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    bob.fetch_offsets(GROUP).got({ORDERS: -1})
    assert kinds(recorder) == [LostOffsets]


def test_progress_must_come_from_somebody(recorder: Recorder, alice: Process, bob: Process) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    bob.fetch_offsets(GROUP).got({ORDERS: 4})
    assert kinds(recorder) == [LostOffsets]


def test_a_group_whose_commits_were_not_recorded_may_be_anywhere(
    recorder: Recorder, bob: Process
) -> None:
    bob.fetch_offsets(GROUP).got({ORDERS: 4})
    assert found(recorder) == []


def test_a_commit_of_offsets_without_an_answer_may_have_happened(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    alice.commit_offsets(GROUP, {ORDERS: 5})
    bob.fetch_offsets(GROUP).got({ORDERS: 5})
    assert found(recorder) == []


def test_a_refused_commit_of_offsets_must_not_happen(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    alice.commit_offsets(GROUP, {ORDERS: 5}).failed()
    bob.fetch_offsets(GROUP).got({ORDERS: 5})
    assert kinds(recorder) == [LostOffsets]


def test_an_answer_may_be_older_than_a_commit_that_was_under_way(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    committing = alice.commit_offsets(GROUP, {ORDERS: 5})
    bob.fetch_offsets(GROUP).got({ORDERS: 3})
    committing.ok()
    assert found(recorder) == []


def test_offsets_of_an_aborted_transaction_must_not_show(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    begin_with_progress(alice, b"bill", 5).aborted()
    bob.fetch_offsets(GROUP).got({ORDERS: 5})
    [torn] = found(recorder)
    assert isinstance(torn, TornTransaction)
    assert str(torn) == (
        "TornTransaction: of transaction 1 of alice (t), aborted: the progress of group billing "
        "(orders-0 offset 5) took effect, b'bill' in bills-0 did not"
    )


def test_offsets_of_an_aborted_transaction_may_be_committed_again_by_the_next(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    begin_with_progress(alice, b"bill", 5).aborted()
    committed(begin_with_progress(alice, b"bill, again", 5, at=2))
    bob.fetch_offsets(GROUP).got({ORDERS: 5})
    assert found(recorder) == []


def test_offsets_that_show_while_the_records_do_not_are_torn(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    begin_with_progress(alice, b"bill", 5).commit_asked()
    bob.fetch_offsets(GROUP).got({ORDERS: 5})
    read_to_end(bob, 2, BILLS)
    assert kinds(recorder) == [TornTransaction]


def test_offsets_that_two_commits_may_have_brought_prove_neither(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    begin_with_progress(alice, b"bill", 5).commit_asked()
    begin_with_progress(alice, b"bill, again", 5, at=2).commit_asked()
    bob.fetch_offsets(GROUP).got({ORDERS: 5})
    read_to_end(bob, 4, BILLS)
    assert found(recorder) == []


def test_records_that_show_while_the_offsets_do_not_are_torn(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    begin_with_progress(alice, b"bill", 5).commit_asked()
    read(bob, {0: b"bill"}, BILLS)
    bob.fetch_offsets(GROUP).got({ORDERS: 3})
    [torn] = found(recorder)
    assert isinstance(torn, TornTransaction)
    assert str(torn) == (
        "TornTransaction: of transaction 1 of alice (t), unknown: b'bill' in bills-0 took effect, "
        "the progress of group billing (orders-0 offset 5) did not"
    )


def test_offsets_asked_for_before_the_records_showed_may_be_older(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.commit_offsets(GROUP, {ORDERS: 3}).ok()
    begin_with_progress(alice, b"bill", 5).commit_asked()
    bob.fetch_offsets(GROUP).got({ORDERS: 3})
    read(bob, {0: b"bill"}, BILLS)
    assert found(recorder) == []


def test_a_committed_transaction_without_records_and_offsets_is_lost(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    committed(begin_with_progress(alice, b"bill", 5))
    bob.fetch_offsets(GROUP).got({ORDERS: None})
    read_to_end(bob, 2, BILLS)
    assert sorted(each.__name__ for each in kinds(recorder)) == [
        LostOffsets.__name__,
        LostWrite.__name__,
    ]
