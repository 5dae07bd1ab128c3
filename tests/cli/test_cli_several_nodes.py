"""Commands at three nodes: the active controller, a fenced broker, a quorum without a majority."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cli_running import run

from penstock.testing import Cluster

ONE, TWO, THREE = 1, 2, 3
UNREPLICATED = {"default.replication.factor": 1, "min.insync.replicas": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        running.create_topic("orders", 6)
        yield running


@pytest.fixture(scope="module")
def without_three() -> Iterator[Cluster]:
    """A cluster whose broker 3 was killed and is fenced; its partitions have no other replica."""
    with Cluster(UNREPLICATED, brokers=3) as running:
        running.create_topic("orders", 6)
        running.kill(THREE)
        running.wait_until(lambda: running.broker_of(ONE).image.brokers[THREE].fenced)
        yield running


def as_json(cluster: Cluster, *arguments: str) -> Any:
    ran = run("--bootstrap", cluster.bootstrap, "--format", "json", *arguments)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.parametrize("command", [("broker", "list"), ("top", "--once", "-i", "0.1")])
def test_the_controller_is_the_leader_of_the_quorum(
    cluster: Cluster, command: tuple[str, ...]
) -> None:
    shown = as_json(cluster, *command)
    rows = shown if command[0] == "broker" else shown["brokers"]
    assert [row["broker"] for row in rows if row["controller"]] == [cluster.controller()]


def test_the_cluster_is_described_with_its_active_controller(cluster: Cluster) -> None:
    shown = as_json(cluster, "cluster", "describe")
    assert shown["controller"] == cluster.controller()
    assert [row["leads"] for row in shown["brokers"]] == [2, 2, 2]
    text = run("--bootstrap", cluster.bootstrap, "cluster", "describe").out
    assert f"node {cluster.controller()} is the active controller" in text


def test_the_quorum_has_one_leader_and_two_voters(cluster: Cluster) -> None:
    shown = as_json(cluster, "quorum", "describe")
    assert shown["leader"] == cluster.controller()
    assert sorted(row["role"] for row in shown["replicas"]) == ["leader", "voter", "voter"]


def test_a_fenced_broker_is_shown(without_three: Cluster) -> None:
    rows = as_json(without_three, "broker", "list")
    assert {row["broker"]: row["fenced"] for row in rows} == {ONE: False, TWO: False, THREE: True}
    (fenced,) = as_json(without_three, "broker", "list", "--fenced")
    assert (fenced["broker"], fenced["leads"], fenced["replicas"]) == (THREE, 0, 2)
    described = run("--bootstrap", without_three.bootstrap, "broker", "describe", "3")
    assert "It is fenced" in described.err


def test_partitions_of_a_fenced_broker_have_no_leader(without_three: Cluster) -> None:
    shown = as_json(without_three, "cluster", "describe")
    assert len(shown["without_leader"]) == 2
    frame = as_json(without_three, "top", "--once", "-i", "0.1")
    assert (frame["topics"][0]["unhealthy"], frame["without_leader"]) == (2, 2)
    text = run("--bootstrap", without_three.bootstrap, "top", "--once", "-i", "0.1").out
    assert "records/s, 2 partitions without a leader\n" in text


def health(cluster: Cluster) -> tuple[int, Any]:
    ran = run("--bootstrap", cluster.bootstrap, "--format", "json", "cluster", "health")
    return ran.code, json.loads(ran.out)


def test_a_whole_cluster_is_healthy(cluster: Cluster) -> None:
    cluster.wait_until_in_sync()
    code, shown = health(cluster)
    assert (code, shown.pop("whole"), shown.pop("controller")) == (0, True, cluster.controller())
    assert not any(shown.values())
    text = run("--bootstrap", cluster.bootstrap, "cluster", "health").out
    assert "is whole: 3 brokers, 6 partitions, all replicas in sync" in text


def test_partitions_without_a_leader_are_not_healthy(without_three: Cluster) -> None:
    code, shown = health(without_three)
    assert (code, shown["whole"], shown["fenced_brokers"]) == (1, False, [THREE])
    assert len(shown["without_leader"]) == 2
    ran = run("--bootstrap", without_three.bootstrap, "cluster", "health")
    assert "is not whole\n  fenced brokers: 3\n  without a leader: orders-" in ran.out


@pytest.fixture(scope="module")
def lagging() -> Iterator[Cluster]:
    """A cluster whose partitions have lost one of three replicas."""
    with Cluster(brokers=3) as running:
        running.create_topic("two-needed")
        running.create_topic("three-needed", config={"min.insync.replicas": 3})
        running.wait_until(lambda: running.leader_of("three-needed") is not None)
        running.kill(THREE)
        image = running.broker_of(ONE).metadata
        running.wait_until(lambda: image.image.brokers[THREE].fenced)
        yield running


def test_partitions_that_miss_replicas_are_not_healthy(lagging: Cluster) -> None:
    code, shown = health(lagging)
    assert (code, shown["without_leader"]) == (1, [])
    assert shown["under_min_isr"] == ["three-needed-0"]
    assert shown["at_min_isr"] == ["two-needed-0"]
    assert sorted(shown["under_replicated"]) == ["three-needed-0", "two-needed-0"]


def test_a_topic_is_shown_with_its_eligible_leaders(lagging: Cluster) -> None:
    (topic,) = as_json(lagging, "topic", "describe", "three-needed")
    (partition,) = topic["partitions"]
    assert (sorted(partition["in_sync"]), partition["eligible_leaders"]) == ([1, 2], [3])
    text = run("--bootstrap", lagging.bootstrap, "topic", "describe", "three-needed").out
    assert "ELIGIBLE LEADERS" in text


def test_top_counts_lagging_partitions_at_their_leaders(lagging: Cluster) -> None:
    frame = as_json(lagging, "top", "--once", "-i", "0.1")
    rows = frame["brokers"]
    assert sum(row["under_replicated"] for row in rows) == 2
    assert sum(row["under_min_isr"] for row in rows) == 1
    assert frame["without_leader"] == 0


@pytest.mark.parametrize("command", [("topic", "list"), ("topic", "create", "more")])
def test_a_command_passes_over_a_bootstrap_address_that_is_away(
    without_three: Cluster, command: tuple[str, ...]
) -> None:
    away, there = without_three.address_of(THREE), without_three.address_of(ONE)
    named = ",".join(f"{host}:{port}" for host, port in (away, there))
    assert run("--bootstrap", named, *command).code == 0


def test_a_topic_is_created_right_after_the_kill_of_the_node_that_metadata_names() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.wait_until(lambda: len(cluster.broker_of(ONE).image.brokers) == 3)
        for attempt in range(5):
            cluster.create_topic(f"before-{attempt}")
        cluster.kill(TWO)
        for attempt in range(5):
            cluster.create_topic(f"after-{attempt}")


def test_without_a_majority_no_controller_is_claimed() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.kill(ONE)
        cluster.kill(TWO)
        quorum = cluster.broker_of(THREE).metadata
        cluster.wait_until(lambda: quorum.describe().state not in ("leader", "follower"))
        last = "{}:{}".format(*cluster.address_of(THREE))
        ran = run("--bootstrap", last, "cluster", "describe")
        assert ran.code == 0
        assert "no active controller is known" in ran.out
        ran = run("--bootstrap", last, "cluster", "health")
        assert (ran.code, "no active controller" in ran.out) == (1, True)
        described = run("--bootstrap", last, "quorum", "describe")
        assert described.code == 3
        assert "has no active controller: most of its controllers must run" in described.err
