"""Elections that come by themselves: of preferred leaders, and unclean ones."""

from typing import Any

import pytest
from controller_bench import ORDERS, Bench, alter, manual, registration
from metadata_world import MetadataWorld
from replica_requests import alter_in_sync_set, assign_directory, fence, partition_of, unfence

from penstock.controller import periodic_elections
from penstock.controller.configs import SET
from penstock.controller.elections import LeaderElection
from penstock.controller.image import LOST_DIRECTORY, NO_LEADER, RECOVERED, RECOVERING
from penstock.controller.periodic_elections import ElectionRound, LeaderCheck
from penstock.effects import SetTimer
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k56_alter_partition as k56
from penstock.wire.messages import k63_broker_heartbeat as k63

CHECK_MS = 5_000
PREFERRED, UNCLEAN = LeaderElection.PREFERRED, LeaderElection.UNCLEAN


def timers_of(outcome: Any) -> list[tuple[object, float]]:
    """Return the events of an outcome's timers, and their delays."""
    assert all(isinstance(each, SetTimer) for each in outcome.timers)
    return [(each.event, each.after_ms) for each in outcome.timers]


def check(bench: Bench, election: LeaderElection) -> int:
    """Check once, and run the rounds that follow; return their number."""
    outcome = bench.controller.handle(LeaderCheck(election), 0)
    assert outcome.records == ()
    events = [event for event, _ in timers_of(outcome) if isinstance(event, ElectionRound)]
    rounds = 0
    while events:
        outcome = bench.controller.handle(events.pop(), 0)
        bench.apply(outcome)
        events += [event for event, _ in timers_of(outcome) if isinstance(event, ElectionRound)]
        rounds += 1
    return rounds


# Timers


def test_an_active_controller_checks_at_both_intervals() -> None:
    bench = Bench((1,), preferred_leader_check_ms=7_000, unclean_leader_check_ms=9_000)
    assert timers_of(bench.controller.loaded(0)) == [
        (LeaderCheck(PREFERRED), 7_000),
        (LeaderCheck(UNCLEAN), 9_000),
    ]


def test_without_rebalancing_no_check_for_preferred_leaders_comes() -> None:
    bench = Bench((1,), preferred_leader_check_ms=None)
    assert [event for event, _ in timers_of(bench.controller.loaded(0))] == [LeaderCheck(UNCLEAN)]


@pytest.mark.parametrize("election", [PREFERRED, UNCLEAN])
def test_a_check_that_finds_nothing_waits_for_the_next_one(election: LeaderElection) -> None:
    bench = Bench((1,), preferred_leader_check_ms=CHECK_MS, unclean_leader_check_ms=CHECK_MS)
    bench.create("orders", 3)
    outcome = bench.controller.handle(LeaderCheck(election), 0)
    assert timers_of(outcome) == [(LeaderCheck(election), CHECK_MS)]


def test_a_check_that_raised_comes_again() -> None:
    bench = Bench((1,), preferred_leader_check_ms=CHECK_MS)
    event = LeaderCheck(PREFERRED)
    outcome = bench.controller.recover(event, RuntimeError("ours"), 0)
    assert timers_of(outcome) == [(event, CHECK_MS)]
    assert outcome.failures[0].subject == "LeaderCheck to the controller"


# Preferred leaders


def led_by_another(partitions: int = 1) -> Bench:
    """Broker 1 was away, and is in sync again: broker 2 leads all partitions."""
    bench = Bench((1, 2))
    assert manual(bench, {index: [1, 2] for index in range(partitions)}).error_code == 0
    fence(bench, 1)
    unfence(bench, 1)
    for index in range(partitions):
        assert alter_in_sync_set(bench, [2, 1], index=index).error_code == 0
    return bench


def test_a_preferred_leader_that_is_in_sync_leads_again() -> None:
    bench = led_by_another()
    assert partition_of(bench).leader == 2
    epoch = partition_of(bench).leader_epoch
    assert check(bench, PREFERRED) == 1
    partition = partition_of(bench)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, epoch + 1, (2, 1))


def test_a_preferred_replica_that_is_not_in_sync_does_not_lead() -> None:
    bench = led_by_another()
    alter_in_sync_set(bench, [2])
    assert check(bench, PREFERRED) == 0
    assert partition_of(bench).leader == 2


def test_a_preferred_replica_in_an_offline_directory_does_not_lead() -> None:
    bench = led_by_another()
    assign_directory(bench, 1, LOST_DIRECTORY)
    assert check(bench, PREFERRED) == 0


def test_rounds_are_limited_and_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_elections, "ELECTIONS_PER_ROUND_MAX", 3)
    bench = led_by_another(partitions=7)
    written = len(bench.log)
    assert check(bench, PREFERRED) == 3
    assert [len(batch) for batch in bench.log[written:]] == [3, 3, 1]
    assert {partition_of(bench, index).leader for index in range(7)} == {1}


# Unclean elections


def without_leader() -> Bench:
    """Of the replicas 1 and 2 only 1 was in sync, and is away."""
    bench = Bench((1, 2, 3))
    assert manual(bench, {0: [1, 2]}).error_code == 0
    alter_in_sync_set(bench, [1])
    fence(bench, 1)
    assert partition_of(bench).leader == NO_LEADER
    return bench


def allow_unclean(bench: Bench) -> None:
    assert alter(bench, ORDERS, ("unclean.leader.election.enable", SET, "true")) == 0


def test_a_topic_that_allows_unclean_leaders_later_gets_one_by_the_next_check() -> None:
    bench = without_leader()
    assert check(bench, UNCLEAN) == 0
    allow_unclean(bench)
    assert partition_of(bench).leader == NO_LEADER
    assert check(bench, UNCLEAN) == 1
    partition = partition_of(bench)
    assert (partition.leader, partition.isr, partition.recovery_state) == (2, (2,), RECOVERING)
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((), ())


def test_without_a_live_replica_nothing_is_elected() -> None:
    bench = without_leader()
    fence(bench, 2)
    allow_unclean(bench)
    assert check(bench, UNCLEAN) == 0


def test_a_partition_with_a_leader_needs_no_unclean_election() -> None:
    bench = without_leader()
    unfence(bench, 1)
    allow_unclean(bench)
    assert check(bench, UNCLEAN) == 0
    assert partition_of(bench).recovery_state == RECOVERED


# Beneath a node


def heartbeat(world: MetadataWorld, broker_id: int, *, want_fence: bool = False) -> None:
    image = world.metadata.image
    request = k63.BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].epoch,
        current_metadata_offset=image.offset,
        want_fence=want_fence,
    )
    assert world.ask(request, 1).error_code == 0


def join_in_sync_set(world: MetadataWorld, isr: list[int]) -> None:
    """Ask as the leader of `orders`, as a broker does through its own node."""
    topic = world.metadata.image.topics["orders"]
    partition = topic.partitions[0]
    asked = k56.RequestPartitionData(
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[k56.BrokerState(broker_id=each) for each in isr],
    )
    request = k56.AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=world.metadata.image.brokers[partition.leader].epoch,
        topics=[k56.RequestTopicData(topic_id=topic.topic_id, partitions=[asked])],
    )
    [answer] = world.ask(request, 3).topics[0].partitions
    assert (answer.error_code, answer.isr) == (0, isr)


def test_a_node_elects_the_preferred_leader_when_its_check_is_due() -> None:
    world = MetadataWorld(settings={"preferred_leader_check_ms": 500})
    world.join()
    world.ask(registration(2, cluster_id=world.meta.cluster_id), 4)
    heartbeat(world, 2)
    assignment = k19.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    topic = k19.CreatableTopic(
        name="orders", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    world.ask(k19.CreateTopicsRequest(topics=[topic]), 7)
    heartbeat(world, 1, want_fence=True)
    heartbeat(world, 1)
    join_in_sync_set(world, [2, 1])
    assert world.metadata.image.leader_of("orders", 0) == (2, 1)
    for _ in range(2):  # the check, then its round
        world.time.advance(500)
        world.run()
    assert world.metadata.image.leader_of("orders", 0) == (1, 2)
