"""Three nodes' metadata under faults: images agree, and acknowledged changes stay."""

import pytest
from metadata_cluster import MetadataCluster

from depth import seeds
from penstock.testing.sim.world import repeatable


def test_three_nodes_elect_one_controller_and_publish_one_image() -> None:
    cluster = MetadataCluster(1)
    cluster.run(0)
    assert len({node.image.offset for node in cluster.live}) == 1


def test_a_new_controller_goes_on_where_the_killed_one_stopped() -> None:
    cluster = MetadataCluster(2)
    cluster.run(0)
    first = cluster.active
    assert first is not None
    first.die(power=False)
    cluster.simulation.run_until(lambda: cluster.active not in (None, first), 5_000)
    cluster.propose()
    cluster.simulation.run_for(200)
    assert len({each.image.offset for each in cluster.live}) == 1


@pytest.mark.parametrize("part", range(4))
def test_no_fault_forks_the_image_or_loses_an_acknowledged_change(part: int) -> None:
    for seed in seeds(400, 20)[part::4]:
        with repeatable(seed, "tests/raft/test_metadata_cluster.py"):
            cluster = MetadataCluster(seed)
            cluster.run(faults=20)
            cluster.judge_end()
