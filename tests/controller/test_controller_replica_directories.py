"""AssignReplicasToDirs: where the replicas of a broker are, and which of them are lost."""

import pytest
from controller_bench import ORDERS, Bench, alter, manual, registration
from replica_requests import (
    assign_directory,
    assignment_request,
    fence,
    partition_of,
    unfence,
)

from penstock import errors
from penstock.controller.configs import SET
from penstock.controller.image import (
    ELIGIBLE_LEADERS,
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    RECOVERING,
    UNASSIGNED_DIRECTORY,
)
from penstock.wire.messages import k73_assign_replicas_to_dirs as k73

FIRST, SECOND = bytes([9, 1]) * 8, bytes([7, 1]) * 8  # directories of broker 1
UNKNOWN = bytes([200]) * 16
SECOND_START = b"second start 123"


def two_directories(*, min_insync_replicas: int = 1) -> Bench:
    """Broker 1 with two directories leads two partitions, whose directories it has not told."""
    bench = Bench((2, 3), min_insync_replicas=min_insync_replicas)
    epoch = bench.ask(registration(1, log_dirs=[FIRST, SECOND]), 4).broker_epoch
    bench.beat(1, epoch)
    assert manual(bench, {0: [1, 2, 3], 1: [1, 2, 3]}).error_code == 0
    assert partition_of(bench).directory_of(1) == UNASSIGNED_DIRECTORY
    return bench


# Online directories


def test_a_replica_gets_the_directory_that_its_broker_reports() -> None:
    bench = two_directories()
    others = partition_of(bench).directories[1:]
    assert assign_directory(bench, 1, SECOND) == [0]
    assert partition_of(bench).directories == (SECOND, *others)
    assert partition_of(bench, 1).directory_of(1) == UNASSIGNED_DIRECTORY


def test_an_assignment_changes_neither_leader_nor_in_sync_set() -> None:
    bench = two_directories()
    assign_directory(bench, 1, FIRST, 0, 1)
    for index in (0, 1):
        partition = partition_of(bench, index)
        assert (partition.leader, partition.isr) == (1, (1, 2, 3))
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)


def test_the_same_assignment_again_changes_nothing() -> None:
    bench = two_directories()
    assign_directory(bench, 1, FIRST)
    before = bench.image
    assert assign_directory(bench, 1, FIRST) == [0]
    assert bench.image is before


@pytest.mark.parametrize("directory", [UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY])
def test_a_directory_that_is_not_known_yet_is_online(directory: bytes) -> None:
    bench = two_directories()
    assign_directory(bench, 1, FIRST)
    assert assign_directory(bench, 1, directory) == [0]
    assert partition_of(bench).directory_of(1) == directory
    assert partition_of(bench).leader == 1


def test_a_replica_moves_between_directories() -> None:
    bench = two_directories()
    assign_directory(bench, 1, FIRST)
    assign_directory(bench, 1, SECOND)
    assert partition_of(bench).directory_of(1) == SECOND


def test_a_partition_named_in_two_directories_is_in_the_last_one() -> None:
    bench = two_directories()
    request = assignment_request(bench, 1, FIRST)
    request.directories += assignment_request(bench, 1, SECOND).directories
    answered = bench.ask(request).directories
    assert [each.id for each in answered] == [FIRST, SECOND]
    assert partition_of(bench).directory_of(1) == SECOND


# Offline directories


@pytest.mark.parametrize("directory", [LOST_DIRECTORY, UNKNOWN], ids=["lost", "unknown"])
def test_a_leader_in_an_offline_directory_is_replaced(directory: bytes) -> None:
    bench = two_directories()
    assert assign_directory(bench, 1, directory) == [0]
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)
    assert partition.directory_of(1) == directory


def test_a_follower_in_an_offline_directory_leaves_the_in_sync_set() -> None:
    bench = two_directories()
    assert assign_directory(bench, 3, LOST_DIRECTORY) == [0]
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2), 0)


def test_a_replica_in_an_offline_directory_stays_eligible_below_min_isr() -> None:
    bench = two_directories(min_insync_replicas=3)
    assign_directory(bench, 3, LOST_DIRECTORY)
    partition = partition_of(bench)
    assert (partition.isr, partition.eligible_leaders) == ((1, 2), (3,))


def test_an_eligible_replica_in_an_offline_directory_does_not_lead() -> None:
    bench = two_directories(min_insync_replicas=3)
    assign_directory(bench, 3, LOST_DIRECTORY)
    fence(bench, 1, 2)
    assert partition_of(bench).leader == NO_LEADER
    fence(bench, 3)
    unfence(bench, 3)
    assert partition_of(bench).leader == NO_LEADER
    unfence(bench, 2)
    assert partition_of(bench).leader == 2


def test_a_lost_replica_that_is_there_again_may_lead() -> None:
    bench = two_directories(min_insync_replicas=3)
    assign_directory(bench, 3, LOST_DIRECTORY)
    fence(bench, 1, 2, 3)
    assert assign_directory(bench, 3, bench.image.brokers[3].directories[0]) == [0]
    unfence(bench, 3)
    assert (partition_of(bench).leader, partition_of(bench).isr) == (3, (3,))


def test_a_partition_whose_last_replica_is_lost_has_no_leader() -> None:
    bench = two_directories()
    fence(bench, 2, 3)
    assign_directory(bench, 1, LOST_DIRECTORY)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((1,), (1,))


def test_without_eligible_leaders_the_last_replica_stays_named_although_it_is_lost() -> None:
    bench = Bench((1,), without=ELIGIBLE_LEADERS)
    manual(bench, {0: [1]})
    assign_directory(bench, 1, LOST_DIRECTORY)
    assert (partition_of(bench).leader, partition_of(bench).isr) == (NO_LEADER, (1,))


def test_a_lost_leader_is_replaced_uncleanly_where_the_topic_allows_it() -> None:
    bench = two_directories()
    alter(bench, ORDERS, ("unclean.leader.election.enable", SET, "true"))
    fence(bench, 2, 3)
    unfence(bench, 2)
    assert partition_of(bench).isr == (1,)
    assign_directory(bench, 1, LOST_DIRECTORY)
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.recovery_state) == (2, (2,), RECOVERING)


def test_an_assignment_to_an_online_directory_elects_nobody_uncleanly() -> None:
    bench = two_directories()
    fence(bench, 2, 3)
    fence(bench, 1)
    unfence(bench, 2)
    alter(bench, ORDERS, ("unclean.leader.election.enable", SET, "true"))
    assign_directory(bench, 2, bench.image.brokers[2].directories[0])
    assert partition_of(bench).leader == NO_LEADER


def test_a_fenced_broker_reports_before_it_is_unfenced() -> None:
    bench = two_directories()
    epoch = bench.image.brokers[1].epoch
    again = registration(
        1,
        log_dirs=[FIRST, SECOND],
        incarnation_id=SECOND_START,
        previous_broker_epoch=epoch,
    )
    assert bench.ask(again, 4).error_code == 0
    fence(bench, 2, 3)
    assert assign_directory(bench, 1, LOST_DIRECTORY, 0) == [0]
    unfence(bench, 1)
    assert [partition_of(bench, index).leader for index in (0, 1)] == [NO_LEADER, NO_LEADER]


# Rejections


def test_another_start_of_the_broker_is_stale() -> None:
    bench = two_directories()
    request = assignment_request(bench, 1, FIRST)
    request.broker_epoch += 1
    reply = bench.ask(request)
    assert (reply.error_code, reply.directories) == (errors.StaleBrokerEpoch.code, [])


def test_a_broker_that_is_not_registered_is_stale() -> None:
    bench = two_directories()
    request = k73.AssignReplicasToDirsRequest(broker_id=8, broker_epoch=1)
    assert bench.ask(request).error_code == errors.StaleBrokerEpoch.code


def test_before_directory_ids_an_assignment_is_not_supported() -> None:
    bench = Bench((1,), without=ELIGIBLE_LEADERS, metadata_version=16)
    manual(bench, {0: [1]})
    reply = bench.ask(assignment_request(bench, 1, FIRST))
    assert reply.error_code == errors.UnsupportedVersion.code


def test_an_unknown_topic_is_rejected_for_each_partition() -> None:
    bench = two_directories()
    request = assignment_request(bench, 1, FIRST, 0, 1)
    request.directories[0].topics[0].topic_id = UNKNOWN
    [topic] = bench.ask(request).directories[0].topics
    told = [(each.partition_index, each.error_code) for each in topic.partitions]
    unknown = errors.UnknownTopicId.code
    assert (topic.topic_id, told) == (UNKNOWN, [(0, unknown), (1, unknown)])


def test_an_unknown_partition_is_rejected_and_the_others_are_assigned() -> None:
    bench = two_directories()
    codes = assign_directory(bench, 1, FIRST, 0, 7, 1)
    assert codes == [0, errors.UnknownTopicOrPartition.code, 0]
    assert [partition_of(bench, index).directory_of(1) for index in (0, 1)] == [FIRST, FIRST]


def test_a_broker_without_the_replica_is_rejected() -> None:
    bench = two_directories()
    bench.join(4)
    before = bench.image
    codes = assign_directory(bench, 4, bench.image.brokers[4].directories[0])
    assert codes == [errors.NotLeaderOrFollower.code]
    assert bench.image is before
