"""Admission: an open transaction lets nobody in whom its coordinator does not vouch for."""

import pytest
from simulated_node import Bench
from txn_fakes import transactional

from penstock.broker.partition import Partition
from penstock.wire.batch import ABORT_MARKER

PRODUCER = (7, 3)


@pytest.fixture
def partition() -> Partition:
    """With an open transaction, whose producer is vouched for."""
    bench = Bench()
    bench.create_topic("t")
    found = bench.broker.find("t", 0)
    batch, header = transactional(*PRODUCER, 0)
    assert found.append_own(bytes(batch), header, 0) == 0
    found.admission.vouch(*PRODUCER)
    return found


def test_an_open_transaction_takes_more_of_its_producer(partition: Partition) -> None:
    assert partition.has_open(*PRODUCER)
    assert not partition.has_open(7, 2)
    assert not partition.has_open(8, 3)


def test_one_that_was_taken_over_does_not(partition: Partition) -> None:
    partition.admission.taken_over(*PRODUCER)
    assert not partition.has_open(*PRODUCER)


def test_what_an_older_epoch_lost_is_nothing_to_the_next(partition: Partition) -> None:
    partition.admission.taken_over(7, 2)
    assert partition.has_open(*PRODUCER)


def test_a_leader_that_begins_vouches_for_nobody(partition: Partition) -> None:
    partition.lead(partition.leader.epoch + 1, (1,), replicas=1)
    assert not partition.has_open(*PRODUCER)


def test_a_leader_that_goes_on_does(partition: Partition) -> None:
    partition.lead(partition.leader.epoch, (1,), replicas=1)
    assert partition.has_open(*PRODUCER)


def test_nothing_is_kept_of_a_transaction_that_has_ended(partition: Partition) -> None:
    partition.admission.came(*PRODUCER, 5)
    partition.append_marker(ABORT_MARKER, *PRODUCER, 0, False, 0)
    assert (partition.admission.vouched, partition.admission.lowest) == ({}, {})
