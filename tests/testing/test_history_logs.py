"""The checker on what is in the logs: losses, duplicates, disagreements, order of sends."""

import pytest
from history_stories import (
    BILLS,
    ORDERS,
    OTHER_ORDERS,
    committed,
    found,
    kinds,
    read,
    read_to_end,
    sent,
)

from penstock.testing.history import (
    Duplicate,
    InconsistentOffset,
    Isolation,
    LostWrite,
    NonMonotonicSend,
    Place,
    Process,
    Recorder,
    UnsentValue,
    check,
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


# -- lost writes


def test_what_was_acknowledged_and_read_is_clean(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    sent(alice, 1, b"b")
    read(bob, {0: b"a", 1: b"b"})
    assert found(recorder) == []


def test_an_acknowledged_record_that_readers_passed_is_lost(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    sent(alice, 1, b"b")
    read(bob, {1: b"b"})
    [lost] = found(recorder)
    assert isinstance(lost, LostWrite)
    assert lost.send.value == b"a"


def test_a_lost_write_is_told_in_a_sentence(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    sent(alice, 1, b"b")
    read(bob, {1: b"b"})
    assert str(found(recorder)[0]) == (
        "LostWrite: alice got the answer that b'a' is in orders-0 at offset 0, and orders-0 was "
        "read up to offset 1, but no read_committed consumer has seen it"
    )


def test_a_record_above_all_that_was_read_is_only_unread(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    sent(alice, 1, b"b")
    read(bob, {0: b"a"})
    report = check(recorder.history())
    assert report.clean
    assert report.unread == 1


def test_a_record_that_somebody_saw_is_not_lost(recorder: Recorder, alice: Process) -> None:
    sent(alice, 0, b"a")
    sent(alice, 1, b"b")
    read(recorder.process("bob"), {0: b"a"})
    read(recorder.process("carol"), {1: b"b"})
    assert found(recorder) == []


def test_a_send_without_an_answer_may_be_there_or_not(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    alice.send(ORDERS, b"there")
    alice.send(ORDERS, b"not there")
    sent(alice, 1, b"b")
    read(bob, {0: b"there", 1: b"b"})
    assert found(recorder) == []


def test_a_record_acknowledged_without_an_offset_is_lost_if_a_later_end_was_read(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, None, b"a")
    read_to_end(bob, 0)
    assert kinds(recorder) == [LostWrite]


def test_an_end_asked_for_before_the_acknowledgement_says_nothing(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    reading = bob.read_to_end(ORDERS)
    sent(alice, None, b"a")
    reading.reached(0)
    assert found(recorder) == []


def test_a_log_that_ends_below_an_acknowledged_offset_has_lost_it(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    sent(alice, 1, b"b")
    read(bob, {0: b"a"})
    read_to_end(bob, 1)
    [lost] = found(recorder)
    assert isinstance(lost, LostWrite)
    assert lost.send.value == b"b"


def test_deleted_records_are_not_lost(recorder: Recorder, alice: Process, bob: Process) -> None:
    sent(alice, 0, b"a")
    sent(alice, 1, b"b")
    alice.trimmed(ORDERS, 1)
    read(bob, {1: b"b"})
    assert found(recorder) == []


def test_deleting_records_excuses_none_above_them(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    for offset, value in enumerate((b"a", b"b", b"c")):
        sent(alice, offset, value)
    alice.trimmed(ORDERS, 1)
    read(bob, {2: b"c"})
    assert kinds(recorder) == [LostWrite]


def test_all_records_of_a_committed_transaction_can_be_lost(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    committed(transaction)
    sent(alice, 2, b"b")
    read(bob, {2: b"b"})
    assert kinds(recorder) == [LostWrite]


def test_records_of_an_aborted_transaction_are_not_lost(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    transaction.aborted()
    sent(alice, 2, b"b")
    read(bob, {2: b"b"})
    assert found(recorder) == []


def test_a_committed_record_that_only_read_uncommitted_shows_is_lost_to_the_others(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    committed(transaction)
    sent(alice, 2, b"b")
    read(bob, {2: b"b"})
    read(recorder.process("carol", Isolation.READ_UNCOMMITTED), {0: b"a", 2: b"b"})
    assert kinds(recorder) == [LostWrite]


def test_read_uncommitted_shows_aborted_records_too(recorder: Recorder, alice: Process) -> None:
    transaction = alice.begin("t")
    sent(alice, 0, b"a", transaction=transaction)
    transaction.aborted()
    sent(alice, 2, b"b")
    read(recorder.process("carol", Isolation.READ_UNCOMMITTED), {2: b"b"})
    assert kinds(recorder) == [LostWrite]


# -- what is where


def test_one_value_at_two_offsets_is_a_duplicate(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    read(bob, {0: b"a", 1: b"a"})
    [duplicate] = found(recorder)
    assert isinstance(duplicate, Duplicate)
    assert duplicate.places == (Place(ORDERS, 0), Place(ORDERS, 1))
    assert str(duplicate) == (
        "Duplicate: b'a' was sent once but is at orders-0 offset 0, orders-0 offset 1, "
        "say alice, bob"
    )


def test_an_acknowledgement_for_another_offset_than_the_record_has_is_a_duplicate(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 5, b"a")
    read(bob, {0: b"a"})
    assert kinds(recorder) == [Duplicate]


def test_one_value_in_two_partitions_of_a_topic_is_a_duplicate(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    read(bob, {0: b"a"})
    read(bob, {0: b"a"}, OTHER_ORDERS)
    assert kinds(recorder) == [Duplicate]


def test_one_value_in_two_topics_is_none(recorder: Recorder, alice: Process, bob: Process) -> None:
    sent(alice, 0, b"a")
    sent(alice, 0, b"a", BILLS)
    read(bob, {0: b"a"})
    read(bob, {0: b"a"}, BILLS)
    assert found(recorder) == []


def test_a_duplicate_can_be_allowed(recorder: Recorder, alice: Process, bob: Process) -> None:
    sent(alice, 0, b"a")
    read(bob, {0: b"a", 1: b"a"})
    assert check(recorder.history(), allowed={Duplicate}).clean


def test_two_values_at_one_offset_are_inconsistent(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, None, b"a")
    sent(alice, None, b"b")
    read(bob, {0: b"a"})
    read(recorder.process("carol"), {0: b"b"})
    [inconsistent] = found(recorder)
    assert isinstance(inconsistent, InconsistentOffset)
    assert str(inconsistent) == (
        "InconsistentOffset: orders-0 offset 0 holds different values, b'a', b'b', say bob, carol"
    )


def test_two_acknowledgements_of_one_offset_are_inconsistent(recorder: Recorder) -> None:
    sent(recorder.process("alice"), 0, b"a")
    sent(recorder.process("bob"), 0, b"b")
    assert kinds(recorder) == [InconsistentOffset]


def test_a_value_that_nobody_sent_is_found(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    read(bob, {0: b"a", 1: b"zzz"})
    assert kinds(recorder) == [UnsentValue]


def test_a_topic_whose_writers_were_not_recorded_may_hold_anything(
    recorder: Recorder, alice: Process, bob: Process
) -> None:
    sent(alice, 0, b"a")
    read(bob, {0: b"zzz"}, BILLS)
    assert found(recorder) == []


# -- the order of sends


def test_offsets_of_one_producer_do_not_go_back(recorder: Recorder, alice: Process) -> None:
    sent(alice, 1, b"a")
    sent(alice, 0, b"b")
    [back] = found(recorder)
    assert isinstance(back, NonMonotonicSend)
    assert str(back) == (
        "NonMonotonicSend: alice sent b'a' and then b'b' to orders-0, but they are at offsets "
        "1 and 0"
    )


def test_the_order_of_sends_is_that_of_the_calls_not_of_the_answers(
    recorder: Recorder, alice: Process
) -> None:
    first, second = alice.send(ORDERS, b"a"), alice.send(ORDERS, b"b")
    second.ok(1)
    first.ok(0)
    assert found(recorder) == []


def test_offsets_of_two_producers_are_in_any_order(recorder: Recorder) -> None:
    sent(recorder.process("alice"), 1, b"a")
    sent(recorder.process("bob"), 0, b"b")
    assert found(recorder) == []


def test_offsets_of_two_partitions_are_in_any_order(recorder: Recorder, alice: Process) -> None:
    sent(alice, 1, b"a")
    sent(alice, 0, b"b", OTHER_ORDERS)
    assert found(recorder) == []
