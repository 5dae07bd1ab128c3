"""EndTxn: what is decided, who may decide it, and that it is decided for good."""

import pytest
from txn_story import A0, A1, B0, COORDINATOR_EPOCH, NAME, Story, error_of, on

from penstock.coordinator.transactions.events import (
    MarkersWritten,
    ProducerIdAndEpoch,
    WriteMarkers,
)
from penstock.coordinator.transactions.state import CLIENT_EPOCH_MAX, EPOCH_MAX

BOTH = pytest.mark.parametrize("committed", [True, False])


def opened(*, v2: bool = True) -> tuple[Story, ProducerIdAndEpoch]:
    story = Story()
    producer = story.begin()
    story.add(producer, A0, v2=v2)
    return story, producer


def ended(
    *, committed: bool, v2: bool = True
) -> tuple[Story, ProducerIdAndEpoch, ProducerIdAndEpoch]:
    """A story in which a transaction is over; its producer before and after."""
    story, producer = opened(v2=v2)
    story.end(producer, committed=committed, v2=v2)
    story.write_markers()
    return story, producer, on(producer, 1) if v2 else producer


# ---- transactions v2


@BOTH
def test_an_end_is_stored_and_then_told_to_every_partition(committed: bool) -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, B0, A1, A0)
    assert story.end(producer, committed=committed) == on(producer, 1)
    assert story.status == ("PrepareCommit" if committed else "PrepareAbort")
    assert story.sent == [
        WriteMarkers(
            NAME, producer.producer_id, 1, COORDINATOR_EPOCH, committed, True, (A0, A1, B0)
        )
    ]


@BOTH
def test_the_transaction_is_over_when_every_partition_has_heard(committed: bool) -> None:
    story, producer, _ = ended(committed=committed)
    known = story.transaction()
    assert story.status == ("CompleteCommit" if committed else "CompleteAbort")
    assert known.producer == (producer.producer_id, 1)
    assert known.partitions == frozenset()


@BOTH
def test_the_same_end_again_is_answered_with_none_and_the_same_epoch(committed: bool) -> None:
    story, producer, following = ended(committed=committed)
    assert story.end(producer, committed=committed) == following


@BOTH
def test_the_contrary_of_what_was_decided_is_refused(committed: bool) -> None:
    story, producer, _ = ended(committed=committed)
    assert error_of(story.end(producer, committed=not committed)) == "INVALID_TXN_STATE"


@BOTH
@pytest.mark.parametrize("again", [True, False])
def test_while_markers_are_written_every_end_waits(committed: bool, again: bool) -> None:
    story, producer = opened()
    story.end(producer, committed=committed)
    assert error_of(story.end(producer, committed=again)) == "CONCURRENT_TRANSACTIONS"
    assert error_of(story.end(on(producer, 1), committed=again)) == "CONCURRENT_TRANSACTIONS"


@BOTH
def test_a_late_end_does_not_end_the_next_transaction(committed: bool) -> None:
    """KAFKA-17754."""
    story, producer, following = ended(committed=True)
    story.add(following, B0)
    assert error_of(story.end(producer, committed=committed)) == "PRODUCER_FENCED"
    assert story.status == "Ongoing"


@BOTH
def test_a_late_end_does_not_answer_for_the_transaction_after_next(committed: bool) -> None:
    story, producer, following = ended(committed=True)
    story.add(following, B0)
    story.commit(following)
    story.write_markers()
    assert error_of(story.end(producer, committed=committed)) == "PRODUCER_FENCED"


def test_a_commit_of_nothing_is_refused() -> None:
    story = Story()
    producer = story.begin()
    assert error_of(story.commit(producer)) == "INVALID_TXN_STATE"


def test_an_abort_of_nothing_bumps_the_epoch_and_tells_nobody() -> None:
    story = Story()
    producer = story.begin()
    assert story.abort(producer) == on(producer, 1)
    assert (story.status, story.sent) == ("CompleteAbort", [])


def test_an_abort_of_nothing_is_repeated_as_any_other() -> None:
    story = Story()
    producer = story.begin()
    story.abort(producer)
    assert story.abort(producer) == on(producer, 1)
    assert error_of(story.commit(producer)) == "INVALID_TXN_STATE"


@BOTH
def test_after_an_end_nothing_can_be_aborted_but_not_committed(committed: bool) -> None:
    story, _, following = ended(committed=committed)
    assert error_of(story.commit(following)) == "INVALID_TXN_STATE"
    assert story.abort(following) == on(following, 2)
    assert story.status == "CompleteAbort"


@BOTH
@pytest.mark.parametrize("epoch", [-1, 7])
def test_an_end_with_any_other_epoch_is_fenced(committed: bool, epoch: int) -> None:
    story, producer = opened()
    assert error_of(story.end(on(producer, epoch), committed=committed)) == "PRODUCER_FENCED"


@BOTH
def test_an_empty_producer_does_not_take_a_repetition(committed: bool) -> None:
    story = Story()
    old = story.begin()
    story.begin()
    assert error_of(story.end(old, committed=committed)) == "PRODUCER_FENCED"


def test_an_id_that_nobody_knows_has_nothing_to_end() -> None:
    assert error_of(Story().commit(ProducerIdAndEpoch(1, 0))) == "INVALID_PRODUCER_ID_MAPPING"


def test_another_producer_id_ends_nothing() -> None:
    story, producer = opened()
    other = ProducerIdAndEpoch(producer.producer_id + 5, 0)
    assert error_of(story.commit(other)) == "INVALID_PRODUCER_ID_MAPPING"


# ---- transactions v2, epochs used up


@BOTH
def test_the_end_at_the_last_epoch_gives_a_new_producer_id(committed: bool) -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    story.add(last, A0)
    answer = story.end(last, committed=committed)
    assert answer == ProducerIdAndEpoch(last.producer_id + 1, 0)
    [marker] = story.write_markers()
    assert (marker.producer_id, marker.producer_epoch) == (last.producer_id, EPOCH_MAX)
    known = story.transaction()
    assert known.producer == (last.producer_id + 1, 0)
    assert known.previous_producer_id == last.producer_id


def test_a_producer_with_its_new_id_waits_until_the_old_one_is_ended() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    story.add(last, A0)
    new = story.commit(last)
    assert error_of(story.add(new, B0)) == "CONCURRENT_TRANSACTIONS"
    story.write_markers()
    assert story.add(new, B0) is None


def test_the_end_at_the_last_epoch_can_be_repeated() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    story.add(last, A0)
    answer = story.commit(last)
    assert error_of(story.commit(last)) == "CONCURRENT_TRANSACTIONS"
    story.write_markers()
    assert story.commit(last) == answer
    assert error_of(story.abort(last)) == "INVALID_TXN_STATE"


def test_the_new_id_survives_a_restart_in_the_middle() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    story.add(last, A0)
    answer = story.commit(last)
    story.restart()
    story.write_markers()
    assert story.commit(last) == answer
    assert story.add(answer, A0) is None


def test_an_abort_of_nothing_at_the_last_epoch_gives_a_new_id() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    assert story.abort(last) == ProducerIdAndEpoch(last.producer_id + 1, 0)


# ---- older clients


@BOTH
def test_an_older_client_keeps_its_epoch(committed: bool) -> None:
    story, producer = opened(v2=False)
    assert story.end(producer, committed=committed, v2=False) == ProducerIdAndEpoch(-1, -1)
    [marker] = story.write_markers()
    assert (marker.producer_epoch, marker.transactions_v2) == (0, False)
    assert story.transaction().producer == (producer.producer_id, 0)


@BOTH
def test_an_older_client_repeats_its_end(committed: bool) -> None:
    story, producer, _ = ended(committed=committed, v2=False)
    assert story.end(producer, committed=committed, v2=False) == ProducerIdAndEpoch(-1, -1)
    answer = story.end(producer, committed=not committed, v2=False)
    assert error_of(answer) == "INVALID_TXN_STATE"


@BOTH
def test_an_older_client_waits_while_markers_are_written(committed: bool) -> None:
    story, producer = opened(v2=False)
    story.commit(producer, v2=False)
    answer = story.end(producer, committed=committed, v2=False)
    assert error_of(answer) == "CONCURRENT_TRANSACTIONS"


@BOTH
def test_an_older_client_cannot_end_nothing(committed: bool) -> None:
    story = Story()
    producer = story.begin()
    assert error_of(story.end(producer, committed=committed, v2=False)) == "INVALID_TXN_STATE"


@pytest.mark.parametrize("epoch", [0, 2])
def test_an_older_client_with_another_epoch_is_fenced(epoch: int) -> None:
    story = Story()
    story.begin()
    producer = story.begin()
    story.add(producer, A0, v2=False)
    assert error_of(story.commit(on(producer, epoch), v2=False)) == "PRODUCER_FENCED"


# ---- markers


def test_markers_that_are_reported_twice_complete_once() -> None:
    story, producer = opened()
    story.commit(producer)
    [sent] = story.write_markers()
    before = len(story.written)
    story.tell(MarkersWritten(NAME, sent.producer_id, sent.producer_epoch))
    assert len(story.written) == before


def test_late_markers_of_a_transaction_do_not_complete_the_next() -> None:
    story, producer = opened()
    following = story.commit(producer)
    [sent] = story.write_markers()
    story.add(following, B0)
    story.commit(following)
    story.tell(MarkersWritten(NAME, sent.producer_id, sent.producer_epoch))
    assert story.status == "PrepareCommit"


def test_markers_of_an_id_that_was_forgotten_are_nobodys() -> None:
    story = Story()
    story.tell(MarkersWritten("forgotten", 1, 1))
    assert story.written == []


@BOTH
def test_after_a_restart_what_was_decided_is_told_again(committed: bool) -> None:
    story, producer = opened()
    story.end(producer, committed=committed)
    before = list(story.sent)
    story.restart()
    assert story.sent == before
    story.write_markers()
    assert story.status == ("CompleteCommit" if committed else "CompleteAbort")


def test_after_a_restart_nothing_that_is_over_is_told_again() -> None:
    story, producer = opened()
    story.commit(producer)
    story.write_markers()
    story.restart()
    assert story.sent == []


def test_a_repetition_is_recognised_after_a_restart() -> None:
    story, producer = opened()
    following = story.commit(producer)
    story.write_markers()
    story.restart()
    assert story.commit(producer) == following


def test_a_decision_that_the_log_refused_was_not_made() -> None:
    story, producer = opened()
    story.refuses = True
    assert error_of(story.commit(producer)) == "KAFKA_STORAGE_ERROR"
    story.refuses = False
    assert (story.status, story.sent) == ("Ongoing", [])
    assert story.abort(producer) == on(producer, 1)
