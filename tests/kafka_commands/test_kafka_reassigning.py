"""kafka-reassign-partitions on a node with two directories: between brokers there is nothing to
move, and the controller is asked all the same; between directories there is."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka_running import Node, Ran

from penstock.testing import Cluster


class TwoDirectories(NamedTuple):
    cluster: Cluster
    node: Node
    paths: tuple[str, str]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoDirectories]:
    data = tmp_path_factory.mktemp("two")
    paths = (str(data / "a"), str(data / "b"))
    with Cluster({"log.dirs": ",".join(paths), "num.partitions": 1}, data=data) as cluster:
        yield TwoDirectories(cluster, Node(cluster.bootstrap), paths)


@pytest.fixture
def moved(two: TwoDirectories, name: str) -> str:
    two.node.done("topics", "--create", "--topic", name, "--partitions", "1")
    return name


def planned(path: Path, topic: str, replicas: list[int], *directories: str) -> tuple[str, str]:
    partition: dict[str, object] = {"topic": topic, "partition": 0, "replicas": replicas}
    if directories:
        partition["log_dirs"] = list(directories)
    path.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return "--reassignment-json-file", str(path)


def place_of(two: TwoDirectories, topic: str) -> str:
    """The directory that has it now."""
    found = two.node.done("log-dirs", "--describe", "--topic-list", topic)
    (broker,) = json.loads(found.lines[-1])["brokers"]
    (here,) = [each["logDir"] for each in broker["logDirs"] if each["partitions"]]
    return str(here)


def verified(two: TwoDirectories, plan: tuple[str, str], *arguments: str) -> Ran:
    """Until no move is under way."""
    until = time.monotonic() + 20
    while True:
        found = two.node.done("reassign-partitions", "--verify", *plan, *arguments)
        if "still in progress" not in found.out:
            return found
        assert time.monotonic() < until, found


def test_the_controller_is_asked_for_every_plan(
    two: TwoDirectories, moved: str, tmp_path: Path
) -> None:
    asked: list[object] = []
    with two.cluster.intercept("AlterPartitionReassignments", asked.append):
        plan = planned(tmp_path / "plan.json", moved, [1])
        found = two.node.done("reassign-partitions", "--execute", *plan)
    assert len(asked) == 1
    assert found.lines[-1] == f"Successfully started partition reassignment for {moved}-0"


def test_what_the_controller_refuses_is_told(
    two: TwoDirectories, name: str, tmp_path: Path
) -> None:
    two.node.done("topics", "--create", "--topic", name)
    path = tmp_path / "plan.json"
    plan = planned(path, name, [1])
    wrong = json.loads(path.read_text())
    wrong["partitions"][0]["partition"] = 5
    path.write_text(json.dumps(wrong))
    found = two.node.ran("reassign-partitions", "--execute", *plan)
    assert found.code == 1 and found.out == f"Error: Unable to find partition: {name}-5\n"


def test_a_log_moves_to_the_other_directory(
    two: TwoDirectories, moved: str, tmp_path: Path
) -> None:
    here = place_of(two, moved)
    there = two.paths[here == two.paths[0]]
    plan = planned(tmp_path / "plan.json", moved, [1], there)
    begun = two.node.done("reassign-partitions", "--execute", *plan)
    assert begun.lines[-1] == (
        f"Successfully started moving log directory to {there} for replica {moved}-0 with broker 1 "
    )
    assert verified(two, plan).lines == [
        "Status of partition reassignment:",
        f"Reassignment of partition {moved}-0 is completed.",
        f"Reassignment of replica {moved}-0-1 completed successfully.",
        "Clearing broker-level throttles on broker 1",
        f"Clearing topic-level throttles on topic {moved}",
    ]
    assert place_of(two, moved) == there


def test_a_move_that_nobody_began_is_told_of(
    two: TwoDirectories, moved: str, tmp_path: Path
) -> None:
    here = place_of(two, moved)
    plan = planned(tmp_path / "plan.json", moved, [1], "/nowhere")
    assert verified(two, plan).lines[2] == (
        f"Partition {moved}-0 on broker 1 is not being moved from log dir {here} to /nowhere."
    )


def test_a_directory_that_the_broker_does_not_have_is_refused(
    two: TwoDirectories, moved: str, tmp_path: Path
) -> None:
    plan = planned(tmp_path / "plan.json", moved, [1], "/nowhere")
    found = two.node.ran("reassign-partitions", "--execute", *plan)
    assert found.code == 1
    assert f"Error: Failed to alter dir for {moved}-0-1" in found.out


@pytest.mark.parametrize("rate", ["0", "1000"])
def test_a_throttle_between_brokers_says_that_there_is_one(
    two: TwoDirectories, moved: str, tmp_path: Path, rate: str
) -> None:
    plan = planned(tmp_path / "plan.json", moved, [1])
    begun = two.node.done("reassign-partitions", "--execute", *plan, "--throttle", rate)
    assert begun.err.startswith("note: --throttle has no effect here: there is one broker")
    assert f"The inter-broker throttle limit was set to {rate} B/s" in begun.lines


def test_a_throttle_between_directories_is_set_and_cleared(
    two: TwoDirectories, moved: str, tmp_path: Path
) -> None:
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    described = ("configs", "--describe", "--broker", "1")
    plan = planned(tmp_path / "plan.json", moved, [1], two.paths[0])
    limit = ("--replica-alter-log-dirs-throttle", "123456")
    begun = two.node.done("reassign-partitions", "--execute", *plan, *limit)
    assert "The replica-alter-dir throttle limit was set to 123456 B/s" in begun.lines
    verified(two, plan, "--preserve-throttles")
    assert f"{key}=123456" in two.node.done(*described).out
    verified(two, plan)
    assert f"{key}=123456" not in two.node.done(*described).out


def test_nothing_that_is_over_can_be_cancelled(
    two: TwoDirectories, moved: str, tmp_path: Path
) -> None:
    plan = planned(tmp_path / "plan.json", moved, [1])
    assert two.node.done("reassign-partitions", "--cancel", *plan).lines[:2] == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
    ]


def test_a_broker_twice_is_refused(two: TwoDirectories, moved: str, tmp_path: Path) -> None:
    plan = planned(tmp_path / "plan.json", moved, [1, 1])
    found = two.node.ran("reassign-partitions", "--execute", *plan)
    assert found.code == 1
    assert found.out.endswith(f"duplicate entries: {moved}-0 contains multiple entries for 1\n")


def test_a_plan_for_no_broker_prints_no_half_of_it(
    two: TwoDirectories, moved: str, tmp_path: Path
) -> None:
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"version": 1, "topics": [{"topic": moved}]}))
    wanted = ("--topics-to-move-json-file", str(path), "--broker-list", "7")
    found = two.node.ran("reassign-partitions", "--generate", *wanted)
    assert found.code == 1
    assert found.out == "Error: none of the brokers in --broker-list is there\n"
