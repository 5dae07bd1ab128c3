"""The guide to clusters, followed on three nodes: one is killed, one restarted, and one added.

Addresses and process ids of the guide stand for those of this run. Files of nodes get short
timeouts, which the guide leaves at their defaults.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from guide_boxes import GUIDES, ROOT, Box, boxes_of

from penstock.cli.start_nodes import cluster_directory
from penstock.cli.start_nodes.cluster_directory import open_cluster
from penstock.testing.cluster_questions import wait_until
from penstock.testing.node_settings import SHORT_TIMEOUTS, HeldPort

GUIDE = next(each for each in GUIDES if each.name == "cluster.md")
START = "penstock start "
STARTED = "Stop with Ctrl-C."
WAIT_SECONDS_MAX = 60.0
FOURTH_PORT = 9095


class Terminal:
    """A command that stays in the foreground, and the lines that it prints."""

    def __init__(self, line: str, directory: Path, environment: dict[str, str]) -> None:
        number = len(list(directory.glob("terminal-*")))
        self._output = directory / f"terminal-{number}"
        with self._output.open("w") as output, (directory / f"log-{number}").open("w") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
            )

    def wait_until_started(self) -> str:
        """Return the printed lines, once the nodes run."""
        wait_until(self._has_started_or_ended, WAIT_SECONDS_MAX)
        printed = self._output.read_text()
        assert STARTED in printed, printed
        return printed

    def _has_started_or_ended(self) -> bool:
        return STARTED in self._output.read_text() or self.process.poll() is not None


class ClusterReader:
    """Follows the boxes of the guide in a directory of its own."""

    def __init__(self, directory: Path, ports: dict[int, int]) -> None:
        self.directory = directory
        self.used = {f"127.0.0.1:{named}": f"127.0.0.1:{port}" for named, port in ports.items()}
        self.terminals: list[Terminal] = []
        path = os.pathsep.join(
            [str(Path(sys.executable).parent), str(ROOT / "bin"), os.environ["PATH"]]
        )
        bootstrap = [self.used[f"127.0.0.1:{port}"] for port in (9092, 9093, 9094)]
        self._environment = {
            **os.environ,
            "PATH": path,
            "PENSTOCK_BOOTSTRAP": ",".join(bootstrap),
            "PENSTOCK_CONFIG": str(directory / "no-profiles"),
        }

    def follow(self, box: Box) -> None:
        code = self._used(box.code)
        if box.file_name is not None:
            (self.directory / box.file_name).write_text(code)
        elif box.language == "console":
            self._type_all(box)
        elif box.is_run and code.startswith(START):
            self._start(code, box)
        elif box.is_run:
            self._run(code, box)

    def _start(self, code: str, box: Box) -> None:
        terminal = Terminal(code, self.directory, self._environment)
        self.terminals.append(terminal)
        printed = terminal.wait_until_started()
        if box.printed is None:
            return
        for node, named in re.findall(r"^  (\d) +(\d+) ", box.printed, re.MULTILINE):
            found = re.search(rf"^  {node} +(\d+) ", printed, re.MULTILINE)
            assert found is not None, printed
            self.used[named] = found[1]
        promised = " ".join(self._used(box.printed.replace("...", "")).split())
        words = iter(printed.split())
        assert all(word in words for word in promised.split()), printed

    def _type_all(self, box: Box) -> None:
        for command in box.commands:
            output = self._run(f"exec 2>&1\n{self._used(command.line)}", box)
            output = re.sub(r"(?<=127\.0\.0\.1  )\d+", self._named_port, output)
            assert command.shows(output), f"{box.place} `{command.line}` prints\n{output}"

    def _named_port(self, found: re.Match[str]) -> str:
        named = {used: named for named, used in self.used.items()}
        return named[f"127.0.0.1:{found[0]}"].partition(":")[2]

    def _run(self, code: str, box: Box) -> str:
        done = subprocess.run(
            ["bash", "-c", f"set -e\n{code}"],
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{box.place} fails\n{done.stdout}{done.stderr}"
        return done.stdout

    def _used(self, code: str) -> str:
        """Return the code with the addresses and process ids of this run, each replaced once."""
        return replace_words(code, self.used)

    def close(self) -> None:
        for terminal in self.terminals:
            terminal.process.send_signal(signal.SIGTERM)
        for terminal in self.terminals:
            terminal.process.wait(WAIT_SECONDS_MAX)


def replace_words(text: str, words: Mapping[str, str]) -> str:
    pattern = "|".join(map(re.escape, words))
    return re.sub(rf"\b(?:{pattern})\b", lambda found: words[found[0]], text)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterReader]:
    """Yield a reader whose first start finds files with ports that no other test can take."""
    held: dict[int, HeldPort] = {FOURTH_PORT: HeldPort("127.0.0.1")}

    def hold(lowest: int, count: int) -> list[int]:
        held.update((lowest + number, HeldPort("127.0.0.1")) for number in range(count))
        return [held[lowest + number].port for number in range(count)]

    monkeypatch.setattr(cluster_directory, "_free_ports", hold)
    for node in open_cluster(tmp_path / "three", 3, None):
        with Path(node.path).open("a") as file:
            file.writelines(f"{key}={text}\n" for key, text in SHORT_TIMEOUTS.items())
    made = ClusterReader(tmp_path, {named: each.port for named, each in held.items()})
    yield made
    made.close()
    for each in held.values():
        each.close()


@pytest.mark.timeout(300)
def test_a_reader_of_the_guide_to_clusters_succeeds(reader: ClusterReader) -> None:
    for box in boxes_of(GUIDE):
        reader.follow(box)
    assert len(reader.terminals) == 4
