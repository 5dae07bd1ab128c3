"""`penstock cluster|broker|quorum|log dirs|log move|topic offsets` against a node."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_clients import WAIT_SECONDS_MAX, produce
from cli_running import Ran, run

from penstock.cli.quorum import replica_rows
from penstock.client.admin.cluster_values import QuorumDescription, QuorumReplica
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [tmp_path_factory.mktemp(name) for name in ("one", "two")]


@pytest.fixture(scope="module")
def cluster(directories: list[Path]) -> Iterator[Cluster]:
    settings = {"log.dirs": ",".join(map(str, directories))}
    with Cluster(settings, memory=False) as running:
        running.create_topic("orders", partitions=2)
        produce(running.bootstrap, "orders", {0: 5, 1: 3})
        yield running


def at(cluster: Cluster, *arguments: str) -> Ran:
    return run("--bootstrap", cluster.bootstrap, *arguments)


def as_json(cluster: Cluster, *arguments: str) -> object:
    return at(cluster, *arguments, "--format", "json").json


def test_the_cluster_is_described(cluster: Cluster) -> None:
    shown = at(cluster, "cluster", "describe", "--format", "json").json
    assert (shown["topics"], shown["partitions"], shown["controller"]) == (1, 2, 1)
    assert (shown["without_leader"], shown["under_replicated"]) == ([], [])
    (broker,) = shown["brokers"]
    assert (broker["broker"], broker["leads"], broker["controller"]) == (1, 2, True)
    said = at(cluster, "cluster", "describe").out
    assert f"cluster {shown['cluster_id']}, 1 broker, 1 topic, 2 partitions" in said
    assert "all partitions have a leader" in said


def test_features_are_shown_with_their_levels(cluster: Cluster) -> None:
    rows = at(cluster, "cluster", "features", "--format", "json").json
    levels = {row["feature"]: row for row in rows}
    assert levels["metadata.version"]["level"] is not None
    assert levels["metadata.version"]["highest"] >= levels["metadata.version"]["level"]


def test_brokers_are_listed_and_described(cluster: Cluster, directories: list[Path]) -> None:
    (row,) = at(cluster, "broker", "list", "--format", "json").json
    assert f"{row['host']}:{row['port']}" == cluster.bootstrap
    assert (row["broker"], row["fenced"], row["replicas"]) == (1, False, 2)
    shown = at(cluster, "broker", "describe", "1", "--format", "json").json
    assert [each["path"] for each in shown["directories"]] == [str(each) for each in directories]
    assert str(directories[0]) in at(cluster, "broker", "describe", "1").out
    missing = at(cluster, "broker", "describe", "7")
    assert missing.code == 1
    assert "there is no broker 7; there is 1" in missing.err


def test_the_versions_of_apis_are_shown(cluster: Cluster) -> None:
    rows = at(cluster, "broker", "apis", "1", "--format", "json").json
    produced = next(row for row in rows if row["api"] == "Produce")
    assert (produced["key"], produced["broker"]) == (0, 1)
    assert produced["highest"] >= produced["lowest"]
    assert at(cluster, "broker", "apis", "7").code == 1


def test_the_quorum_is_described(cluster: Cluster) -> None:
    shown = at(cluster, "quorum", "describe", "--format", "json").json
    assert shown["leader"] == 1
    (replica,) = shown["replicas"]
    assert (replica["node"], replica["role"], replica["lag"]) == (1, "leader", 0)
    assert "node 1 leads in epoch" in at(cluster, "quorum", "describe").out


def test_followers_of_the_quorum_lag_behind_its_leader() -> None:
    def replica(node: int, end: int, fetched_ms: int | None = None) -> QuorumReplica:
        return QuorumReplica(node, None, end, fetched_ms, None)

    quorum = QuorumDescription(
        2, 5, 90, (replica(1, 80, 900), replica(2, 100)), (replica(9, -1),), {}
    )
    rows = replica_rows(quorum, now_ms=1_000)
    assert [(row["node"], row["role"], row["lag"]) for row in rows] == [
        (1, "voter", 20),
        (2, "leader", 0),
        (9, "observer", None),
    ]
    assert rows[0]["since_fetch_ms"] == 100


def test_nothing_needs_an_election_on_one_broker(cluster: Cluster) -> None:
    ran = at(cluster, "cluster", "elect-leaders")
    assert (ran.code, ran.out) == (0, "")
    assert "all are led by the replica that they should be led by" in ran.err
    named = at(cluster, "cluster", "elect-leaders", "--topic", "orders:0", "--format", "json")
    assert (named.code, named.json) == (0, [])


def test_offsets_of_a_topic_are_shown(cluster: Cluster) -> None:
    rows = at(cluster, "topic", "offsets", "orders", "--at", "-1", "--format", "json").json
    assert [(row["partition"], row["start"], row["end"], row["at"]) for row in rows] == [
        (0, 0, 5, 4),
        (1, 0, 3, 2),
    ]
    (one,) = at(cluster, "topic", "offsets", "orders:1", "--format", "json").json
    assert (one["partition"], "at" in one) == (1, False)
    assert at(cluster, "topic", "offsets", "never-there").code == 1


def test_records_before_a_place_are_deleted(cluster: Cluster) -> None:
    cluster.create_topic("short", partitions=2)
    produce(cluster.bootstrap, "short", {0: 10, 1: 2})
    command = ("topic", "delete-records", "short", "--before", "-3")
    shown = at(cluster, *command, "--dry-run", "--format", "json")
    assert [row["deleted"] for row in shown.json] == [7, 0]
    assert "nothing was deleted" in shown.err
    assert at(cluster, *command).code == 2
    done = at(cluster, *command, "--yes", "--format", "json").json
    assert [(row["new_start"], row["done"]) for row in done] == [(7, True), (0, False)]
    rows = at(cluster, "topic", "offsets", "short", "--format", "json").json
    assert [row["start"] for row in rows] == [7, 0]
    again = at(cluster, *command)
    assert (again.code, "nothing to delete" in again.err) == (0, True)


def test_a_partition_moves_to_another_directory(cluster: Cluster, directories: list[Path]) -> None:
    def place() -> dict[tuple[int, bool], str]:
        rows = at(
            cluster, "log", "dirs", "--replicas", "--topic", "orders", "--format", "json"
        ).json
        return {(row["partition"], row["moving_in"]): row["path"] for row in rows}

    here = place()[0, False]
    there = next(str(each) for each in directories if str(each) != here)
    ran = at(cluster, "log", "move", "orders:0", "--to", there)
    assert (ran.code, ran.out) == (0, f"orders-0-1: on its way to {there}\n")
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while place().get((0, False)) != there:
        assert time.monotonic() < deadline, "it does not arrive"
    wrong = at(cluster, "log", "move", "orders:0", "--to", "/no/such")
    assert wrong.code == 1
    assert "LOG_DIR_NOT_FOUND" in wrong.err


def test_directories_are_shown_with_what_is_in_them(
    cluster: Cluster, directories: list[Path]
) -> None:
    rows = at(cluster, "log", "dirs", "--format", "json").json
    assert [row["path"] for row in rows] == [str(each) for each in directories]
    assert sum(row["partitions"] for row in rows) >= 2
    assert sum(row["size_bytes"] for row in rows) > 0
    assert "FREE" in at(cluster, "log", "dirs", "--broker", "1").out
