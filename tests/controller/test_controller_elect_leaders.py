"""ElectLeaders: leaders that somebody asks for."""

from typing import Any

import pytest
from controller_bench import Bench, manual

from penstock import errors
from penstock.controller.image import NO_LEADER, RECOVERING, PartitionImage
from penstock.wire.messages import k43_elect_leaders as k43

PREFERRED, UNCLEAN = 0, 1
NO_LEADER_NEEDED = errors.ElectionNotNeeded.code


def elect(bench: Bench, kind: int, topic: str = "orders", index: int = 0) -> int:
    named = k43.TopicPartitions(topic=topic, partitions=[index])
    request = k43.ElectLeadersRequest(election_type=kind, topic_partitions=[named])
    reply = bench.ask(request, 2)
    assert reply.error_code == 0
    [told] = reply.replica_election_results
    [result] = told.partition_result
    return int(result.error_code)


def elect_all(bench: Bench, kind: int) -> dict[str, list[tuple[int, int]]]:
    reply = bench.ask(k43.ElectLeadersRequest(election_type=kind, topic_partitions=None), 2)
    return {
        told.topic: [(each.partition_id, each.error_code) for each in told.partition_result]
        for told in reply.replica_election_results
    }


def orders(bench: Bench) -> PartitionImage:
    return bench.image.topics["orders"].partitions[0]


def away(bench: Bench, broker_id: int, epoch: int) -> Any:
    return bench.beat(broker_id, epoch, want_fence=True)


@pytest.fixture
def led_by_2() -> Bench:
    """Of the replicas 1 and 2 the first was away: 2 leads, and both are in sync again."""
    from penstock.effects import Outcome
    from penstock.wire.records.metadata import PartitionChangeRecord

    bench = Bench((1, 2))
    manual(bench, {0: [1, 2]})
    topic_id = bench.image.topics["orders"].topic_id
    bench.apply(Outcome([PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2)]))
    return bench


def test_the_preferred_replica_leads_again(led_by_2: Bench) -> None:
    epoch = orders(led_by_2).leader_epoch
    assert elect(led_by_2, PREFERRED) == 0
    assert (orders(led_by_2).leader, orders(led_by_2).leader_epoch) == (1, epoch + 1)
    assert orders(led_by_2).isr == (1, 2)


def test_a_preferred_leader_needs_no_election() -> None:
    bench = Bench()
    bench.create("orders")
    before = orders(bench)
    assert elect(bench, PREFERRED) == NO_LEADER_NEEDED
    assert orders(bench) is before


def test_a_preferred_replica_that_is_not_in_sync_does_not_lead() -> None:
    bench = Bench((2,))
    epoch = bench.join(1)
    manual(bench, {0: [1, 2]})
    away(bench, 1, epoch)
    assert orders(bench).leader == 2
    assert elect(bench, PREFERRED) == errors.PreferredLeaderNotAvailable.code
    assert orders(bench).leader == 2


def test_where_somebody_leads_no_unclean_election_is_needed(led_by_2: Bench) -> None:
    assert elect(led_by_2, UNCLEAN) == NO_LEADER_NEEDED


def test_an_unclean_election_takes_one_that_was_not_in_sync() -> None:
    bench, epoch = _without_leader()
    assert elect(bench, PREFERRED) == errors.PreferredLeaderNotAvailable.code
    assert elect(bench, UNCLEAN) == 0
    partition = orders(bench)
    assert (partition.leader, partition.isr, partition.recovery_state) == (2, (2,), RECOVERING)
    assert epoch


def _without_leader() -> tuple[Bench, int]:
    """Of the replicas 1 and 2 only the first was in sync, and is away."""
    bench = Bench((3,), without="eligible.leader.replicas.version")
    first, second = bench.join(1), bench.join(2)
    manual(bench, {0: [1, 2]})
    away(bench, 2, second)
    away(bench, 1, first)
    bench.beat(2, second)
    assert orders(bench).leader == NO_LEADER
    return bench, first


def test_nobody_leads_where_nobody_is_up() -> None:
    bench = Bench((3,))
    only = bench.join(1)
    manual(bench, {0: [1]})
    away(bench, 1, only)
    assert elect(bench, UNCLEAN) == errors.EligibleLeadersNotAvailable.code


def test_of_all_only_those_that_needed_one_are_told(led_by_2: Bench) -> None:
    led_by_2.create("other", 2)
    assert elect_all(led_by_2, PREFERRED) == {"orders": [(0, 0)], "other": []}
    assert elect_all(led_by_2, PREFERRED) == {"orders": [], "other": []}


@pytest.mark.parametrize(("topic", "index"), [("nothing", 0), ("orders", 7)])
def test_a_partition_that_is_not_there_has_no_leader(topic: str, index: int) -> None:
    bench = Bench()
    bench.create("orders")
    unknown = errors.UnknownTopicOrPartition.code
    assert elect(bench, PREFERRED, topic, index) == unknown


def test_an_election_of_another_kind_is_refused() -> None:
    bench = Bench()
    reply = bench.ask(k43.ElectLeadersRequest(election_type=9, topic_partitions=None), 2)
    assert reply.error_code == errors.InvalidRequest.code
