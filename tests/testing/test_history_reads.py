"""The checker on what consumers saw: aborted and uncommitted data, order and gaps of polls."""

import pytest
from history_stories import ORDERS, OTHER_ORDERS, committed, found, kinds, read, sent

from penstock.testing.history import (
    AbortedRead,
    Isolation,
    NonMonotonicPoll,
    Polled,
    PollSkip,
    Process,
    Recorder,
    UncommittedRead,
)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def alice(recorder: Recorder) -> Process:
    return recorder.process("alice")


@pytest.fixture
def bob(recorder: Recorder) -> Process:
    return recorder.process("bob")


@pytest.fixture
def log(recorder: Recorder) -> Recorder:
    """Five records in orders-0, all of which carol read."""
    dave, carol = recorder.process("dave"), recorder.process("carol")
    for offset in range(5):
        sent(dave, offset, b"%d" % offset)
    read(carol, {offset: b"%d" % offset for offset in range(5)})
    return recorder


# -- aborted


def test_a_record_of_an_aborted_transaction_must_not_be_seen(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    transaction.aborted()
    read(bob, {0: b"a"})
    [aborted] = found(recorder)
    assert isinstance(aborted, AbortedRead)
    assert str(aborted) == (
        "AbortedRead: bob read b'a' at orders-0 offset 0, although transaction 1 of alice (t) "
        "was aborted"
    )


def test_read_uncommitted_may_see_it(recorder: Recorder, alice: Process) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    transaction.aborted()
    read(recorder.process("bob", Isolation.READ_UNCOMMITTED), {0: b"a"})
    assert found(recorder) == []


def test_an_abort_after_a_commit_that_failed_is_an_abort(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    transaction.commit_asked()
    transaction.aborted()
    read(bob, {0: b"a"})
    assert kinds(recorder) == [AbortedRead]


def test_a_record_whose_send_was_refused_must_not_be_seen(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.send(ORDERS, b"a").failed()
    read(bob, {0: b"a"})
    assert kinds(recorder) == [AbortedRead]


def test_a_refused_send_that_is_not_seen_is_clean(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.send(ORDERS, b"a").failed()
    sent(alice, 0, b"b")
    read(bob, {0: b"b"})
    assert found(recorder) == []


# -- uncommitted


def test_a_record_must_not_be_seen_before_its_commit_is_asked_for(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    read(bob, {0: b"a"})
    committed(transaction)
    [early] = found(recorder)
    assert isinstance(early, UncommittedRead)
    assert str(early) == (
        "UncommittedRead: bob read b'a' at orders-0 offset 0 before the commit request of "
        "transaction 1 of alice (t)"
    )


def test_a_record_may_be_seen_while_its_commit_is_under_way(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    transaction.commit_asked()
    read(bob, {0: b"a"})
    transaction.committed()
    assert found(recorder) == []


def test_a_poll_that_began_before_the_commit_and_ended_after_it_may_have_waited(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    polling = bob.poll()
    committed(transaction)
    polling.got([Polled(ORDERS, 0, b"a")])
    assert found(recorder) == []


def test_a_commit_without_an_answer_may_have_happened(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    transaction.commit_asked()
    alice.crashed()
    read(bob, {0: b"a"})
    assert found(recorder) == []


def test_a_transaction_that_nobody_asked_to_commit_stays_unseen(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    alice.crashed()
    read(bob, {0: b"a"})
    [never] = found(recorder)
    assert isinstance(never, UncommittedRead)
    assert "without any commit request of" in str(never)


def test_a_transaction_must_not_see_its_own_records(recorder: Recorder, alice: Process) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    alice.poll(transaction).got([Polled(ORDERS, 0, b"a")])
    committed(transaction)
    assert kinds(recorder) == [UncommittedRead]


# -- order and gaps


def test_polls_that_follow_each_other_are_clean(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 1: b"1"})
    read(bob, {2: b"2"})
    read(bob, {3: b"3", 4: b"4"})
    assert found(log) == []


def test_a_consumer_may_begin_anywhere(log: Recorder, bob: Process) -> None:
    read(bob, {3: b"3", 4: b"4"})
    assert found(log) == []


def test_a_poll_must_not_go_back(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 1: b"1"})
    read(bob, {1: b"1"})
    [back] = found(log)
    assert isinstance(back, NonMonotonicPoll)
    assert not back.within_one_poll
    assert str(back) == (
        "NonMonotonicPoll: bob had read orders-0 before offset 2, then got b'1' at offset 1 "
        "in its next poll"
    )


def test_records_of_one_poll_must_not_go_back(log: Recorder, bob: Process) -> None:
    read(bob, {1: b"1", 0: b"0"})
    [back] = found(log)
    assert isinstance(back, NonMonotonicPoll)
    assert back.within_one_poll


def test_a_poll_must_not_skip_what_others_saw(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0"})
    read(bob, {3: b"3"})
    [skip] = found(log)
    assert isinstance(skip, PollSkip)
    assert skip.skipped == (1, 2)
    assert str(skip) == (
        "PollSkip: bob was at offset 1 of orders-0 and got offset 3 next in its next poll, "
        "but others read 1, 2"
    )


def test_one_poll_must_not_skip_within_itself(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 2: b"2"})
    [skip] = found(log)
    assert isinstance(skip, PollSkip)
    assert skip.within_one_poll


def test_offsets_without_records_are_no_gap(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    sent(alice, 7, b"b")  # markers and aborted records lie between
    read(bob, {0: b"a", 7: b"b"})
    assert found(recorder) == []


def test_aborted_records_that_read_uncommitted_saw_are_no_gap(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    transaction = alice.begin("t")
    sent(alice, 1, b"x", transaction=transaction)
    transaction.aborted()
    sent(alice, 3, b"b")
    read(recorder.process("carol", Isolation.READ_UNCOMMITTED), {0: b"a", 1: b"x", 3: b"b"})
    read(bob, {0: b"a", 3: b"b"})
    assert found(recorder) == []


def test_a_consumer_that_was_moved_goes_on_from_there(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 1: b"1"})
    bob.sought(ORDERS, 0)
    read(bob, {0: b"0"})
    bob.sought(ORDERS, 4)
    read(bob, {4: b"4"})
    assert found(log) == []


def test_a_consumer_that_was_moved_skips_nothing_after_that_place(
    log: Recorder, bob: Process
) -> None:
    bob.sought(ORDERS, 1)
    read(bob, {3: b"3"})
    assert kinds(log) == [PollSkip]


def test_a_partition_that_was_revoked_begins_anywhere(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 1: b"1"})
    bob.revoked([ORDERS])
    bob.assigned([ORDERS])
    read(bob, {0: b"0"})
    assert found(log) == []


def test_a_partition_that_is_kept_goes_on_where_it_was(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 1: b"1"})
    bob.assigned([ORDERS, OTHER_ORDERS])
    read(bob, {0: b"0"})
    assert kinds(log) == [NonMonotonicPoll]


def test_a_partition_that_was_not_assigned_in_between_begins_anywhere(
    log: Recorder, bob: Process
) -> None:
    read(bob, {0: b"0", 1: b"1"})
    bob.assigned([OTHER_ORDERS])
    bob.assigned([ORDERS])
    read(bob, {4: b"4"})
    assert found(log) == []


def test_a_subscription_keeps_the_place_in_its_topics_only(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 1: b"1"})
    bob.subscribed(["orders"])
    read(bob, {0: b"0"})
    bob.subscribed(["bills"])
    read(bob, {0: b"0"})
    assert kinds(log) == [NonMonotonicPoll]


def test_a_crashed_consumer_begins_anywhere(log: Recorder, bob: Process) -> None:
    read(bob, {0: b"0", 1: b"1"})
    bob.crashed()
    read(bob, {0: b"0"})
    assert found(log) == []


def test_a_rebalance_inside_a_poll_comes_before_what_it_returns(
    log: Recorder, bob: Process
) -> None:
    read(bob, {0: b"0", 1: b"1"})
    polling = bob.poll()
    bob.revoked([ORDERS])
    bob.assigned([ORDERS])
    polling.got([Polled(ORDERS, 0, b"0")])
    assert found(log) == []
