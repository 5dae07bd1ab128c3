"""Two-phase commit (KIP-939): no time limit, and a new owner for what was prepared."""

import pytest
from txn_story import A0, B0, TIMEOUT_MS, Story, error_of, on

from penstock.coordinator.transactions.events import ProducerIdAndEpoch, ProducerTakenOver
from penstock.coordinator.transactions.state import CLIENT_EPOCH_MAX, NO_TIMEOUT_MS
from penstock.coordinator.transactions.transaction_settings import TransactionSettings

BOTH = pytest.mark.parametrize("committed", [True, False])
YEAR_MS = 365 * 86_400_000


def prepared() -> tuple[Story, ProducerIdAndEpoch]:
    story = Story()
    producer = story.begin(two_phase_commit=True)
    story.add(producer, A0)
    return story, producer


def keep(story: Story) -> ProducerIdAndEpoch:
    answer = story.begin(two_phase_commit=True, keep_prepared=True)
    assert isinstance(answer, ProducerIdAndEpoch), answer
    return answer


# ---- no time limit


def test_a_participant_has_no_time_limit() -> None:
    story, _ = prepared()
    story.wait(YEAR_MS)
    assert story.status == "Ongoing"
    assert story.transaction().timeout_ms == NO_TIMEOUT_MS


def test_a_participant_has_no_time_limit_after_a_restart() -> None:
    story, _ = prepared()
    story.restart()
    story.wait(YEAR_MS)
    assert story.status == "Ongoing"


def test_the_timeout_of_a_participant_is_not_looked_at() -> None:
    story = Story()
    answer = story.begin(timeout_ms=NO_TIMEOUT_MS, two_phase_commit=True)
    assert answer == ProducerIdAndEpoch(1001, 0)


def test_without_two_phase_commit_a_time_limit_comes_back() -> None:
    story, producer = prepared()
    producer = story.commit(producer)
    story.write_markers()
    producer = story.begin()
    story.add(producer, A0)
    story.wait(TIMEOUT_MS)
    assert story.status == "PrepareAbort"


def test_a_participant_that_begins_anew_aborts_what_it_left_open() -> None:
    story, _ = prepared()
    assert error_of(story.begin(two_phase_commit=True)) == "CONCURRENT_TRANSACTIONS"
    assert story.status == "PrepareAbort"


# ---- a transaction is kept


def test_a_new_owner_keeps_what_is_open_and_hears_who_wrote_it() -> None:
    story, producer = prepared()
    owner = keep(story)
    assert owner == ProducerIdAndEpoch(producer.producer_id, 1, producer.producer_id, 0)
    assert story.status == "Ongoing"
    assert story.sent == []


def test_what_is_kept_is_stored_in_the_next_producer() -> None:
    story, producer = prepared()
    keep(story)
    known = story.transaction()
    assert known.producer == (producer.producer_id, 0)
    assert known.next == (producer.producer_id, 1)


@BOTH
def test_the_new_owner_ends_it(committed: bool) -> None:
    story, producer = prepared()
    owner = keep(story)
    assert story.end(owner, committed=committed) == on(producer, 2)
    [marker] = story.write_markers()
    assert (marker.producer_id, marker.producer_epoch) == (producer.producer_id, 1)
    assert (marker.committed, marker.partitions) == (committed, (A0,))
    known = story.transaction()
    assert known.producer == (producer.producer_id, 2)
    assert not known.kept


@BOTH
def test_the_producer_from_before_cannot_end_it(committed: bool) -> None:
    story, producer = prepared()
    keep(story)
    assert error_of(story.end(producer, committed=committed)) == "PRODUCER_FENCED"
    assert story.status == "Ongoing"


def test_the_producer_from_before_cannot_write_in_it() -> None:
    story, producer = prepared()
    keep(story)
    assert error_of(story.add(producer, B0)) == "PRODUCER_FENCED"
    assert error_of(story.verify(producer, A0)) == "PRODUCER_FENCED"


def test_its_partitions_are_told_before_the_new_owner_is() -> None:
    """What a machine sends leaves before its answer does."""
    story, producer = prepared()
    story.add(producer, B0)
    keep(story)
    assert story.taken_over == [ProducerTakenOver(producer.producer_id, 0, (A0, B0))]


def test_the_producer_from_before_cannot_abort_it_by_going_on() -> None:
    story, producer = prepared()
    keep(story)
    answer = story.begin(producer_id=producer.producer_id, producer_epoch=0)
    assert error_of(answer) == "PRODUCER_FENCED"


def test_the_new_owner_may_only_end_it() -> None:
    story, _ = prepared()
    owner = keep(story)
    assert error_of(story.add(owner, B0)) == "INVALID_TXN_STATE"
    assert error_of(story.verify(owner, A0)) == "INVALID_TXN_STATE"


def test_every_owner_fences_the_one_before() -> None:
    story, producer = prepared()
    first, second, third = keep(story), keep(story), keep(story)
    assert [each.producer_epoch for each in (first, second, third)] == [1, 2, 3]
    assert {each.ongoing_producer_epoch for each in (first, second, third)} == {0}
    assert error_of(story.commit(second)) == "PRODUCER_FENCED"
    assert story.commit(third) == on(producer, 4)


def test_a_late_commit_of_an_owner_does_not_end_the_next_transaction() -> None:
    story, _ = prepared()
    owner = keep(story)
    following = story.commit(owner)
    story.write_markers()
    story.add(following, B0)
    assert error_of(story.commit(owner)) == "PRODUCER_FENCED"
    assert story.status == "Ongoing"


@BOTH
def test_an_owner_repeats_its_end(committed: bool) -> None:
    story, _ = prepared()
    owner = keep(story)
    following = story.end(owner, committed=committed)
    assert error_of(story.end(owner, committed=committed)) == "CONCURRENT_TRANSACTIONS"
    story.write_markers()
    assert story.end(owner, committed=committed) == following
    assert error_of(story.end(owner, committed=not committed)) == "INVALID_TXN_STATE"


def test_what_is_kept_survives_a_restart() -> None:
    story, producer = prepared()
    owner = keep(story)
    story.restart()
    assert error_of(story.commit(producer)) == "PRODUCER_FENCED"
    assert story.commit(owner) == on(producer, 2)
    story.restart()
    [marker] = story.write_markers()
    assert marker.producer_epoch == 1
    assert story.commit(owner) == on(producer, 2)


def test_an_owner_that_gives_up_has_it_aborted() -> None:
    story, producer = prepared()
    owner = keep(story)
    assert error_of(story.begin()) == "CONCURRENT_TRANSACTIONS"
    [marker] = story.write_markers()
    assert (marker.committed, marker.producer_epoch) == (False, 1)
    assert error_of(story.commit(owner)) == "INVALID_TXN_STATE"
    assert story.begin() == on(producer, 3)


def test_nothing_open_is_kept_as_nothing() -> None:
    story = Story()
    producer = keep(story)
    assert producer == ProducerIdAndEpoch(1001, 0, -1, -1)
    assert keep(story) == ProducerIdAndEpoch(1001, 1, -1, -1)


def test_what_is_ending_cannot_be_kept() -> None:
    story, producer = prepared()
    story.commit(producer)
    answer = story.begin(keep_prepared=True)
    assert error_of(answer) == "CONCURRENT_TRANSACTIONS"


def test_a_producer_from_before_is_never_taken_for_the_owner_of_what_was_kept() -> None:
    """It had asked for the epoch that the owner has got since; the log had refused that."""
    story = Story()
    producer = story.begin(two_phase_commit=True)
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    story.refuses = True
    story.begin(two_phase_commit=True, **identity)
    story.refuses = False
    story.add(producer, A0, v2=False)
    owner = keep(story)
    story.commit(on(producer, owner.producer_epoch), v2=False)
    story.write_markers()
    assert error_of(story.begin(two_phase_commit=True, **identity)) == "PRODUCER_FENCED"


def test_what_has_ended_is_nothing_to_keep() -> None:
    story, producer = prepared()
    story.commit(producer)
    story.write_markers()
    assert keep(story) == ProducerIdAndEpoch(producer.producer_id, 2, -1, -1)


def test_a_transaction_with_a_time_limit_can_be_kept_too() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    owner = story.begin(keep_prepared=True)
    assert owner == ProducerIdAndEpoch(producer.producer_id, 1, producer.producer_id, 0)
    story.wait(TIMEOUT_MS)
    assert story.status == "PrepareAbort", "its time limit is still its own"
    story.write_markers()
    assert error_of(story.commit(owner)) == "INVALID_TXN_STATE"


def test_keeping_it_with_two_phase_commit_takes_its_time_limit_away() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    keep(story)
    story.wait(YEAR_MS)
    assert story.status == "Ongoing"


def test_only_a_new_owner_keeps_something() -> None:
    story, producer = prepared()
    answer = story.begin(keep_prepared=True, producer_id=producer.producer_id, producer_epoch=0)
    assert error_of(answer) == "INVALID_REQUEST"


def test_keeping_needs_no_switch() -> None:
    story = Story(TransactionSettings(two_phase_commit=False))
    producer = story.begin()
    story.add(producer, A0)
    answer = story.begin(keep_prepared=True)
    assert answer.ongoing_producer_epoch == 0


@BOTH
def test_an_older_client_ends_what_it_kept(committed: bool) -> None:
    story, producer = prepared()
    owner = keep(story)
    assert story.end(owner, committed=committed, v2=False) == ProducerIdAndEpoch(-1, -1)
    [marker] = story.write_markers()
    assert (marker.producer_epoch, marker.transactions_v2) == (0, False)
    assert story.transaction().producer == (producer.producer_id, 1)


# ---- epochs used up


def test_an_owner_beyond_the_last_epoch_gets_another_producer_id() -> None:
    story, _ = prepared()
    last = story.at_epoch(CLIENT_EPOCH_MAX)
    owner = keep(story)
    assert owner == ProducerIdAndEpoch(last.producer_id + 1, 0, last.producer_id, CLIENT_EPOCH_MAX)
    following = story.commit(owner)
    assert following == on(owner, 1)
    [marker] = story.write_markers()
    assert marker.producer_id == last.producer_id
    assert story.commit(owner) == following


def test_an_owner_that_ends_at_the_last_epoch_gets_another_producer_id() -> None:
    story, _ = prepared()
    last = story.at_epoch(CLIENT_EPOCH_MAX - 1)
    owner = keep(story)
    assert owner.producer_epoch == CLIENT_EPOCH_MAX
    following = story.commit(owner)
    assert following == ProducerIdAndEpoch(last.producer_id + 1, 0)
    story.write_markers()
    assert story.commit(owner) == following
