"""AlterPartition: which in-sync sets a leader gets, and what each rejection says."""

from typing import Any

import pytest
from controller_bench import ORDERS, Bench, alter, manual, registration
from replica_requests import (
    alter_in_sync_set,
    change_request,
    fence,
    partition_of,
    unfence,
)

from penstock import errors
from penstock.controller.configs import SET
from penstock.controller.image import ELIGIBLE_LEADERS, NO_LEADER, RECOVERED, RECOVERING
from penstock.effects import Outcome
from penstock.wire.messages import k45_alter_partition_reassignments as k45
from penstock.wire.messages import k56_alter_partition as k56
from penstock.wire.messages import k64_unregister_broker as k64
from penstock.wire.records.metadata import PartitionChangeRecord

SECOND_START = b"second start 123"


@pytest.fixture
def bench() -> Bench:
    """Three brokers with a replica each, all in sync; the first one leads."""
    made = Bench((1, 2, 3), min_insync_replicas=2)
    assert manual(made, {0: [1, 2, 3]}).error_code == 0
    return made


def code(bench: Bench, isr: list[int], **fields: Any) -> int:
    return int(alter_in_sync_set(bench, isr, **fields).error_code)


def change(bench: Bench, **fields: Any) -> None:
    """Write a change of the partition by hand."""
    topic_id = bench.image.topics["orders"].topic_id
    record = PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields)
    bench.apply(Outcome([record]))


# Accepted changes


def test_a_replica_leaves_the_in_sync_set(bench: Bench) -> None:
    answer = alter_in_sync_set(bench, [1, 2])
    assert (answer.error_code, answer.isr) == (0, [1, 2])
    assert partition_of(bench).isr == (1, 2)


def test_an_answer_has_the_leader_and_the_epochs_after_the_change(bench: Bench) -> None:
    answer = alter_in_sync_set(bench, [1, 2])
    assert (answer.leader_id, answer.leader_epoch, answer.partition_epoch) == (1, 0, 1)
    assert answer.leader_recovery_state == RECOVERED


def test_a_change_of_the_set_alone_keeps_the_leader_epoch(bench: Bench) -> None:
    alter_in_sync_set(bench, [1, 2])
    assert (partition_of(bench).leader_epoch, partition_of(bench).partition_epoch) == (0, 1)


def test_a_replica_joins_the_in_sync_set(bench: Bench) -> None:
    alter_in_sync_set(bench, [1, 2])
    assert code(bench, [1, 2, 3]) == 0
    assert partition_of(bench).isr == (1, 2, 3)


def test_the_present_set_is_accepted_without_a_record(bench: Bench) -> None:
    written = len(bench.log)
    answer = alter_in_sync_set(bench, [1, 2, 3])
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2, 3], 0)
    assert len(bench.log) == written


def test_a_set_without_broker_epochs_is_accepted(bench: Bench) -> None:
    assert code(bench, [1, 2], version=2) == 0
    assert partition_of(bench).isr == (1, 2)


def test_an_unknown_broker_epoch_is_not_compared(bench: Bench) -> None:
    assert code(bench, [1, 2], epochs={1: -1, 2: -1}) == 0


def test_a_partition_named_twice_is_judged_after_its_first_change(bench: Bench) -> None:
    request = change_request(bench, [1])
    [topic] = request.topics
    topic.partitions += change_request(bench, [1, 2]).topics[0].partitions
    answers = bench.ask(request, 3).topics[0].partitions
    assert [each.error_code for each in answers] == [0, errors.InvalidUpdateVersion.code]
    assert partition_of(bench).isr == (1,)


# Eligible leader replicas


def test_a_replica_that_leaves_a_set_below_min_isr_stays_eligible(bench: Bench) -> None:
    assert code(bench, [1]) == 0
    assert sorted(partition_of(bench).eligible_leaders) == [2, 3]


def test_a_replica_that_leaves_a_whole_set_is_not_eligible(bench: Bench) -> None:
    assert code(bench, [1, 2]) == 0
    assert partition_of(bench).eligible_leaders == ()


def test_a_set_that_is_whole_again_needs_no_eligible_replicas(bench: Bench) -> None:
    alter_in_sync_set(bench, [1])
    alter_in_sync_set(bench, [1, 3])
    assert (partition_of(bench).isr, partition_of(bench).eligible_leaders) == ((1, 3), ())


def test_an_eligible_replica_that_joins_is_no_longer_eligible() -> None:
    bench = Bench((1, 2, 3), min_insync_replicas=3)
    manual(bench, {0: [1, 2, 3]})
    alter_in_sync_set(bench, [1])
    alter_in_sync_set(bench, [1, 2])
    assert (partition_of(bench).isr, partition_of(bench).eligible_leaders) == ((1, 2), (3,))


def test_without_the_feature_no_replica_is_eligible() -> None:
    bench = Bench((1, 2), without=ELIGIBLE_LEADERS, min_insync_replicas=2)
    manual(bench, {0: [1, 2]})
    alter_in_sync_set(bench, [1])
    assert partition_of(bench).eligible_leaders == ()


@pytest.mark.parametrize(("metadata_version", "epoch"), [(11, 1), (12, 0)])
def test_a_smaller_set_begins_an_epoch_below_3_6_only(metadata_version: int, epoch: int) -> None:
    bench = Bench((1, 2), without=ELIGIBLE_LEADERS, metadata_version=metadata_version)
    manual(bench, {0: [1, 2]})
    answer = alter_in_sync_set(bench, [1])
    assert (answer.error_code, answer.leader_epoch) == (0, epoch)


# Rejections, in their order


@pytest.mark.parametrize("epoch", [-1, 1_000])
def test_another_start_of_the_leader_is_stale_for_the_whole_request(
    bench: Bench, epoch: int
) -> None:
    request = change_request(bench, [1, 2])
    request.broker_epoch = epoch
    reply = bench.ask(request, 3)
    assert (reply.error_code, reply.topics) == (errors.StaleBrokerEpoch.code, [])


def test_a_broker_that_is_not_registered_is_stale(bench: Bench) -> None:
    request = change_request(bench, [1, 2])
    request.broker_id = 9
    assert bench.ask(request, 3).error_code == errors.StaleBrokerEpoch.code


def test_every_partition_of_an_unknown_topic_is_rejected(bench: Bench) -> None:
    request = change_request(bench, [1, 2])
    [topic] = request.topics
    topic.topic_id = bytes([8]) * 16
    topic.partitions.append(k56.RequestPartitionData(partition_index=4))
    [answered] = bench.ask(request, 3).topics
    told = [(each.partition_index, each.error_code) for each in answered.partitions]
    unknown = errors.UnknownTopicId.code
    assert (answered.topic_id, told) == (topic.topic_id, [(0, unknown), (4, unknown)])


# Each has the next one's reason too, so that the order shows.
REJECTED: list[tuple[dict[str, Any], type[errors.KafkaError]]] = [
    ({"leader_epoch": 6, "leader": 2}, errors.NotController),
    ({"partition_epoch": 9, "leader_epoch": 4, "leader": 2}, errors.NotController),
    ({"leader_epoch": 4, "leader": 2}, errors.FencedLeaderEpoch),
    ({"leader": 2, "partition_epoch": 1}, errors.InvalidRequest),
    ({"partition_epoch": 6, "isr": [4]}, errors.InvalidUpdateVersion),
    ({"isr": [1, 4]}, errors.InvalidRequest),
    ({"isr": [1, 2, 2]}, errors.InvalidRequest),
    ({"isr": [1, 2, 3, 4]}, errors.InvalidRequest),
    ({"isr": [2, 3]}, errors.InvalidRequest),
    ({"isr": []}, errors.InvalidRequest),
    ({"isr": [1, 2], "leader_recovery_state": RECOVERING}, errors.InvalidRequest),
    ({"isr": [1], "leader_recovery_state": RECOVERING}, errors.InvalidRequest),
    ({"isr": [1], "leader_recovery_state": 7}, errors.InvalidRequest),
]


@pytest.mark.parametrize(("fields", "error"), REJECTED, ids=str)
def test_a_rejected_change_has_one_reason_and_changes_nothing(
    bench: Bench, fields: dict[str, Any], error: type[errors.KafkaError]
) -> None:
    for _ in range(5):  # leader epoch 5, partition epoch 7
        change(bench, leader=1)
    change(bench, isr=[1, 2])
    change(bench, isr=[1, 2, 3])
    before = bench.image
    assert code(bench, **{"isr": [1, 2], **fields}) == error.code
    assert bench.image is before


def test_an_unknown_partition_is_rejected(bench: Bench) -> None:
    request = change_request(bench, [1, 2])
    request.topics[0].partitions[0].partition_index = 5
    [answer] = bench.ask(request, 3).topics[0].partitions
    assert (answer.partition_index, answer.error_code) == (5, errors.UnknownTopicOrPartition.code)


def test_one_rejected_partition_leaves_the_others_alone() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1, 2], 1: [2, 1]})
    request = change_request(bench, [1])
    request.topics[0].partitions += change_request(bench, [2], index=1).topics[0].partitions
    answers = bench.ask(request, 3).topics[0].partitions
    assert [each.error_code for each in answers] == [0, errors.InvalidRequest.code]
    assert [partition_of(bench, index).isr for index in (0, 1)] == [(1,), (2, 1)]


# Ineligible replicas


def test_a_fenced_replica_does_not_join(bench: Bench) -> None:
    fence(bench, 2)
    assert code(bench, [1, 2, 3]) == errors.IneligibleReplica.code


def test_a_replica_whose_broker_shuts_down_does_not_join(bench: Bench) -> None:
    bench.create("other", 3)  # each broker leads one, so a shutdown takes time
    bench.beat(2, bench.image.brokers[2].epoch, want_shut_down=True)
    assert bench.image.brokers[2].in_controlled_shutdown
    assert code(bench, [1, 2, 3]) == errors.IneligibleReplica.code


def test_a_replica_of_an_unregistered_broker_does_not_join(bench: Bench) -> None:
    fence(bench, 2)
    assert bench.ask(k64.UnregisterBrokerRequest(broker_id=2)).error_code == 0
    assert code(bench, [1, 2, 3]) == errors.IneligibleReplica.code


def test_an_earlier_attempt_is_void_once_its_repetition_was_rejected(bench: Bench) -> None:
    change(bench, isr=[1, 3])
    first = change_request(bench, [1, 3, 2])
    fence(bench, 2)
    assert code(bench, [1, 3, 2]) == errors.IneligibleReplica.code
    bench.beat(2, bench.image.brokers[2].epoch)
    assert not bench.image.brokers[2].fenced
    [answer] = bench.ask(first, 3).topics[0].partitions
    assert answer.error_code == errors.InvalidUpdateVersion.code
    assert partition_of(bench).isr == (1, 3)


def test_an_earlier_start_of_a_replica_does_not_join(bench: Bench) -> None:
    earlier = bench.image.brokers[2].epoch
    bench.join(2, incarnation_id=SECOND_START)
    assert code(bench, [1, 3, 2], epochs={2: earlier}) == errors.IneligibleReplica.code
    assert code(bench, [1, 3, 2]) == 0


# Recovery of an unclean leader


@pytest.fixture
def recovering() -> Bench:
    """Broker 1 leads after an unclean election, alone in sync."""
    made = Bench((1, 2, 3))
    manual(made, {0: [1, 2]})
    fence(made, 1, 2)
    alter(made, ORDERS, ("unclean.leader.election.enable", SET, "true"))
    unfence(made, 1)
    assert (partition_of(made).leader, partition_of(made).recovery_state) == (1, RECOVERING)
    unfence(made, 2)
    return made


def test_a_leader_tells_that_it_has_recovered(recovering: Bench) -> None:
    answer = alter_in_sync_set(recovering, [1], leader_recovery_state=RECOVERED)
    assert (answer.error_code, answer.leader_recovery_state) == (0, RECOVERED)
    assert partition_of(recovering).recovery_state == RECOVERED


def test_a_recovered_leader_may_bring_a_replica_at_once(recovering: Bench) -> None:
    assert code(recovering, [1, 2]) == 0
    partition = partition_of(recovering)
    assert (partition.isr, partition.recovery_state) == ((1, 2), RECOVERED)


def test_a_recovering_leader_stays_alone(recovering: Bench) -> None:
    assert code(recovering, [1, 2], leader_recovery_state=RECOVERING) == errors.InvalidRequest.code
    answer = alter_in_sync_set(recovering, [1], leader_recovery_state=RECOVERING)
    assert (answer.error_code, answer.leader_recovery_state) == (0, RECOVERING)


# Reassignments


def reassign(bench: Bench, *target: int) -> None:
    wanted = k45.ReassignablePartition(partition_index=0, replicas=list(target))
    topic = k45.ReassignableTopic(name="orders", partitions=[wanted])
    reply = bench.ask(k45.AlterPartitionReassignmentsRequest(topics=[topic]), 1)
    assert reply.responses[0].partitions[0].error_code == 0


def test_the_last_added_replica_in_sync_completes_a_reassignment() -> None:
    bench = Bench((1, 2, 3))
    manual(bench, {0: [1]})
    reassign(bench, 1, 2, 3)
    assert alter_in_sync_set(bench, [1, 2]).error_code == 0
    assert partition_of(bench).adding == (2, 3)
    answer = alter_in_sync_set(bench, [1, 2, 3])
    assert (answer.error_code, answer.isr, answer.leader_epoch) == (0, [1, 2, 3], 0)
    assert (partition_of(bench).adding, partition_of(bench).replicas) == ((), (1, 2, 3))


def test_a_leader_that_stays_learns_that_removed_replicas_have_gone() -> None:
    bench = Bench((1, 2, 3))
    manual(bench, {0: [1, 2]})
    reassign(bench, 1, 3)
    answer = alter_in_sync_set(bench, [1, 2, 3])
    assert (answer.error_code, answer.isr, answer.leader_id) == (0, [1, 3], 1)
    assert answer.leader_epoch == 1
    assert partition_of(bench).replicas == (1, 3)


def test_a_leader_that_a_reassignment_removes_hears_of_a_new_leader() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1]})
    reassign(bench, 2)
    answer = alter_in_sync_set(bench, [1, 2])
    assert answer.error_code == errors.NewLeaderElected.code
    partition = partition_of(bench)
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), 2)
    assert partition.leader_epoch == 1


def test_a_removed_replica_does_not_stay_eligible() -> None:
    bench = Bench((1, 2, 3), min_insync_replicas=2)
    manual(bench, {0: [1, 2]})
    reassign(bench, 3)
    alter_in_sync_set(bench, [1, 2, 3])
    partition = partition_of(bench)
    assert (partition.replicas, partition.isr, partition.eligible_leaders) == ((3,), (3,), ())


# Leaders that have gone


def test_a_former_leader_changes_nothing(bench: Bench) -> None:
    late = change_request(bench, [1])
    fence(bench, 1)
    before = bench.image
    [answer] = bench.ask(late, 3).topics[0].partitions
    assert answer.error_code == errors.FencedLeaderEpoch.code
    assert bench.image is before


def test_without_a_leader_nothing_is_changed() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1]})
    fence(bench, 1)
    assert partition_of(bench).leader == NO_LEADER
    assert code(bench, [1], leader=1) == errors.InvalidRequest.code


def test_a_leader_that_started_again_is_stale_with_its_former_epoch(bench: Bench) -> None:
    late = change_request(bench, [1])
    bench.ask(registration(1, incarnation_id=SECOND_START), 4)
    assert bench.ask(late, 3).error_code == errors.StaleBrokerEpoch.code
