"""AlterPartitionReassignments: partitions change their brokers, at once or step by step."""

from collections.abc import Sequence

import pytest
from controller_bench import ORDERS, Bench, alter, manual

from penstock import errors
from penstock.controller.image import NO_LEADER, UNASSIGNED_DIRECTORY, PartitionImage
from penstock.wire.messages import k45_alter_partition_reassignments as k45
from penstock.wire.messages import k46_list_partition_reassignments as k46

SET = 0


def reassign(
    bench: Bench, target: Sequence[int] | None, *, index: int = 0, factor_free: bool = True
) -> k45.ReassignablePartitionResponse:
    wanted = k45.ReassignablePartition(
        partition_index=index, replicas=None if target is None else list(target)
    )
    request = k45.AlterPartitionReassignmentsRequest(
        topics=[k45.ReassignableTopic(name="orders", partitions=[wanted])],
        allow_replication_factor_change=factor_free,
    )
    reply = bench.ask(request, 1)
    assert (reply.error_code, reply.error_message) == (0, None)
    assert reply.allow_replication_factor_change == factor_free
    [topic] = reply.responses
    [result] = topic.partitions
    assert isinstance(result, k45.ReassignablePartitionResponse)
    return result


def orders(bench: Bench) -> PartitionImage:
    return bench.image.topics["orders"].partitions[0]


def under_way(bench: Bench) -> list[tuple[list[int], list[int], list[int]]]:
    reply = bench.ask(k46.ListPartitionReassignmentsRequest(topics=None))
    return [
        (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in reply.topics
        for each in topic.partitions
    ]


def test_to_where_it_is_nothing_changes() -> None:
    bench = Bench()
    bench.create("orders")
    before = orders(bench)
    assert reassign(bench, [1]).error_code == 0
    assert orders(bench) is before


def test_a_new_replica_is_added_first() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1]})
    result = reassign(bench, [2])
    partition = orders(bench)
    assert (result.error_code, result.error_message) == (0, None)
    assert (partition.replicas, partition.adding, partition.removing) == ((2, 1), (2,), (1,))
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 0)
    assert partition.directories == (
        bench.image.brokers[2].directories[0],
        bench.image.brokers[1].directories[0],
    )
    assert under_way(bench) == [([2, 1], [2], [1])]


def test_a_broker_with_several_directories_chooses_for_itself() -> None:
    bench = Bench()
    bench.join(2, log_dirs=[bytes([8, 1]) * 8, bytes([8, 2]) * 8])
    manual(bench, {0: [1]})
    reassign(bench, [1, 2])
    assert orders(bench).directories[1] == UNASSIGNED_DIRECTORY == bytes(15) + b"\x01"


def test_replicas_that_are_all_in_sync_change_places_at_once() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1, 2]})
    reassign(bench, [2, 1])
    partition = orders(bench)
    assert (partition.replicas, partition.leader, partition.leader_epoch) == ((2, 1), 1, 0)
    assert under_way(bench) == []


def test_a_replica_leaves_at_once_where_the_others_are_in_sync() -> None:
    bench = Bench((1, 2, 3))
    manual(bench, {0: [1, 2, 3]})
    reassign(bench, [2, 3])
    partition = orders(bench)
    assert (partition.replicas, partition.isr) == ((2, 3), (2, 3))
    assert (partition.leader, partition.leader_epoch) == (2, 1)
    assert (partition.adding, partition.removing) == ((), ())


def test_a_follower_that_leaves_begins_a_new_epoch() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1, 2]})
    reassign(bench, [1])
    partition = orders(bench)
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert partition.leader_epoch == 1
    assert partition.eligible_leaders == ()


def test_a_cancelled_one_leaves_what_there_was() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1]})
    reassign(bench, [2])
    assert reassign(bench, None).error_code == 0
    partition = orders(bench)
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.adding, partition.removing) == ((), ())
    assert under_way(bench) == []


def test_back_to_where_it_was_is_as_good_as_cancelling() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1]})
    reassign(bench, [1, 2])
    assert reassign(bench, [1]).error_code == 0
    assert (orders(bench).replicas, under_way(bench)) == ((1,), [])


def test_a_reassignment_elects_no_leader_uncleanly() -> None:
    bench = Bench((1, 2, 3))
    manual(bench, {0: [1, 2]})
    for broker_id in (2, 1):
        bench.beat(broker_id, bench.image.brokers[broker_id].epoch, want_fence=True)
    bench.beat(2, bench.image.brokers[2].epoch)
    alter(bench, ORDERS, ("unclean.leader.election.enable", SET, "true"))
    assert reassign(bench, [2, 3]).error_code == 0
    assert orders(bench).leader == NO_LEADER


@pytest.mark.parametrize("unclean", [False, True])
def test_cancelling_where_only_new_ones_are_in_sync_may_lose_records(unclean: bool) -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1, 2]})
    alter(bench, ORDERS, ("unclean.leader.election.enable", SET, str(unclean).lower()))
    _two_alone_in_sync(bench)
    result = reassign(bench, None)
    expected = 0 if unclean else errors.InvalidReplicaAssignment.code
    assert result.error_code == expected
    assert orders(bench).replicas == ((1,) if unclean else (2, 1))


def _two_alone_in_sync(bench: Bench) -> None:
    """As if 2 had been added, had caught up, and 1 had fallen behind."""
    from penstock.effects import Outcome
    from penstock.wire.records.metadata import PartitionChangeRecord

    topic = bench.image.topics["orders"]
    record = PartitionChangeRecord(
        partition_id=0,
        topic_id=topic.topic_id,
        isr=[2],
        leader=2,
        replicas=[2, 1],
        adding_replicas=[2],
        removing_replicas=[1],
    )
    bench.apply(Outcome([record]))


@pytest.mark.parametrize(
    ("target", "error", "text"),
    [
        ([9], errors.InvalidReplicaAssignment, "broker 9"),
        ([1, 1], errors.InvalidReplicaAssignment, "more than once"),
        ([], errors.InvalidReplicaAssignment, "empty"),
        (None, errors.NoReassignmentInProgress, ""),
    ],
)
def test_what_is_refused(
    target: list[int] | None, error: type[errors.KafkaError], text: str
) -> None:
    bench = Bench()
    bench.create("orders")
    result = reassign(bench, target)
    assert result.error_code == error.code
    assert text in (result.error_message or "")


def test_a_partition_that_is_not_there_is_not_moved() -> None:
    bench = Bench()
    assert reassign(bench, [1]).error_code == errors.UnknownTopicOrPartition.code
    bench.create("orders")
    assert reassign(bench, [1], index=5).error_code == errors.UnknownTopicOrPartition.code


def test_the_replication_factor_may_be_held_fast() -> None:
    bench = Bench((1, 2))
    manual(bench, {0: [1]})
    refused = reassign(bench, [1, 2], factor_free=False)
    assert refused.error_code == errors.InvalidReplicationFactor.code
    assert reassign(bench, [2], factor_free=False).error_code == 0
    assert reassign(bench, [1], factor_free=False).error_code == 0
