"""Requests about replicas reach the active controller from every node."""

import pytest

from penstock.controller.image import LOST_DIRECTORY, NO_LEADER, Image, PartitionImage
from penstock.testing.sim.cluster import SimCluster
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k56_alter_partition as k56
from penstock.wire.messages import k73_assign_replicas_to_dirs as k73

SEED = 3
NODES = (1, 2, 3)


@pytest.fixture
def cluster() -> SimCluster:
    """Three nodes; each leads one partition of `t`, and one of `copied`."""
    made = SimCluster(SEED)
    made.start()
    for name, factor in (("t", 1), ("copied", 3)):
        topic = k19.CreatableTopic(name=name, num_partitions=3, replication_factor=factor)
        request = k19.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        answer = made.ask(1, request, 7)
        assert isinstance(answer, k19.CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
    made.simulation.run_until(lambda: all("copied" in node.image.topics for node in made.running))
    return made


def led_by(cluster: SimCluster, node_id: int, name: str = "t") -> PartitionImage:
    image: Image = cluster.nodes[node_id].image
    partitions = image.topics[name].partitions.values()
    return next(each for each in partitions if each.leader == node_id)


def test_a_partition_has_a_replica_on_each_node(cluster: SimCluster) -> None:
    for node_id in NODES:
        partition = led_by(cluster, node_id, "copied")
        assert sorted(partition.replicas) == sorted(partition.isr) == list(NODES)


@pytest.mark.parametrize("node_id", NODES)
def test_a_leader_makes_its_in_sync_set_smaller(cluster: SimCluster, node_id: int) -> None:
    image = cluster.nodes[node_id].image
    epoch = image.brokers[node_id].epoch
    partition = led_by(cluster, node_id, "copied")
    asked = k56.RequestPartitionData(
        partition_index=partition.partition_id,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[k56.BrokerState(broker_id=node_id, broker_epoch=epoch)],
    )
    topic = k56.RequestTopicData(topic_id=image.topics["copied"].topic_id, partitions=[asked])
    request = k56.AlterPartitionRequest(broker_id=node_id, broker_epoch=epoch, topics=[topic])
    answer = cluster.ask(node_id, request, 3)
    assert isinstance(answer, k56.AlterPartitionResponse)
    [told] = answer.topics[0].partitions
    assert (told.error_code, told.leader_id, told.isr) == (0, node_id, [node_id])
    # The others may be back in the set by now: they have all records.
    assert led_by(cluster, node_id, "copied").partition_epoch > partition.partition_epoch


@pytest.mark.parametrize("node_id", NODES)
def test_a_broker_reports_a_lost_replica(cluster: SimCluster, node_id: int) -> None:
    image = cluster.nodes[node_id].image
    index = led_by(cluster, node_id).partition_id
    topic = k73.RequestTopicData(
        topic_id=image.topics["t"].topic_id,
        partitions=[k73.RequestPartitionData(partition_index=index)],
    )
    request = k73.AssignReplicasToDirsRequest(
        broker_id=node_id,
        broker_epoch=image.brokers[node_id].epoch,
        directories=[k73.RequestDirectoryData(id=LOST_DIRECTORY, topics=[topic])],
    )
    answer = cluster.ask(node_id, request, 0)
    assert isinstance(answer, k73.AssignReplicasToDirsResponse)
    assert answer.directories[0].topics[0].partitions[0].error_code == 0
    partition = cluster.nodes[node_id].image.topics["t"].partitions[index]
    assert (partition.leader, partition.eligible_leaders) == (NO_LEADER, (node_id,))
