"""The recorder: an order of calls and answers that holds over threads."""

import threading

import pytest
from history_stories import ORDERS, committed, read, sent

from penstock.testing.history import (
    AbortedRead,
    Ending,
    Isolation,
    Outcome,
    Polled,
    Recorder,
    Report,
    check,
)
from penstock.testing.history.events import Poll, RecordedTransaction, Send


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_operations_are_in_the_order_in_which_they_were_asked_for(recorder: Recorder) -> None:
    alice = recorder.process("alice")
    first, second = alice.send(ORDERS, b"a"), alice.send(ORDERS, b"b")
    second.ok(1)
    first.ok(0)
    values = [each.value for each in recorder.history() if isinstance(each, Send)]
    assert values == [b"a", b"b"]


def test_every_call_and_every_answer_has_a_moment_of_its_own(recorder: Recorder) -> None:
    alice = recorder.process("alice")
    first, second = alice.send(ORDERS, b"a"), alice.send(ORDERS, b"b")
    second.ok(1)
    first.ok(0)
    assert [each.span for each in recorder.history()] == [(1, 4), (2, 3)]


def test_what_has_no_answer_is_unknown(recorder: Recorder) -> None:
    recorder.process("alice").send(ORDERS, b"a")
    [send] = recorder.history()
    assert isinstance(send, Send)
    assert send.outcome is Outcome.UNKNOWN
    assert send.span.ended is None


def test_an_answer_that_comes_later_is_in_the_next_history(recorder: Recorder) -> None:
    sending = recorder.process("alice").send(ORDERS, b"a")
    before = recorder.history()
    sending.ok(0)
    [unknown], [known] = before, recorder.history()
    assert isinstance(unknown, Send) and unknown.outcome is Outcome.UNKNOWN
    assert isinstance(known, Send) and known.outcome is Outcome.OK


def test_nothing_is_answered_twice(recorder: Recorder) -> None:
    sending = recorder.process("alice").send(ORDERS, b"a")
    sending.ok(0)
    with pytest.raises(AssertionError, match="answered twice"):
        sending.failed()


def test_a_value_is_sent_to_a_topic_once(recorder: Recorder) -> None:
    alice = recorder.process("alice")
    alice.send(ORDERS, b"a")
    with pytest.raises(ValueError, match="values must be unique"):
        alice.send(ORDERS, b"a")


def test_an_empty_poll_leaves_no_trace(recorder: Recorder) -> None:
    recorder.process("alice").poll().got([])
    assert len(recorder.history()) == 0


def test_a_poll_has_the_isolation_of_its_consumer(recorder: Recorder) -> None:
    alice = recorder.process("alice", Isolation.READ_UNCOMMITTED)
    alice.poll().got([Polled(ORDERS, 0, b"a")])
    [poll] = recorder.history()
    assert isinstance(poll, Poll)
    assert poll.isolation is Isolation.READ_UNCOMMITTED


def test_an_offset_below_zero_is_none(recorder: Recorder) -> None:
    recorder.process("alice").send(ORDERS, b"a").ok(-1)
    [send] = recorder.history()
    assert isinstance(send, Send)
    assert send.offset is None


def test_a_commit_is_asked_for_before_it_is_answered(recorder: Recorder) -> None:
    transaction = recorder.process("alice").begin("t")
    with pytest.raises(AssertionError, match="commit_asked"):
        transaction.committed()


def test_a_commit_that_is_asked_for_again_keeps_its_first_moment(recorder: Recorder) -> None:
    transaction = recorder.process("alice").begin("t")
    transaction.commit_asked()
    transaction.commit_asked()
    transaction.committed()
    [known] = recorder.history()
    assert isinstance(known, RecordedTransaction)
    assert (known.span.began, known.commit_asked) == (1, 2)


def test_many_threads_write_one_history(recorder: Recorder) -> None:
    def work(name: str) -> None:
        process = recorder.process(name)
        for number in range(200):
            process.send(ORDERS, f"{name} {number}".encode()).ok()

    threads = [threading.Thread(target=work, args=(f"process-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = recorder.history()
    moments = [moment for each in history for moment in each.span]
    assert len(history) == 800
    assert sorted(each for each in moments if each is not None) == list(range(1, 1601))


# -- the report


def report_of_an_aborted_read(recorder: Recorder) -> Report:
    alice, bob = recorder.process("alice"), recorder.process("bob")
    for value, at in ((b"a", 0), (b"b", 2)):
        transaction = alice.begin("t")
        sent(alice, at, value, transaction=transaction)
        committed(transaction) if value == b"a" else transaction.aborted()
    read(bob, {0: b"a", 2: b"b"})
    return check(recorder.history())


def test_a_report_says_what_it_rests_on(recorder: Recorder) -> None:
    report = report_of_an_aborted_read(recorder)
    assert (report.acknowledged, report.seen, report.unread) == (2, 2, 0)
    assert report.endings == {Ending.COMMITTED: 1, Ending.ABORTED: 1, Ending.UNKNOWN: 0}


def test_a_report_that_is_not_clean_raises_with_its_sentences(recorder: Recorder) -> None:
    report = report_of_an_aborted_read(recorder)
    with pytest.raises(AssertionError, match="1 x AbortedRead\nAbortedRead: bob read b'b'"):
        report.require_clean()


def test_what_is_allowed_is_not_in_the_report(recorder: Recorder) -> None:
    report_of_an_aborted_read(recorder)
    check(recorder.history(), allowed=[AbortedRead]).require_clean()


def test_a_report_names_a_few_of_each_kind(recorder: Recorder) -> None:
    bob = recorder.process("bob")
    sent(recorder.process("alice"), 0, b"a")
    read(bob, {0: b"a", **{offset: b"%d" % offset for offset in range(1, 20)}})
    lines = check(recorder.history()).text.splitlines()
    assert lines[2] == "19 x UnsentValue"
    assert lines[-1] == "..."
    assert len(lines) < 12


def test_what_shows_twice_is_told_once(recorder: Recorder) -> None:
    alice, bob = recorder.process("alice"), recorder.process("bob")
    alice.commit_offsets("group", {ORDERS: 3}).ok()
    bob.fetch_offsets("group").got({ORDERS: 4})
    bob.fetch_offsets("group").got({ORDERS: 4})
    assert len(check(recorder.history()).anomalies) == 1
