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
    assert frame["topics"][0]["unhealthy"] == 2


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
        described = run("--bootstrap", last, "quorum", "describe")
        assert described.code == 3
        assert "has no active controller: most of its controllers must run" in described.err
