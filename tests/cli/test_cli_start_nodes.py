"""`penstock start --nodes`: several nodes as one command, from its options to the end of all."""

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cli_running import run

from penstock.cli.start_nodes import cluster_directory
from penstock.cli.start_nodes.cluster_directory import ClusterNodeFile, node_files, open_cluster
from penstock.cli.start_nodes.command import PrintedReports, banner
from penstock.cli.start_nodes.supervisor import NodeCommand, NodeEnd, Supervisor
from penstock.cli.terminal.output import CommandFailed, Format, Row
from penstock.config.properties import parse_properties
from penstock.testing.node_settings import HeldPort

END_SECONDS_MAX = 30.0
OTHER_CLUSTER = "other-cluster-00000000"


def settings(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse_properties(path.read_text())}


# -- options


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--config", "server.properties"), "--config is the file of one node"),
        (("--check",), "--check is for one node"),
        (("--set", "listeners=PLAINTEXT://127.0.0.1:0"), "each of the 3 nodes has its own listen"),
        (("--set", "node.id=7"), "each of the 3 nodes has its own node.id"),
        (("--set", "log.dirs=/a"), "in .*/node-1.properties"),
        (("--set", "nonsense"), "--set nonsense"),
    ],
)
def test_an_option_for_one_node_is_rejected_with_the_reason(
    tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    ran = run("start", "--nodes", "3", "--data", str(tmp_path / "data"), *options)
    assert ran.code == 2
    assert re.search(reason, ran.err)
    assert not (tmp_path / "data").exists()


def test_a_variable_for_one_node_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_NODE_ID", "7")
    ran = run("start", "--nodes", "3", "--data", str(tmp_path))
    assert ran.code == 2
    assert "environment KAFKA_NODE_ID: each of the 3 nodes has its own node.id" in ran.err


# -- the directory


def test_a_first_start_gives_each_node_a_file_and_ports_of_its_own(tmp_path: Path) -> None:
    nodes = open_cluster(tmp_path / "data", 3, None)
    found = [settings(Path(each.path)) for each in nodes]
    assert [each["node.id"] for each in found] == ["1", "2", "3"]
    assert len({each["listeners"] for each in found}) == 3
    assert len({each["controller.quorum.bootstrap.servers"] for each in found}) == 1
    assert not (tmp_path / "data" / cluster_directory.UNFORMATTED).exists()


@pytest.mark.parametrize(
    ("nodes", "factor", "in_sync"), [(2, "2", "1"), (3, "3", "2"), (4, "3", "2")]
)
def test_topics_are_replicated_by_settings_in_each_file(
    tmp_path: Path, nodes: int, factor: str, in_sync: str
) -> None:
    found = [settings(Path(each.path)) for each in open_cluster(tmp_path, nodes, None)]
    for key in (
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    ):
        assert {each[key] for each in found} == {factor}
    for key in ("min.insync.replicas", "transaction.state.log.min.isr"):
        assert {each[key] for each in found} == {in_sync}


def test_the_banner_tells_how_new_topics_are_replicated() -> None:
    announced: list[Any] = [
        {
            "node_id": number,
            "cluster_id": "c",
            "listeners": ["PLAINTEXT://127.0.0.1:1", "CONTROLLER://127.0.0.1:2"],
            "metrics": None,
            "data": ["d"],
            "default_replication_factor": 3,
            "min_insync_replicas": 2,
            "pid": 4240 + number,
        }
        for number in (1, 2, 3)
    ]
    assert (
        "new topics get 3 replicas (default.replication.factor), and acks=all needs 2 in sync "
        "(min.insync.replicas)" in banner(announced)
    )
    assert "\n  2     4242  127.0.0.1:1  127.0.0.1:2" in banner(announced)


def test_all_nodes_belong_to_one_cluster(tmp_path: Path) -> None:
    open_cluster(tmp_path, 3, None)
    found = [settings(tmp_path / f"node-{number}" / "meta.properties") for number in (1, 2, 3)]
    assert len({each["cluster.id"] for each in found}) == 1
    assert len({each["directory.id"] for each in found}) == 3


def test_a_later_start_changes_nothing(tmp_path: Path) -> None:
    nodes = open_cluster(tmp_path, 3, None)
    before = [Path(each.path).read_text() for each in nodes]
    assert open_cluster(tmp_path, 3, None) == nodes
    assert [Path(each.path).read_text() for each in nodes] == before


def test_a_port_in_use_is_passed_over() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert cluster_directory._free_ports(taken, 1) != [taken]


@pytest.mark.parametrize("formatted", [0, 1, 2])
def test_an_interrupted_first_start_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formatted: int
) -> None:
    whole = cluster_directory._format
    done: list[int] = []

    def interrupted(node_id: int, text: str, plan: Any) -> None:
        if len(done) == formatted:
            raise KeyboardInterrupt
        done.append(node_id)
        whole(node_id, text, plan)

    monkeypatch.setattr(cluster_directory, "_format", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_cluster(tmp_path, 3, None)
    monkeypatch.setattr(cluster_directory, "_format", whole)
    open_cluster(tmp_path, 3, None)
    found = [settings(tmp_path / f"node-{number}" / "meta.properties") for number in (1, 2, 3)]
    assert len({each["cluster.id"] for each in found}) == 1


def test_a_lost_directory_is_not_formatted_again(tmp_path: Path) -> None:
    open_cluster(tmp_path, 3, None)
    meta = tmp_path / "node-2" / "meta.properties"
    meta.unlink()
    open_cluster(tmp_path, 3, None)
    assert not meta.exists(), "node 2 itself tells what to do"


def test_another_number_of_nodes_is_rejected(tmp_path: Path) -> None:
    open_cluster(tmp_path, 3, None)
    with pytest.raises(CommandFailed, match="holds a cluster of 3 nodes: start it with --nodes 3"):
        open_cluster(tmp_path, 4, None)


def test_the_directory_of_one_node_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    with pytest.raises(CommandFailed, match="holds the data of one node"):
        open_cluster(tmp_path, 3, None)


def test_a_moved_directory_is_noticed(tmp_path: Path) -> None:
    open_cluster(tmp_path / "before", 3, None)
    (tmp_path / "before").rename(tmp_path / "after")
    with pytest.raises(CommandFailed, match="If it was moved, correct the line"):
        open_cluster(tmp_path / "after", 3, None)


def test_another_cluster_id_is_rejected_before_a_node_starts(tmp_path: Path) -> None:
    open_cluster(tmp_path, 3, None)
    named = settings(tmp_path / "node-1" / "meta.properties")["cluster.id"]
    with pytest.raises(CommandFailed, match=f"belongs to cluster {named}, not {OTHER_CLUSTER}"):
        open_cluster(tmp_path, 3, OTHER_CLUSTER)
    assert len(open_cluster(tmp_path, 3, named)) == 3


def test_another_cluster_id_is_rejected_after_an_interrupted_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_directory, "_format", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        open_cluster(tmp_path, 3, None)
    with pytest.raises(CommandFailed, match=f"not {OTHER_CLUSTER}"):
        open_cluster(tmp_path, 3, OTHER_CLUSTER)


def test_one_node_does_not_start_in_the_directory_of_several(tmp_path: Path) -> None:
    open_cluster(tmp_path, 3, None)
    ran = run("start", "--data", str(tmp_path))
    assert ran.code == 1
    assert "holds a cluster of 3 nodes: start them with --nodes 3" in ran.err
    assert not (tmp_path / "meta.properties").exists()


# -- signals and reports


class CollectedReports:
    """The reports of a supervisor: the names of the calls, and the ends of nodes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.ends: list[NodeEnd] = []

    def all_started(self, announcements: Sequence[Row]) -> None:
        self.calls.append(f"all_started {len(announcements)}")

    def slow_start(self, waiting: Sequence[int]) -> None:
        self.calls.append(f"slow_start {waiting}")

    def stopping(self) -> None:
        self.calls.append("stopping")

    def node_ended(self, end: NodeEnd) -> None:
        self.ends.append(end)

    def log_line(self, node_id: int, line: str) -> None:
        pass


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Send a signal to this process while its first node is spawned; list the nodes' processes."""
    spawned: list[int] = []
    spawn = subprocess.Popen

    def spawn_interrupted(*arguments: Any, **options: Any) -> Any:
        process = spawn(*arguments, **options)
        spawned.append(process.pid)
        if len(spawned) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", spawn_interrupted)
    return spawned


def spawn_nodes(count: int) -> tuple[int, CollectedReports]:
    """Run nodes until their end; return the exit code and the reports."""
    reports = CollectedReports()
    arguments = ["start", "--config", "absent"]
    commands = [NodeCommand(number, arguments) for number in range(1, count + 1)]
    return Supervisor(commands, reports).run(), reports


def test_a_signal_while_nodes_are_spawned_stops_them_and_spawns_no_more(
    interrupted: list[int],
) -> None:
    code, reports = spawn_nodes(3)
    assert len(interrupted) == 1
    assert reports.calls == ["stopping"]
    assert (code, reports.ends) == (0, []), "an end that was asked for"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_nodes_go_on_after_the_reader_of_the_output_has_gone(
    monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    reports = PrintedReports(Format.JSON, [ClusterNodeFile(1, "node-1.properties")], [])
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, stream, unread)
        reports.node_ended(NodeEnd(1, "by SIGKILL", clean=False))
        reports.log_line(1, "a line")
        reports.stopping()


# -- processes


class StartedCommand:
    """`penstock start --nodes` in a process, with the events that it prints."""

    def __init__(self, data: Path, nodes: int = 3) -> None:
        arguments = ["start", "--nodes", str(nodes), "--data", str(data), "--format", "json"]
        arguments += ["--set", "broker.session.timeout.ms=2000"]
        arguments += ["--set", "broker.heartbeat.interval.ms=200"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def event(self, name: str) -> Any:
        """Return the next event, which must have this name."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        found = json.loads(line)
        assert found["event"] == name, found
        return found

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.process.wait(END_SECONDS_MAX)


def node_ids(started: Any) -> list[int]:
    """Return the process ids of the nodes of a started command."""
    return [each["pid"] for each in started["nodes"]]


def wait_for_ends(processes: list[int]) -> None:
    for each in processes:
        try:
            descriptor = os.pidfd_open(each)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([descriptor], [], [], END_SECONDS_MAX)
        os.close(descriptor)
        assert ended, f"process {each} goes on"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A formatted directory of three nodes, on ports that no other test can take."""
    held: list[HeldPort] = []

    def hold(_lowest: int, count: int) -> list[int]:
        found = [HeldPort("127.0.0.1") for _ in range(count)]
        held.extend(found)
        return [each.port for each in found]

    monkeypatch.setattr(cluster_directory, "_free_ports", hold)
    open_cluster(tmp_path / "data", 3, None)
    yield tmp_path / "data"
    for each in held:
        each.close()


@pytest.fixture
def command(directory: Path) -> Iterator[StartedCommand]:
    made = StartedCommand(directory)
    yield made
    made.process.kill()
    made.process.wait()


def test_a_signal_ends_all_nodes_cleanly_and_the_same_cluster_comes_back(
    command: StartedCommand, directory: Path
) -> None:
    started = command.event("started")
    assert {each["default_replication_factor"] for each in started["nodes"]} == {3}
    assert {each["min_insync_replicas"] for each in started["nodes"]} == {2}
    assert command.end(signal.SIGINT) == 0
    assert command.event("stopped")["clean"]
    wait_for_ends(node_ids(started))
    again = StartedCommand(directory)
    try:
        back = again.event("started")
        for before, after in zip(started["nodes"], back["nodes"], strict=True):
            for what in ("cluster_id", "listeners", "metrics", "data"):
                assert before[what] == after[what]
        assert again.end(signal.SIGTERM) == 0
    finally:
        again.process.kill()


def test_a_node_that_dies_is_named_with_the_line_that_starts_it_again(
    command: StartedCommand,
) -> None:
    started = command.event("started")
    os.kill(node_ids(started)[1], signal.SIGKILL)
    ended = command.event("node_ended")
    assert (ended["node_id"], ended["how"]) == (2, "by SIGKILL")
    _, *arguments = shlex.split(ended["start_again"].replace(" -m penstock", ""))
    again = subprocess.Popen(
        [sys.executable, "-m", "penstock", *arguments, "--format", "json"], stdout=subprocess.PIPE
    )
    assert again.stdout is not None
    try:
        back = json.loads(again.stdout.readline())
        assert back["listeners"] == started["nodes"][1]["listeners"]
        again.send_signal(signal.SIGTERM)
        assert again.wait(END_SECONDS_MAX) == 0
    finally:
        again.kill()
    assert command.end(signal.SIGTERM) == 1, "a node had ended before"


def test_no_node_outlives_the_command(command: StartedCommand) -> None:
    started = command.event("started")
    command.end(signal.SIGKILL)
    wait_for_ends(node_ids(started))


def test_a_command_whose_nodes_are_all_dead_ends(command: StartedCommand) -> None:
    for each in node_ids(command.event("started")):
        os.kill(each, signal.SIGKILL)
    assert command.process.wait(END_SECONDS_MAX) == 1


def test_a_node_that_cannot_start_ends_the_command(directory: Path) -> None:
    (port,) = settings(Path(node_files(directory)[1].path))["metrics.listener"].split(":")[1:]
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", int(port)))
        other.listen()
        command = StartedCommand(directory)
        out, err = command.process.communicate(timeout=END_SECONDS_MAX)
    assert command.process.returncode == 1
    assert json.loads(out.splitlines()[0])["node_id"] == 2
    assert f"[2] error: Cannot listen on 127.0.0.1:{port}" in err
    assert "--set" not in err, "--nodes rejects the option for metrics.listener"
