"""`penstock start` up to the node, and what it says when the node is there or refuses."""

import errno
import shutil
import socket
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from cli_running import run
from fake_node import FakeNode

from penstock.cli.kafka import server_start
from penstock.config import BrokerConfig
from penstock.config.single_node import SINGLE_NODE

CLUSTER, METADATA = "MkU3OEVBNTcwNTJENDM2Qk", "__cluster_metadata-0"
ANY_PORT = ("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "metrics.listener=")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    fake = FakeNode()
    monkeypatch.setitem(__import__("sys").modules, "penstock.node", fake)
    return fake


def started(node: FakeNode) -> BrokerConfig:
    assert node.config is not None, "the node was not started"
    return node.config


def test_without_a_file_it_is_one_node_for_this_machine(node: FakeNode) -> None:
    ran = run("start")
    assert ran.code == 0
    config = started(node)
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.log_dirs == ("./data",)
    assert config.get("offsets.topic.replication.factor") == 1
    assert config.sole_voter


def test_the_banner_says_what_is_where_and_what_to_try(node: FakeNode) -> None:
    ran = run("start", "--data", "/somewhere", "--set", "listeners=PLAINTEXT://127.0.0.1:9192")
    assert "PLAINTEXT://127.0.0.1:9192" in ran.out
    assert "/somewhere" in ran.out
    assert started(node).durability in ran.out
    assert " --bootstrap 127.0.0.1:9192 topic create" in ran.out
    assert "produce" in ran.out
    assert "consume" in ran.out


@pytest.mark.parametrize(
    ("found", "started", "typed"),
    [
        ("/usr/bin/penstock", "/usr/bin/penstock", "penstock"),
        (None, "{here}/.venv/bin/penstock", ".venv/bin/penstock"),
        (None, ".venv/bin/penstock", ".venv/bin/penstock"),
        (None, "{here}/penstock", "./penstock"),
        (None, "/p/penstock", "/p/penstock"),
        (None, "{here}/my env/penstock", "'my env/penstock'"),
    ],
)
def test_the_banners_commands_work_as_they_are_typed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    node: FakeNode,
    found: str | None,
    started: str,
    typed: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _name: found)
    monkeypatch.setattr(sys, "argv", [started.format(here=tmp_path)])
    ran = run("start")
    assert node.config is not None
    assert f"\n  {typed} topic create" in ran.out
    assert f" | {typed} produce" in ran.out
    assert f"\n  {typed} consume" in ran.out


def test_the_banner_of_a_module_names_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: FakeNode
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(sys, "argv", ["/src/penstock/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    assert "\n  bin/python -m penstock topic create" in run("start").out
    assert node.config is not None


@pytest.mark.parametrize(
    ("durability", "promise"),
    [
        ("fsync", "with acks=all a record is on the disk before it is acknowledged"),
        ("page-cache", "as in Kafka, an acknowledged record is in the page cache;"),
    ],
)
def test_the_banner_promises_no_more_than_is_kept(
    node: FakeNode, durability: str, promise: str
) -> None:
    ran = run("start", "--set", f"log.durability={durability}")
    assert f"{durability}: {promise}" in ran.out
    assert started(node).durability == durability


def test_the_last_line_says_that_the_node_has_stopped(node: FakeNode) -> None:
    assert run("start").out.splitlines()[-1] == "Node 1 has stopped cleanly after 0 s."
    lines = run("--format", "json", "start").json_lines
    assert lines[-1] == {"event": "stopped", "node_id": 1, "clean": True}
    node.code = 1
    assert "not cleanly: see its log." in run("start").out.splitlines()[-1]


@pytest.mark.parametrize(("code", "end"), [(0, "cleanly after 0 s."), (1, "see its log.")])
def test_kafkas_command_ends_with_the_same_line(
    node: FakeNode, tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, end: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SINGLE_NODE.text)
    node.code = code
    assert server_start.main([str(file)]) == code
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Node 1 has stopped") and last.endswith(end)


def test_an_ipv6_address_can_be_typed(node: FakeNode) -> None:
    ran = run("start", "--set", "listeners=PLAINTEXT://[::1]:9092")
    assert " --bootstrap [::1]:9092 consume" in ran.out
    assert node.config is not None


def test_the_banner_names_settings_without_effect_only_if_the_user_made_them(
    node: FakeNode,
) -> None:
    assert "no effect" not in run("start").out
    assert "no effect yet 1 of the settings: num.io.threads" in (
        run("start", "--set", "num.io.threads=4").out
    )
    assert started(node).get("num.io.threads") == 4


def test_the_banner_as_json_is_one_line(node: FakeNode) -> None:
    said = run("start", "--format", "json").json_lines[0]
    assert said["event"] == "started"
    assert said["listeners"] == ["PLAINTEXT://127.0.0.1:9092"]
    assert said["cluster_id"] == "the-cluster"
    assert said["durability"] == started(node).durability


def test_a_file_the_environment_and_options_are_read(
    node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=3\nnum.partitions=4\nlog.dirs=/a\n")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "5")
    ran = run("start", "--config", str(file), "--set", "node.id=6", "--data", "/b")
    assert ran.code == 0
    config = started(node)
    assert (config.node_id, config.get("num.partitions"), config.log_dirs) == (6, 5, ("/b",))


def test_an_unknown_key_is_a_warning(node: FakeNode) -> None:
    ran = run("start", "--set", "num.partition=3")
    assert ran.code == 0
    assert "warning: --set num.partition" in ran.err
    assert "did you mean num.partitions?" in ran.err
    assert started(node).get("num.partitions") == 1


def test_a_bad_value_stops_the_start_with_file_and_line(node: FakeNode, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# mine\nnum.partitions=many\n")
    ran = run("start", "--config", str(file))
    assert ran.code == 1
    problem = "Invalid value many for configuration num.partitions: Not a number of type INT"
    assert f"{file} line 2: {problem}" in ran.err
    assert node.config is None


def test_a_missing_file_is_named(node: FakeNode) -> None:
    ran = run("start", "--config", "/no/such/file")
    assert ran.code == 2
    assert "/no/such/file: there is no such file" in ran.err
    assert node.config is None


def test_a_directory_is_no_file(node: FakeNode, tmp_path: Path) -> None:
    ran = run("start", "--config", str(tmp_path))
    assert ran.code == 2
    assert "is a directory" in ran.err
    assert node.config is None


def test_a_binary_file_is_refused_as_a_whole(node: FakeNode, tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(b"\x7fELF\x00\n" * 300)
    ran = run("start", "--config", str(file))
    assert ran.code == 2
    assert ran.err == (
        f"error: --config {file}: not a text file; it must be a server.properties file\n"
    )
    assert node.config is None


def test_warnings_beyond_a_limit_are_counted(node: FakeNode, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"zork.{number}=1\n" for number in range(23)))
    lines = run("start", "--config", str(file)).err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "... and 3 more; --check shows them all"
    assert node.config is not None


@pytest.mark.parametrize("said", ["foo", "=3", " =3"])
def test_a_setting_without_key_and_value_is_not_understood(node: FakeNode, said: str) -> None:
    ran = run("start", "--set", said)
    assert ran.code == 2
    assert f"--set {said}: must be KEY=VALUE" in ran.err
    assert node.config is None


def test_a_problem_is_told_once(node: FakeNode) -> None:
    ran = run("start", "--set", "listeners=PLAINTEXT://127.0.0.1:80000")
    assert ran.code == 1
    assert ran.err.count("has a port above 65535") == 1
    assert node.config is None


def test_the_older_name_of_the_node_id_can_be_set_alone(node: FakeNode) -> None:
    assert run("start", "--set", "broker.id=5").code == 0
    assert started(node).node_id == 5


def test_a_refusal_of_the_node_is_told_as_it_is(node: FakeNode) -> None:
    node.problem = FakeNode.StartRefused("./data is in use by another node")
    ran = run("start")
    assert ran.code == 1
    assert ran.err.endswith("error: ./data is in use by another node\n")


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "/proc/x"), "(--data DIR, or log.dirs)"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "permission denied (/x)"),
    ],
)
def test_a_refusal_of_the_system_says_what_to_do(
    node: FakeNode, problem: OSError, text: str
) -> None:
    node.problem = problem
    ran = run("start")
    assert ran.code == 1
    assert text in ran.err
    assert "Traceback" not in ran.err


def test_a_check_starts_nothing(node: FakeNode) -> None:
    assert run("start", "--check", *ANY_PORT).code == 0
    assert run("start", "--check", "--set", "num.partitions=0").code == 1
    assert node.config is None


def test_a_check_lists_the_keys_without_effect(node: FakeNode) -> None:
    said = ("--set", "num.io.threads=3", "--set", "sasl.kerberos.service.name=kafka")
    fine = run("start", "--check", *said, *ANY_PORT)
    assert fine.out.splitlines() == [
        "Without effect:",
        "  --set num.io.threads: num.io.threads=3: nothing here needs it",
        "  --set sasl.kerberos.service.name: sasl.kerberos.service.name=kafka: not served yet",
        "The configuration is fine.",
    ]
    bad = run("--format", "json", "start", "--check", *said, "--set", "num.partitions=0")
    assert [each["key"] for each in bad.json["without_effect"]] == [said[1][:14], said[3][:26]]
    assert node.config is None


def test_a_check_can_be_read_by_programs(node: FakeNode) -> None:
    fine = run("start", "--check", "--format", "json", "--set", "num.partition=3", *ANY_PORT)
    assert fine.code == 0
    assert fine.json["fine"] is True
    assert fine.json["problems"] == []
    assert "num.partition is not a known key" in fine.json["warnings"][0]
    bad = run("--format", "json", "start", "--check", "--set", "num.partitions=0")
    assert bad.code == 1
    assert bad.json["fine"] is False
    assert "num.partitions" in bad.json["problems"][0]
    assert node.config is None


def test_a_check_looks_at_the_directory_and_leaves_nothing(tmp_path: Path) -> None:
    wanted = tmp_path / "not" / "there"
    assert run("start", "--check", "--data", str(wanted), *ANY_PORT).code == 0
    assert [*tmp_path.iterdir()] == []
    bad = run("start", "--check", "--data", "/proc/nope/data", *ANY_PORT)
    assert bad.code == 1
    assert "cannot write in /proc/nope/data" in bad.err
    assert "is fine." not in bad.out


def test_a_check_warns_of_a_further_directory_that_would_be_offline(tmp_path: Path) -> None:
    said = ("--set", f"log.dirs={tmp_path},/proc/nope")
    ran = run("start", "--check", "--format", "json", *said, *ANY_PORT)
    assert (ran.code, ran.json["problems"]) == (0, [])
    assert "cannot write in /proc/nope" in ran.json["warnings"][-1]


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_check_tells_the_lock_of_another_process_and_every_port(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", HOLDER, str(tmp_path / ".lock")]
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
        Popen(arguments, stdin=PIPE, stdout=PIPE) as holder,
    ):
        assert holder.stdout is not None
        holder.stdout.readline()
        ports = [each.getsockname()[1] for each in (one, other)]
        said = (
            "--set", f"listeners=PLAINTEXT://127.0.0.1:{ports[0]}",
            "--set", f"metrics.listener=127.0.0.1:{ports[1]}",
        )  # fmt: skip
        ran = run("start", "--check", "--format", "json", "--data", str(tmp_path), *said)
        assert holder.stdin is not None
        holder.stdin.close()
    lock, listener, metrics = ran.json["problems"]
    assert lock.startswith(f"another node is using {tmp_path} (it holds .lock)")
    assert listener.startswith(f"cannot listen on PLAINTEXT://127.0.0.1:{ports[0]}: ")
    assert metrics.startswith(f"cannot listen on 127.0.0.1:{ports[1]} for metrics: ")


def test_a_check_tells_bad_values_and_what_the_machine_lacks_at_once(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(
            f"node.id=1\nprocess.roles=broker,controller\nlisteners={address},CONTROLLER://:0\n"
            "controller.listener.names=CONTROLLER\nlog.dirs=/proc/nope\nnum.partitions=many\n"
            "controller.quorum.bootstrap.servers=127.0.0.1:0\nmetrics.listener=\n"
        )
        ran = run("start", "--check", "--format", "json", "--config", str(file))
        told = run("start", "--check", "--config", str(file))
    value, directory, listener = ran.json["problems"]
    assert "num.partitions" in value
    assert directory.startswith("cannot write in /proc/nope: ")
    assert listener.startswith(f"cannot listen on {address}: ")
    assert told.code == 1
    assert "the configuration is fine" not in told.err
    assert "cannot write in /proc/nope: " in told.err


def sets_of_several(roles: str) -> list[str]:
    """Return the options of node 1 of a cluster of several."""
    listeners = "PLAINTEXT://127.0.0.1:0"
    listeners += ",CONTROLLER://127.0.0.1:0" if "controller" in roles else ""
    said = (
        f"process.roles={roles}",
        "node.id=1",
        f"listeners={listeners}",
        "controller.listener.names=CONTROLLER",
        "controller.quorum.bootstrap.servers=a:1,b:1",
        "metrics.listener=",
    )
    return [word for each in said for word in ("--set", each)]


def formatted(
    data: Path, *, node: int = 1, cluster: str = CLUSTER, directory: str = "B" * 21 + "Q"
) -> None:
    """Make a directory that belongs to a node of a cluster."""
    data.mkdir()
    (data / "meta.properties").write_text(
        f"version=1\ncluster.id={cluster}\nnode.id={node}\ndirectory.id={directory}\n"
    )


@pytest.mark.parametrize("roles", ["broker", "broker,controller"])
def test_a_check_tells_that_a_node_of_several_is_not_formatted(tmp_path: Path, roles: str) -> None:
    data = tmp_path / "data"
    sets = sets_of_several(roles)
    bad = run("start", "--check", "--data", str(data), *sets)
    assert bad.code == 1
    assert f"{data} is not formatted" in bad.err
    assert "kafka-storage format" in bad.err
    formatted(data)
    assert run("start", "--check", "--data", str(data), *sets).code == 0


@pytest.mark.parametrize(
    ("change", "asked", "reason"),
    [
        ({"node": 7}, (), "belongs to node 7, and this is node 1"),
        ({}, ("--cluster-id", "x" * 22), f"belongs to cluster {CLUSTER}, not {'x' * 22}"),
        ({"other": {"cluster": "y" * 22}}, (), f"belongs to cluster {'y' * 22}, not {CLUSTER}"),
        ({"other": {"directory": "A" * 21 + "Q"}}, (), "one is a copy of the other"),
        ({"metadata": False}, (), "restore __cluster_metadata-0 from a copy"),
        ({"vote": False}, (), "quorum-state is missing"),
    ],
)
def test_a_check_names_directories_that_a_start_rejects(
    tmp_path: Path, change: dict[str, Any], asked: tuple[str, ...], reason: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    formatted(first, directory="A" * 21 + "Q", node=change.get("node", 1))
    formatted(second, **change.get("other", {"node": change.get("node", 1)}))
    (second / "replication-offset-checkpoint").write_text("0\n0\n")
    if change.get("metadata", True):
        (first / METADATA).mkdir()
        (first / METADATA / f"{0:020}.log").write_bytes(b"a record")
        if change.get("vote", True):
            (first / METADATA / "quorum-state").write_text("{}")
    sets = (*sets_of_several("broker,controller"), "--set", f"log.dirs={first},{second}")
    found = run("start", "--check", *sets, *asked)
    assert found.code == 1
    assert reason in found.err


def test_a_check_passes_the_directories_of_a_stopped_node(tmp_path: Path) -> None:
    formatted(tmp_path / "data")
    (tmp_path / "data" / METADATA).mkdir()
    (tmp_path / "data" / METADATA / f"{0:020}.log").write_bytes(b"a record")
    (tmp_path / "data" / METADATA / "quorum-state").write_text("{}")
    sets = sets_of_several("broker,controller")
    asked = ("--cluster-id", CLUSTER, "--data", str(tmp_path / "data"))
    assert run("start", "--check", *sets, *asked).code == 0


@pytest.mark.parametrize("bad", ["log.dirs=,", "listeners=nothing", "metrics.listener=x"])
def test_a_check_skips_what_needs_an_unreadable_value(bad: str) -> None:
    ran = run("start", "--check", *ANY_PORT, "--set", bad)
    assert ran.code == 1
    assert "cannot start with this configuration" in ran.err
    assert "Traceback" not in ran.err


def test_a_check_tells_every_wrong_set_at_once() -> None:
    said = ("--set", "num.partition=3", "--set", "foo", "--set", "num.partitions=0")
    ran = run("start", "--check", "--format", "json", *ANY_PORT, *said)
    assert ran.code == 1
    malformed, value = ran.json["problems"]
    assert malformed.startswith("--set foo: must be KEY=VALUE")
    assert "num.partitions" in value
    assert "did you mean num.partitions?" in ran.json["warnings"][0]


def test_a_check_says_that_super_users_lack_an_authorizer() -> None:
    ran = run("start", "--check", "--set", "super.users=User:ann", *ANY_PORT)
    assert ran.code == 0
    assert "super.users has no effect without an authorizer" in ran.err


def test_a_bad_value_does_not_hide_the_warnings(tmp_path: Path, node: FakeNode) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partition=3\nlisteners=x\n")
    lines = run("start", "--config", str(file)).err.splitlines()
    assert lines[0].startswith(f"warning: {file} line 1: num.partition is not a known key")
    assert lines[1].startswith("error: the node cannot start with this configuration:")
    assert lines[2].startswith(f"  {file} line 2: listeners: 'x' is not NAME://host:port")
    assert node.config is None


@pytest.mark.parametrize("more", [b"", b"broker.rack=caf\xe9\n"], ids=["utf-8", "latin-1"])
def test_a_byte_order_mark_before_the_first_key_is_skipped(
    tmp_path: Path, node: FakeNode, more: bytes
) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xef\xbb\xbfnum.partitions=3\n" + more)
    assert run("start", "--config", str(file)).err == ""
    assert started(node).get("num.partitions") == 3
