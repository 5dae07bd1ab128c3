"""The checker on consume-transform-produce: each input has its outputs once."""

from dataclasses import replace

import pytest
from history_stories import BILLS, ORDERS, committed, found, kinds, read, read_to_end, sent

from penstock.testing.history import NotExactlyOnce, Pipeline, Place, Process, Recorder

GROUP = "billing"
BILLING = Pipeline(GROUP, inputs=("orders",), outputs=("bills",))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def worker(recorder: Recorder) -> Process:
    """With two orders in front of it, which it read."""
    customer = recorder.process("customer")
    sent(customer, 0, b"order 0")
    sent(customer, 1, b"order 1")
    worker = recorder.process("worker")
    read(worker, {0: b"order 0", 1: b"order 1"})
    return worker


@pytest.fixture
def reader(recorder: Recorder) -> Process:
    return recorder.process("reader")


def bill(worker: Process, order: int, value: bytes, at: int) -> None:
    """One transaction: the bill for an order, and the progress behind that order."""
    transaction = worker.begin("t")
    sent(worker, at, value, BILLS, transaction=transaction, source=Place(ORDERS, order))
    worker.commit_offsets(GROUP, {ORDERS: order + 1}, transaction).ok()
    committed(transaction)


def end(reader: Process, progress: int, bills: dict[int, bytes]) -> None:
    """The run is over: the group's progress, then all bills."""
    reader.fetch_offsets(GROUP).got({ORDERS: progress})
    read(reader, bills, BILLS)
    read_to_end(reader, 10, BILLS)


def test_one_output_per_input_is_clean(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    bill(worker, 0, b"bill 0", at=0)
    bill(worker, 1, b"bill 1", at=2)
    end(reader, 2, {0: b"bill 0", 2: b"bill 1"})
    assert found(recorder, BILLING) == []


def test_an_input_with_two_outputs_was_processed_twice(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    bill(worker, 0, b"bill 0", at=0)
    bill(worker, 0, b"bill 0, again", at=2)
    end(reader, 1, {0: b"bill 0", 2: b"bill 0, again"})
    [twice] = found(recorder, BILLING)
    assert isinstance(twice, NotExactlyOnce)
    assert str(twice) == (
        "NotExactlyOnce: group billing is at offset 1 of orders-0, so the input at orders-0 "
        "offset 0 (b'order 0') should have 1 outputs; there are: b'bill 0' in bills-0, "
        "b'bill 0, again' in bills-0"
    )


def test_an_input_without_an_output_was_passed_over(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    bill(worker, 1, b"bill 1", at=0)
    end(reader, 2, {0: b"bill 1"})
    [passed] = found(recorder, BILLING)
    assert isinstance(passed, NotExactlyOnce)
    assert passed.source == Place(ORDERS, 0)
    assert passed.outputs == ()


def test_nothing_is_passed_over_while_the_outputs_were_not_read_to_their_end(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    bill(worker, 0, b"bill 0", at=0)
    bill(worker, 1, b"bill 1", at=2)
    reader.fetch_offsets(GROUP).got({ORDERS: 2})
    read(reader, {0: b"bill 0"}, BILLS)
    assert found(recorder, BILLING) == []


def test_inputs_beyond_the_progress_have_no_outputs_yet(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    bill(worker, 0, b"bill 0", at=0)
    end(reader, 1, {0: b"bill 0"})
    assert found(recorder, BILLING) == []


def test_an_output_beyond_the_progress_would_be_made_again(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    sent(worker, 0, b"bill 0", BILLS, source=Place(ORDERS, 0))  # and no transaction at all
    read(reader, {0: b"bill 0"}, BILLS)
    end(reader, 0, {})
    assert kinds(recorder, BILLING) == [NotExactlyOnce]


def test_outputs_of_an_aborted_attempt_do_not_count(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    attempt = worker.begin("t")
    sent(worker, 0, b"bill 0", BILLS, transaction=attempt, source=Place(ORDERS, 0))
    attempt.aborted()
    bill(worker, 0, b"bill 0, again", at=2)
    end(reader, 1, {2: b"bill 0, again"})
    assert found(recorder, BILLING) == []


def test_a_pipeline_may_make_several_outputs_of_one_input(
    recorder: Recorder, worker: Process, reader: Process
) -> None:
    transaction = worker.begin("t")
    for at, value in enumerate((b"bill", b"copy")):
        sent(worker, at, value, BILLS, transaction=transaction, source=Place(ORDERS, 0))
    worker.commit_offsets(GROUP, {ORDERS: 1}, transaction).ok()
    committed(transaction)
    end(reader, 1, {0: b"bill", 1: b"copy"})
    assert found(recorder, replace(BILLING, outputs_per_input=2)) == []
    assert kinds(recorder, BILLING) == [NotExactlyOnce]
