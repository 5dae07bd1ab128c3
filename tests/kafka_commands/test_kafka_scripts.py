"""The commands as they are installed: scripts in bin/, files in config/, entries in pyproject.toml;
a server that is started and stopped by them; and Kafka's quick start, line by line."""

import re
import signal
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import randrange
from sysconfig import get_path

import pytest
from guide_boxes import boxes_of
from kafka_running import ran

from penstock.cli.kafka.__main__ import NAMES

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "quickstart.md"
MIGRATING = ROOT / "docs" / "guides" / "migrating.md"
SECONDS_MAX = 60


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_installed_under_its_name(name: str) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts[name].partition(":")
    assert callable(getattr(import_module(module), function))


def test_every_command_has_a_script_that_can_be_run() -> None:
    scripts = {path.name for path in (ROOT / "bin").iterdir() if path.stat().st_mode & 0o100}
    assert scripts == {"kafka-run.sh", *(f"{name}.sh" for name in NAMES)}


def test_a_script_runs_its_command() -> None:
    done = subprocess.run(
        [ROOT / "bin" / "kafka-storage.sh", "random-uuid"],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    assert re.fullmatch(r"[\w-]{22}\n", done.stdout)


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A directory with files that leave a mark if Python takes them for modules."""
    for name in ("json", "penstock"):
        (tmp_path / f"{name}.py").write_text("open('taken', 'w').close()\n")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [ROOT / "bin" / "kafka-storage.sh", Path(get_path("scripts")) / "kafka-storage"],
    ids=["script", "installed"],
)
def test_a_command_imports_nothing_from_the_current_directory(trapped: Path, command: Path) -> None:
    done = subprocess.run(
        [command, "random-uuid"],
        cwd=trapped,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert not (trapped / "taken").exists()
    assert done.returncode == 0, done


@pytest.mark.parametrize("name", ["producer", "consumer"])
def test_the_files_for_clients_are_understood(name: str) -> None:
    from penstock.cli.kafka.framework.client_options import read_properties
    from penstock.client.settings import consumer_settings, producer_settings

    told = read_properties(str(ROOT / "config" / f"{name}.properties"))
    if name == "producer":
        assert not producer_settings(told).ignored
    else:
        assert not consumer_settings(told).ignored


# -- a server


class Server:
    """A copy of config/server.properties with ports, a directory and a number of its own."""

    def __init__(self, place: Path) -> None:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            other.bind(("127.0.0.1", 0))
            self.client, self.controller = one.getsockname()[1], other.getsockname()[1]
        self.node_id = randrange(10_000, 10_000_000)
        self.data = place / "data"
        self.config = place / "server.properties"
        text = self.mine((ROOT / "config" / "server.properties").read_text())
        self.config.write_text(text + "metrics.listener=\n")

    def mine(self, text: str) -> str:
        """The same text about this server and no other on the machine."""
        for said, meant in (
            ("node.id=1", f"node.id={self.node_id}"),
            ("localhost:9092", f"localhost:{self.client}"),
            ("localhost:9093", f"localhost:{self.controller}"),
            ("//:9092", f"//localhost:{self.client}"),
            ("//:9093", f"//localhost:{self.controller}"),
            ("/tmp/kraft-combined-logs", str(self.data)),
            ("/tmp/kafka-logs", str(self.data) + "-none"),
            ("config/server.properties", str(self.config) if "bin/" in text else ""),
            ("kafka-server-stop.sh", f"kafka-server-stop.sh --node-id={self.node_id}"),
        ):
            text = text.replace(said, meant or said)
        return text


@contextmanager
def started(line: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in the background, ended at the latest with the block."""
    process = subprocess.Popen(
        ["sh", "-c", f"exec {line}"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS_MAX)


def said(line: str, given: str = "") -> str:
    """What a line of a shell prints; it must end well."""
    done = subprocess.run(
        ["sh", "-ec", line],
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


def read_until(process: "subprocess.Popen[str]", wanted: str) -> list[str]:
    assert process.stdout is not None, "it is read"
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if wanted in line:
            return lines
    raise AssertionError(f"ended without {wanted!r}: {lines}")


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("listeners=nonsense\n")
    found = ran("server-start", str(path))
    assert found.code == 1 and "is no configuration to start with" in found.err


def test_nothing_to_stop_is_told() -> None:
    found = ran("server-stop", "--node-id=2147483646")
    assert (found.code, found.out) == (1, "No kafka server to stop\n")


def test_a_server_runs_in_the_background_and_is_stopped_by_its_number(tmp_path: Path) -> None:
    server = Server(tmp_path)
    start = f"LOG_DIR={tmp_path} bin/kafka-server-start.sh -daemon {server.config}"
    said(f"{start} --override num.partitions=5")
    output = tmp_path / "kafkaServer.out"
    said(f"until grep -q 'Kafka Server started' {output}; do :; done")
    found = ran(
        "topics", "--bootstrap-server", f"localhost:{server.client}", "--create", "--topic", "t"
    )
    assert found.out == "Created topic t.\n"
    assert ran("server-stop", f"--node-id={server.node_id}").code == 0
    said(f"until test -e {server.data}/.kafka_cleanshutdown; do :; done")


def test_a_server_in_the_background_imports_nothing_from_the_current_directory(
    trapped: Path,
) -> None:
    server = Server(trapped)
    script = ROOT / "bin" / "kafka-server-start.sh"
    said(f"cd {trapped}; LOG_DIR=. {script} -daemon {server.config}")
    told = f"test -e {trapped}/taken || grep -q 'Kafka Server started' {trapped}/kafkaServer.out"
    said(f"until {told}; do :; done")
    assert not (trapped / "taken").exists()
    assert ran("server-stop", f"--node-id={server.node_id}").code == 0
    said(f"until test -e {server.data}/.kafka_cleanshutdown; do :; done")


def test_kafkas_quick_start_works_line_by_line(tmp_path: Path) -> None:
    server = Server(tmp_path)
    boxes = [each for each in boxes_of(GUIDE) if each.is_run]
    lines = [server.mine(each.code.rstrip("\n")) for each in boxes]
    make_id, make_place, start, create, describe, produce, consume, stop, clear = lines
    assert "Formatting dynamic metadata voter directory" in said(f"{make_id}\n{make_place}")
    with started(start) as running:
        read_until(running, "Kafka Server started")
        assert said(create) == "Created topic quickstart-events.\n"
        assert boxes[4].shows(re.sub(rf": {server.node_id}\b", ": 1", said(describe)))
        said(produce, "This is my first event\nThis is my second event\n")
        with started(consume) as reading:
            assert boxes[6].shows("\n".join(read_until(reading, "second")))
            reading.send_signal(signal.SIGINT)
            reading.wait(SECONDS_MAX)
        said(stop)
        read_until(running, f"Node {server.node_id} has stopped cleanly after ")
        assert running.wait(SECONDS_MAX) == 0
    said(clear)
    assert not server.data.exists()


def test_the_lines_of_the_guide_to_migrating_work(tmp_path: Path) -> None:
    server = Server(tmp_path)
    (both, ask) = (server.mine(each.code) for each in boxes_of(MIGRATING) if each.is_run)
    make_place, start = both.splitlines()
    said(make_place)
    with started(start) as running:
        read_until(running, "Kafka Server started")
        assert "Produce(0): 0 to 13 [usable: 13]" in said(ask)


def test_the_guide_to_migrating_names_every_command() -> None:
    assert set(re.findall(r"`(kafka-[a-z-]+)`", MIGRATING.read_text())) >= set(NAMES)


def test_the_guide_names_every_step_of_kafkas() -> None:
    steps = re.findall(r"^## Step (\d)", GUIDE.read_text(), re.MULTILINE)
    assert steps == [str(number) for number in range(1, 9)]
    assert "no Connect yet" in GUIDE.read_text()
