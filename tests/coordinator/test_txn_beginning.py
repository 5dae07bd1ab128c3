"""InitProducerId: who gets which producer id and epoch, and who is fenced."""

import pytest
from txn_story import A0, NAME, NOW_MS, Story, error_of, on

from penstock.coordinator.transactions.events import (
    InitProducer,
    NeedsProducerId,
    ProducerIdAndEpoch,
)
from penstock.coordinator.transactions.state import CLIENT_EPOCH_MAX, EPOCH_MAX
from penstock.coordinator.transactions.transaction_settings import TransactionSettings


def test_a_new_id_needs_a_producer_id_first() -> None:
    story = Story()
    assert story.tell(InitProducer(NAME, 1000)) == NeedsProducerId()
    assert story.tell(InitProducer(NAME, 1000, new_producer_id=77)) == ProducerIdAndEpoch(77, 0)


def test_a_new_id_is_stored_empty_with_its_timeout() -> None:
    story = Story()
    story.begin(timeout_ms=30_000)
    known = story.transaction()
    assert (story.status, known.timeout_ms, known.updated_ms) == ("Empty", 30_000, NOW_MS)
    assert known.partitions == frozenset()


def test_a_producer_that_believes_in_an_id_nobody_knows_gets_a_new_one() -> None:
    story = Story()
    assert story.begin(producer_id=5, producer_epoch=3) == ProducerIdAndEpoch(1001, 0)


def test_asking_again_bumps_the_epoch() -> None:
    story = Story()
    first = story.begin()
    assert story.begin() == on(first, 1)
    assert story.begin() == on(first, 2)


def test_the_timeout_is_that_of_the_last_one_who_asked() -> None:
    story = Story()
    story.begin(timeout_ms=1000)
    story.begin(timeout_ms=2000)
    assert story.transaction().timeout_ms == 2000


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_allowed(timeout_ms: int) -> None:
    assert error_of(Story().begin(timeout_ms=timeout_ms)) == "INVALID_TRANSACTION_TIMEOUT"


def test_the_longest_timeout_is_allowed() -> None:
    assert Story().begin(timeout_ms=900_000) == ProducerIdAndEpoch(1001, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 3), (3, -1)])
def test_an_id_and_its_epoch_belong_together(producer_id: int, epoch: int) -> None:
    answer = Story().begin(producer_id=producer_id, producer_epoch=epoch)
    assert error_of(answer) == "INVALID_REQUEST"


# ---- a producer that goes on


def goes_on(story: Story, producer: ProducerIdAndEpoch) -> object:
    return story.begin(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


def test_a_producer_goes_on_with_its_own_epoch() -> None:
    story = Story()
    producer = story.begin()
    assert goes_on(story, producer) == on(producer, 1)


def test_a_producer_that_did_not_hear_the_answer_hears_it_again() -> None:
    story = Story()
    producer = story.begin()
    assert goes_on(story, producer) == on(producer, 1)
    assert goes_on(story, producer) == on(producer, 1)


def test_a_producer_is_fenced_once_somebody_else_has_begun() -> None:
    story = Story()
    producer = story.begin()
    story.begin()
    assert error_of(goes_on(story, producer)) == "PRODUCER_FENCED"


def test_somebody_who_begins_with_the_same_epoch_is_not_taken_for_a_repetition() -> None:
    """A refused record leaves no trace: the epoch that it would have given goes to another."""
    story = Story()
    producer = story.begin()
    story.refuses = True
    goes_on(story, producer)
    story.refuses = False
    assert story.begin() == on(producer, 1)
    assert error_of(goes_on(story, producer)) == "PRODUCER_FENCED"


def test_an_epoch_that_was_never_given_is_fenced() -> None:
    story = Story()
    producer = story.begin()
    assert error_of(goes_on(story, on(producer, 9))) == "PRODUCER_FENCED"


def test_another_producer_id_is_fenced() -> None:
    story = Story()
    story.begin()
    assert error_of(goes_on(story, ProducerIdAndEpoch(4, 0))) == "PRODUCER_FENCED"


# ---- an open transaction


def test_an_open_transaction_is_aborted_before_anybody_begins() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    assert error_of(story.begin()) == "CONCURRENT_TRANSACTIONS"
    assert story.status == "PrepareAbort"
    [marker] = story.sent
    assert (marker.committed, marker.producer_epoch, marker.partitions) == (False, 1, (A0,))


def test_the_new_producer_gets_an_epoch_beyond_that_of_the_abort() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.begin()
    assert error_of(story.begin()) == "CONCURRENT_TRANSACTIONS"
    story.write_markers()
    assert story.begin() == on(producer, 2)


def test_the_old_producer_cannot_write_after_its_transaction_was_aborted() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.begin()
    story.write_markers()
    story.begin()
    assert error_of(story.add(producer, A0)) == "PRODUCER_FENCED"
    assert error_of(story.commit(producer)) == "PRODUCER_FENCED"


def test_an_outdated_producer_aborts_what_is_open_too() -> None:
    story = Story()
    old = story.begin()
    new = story.begin()
    story.add(new, A0)
    assert error_of(goes_on(story, old)) == "CONCURRENT_TRANSACTIONS"
    story.write_markers()
    assert error_of(goes_on(story, old)) == "PRODUCER_FENCED"


def test_nobody_begins_while_a_commit_is_told_to_its_partitions() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.commit(producer)
    assert error_of(story.begin()) == "CONCURRENT_TRANSACTIONS"


@pytest.mark.parametrize("committed", [True, False])
def test_an_ended_transaction_lets_the_next_producer_begin(committed: bool) -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.end(producer, committed=committed)
    story.write_markers()
    assert story.begin() == on(producer, 2)
    assert story.status == "Empty"


def test_a_producer_whose_end_was_not_answered_goes_on_with_the_epoch_of_the_end() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    assert story.commit(producer) == on(producer, 1)
    story.write_markers()
    assert goes_on(story, producer) == on(producer, 1)


# ---- epochs are used up


def test_a_producer_id_is_given_up_when_its_epochs_are_used_up() -> None:
    story = Story()
    first = story.begin()
    story.at_epoch(CLIENT_EPOCH_MAX)
    assert story.begin() == ProducerIdAndEpoch(first.producer_id + 1, 0)
    assert story.transaction().previous_producer_id == first.producer_id


def test_a_producer_goes_on_beyond_its_last_epoch() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    answer = goes_on(story, last)
    assert answer == ProducerIdAndEpoch(last.producer_id + 1, 0)
    assert goes_on(story, last) == answer
    assert goes_on(story, last) == answer


def test_a_stale_epoch_of_the_id_before_is_fenced() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    goes_on(story, last)
    assert error_of(goes_on(story, on(last, CLIENT_EPOCH_MAX - 1))) == "PRODUCER_FENCED"


def test_the_last_epoch_but_one_can_still_be_fenced() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    story.add(last, A0)
    assert error_of(story.begin()) == "CONCURRENT_TRANSACTIONS"
    [marker] = story.write_markers()
    assert marker.producer_epoch == EPOCH_MAX
    assert story.begin() == ProducerIdAndEpoch(last.producer_id + 1, 0)


def test_nobody_is_ever_given_the_very_last_epoch() -> None:
    story = Story()
    story.begin()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    story.add(last, A0)
    story.begin()
    story.write_markers()
    assert error_of(story.abort(last)) == "PRODUCER_FENCED"
    assert error_of(goes_on(story, last)) == "PRODUCER_FENCED"
    assert error_of(story.add(on(last, EPOCH_MAX), A0)) == "PRODUCER_FENCED"
    assert error_of(story.abort(on(last, EPOCH_MAX))) == "PRODUCER_FENCED"


# ---- restarts


def test_a_producer_goes_on_after_a_restart_of_the_coordinator() -> None:
    story = Story()
    producer = story.begin()
    story.restart()
    assert goes_on(story, producer) == on(producer, 1)


def test_a_repeated_question_after_a_restart_is_fenced_as_by_kafka() -> None:
    story = Story()
    producer = story.begin()
    goes_on(story, producer)
    story.restart()
    assert error_of(goes_on(story, producer)) == "PRODUCER_FENCED"


def test_two_phase_commit_needs_to_be_switched_on() -> None:
    story = Story(TransactionSettings(two_phase_commit=False))
    answer = story.begin(two_phase_commit=True)
    assert error_of(answer) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
