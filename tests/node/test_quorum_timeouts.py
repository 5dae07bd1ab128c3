"""Timeouts of the quorum that are shorter than Kafka's wait of a fetch."""

from penstock.testing.sim.cluster import SimCluster

SEED = 3
QUIET_MS = 10_000
SHORT = {
    "controller.quorum.fetch.timeout.ms": "400",
    "controller.quorum.request.timeout.ms": "400",
}


def test_a_quorum_with_short_timeouts_keeps_its_leader() -> None:
    cluster = SimCluster(SEED, settings=SHORT)
    cluster.start()
    cluster.simulation.run_for(1_000)
    before = cluster.nodes[1].broker.metadata.describe().epoch
    cluster.simulation.run_for(QUIET_MS)
    assert cluster.nodes[1].broker.metadata.describe().epoch == before
