"""The metrics of three nodes: which one leads, and what a loss shows on the others."""

import json
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast
from urllib.request import urlopen

import pytest
from metrics_asking import Page

from penstock.broker.metrics.rows_cluster import QUORUM_STATES
from penstock.broker.metrics.rows_node import ROWS
from penstock.broker.metrics.snapshot import MetricsSnapshot
from penstock.testing import Cluster
from penstock.world import LATE_BOUNDS_MS

CONTROLLER = "kafka_controller_kafkacontroller_"
RAFT = "kafka_server_raft_metrics_"
ANSWER_SECONDS_MAX = 10.0
METRICS = {"metrics.listener": "127.0.0.1:0"}
UNREPLICATED = METRICS | {"default.replication.factor": "1", "min.insync.replicas": "1"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(METRICS, brokers=3) as running:
        yield running


def page_of(cluster: Cluster, node: int) -> Page:
    with urlopen(cluster.metrics_url_of(node), timeout=ANSWER_SECONDS_MAX) as answer:
        return Page(answer.read().decode())


def state_of(page: Page) -> str:
    (found,) = [x for x in QUORUM_STATES if page(f"{RAFT}current_state", state=x) == 1]
    return found


def test_one_node_is_the_active_controller(cluster: Cluster) -> None:
    pages = {node: page_of(cluster, node) for node in cluster.nodes}
    active = [node for node, page in pages.items() if page(f"{CONTROLLER}activecontrollercount")]
    assert active == [cluster.controller()]
    assert sorted(state_of(page) for page in pages.values()) == ["follower", "follower", "leader"]


def test_all_nodes_agree_on_the_leader_and_its_epoch(cluster: Cluster) -> None:
    pages = [page_of(cluster, node) for node in cluster.nodes]
    for name in ("current_leader", "current_epoch"):
        assert len({page(f"{RAFT}{name}") for page in pages}) == 1


def test_a_killed_broker_is_fenced_and_its_partitions_are_offline() -> None:
    with Cluster(UNREPLICATED, brokers=3) as cluster:
        cluster.create_topic("t", 6)
        gone, kept = 3, 1
        cluster.kill(gone)
        cluster.wait_until(lambda: page_of(cluster, kept)(f"{CONTROLLER}fencedbrokercount") == 1)
        page = page_of(cluster, kept)
        assert page(f"{CONTROLLER}activebrokercount") == 2
        assert page(f"{CONTROLLER}offlinepartitionscount") == 2


REPLICAS = "kafka_server_replicamanager_"
ELECTIONS = "kafka_controller_controllerstats_"


def summed(cluster: Cluster, name: str) -> float:
    """Return the sum of a metric over the running nodes 1 and 2."""
    return sum(page_of(cluster, node)(name) for node in (1, 2))


def test_partitions_that_miss_a_replica_are_counted_by_their_leaders(cluster: Cluster) -> None:
    cluster.create_topic("two-needed", 6)
    cluster.create_topic("three-needed", 3, {"min.insync.replicas": 3})
    assert summed(cluster, f"{REPLICAS}underreplicatedpartitions") == 0
    cluster.kill(3)
    cluster.wait_until(lambda: summed(cluster, f"{REPLICAS}underreplicatedpartitions") == 9)
    assert summed(cluster, f"{REPLICAS}leadercount") == 9
    assert summed(cluster, f"{REPLICAS}partitioncount") == 18
    assert summed(cluster, f"{REPLICAS}atminisrpartitioncount") == 6
    assert summed(cluster, f"{REPLICAS}underminisrpartitioncount") == 3
    assert page_of(cluster, 1)(f"{CONTROLLER}offlinepartitionscount") == 0


def test_replicas_that_join_again_are_counted(cluster: Cluster) -> None:
    cluster.create_topic("t", 6)
    cluster.kill(3)
    cluster.wait_until(lambda: summed(cluster, f"{REPLICAS}underreplicatedpartitions") == 6)
    cluster.restart(3)
    cluster.wait_until_in_sync()
    assert summed(cluster, f"{REPLICAS}isrexpands_total") == 6
    assert summed(cluster, f"{REPLICAS}failedisrupdates_total") == 0


def test_each_node_counts_the_elections(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 6)
    cluster.kill(3)
    cluster.wait_until(lambda: all(cluster.leader_of(topic, each) != 3 for each in range(6)))
    elections = f"{ELECTIONS}leaderelectionrateandtimems_total"
    cluster.wait_until(lambda: summed(cluster, elections) == 4)
    assert page_of(cluster, 1)(elections) == 2
    assert summed(cluster, f"{ELECTIONS}uncleanleaderelections_total") == 0


def test_the_largest_lag_of_a_node_is_that_of_its_replicas(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", 3)
    cluster.wait_until(lambda: all(topic in cluster.broker_of(n).replicas.by_name for n in (1, 2)))
    lag = "kafka_server_replicafetchermanager_maxlag"
    assert page_of(cluster, 1)(lag, clientid="Replica") == 0

    def fall_behind() -> None:
        followers = cluster.broker_of(1).followers
        for records, replica in enumerate(followers._replicas.values(), 4):
            replica.machine.leader_watermark = records

    cluster.call(fall_behind, 1)
    assert page_of(cluster, 1)(lag, clientid="Replica") == 5


def ready(cluster: Cluster, node: int) -> dict[str, object]:
    url = cluster.metrics_url_of(node).replace("/metrics", "/health/ready")
    with urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
        found: dict[str, object] = json.loads(answer.read())
    return found


def test_each_node_is_ready_whichever_leads(cluster: Cluster) -> None:
    assert [ready(cluster, node)["ready"] for node in cluster.nodes] == [True] * 3


def test_turns_over_100_ms_late_are_counted() -> None:
    (late,) = [each for each in ROWS if each.name == "penstock_turns_late_total"]
    counts = tuple(2 if bound > 100 else 1 for bound in (*LATE_BOUNDS_MS, math.inf))
    seen = SimpleNamespace(vitals=SimpleNamespace(late_counts=counts))
    ((_, value),) = late.read(cast("MetricsSnapshot", seen))
    assert value == 2 * sum(bound > 100 for bound in (*LATE_BOUNDS_MS, math.inf))
