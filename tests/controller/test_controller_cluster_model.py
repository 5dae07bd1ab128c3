"""Random lives of several brokers against the promises of a controller."""

from collections import Counter

import pytest
from cluster_life import ClusterLife

from penstock.controller.image import ELIGIBLE_LEADERS

STEPS = 120


@pytest.mark.parametrize("without", ["", ELIGIBLE_LEADERS], ids=["eligible leaders", "in-sync set"])
@pytest.mark.parametrize("seed", range(30))
def test_brokers_come_and_go_and_every_partition_is_led_in_the_end(seed: int, without: str) -> None:
    life = ClusterLife(seed, without=without)
    for _ in range(STEPS):
        life.act()
    life.heal()


REACHED = (
    "accepted",
    "fenced by time",
    "last known leader",
    "eligible leader",
    "lost",
    "StaleBrokerEpoch",
    "FencedLeaderEpoch",
    "InvalidRequest",
    "InvalidUpdateVersion",
    "IneligibleReplica",
)


def test_the_seeds_reach_every_kind_of_change_and_rejection() -> None:
    counted: Counter[str] = Counter()
    for seed in range(60):
        life = ClusterLife(seed)
        for _ in range(STEPS):
            life.act()
        counted += life.counted
    assert {name: counted[name] for name in REACHED if counted[name] < 10} == {}
