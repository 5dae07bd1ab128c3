"""AddPartitionsToTxn: what a transaction reaches into, and who may say so."""

import pytest
from txn_story import A0, A1, B0, NOW_MS, Story, error_of, on

from penstock.coordinator.transactions.events import ProducerIdAndEpoch
from penstock.errors import TransactionAbortable


def test_the_first_partition_opens_the_transaction() -> None:
    story = Story()
    producer = story.begin()
    assert story.add(producer, A0) is None
    known = story.transaction()
    assert (story.status, known.started_ms) == ("Ongoing", NOW_MS)
    assert known.partitions == {A0}


def test_further_partitions_join_it() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    story.wait(5)
    story.add(producer, A1, B0)
    known = story.transaction()
    assert known.partitions == {A0, A1, B0}
    assert known.started_ms == NOW_MS, "it began with the first"


def test_a_partition_that_takes_part_already_is_not_written_again() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0, A1)
    before = len(story.written)
    assert story.add(producer, A0) is None
    assert len(story.written) == before


def test_an_id_that_nobody_knows_has_no_transaction() -> None:
    assert error_of(Story().add(ProducerIdAndEpoch(1, 0), A0)) == "INVALID_PRODUCER_ID_MAPPING"


def test_another_producer_id_does_not_belong_to_it() -> None:
    story = Story()
    story.begin()
    assert error_of(story.add(ProducerIdAndEpoch(4, 0), A0)) == "INVALID_PRODUCER_ID_MAPPING"


@pytest.mark.parametrize("epoch", [0, 2])
def test_an_epoch_that_is_not_the_producers_is_fenced(epoch: int) -> None:
    story = Story()
    story.begin()
    producer = story.begin()
    assert error_of(story.add(on(producer, epoch), A0)) == "PRODUCER_FENCED"


@pytest.mark.parametrize("committed", [True, False])
def test_nothing_joins_while_the_transaction_is_ending(committed: bool) -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    following = story.end(producer, committed=committed)
    assert error_of(story.add(following, A1)) == "CONCURRENT_TRANSACTIONS"
    assert error_of(story.add(producer, A1)) == "CONCURRENT_TRANSACTIONS"


def test_the_next_transaction_begins_with_its_own_partitions() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0)
    producer = story.commit(producer)
    story.write_markers()
    story.wait(10)
    story.add(producer, B0)
    known = story.transaction()
    assert known.partitions == {B0}
    assert known.started_ms == NOW_MS + 10


def test_an_older_client_begins_the_next_transaction_with_the_same_epoch() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0, v2=False)
    story.commit(producer, v2=False)
    story.write_markers()
    assert story.add(producer, B0, v2=False) is None


# ---- verification


def test_a_leader_learns_which_partitions_take_part() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0, v2=False)
    answer = story.verify(producer, A0, A1)
    assert answer[A0] is None
    assert isinstance(answer[A1], TransactionAbortable)


def test_verifying_opens_nothing() -> None:
    story = Story()
    producer = story.begin()
    answer = story.verify(producer, A0)
    assert isinstance(answer[A0], TransactionAbortable)
    assert story.status == "Empty"


def test_a_fenced_producer_is_not_verified() -> None:
    story = Story()
    old = story.begin()
    story.begin()
    assert error_of(story.verify(old, A0)) == "PRODUCER_FENCED"


def test_a_write_that_comes_while_its_transaction_ends_is_not_verified() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0, v2=False)
    story.commit(producer, v2=False)
    assert error_of(story.verify(producer, A0)) == "CONCURRENT_TRANSACTIONS"


def test_a_write_that_comes_after_the_end_is_not_verified() -> None:
    story = Story()
    producer = story.begin()
    story.add(producer, A0, v2=False)
    story.commit(producer, v2=False)
    story.write_markers()
    assert isinstance(story.verify(producer, A0)[A0], TransactionAbortable)
