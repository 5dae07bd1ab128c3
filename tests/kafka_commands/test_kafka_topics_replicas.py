"""kafka-topics --describe picks out the partitions that miss replicas or leaders."""

import re
from collections.abc import Iterator

import pytest
from kafka_running import ran

from penstock.testing import Cluster

GONE, KEPT = 3, 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield three brokers, of which the last one was killed and is fenced."""
    with Cluster(brokers=3) as running:
        running.create_topic("two-needed")
        running.create_topic("three-needed", config={"min.insync.replicas": 3})
        address = ":".join(map(str, running.address_of(KEPT)))
        assignment = ("--topic", "lost", "--replica-assignment", str(GONE))
        made = ran("topics", "--bootstrap-server", address, "--create", *assignment)
        assert made.code == 0, made.err
        running.kill(GONE)
        running.wait_until(lambda: running.leader_of("lost") is None)
        yield running


@pytest.mark.parametrize(
    ("option", "topics"),
    [
        ("--under-replicated-partitions", ["lost", "three-needed", "two-needed"]),
        ("--under-min-isr-partitions", ["lost", "three-needed"]),
        ("--at-min-isr-partitions", ["two-needed"]),
        ("--unavailable-partitions", ["lost"]),
    ],
)
def test_partitions_are_picked_out(cluster: Cluster, option: str, topics: list[str]) -> None:
    address = ":".join(map(str, cluster.address_of(KEPT)))
    shown = ran("topics", "--bootstrap-server", address, "--describe", option)
    assert shown.code == 0, shown.err
    assert sorted(re.findall(r"Topic: (\S+)\tPartition", shown.out)) == topics


def test_an_eligible_leader_is_shown(cluster: Cluster) -> None:
    address = ":".join(map(str, cluster.address_of(KEPT)))
    options = ("--describe", "--topic", "three-needed")
    shown = ran("topics", "--bootstrap-server", address, *options)
    assert "\tElr: 3\t" in shown.out
