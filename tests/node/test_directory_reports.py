"""A broker tells the controller in which directory each replica is, and which replicas are lost."""

import pytest
from replicated_topic import REPLICATED, ReplicatedTopic, stored_values

from penstock.controller.image import LOST_DIRECTORY
from penstock.testing.sim.cluster import SimCluster
from penstock.testing.sim.cluster.sim_cluster import SimNode
from penstock.world import DiskFailed

SEED = 5
SEGMENT = "t-0/00000000000000000000.log"


def started(**settings: str) -> SimCluster:
    cluster = SimCluster(SEED, ["controller", *["broker"] * 3], REPLICATED | settings)
    cluster.start()
    return cluster


def follower_of(topic: ReplicatedTopic) -> SimNode:
    nodes = topic.cluster.nodes.values()
    return next(each for each in nodes if each.node_id not in (1, topic.leader))


def directory_of(topic: ReplicatedTopic, node: SimNode) -> bytes:
    directory: bytes = topic.state.directory_of(node.node_id)
    return directory


# -- several directories


@pytest.fixture
def spread() -> ReplicatedTopic:
    """Return a topic on brokers with two directories; another topic fills the first one."""
    cluster = started(**{"log.dirs": "data,more"})
    ReplicatedTopic(cluster, "first")
    return ReplicatedTopic(cluster, min_insync_replicas="2")


def test_the_directory_of_each_replica_is_reported(spread: ReplicatedTopic) -> None:
    spread.run_until(
        lambda: (
            [spread.state.directory_of(node_id) for node_id in spread.state.replicas]
            == [spread.replica(node_id).directory.directory_id for node_id in spread.state.replicas]
        )
    )


def test_another_replica_leads_when_the_reported_directory_fails(spread: ReplicatedTopic) -> None:
    former = spread.leader
    directory = spread.replica(former).directory
    assert directory.disk.root == "more"
    spread.run_until(lambda: spread.state.directory_of(former) == directory.directory_id)
    directory.fail(DiskFailed("more has failed"))
    spread.run_until(lambda: spread.leader not in (-1, former))
    spread.run_until(lambda: spread.replica(spread.leader).leading)
    assert spread.produce(b"a") == 0


def test_a_reported_directory_is_known_after_a_change_of_the_controller() -> None:
    cluster = SimCluster(SEED, settings=REPLICATED | {"log.dirs": "data,more"})
    cluster.start()
    ReplicatedTopic(cluster, "first")
    topic = ReplicatedTopic(cluster)
    assert cluster.active is not None
    cluster.active.kill()
    live = [each.node_id for each in cluster.running]
    topic.run_until(
        lambda: all(
            topic.state.directory_of(node_id) == topic.replica(node_id).directory.directory_id
            for node_id in live
        )
    )


# -- lost replicas


@pytest.fixture
def topic() -> ReplicatedTopic:
    """Return a topic with two records, which needs all replicas."""
    made = ReplicatedTopic(started(), min_insync_replicas="3")
    assert made.produce(b"a", b"b") == 0
    return made


def stopped_follower(topic: ReplicatedTopic) -> SimNode:
    """Stop a follower cleanly: it is eligible, as the in-sync set falls below its minimum."""
    node = follower_of(topic)
    node.stop()
    topic.run_until(lambda: node.is_over)
    assert topic.state.eligible_leaders == (node.node_id,)
    return node


def start(topic: ReplicatedTopic, node: SimNode) -> None:
    node.start()
    topic.run_until(lambda: node.is_ready)


def test_a_replica_whose_records_are_lost_at_a_start_is_neither_in_sync_nor_eligible(
    topic: ReplicatedTopic,
) -> None:
    node = stopped_follower(topic)
    node._disks["data"].cut(SEGMENT, 1)
    start(topic, node)
    assert directory_of(topic, node) == LOST_DIRECTORY
    assert node.node_id not in (*topic.state.isr, *topic.state.eligible_leaders)


def test_a_lost_replica_is_reported_before_its_broker_serves(topic: ReplicatedTopic) -> None:
    node = stopped_follower(topic)
    node._disks["data"].cut(SEGMENT, 1)
    node.start()
    topic.run_until(lambda: not topic.cluster.nodes[1].image.brokers[node.node_id].fenced)
    assert directory_of(topic, node) == LOST_DIRECTORY


def test_a_whole_replica_stays_eligible_until_it_is_in_sync(topic: ReplicatedTopic) -> None:
    node = stopped_follower(topic)
    epoch = topic.cluster.nodes[1].image.brokers[node.node_id].epoch
    start(topic, node)
    assert directory_of(topic, node) != LOST_DIRECTORY
    topic.run_until_in_sync()
    assert node.broker_epoch > epoch
    assert len(node.broker.incarnation_ids) == 1


def test_a_restored_replica_is_in_sync_again(topic: ReplicatedTopic) -> None:
    node = stopped_follower(topic)
    whole = node._disks["data"].files()[SEGMENT]
    node._disks["data"].cut(SEGMENT, 1)
    start(topic, node)
    node.stop()
    topic.run_until(lambda: node.is_over)
    node._disks["data"].put(SEGMENT, whole)
    start(topic, node)
    topic.run_until_in_sync()
    assert directory_of(topic, node) != LOST_DIRECTORY


def test_a_replica_whose_loss_was_accepted_is_not_eligible_before_it_has_caught_up(
    topic: ReplicatedTopic,
) -> None:
    node = stopped_follower(topic)
    node._disks["data"].put(SEGMENT, b"")
    node._disks["data"].put("t-0/penstock-accept-loss", b"")
    others = [each.host for each in topic.cluster.running if each.node_id != 1]
    topic.cluster.simulation.network.separate([node.host], others)
    node.start()
    topic.run_until(lambda: not topic.cluster.nodes[1].image.brokers[node.node_id].fenced)
    assert node.node_id not in (*topic.state.isr, *topic.state.eligible_leaders)
    topic.cluster.simulation.network.heal()
    topic.run_until_in_sync()
    topic.run_until_equal()
    assert stored_values(topic.replica(node.node_id)) == [b"a", b"b"]


def test_another_replica_leads_when_a_file_of_the_leader_is_lost(topic: ReplicatedTopic) -> None:
    former = topic.cluster.nodes[topic.leader]
    former._disks["data"].take(SEGMENT)
    topic.produce(b"c")
    topic.run_until(lambda: topic.leader not in (-1, former.node_id))
    assert directory_of(topic, former) == LOST_DIRECTORY
    topic.run_until(lambda: topic.replica(topic.leader).leading)
    assert topic.values()[:2] == [b"a", b"b"]


def test_a_sole_replica_is_not_reported_lost() -> None:
    cluster = started()
    topic = ReplicatedTopic(cluster, replicas=1)
    assert topic.produce(b"a") == 0
    node = cluster.nodes[topic.leader]
    node.stop()
    topic.run_until(lambda: node.is_over)
    node._disks["data"].cut(SEGMENT, 1)
    start(topic, node)
    assert directory_of(topic, node) != LOST_DIRECTORY
    assert topic.leader == node.node_id
