"""Admission: an open transaction lets nobody in whom its coordinator does not vouch for."""

import pytest
from leadership import lead
from simulated_node import Bench
from txn_fakes import FakeTarget, transactional

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.verified_producers import EPOCHS_MAX, VerifiedProducers
from penstock.broker.transactions.txn_markers import LocalMarkers
from penstock.coordinator.records import EndMarker
from penstock.errors import (
    KafkaStorageError,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    ProducerFenced,
)
from penstock.model import TopicPartition
from penstock.replication.follower_progress import FetchContact

PRODUCER = (7, 3)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def partition(bench: Bench) -> Partition:
    """With an open transaction, whose producer is vouched for."""
    bench.create_topic("t")
    found = bench.broker.find("t", 0)
    batch, header = transactional(*PRODUCER, 0)
    assert found.append_own(bytes(batch), header, 0) == 0
    found.verified_producers.vouch(*PRODUCER)
    return found


def stage(partition: Partition) -> FakeTarget:
    """Accept a batch of the open transaction for the end of this turn."""
    target = FakeTarget()
    partition.batches.append(transactional(*PRODUCER, 1))
    partition.tickets.append((target, None, None, 0))
    return target


def test_an_open_transaction_takes_more_of_its_producer(partition: Partition) -> None:
    assert partition.has_open(*PRODUCER)
    assert not partition.has_open(7, 2)
    assert not partition.has_open(8, 3)


def test_one_that_was_taken_over_does_not(partition: Partition) -> None:
    partition.verified_producers.revoke(*PRODUCER)
    assert not partition.has_open(*PRODUCER)


def test_an_answer_from_before_the_take_over_vouches_for_nothing(partition: Partition) -> None:
    partition.verified_producers.revoke(*PRODUCER)
    with pytest.raises(ProducerFenced):
        partition.verified_producers.vouch(*PRODUCER)
    assert not partition.has_open(*PRODUCER)


def test_the_next_epoch_of_a_revoked_producer_is_let_in() -> None:
    verified = VerifiedProducers()
    verified.revoke(*PRODUCER)
    verified.vouch(7, 4)
    assert verified.vouched == {7: 4}


def test_a_partition_that_holds_batches_back_has_not_revoked_yet(
    bench: Bench, partition: Partition
) -> None:
    partition.held = True
    here, place = LocalMarkers(bench.broker), TopicPartition("t", 0)
    assert isinstance(here.revoke(*PRODUCER, [place])[place], KafkaStorageError)
    assert not partition.has_open(*PRODUCER)


def test_a_partition_waits_for_a_former_leader_before_it_has_revoked(
    bench: Bench, partition: Partition
) -> None:
    lead(partition, partition.leader.epoch + 1, (1, 2))
    here, place = LocalMarkers(bench.broker), TopicPartition("t", 0)
    assert isinstance(here.revoke(*PRODUCER, [place])[place], NotEnoughReplicas)
    partition.leader.fetched(2, -1, 0, 0, 0.0, FetchContact(0.0))
    assert here.revoke(*PRODUCER, [place]) == {place: None}


def test_an_older_take_over_frees_no_later_epoch() -> None:
    verified = VerifiedProducers()
    verified.revoke(*PRODUCER)
    verified.revoke(7, 2)
    with pytest.raises(ProducerFenced):
        verified.vouch(*PRODUCER)


def test_what_an_older_epoch_lost_is_nothing_to_the_next(partition: Partition) -> None:
    partition.verified_producers.revoke(7, 2)
    assert partition.has_open(*PRODUCER)


def test_a_leader_that_begins_vouches_for_nobody(partition: Partition) -> None:
    lead(partition, partition.leader.epoch + 1, (1,))
    assert not partition.has_open(*PRODUCER)


def test_batches_accepted_in_an_earlier_leadership_are_rejected(partition: Partition) -> None:
    target = stage(partition)
    lead(partition, partition.leader.epoch + 2, (1,))
    partition.append_turn(0, 0.0)
    assert [each.kafka_name() for each in target.errors] == ["NOT_LEADER_OR_FOLLOWER"]
    assert partition.log.end_offset == 1


def test_a_leadership_that_goes_on_keeps_accepted_batches(partition: Partition) -> None:
    stage(partition)
    lead(partition, partition.leader.epoch, (1,))
    partition.append_turn(0, 0.0)
    assert partition.log.end_offset == 2


def test_a_leader_that_goes_on_does(partition: Partition) -> None:
    lead(partition, partition.leader.epoch, (1,))
    assert partition.has_open(*PRODUCER)


def test_nothing_is_kept_of_a_transaction_that_has_ended(partition: Partition) -> None:
    partition.verified_producers.note_sequence(*PRODUCER, 5)
    partition.append_marker(EndMarker(*PRODUCER, 0, False), 0)
    assert (partition.verified_producers.vouched, partition.verified_producers.lowest) == ({}, {})


# What came first, and was refused


def test_a_later_sequence_waits_for_one_that_was_refused() -> None:
    admission = VerifiedProducers()
    admission.note_sequence(7, 3, 1)
    with pytest.raises(OutOfOrderSequenceNumber):
        admission.begin(7, 3, 2)
    admission.begin(7, 3, 1)
    admission.begin(7, 3, 2)  # the log judges it now


def test_an_epoch_that_somebody_made_up_sets_nobody_free() -> None:
    admission = VerifiedProducers()
    admission.note_sequence(7, 3, 1)
    admission.note_sequence(7, 4, 10)
    with pytest.raises(OutOfOrderSequenceNumber):
        admission.begin(7, 3, 2)


def test_what_a_later_epoch_lost_holds_up_an_earlier_one_as_in_kafka() -> None:
    admission = VerifiedProducers()
    admission.note_sequence(7, 4, 0)
    with pytest.raises(OutOfOrderSequenceNumber):
        admission.begin(7, 3, 3)


def test_a_later_epoch_has_sequences_of_its_own() -> None:
    admission = VerifiedProducers()
    admission.note_sequence(7, 3, 0)
    admission.note_sequence(7, 4, 5)
    admission.begin(7, 4, 5)


def test_only_so_many_epochs_of_a_producer_are_remembered() -> None:
    admission = VerifiedProducers()
    for epoch in range(EPOCHS_MAX + 1):
        admission.note_sequence(7, epoch, 2 * EPOCHS_MAX - epoch)
    assert list(admission.lowest[7]) == list(range(1, EPOCHS_MAX + 1))
