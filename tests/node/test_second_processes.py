"""Second processes under the id or with the directories of a running broker are refused."""

import pytest

from penstock.broker.metadata.storage_format import META_PROPERTIES
from penstock.testing.sim.cluster import COMBINED, SimCluster, SimNode

SEED = 3
BROKER, BROKER_ID, OTHER_ID = "broker", 4, 5
COMBINED_ID = 1
REGISTRATION_MS, AWAITED_MS = 60_000, 4_500  # Kafka's default, and half of its session
SHORT_MS = 1_000


@pytest.fixture
def cluster() -> SimCluster:
    made = SimCluster(SEED, (COMBINED, COMBINED, COMBINED, BROKER))
    made.start()
    return made


def copy_of(original: SimNode, cluster: SimCluster, node_id: int) -> SimNode:
    """Return a node on another host with a copy of the directories of a running one."""
    copy = cluster.make_node(node_id, BROKER, "another-host")
    for root, disk in original.world.disks.items():
        copy._disks[root] = disk.backup()
    return copy


def refusal(cluster: SimCluster, node: SimNode) -> str:
    """Start a node; return why it ends."""
    node.start()
    cluster.simulation.run_until(lambda: node.is_over, limit_ms=2 * REGISTRATION_MS)
    assert node.failure is not None, "it stopped by itself"
    return node.failure


def serves_in(cluster: SimCluster, epoch: int) -> bool:
    """Return whether the broker is unfenced in this epoch."""
    assert cluster.active is not None, "the cluster is at rest"
    known = cluster.active.image.brokers[BROKER_ID]
    return known.epoch == epoch and not known.fenced


def test_a_second_process_with_the_id_of_a_broker_is_refused(cluster: SimCluster) -> None:
    epoch = cluster.nodes[BROKER_ID].broker_epoch
    second = cluster.make_node(BROKER_ID, BROKER, "another-host")
    assert "Another running node has the id of this one" in refusal(cluster, second)
    assert serves_in(cluster, epoch)


def test_a_second_process_leaves_no_address_of_its_controller(cluster: SimCluster) -> None:
    cluster.simulation.run_for(SHORT_MS)
    second = cluster.make_node(COMBINED_ID, COMBINED, "another-host")
    assert "Another running node has the id of this one" in refusal(cluster, second)
    [endpoint] = cluster.nodes[BROKER_ID].image.controllers[COMBINED_ID].endpoints
    assert endpoint.host == "node-1"


def test_a_copy_of_the_directories_of_a_broker_is_refused(cluster: SimCluster) -> None:
    original = cluster.nodes[BROKER_ID]
    epoch = original.broker_epoch
    second = copy_of(original, cluster, BROKER_ID)
    assert "Another running node has the id of this one" in refusal(cluster, second)
    assert serves_in(cluster, epoch)


def test_a_copy_under_another_id_names_the_owner_of_the_directory(cluster: SimCluster) -> None:
    second = copy_of(cluster.nodes[BROKER_ID], cluster, OTHER_ID)
    assert f"belongs to node {BROKER_ID}, and this is node {OTHER_ID}" in refusal(cluster, second)


def test_a_copy_whose_owner_was_edited_is_refused(cluster: SimCluster) -> None:
    original = cluster.nodes[BROKER_ID]
    epoch = original.broker_epoch
    second = copy_of(original, cluster, OTHER_ID)
    for disk in second._disks.values():
        properties = disk.content(META_PROPERTIES)
        disk.put(
            META_PROPERTIES, properties.replace(b"node.id=%d" % BROKER_ID, b"node.id=%d" % OTHER_ID)
        )
    assert "with one of its log directories, so that is a copy" in refusal(cluster, second)
    assert serves_in(cluster, epoch)


def test_a_new_controller_waits_for_the_running_broker_of_an_id(cluster: SimCluster) -> None:
    """The second process is the first one that the new controller hears."""
    original, former = cluster.nodes[BROKER_ID], cluster.active
    epoch = original.broker_epoch
    assert former is not None
    others = [node.host for node in cluster.nodes.values() if node is not original]
    cluster.simulation.network.separate([original.host], others)
    former.kill()
    cluster.simulation.run_until(lambda: cluster.active not in (None, former))
    cluster.make_node(BROKER_ID, BROKER, "another-host").start()
    cluster.simulation.run_for(AWAITED_MS - SHORT_MS)
    cluster.simulation.network.heal()
    cluster.simulation.run_for(AWAITED_MS)
    assert serves_in(cluster, epoch)
