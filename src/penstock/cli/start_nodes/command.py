"""`penstock start --nodes N`: checks the options, starts the nodes, prints their events."""

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from penstock.cli.start_nodes.cluster_directory import ClusterNodeFile, open_cluster
from penstock.cli.start_nodes.supervisor import NodeCommand, NodeEnd, Supervisor
from penstock.cli.terminal.output import (
    BOOTSTRAP_DEFAULT,
    Format,
    Json,
    Row,
    WrongUsage,
    counted,
    key_values,
    note,
    print_next_value,
    table_lines,
)
from penstock.cli.terminal.progress_bar import seconds_text
from penstock.cli.terminal.typed_command import typed_command
from penstock.config.environment import settings_in
from penstock.log_levels import LogLevel
from penstock.release import VERSION

DATA_DEFAULT = Path("./data")
# Each node has its own, in its file.
OWN_KEYS = (
    "advertised.listeners",
    "broker.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "metrics.listener",
    "node.id",
    "process.roles",
)
COLUMNS = ("node", "pid", "clients", "controllers", "metrics", "data")


def start_nodes(
    count: int,
    data: Path | None,
    sets: Sequence[str],
    *,
    config: Path | None,
    check: bool,
    cluster_id: str | None,
    log_level: LogLevel,
    form: Format,
) -> int:
    """Run the nodes until a signal; return the exit code."""
    directory = data or DATA_DEFAULT
    _reject_options(count, directory, sets, config, check=check)
    nodes = open_cluster(directory, count, cluster_id)
    common = ["--log-level", log_level.value]
    common += [text for each in sets for text in ("--set", each)]
    common += ["--cluster-id", cluster_id] if cluster_id else []
    reports = PrintedReports(form, nodes, common)
    commands = [
        NodeCommand(each.node_id, ["start", "--config", each.path, "--format", "json", *common])
        for each in nodes
    ]
    code = Supervisor(commands, reports).run()
    reports.all_ended(code)
    return code


def _reject_options(
    count: int, data: Path, sets: Sequence[str], config: Path | None, *, check: bool
) -> None:
    """Raise WrongUsage for options that are for one node."""
    if config is not None:
        raise WrongUsage(
            "--config is the file of one node, and with --nodes each node has one of its own in "
            "the directory of --data: leave out one of the two"
        )
    if check:
        raise WrongUsage(
            "--check is for one node: after a first start, `penstock start --check --config "
            f"{data}/node-1.properties` checks node 1"
        )
    for key in key_values(sets, "--set"):
        _reject_own(key, f"--set {key}", count, data)
    for variable, key, _ in settings_in(os.environ):
        _reject_own(key, f"environment {variable}", count, data)


def _reject_own(key: str, where: str, count: int, data: Path) -> None:
    if key in OWN_KEYS or key.startswith("listener.name."):
        raise WrongUsage(
            f"{where}: each of the {count} nodes has its own {key}, in {data}/node-1.properties "
            "and so on. Change it there, after the first start"
        )


class PrintedReports:
    """Prints the events of the nodes: for people on a terminal, or as one JSON or YAML value each.
    Log lines go to standard error, each behind the id of its node."""

    def __init__(self, form: Format, nodes: Sequence[ClusterNodeFile], common: list[str]) -> None:
        self._form = form
        self._nodes = nodes
        self._common = common
        self._begun_s = time.monotonic()

    def all_started(self, announcements: Sequence[Row]) -> None:
        if self._form is Format.TABLE:
            self._print(banner(announcements))
        else:
            self._print_event({"event": "started", "pid": os.getpid(), "nodes": [*announcements]})

    def slow_start(self, waiting: Sequence[int]) -> None:
        self._note(
            f"waiting for {_nodes_text(waiting)}: after an end that was not clean, a node waits "
            "until its older session is over (broker.session.timeout.ms)"
        )

    def stopping(self) -> None:
        self._note(f"stopping {len(self._nodes)} nodes; the same signal again kills them")

    def node_ended(self, end: NodeEnd) -> None:
        line = self._line(end.node_id)
        if self._form is not Format.TABLE:
            value: Row = {"event": "node_ended", "node_id": end.node_id, "how": end.how}
            self._print_event({**value, "start_again": line})
        else:
            self._print(
                f"Node {end.node_id} has ended {end.how}; its log is above. "
                f"Start it again, in another terminal, with:\n  {line}"
            )

    def log_line(self, node_id: int, line: str) -> None:
        with _going_on(sys.stderr):
            print(f"[{node_id}] {line}", file=sys.stderr)

    def all_ended(self, code: int) -> None:
        up = seconds_text(time.monotonic() - self._begun_s)
        if self._form is not Format.TABLE:
            self._print_event({"event": "stopped", "clean": code == 0})
        elif code:
            self._print(f"All nodes have ended after {up}, not all of them cleanly: see the log.")
        else:
            self._print(f"All {len(self._nodes)} nodes have stopped cleanly after {up}.")

    def _print(self, text: str) -> None:
        with _going_on(sys.stdout):
            print(text)

    def _print_event(self, event: Row) -> None:
        with _going_on(sys.stdout):
            print_next_value(self._form, event)

    def _note(self, text: str) -> None:
        with _going_on(sys.stderr):
            note(text)

    def _line(self, node_id: int) -> str:
        """Return the line that starts one node alone."""
        path = self._nodes[node_id - 1].path
        arguments = " ".join(map(shlex.quote, ["start", "--config", path, *self._common]))
        return f"{typed_command()} {arguments}"


@contextmanager
def _going_on(stream: TextIO) -> Iterator[None]:
    """Let the nodes go on when the stream cannot be written. Drop the output after the end of its
    reader."""
    try:
        yield
        stream.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError:
        pass  # a full disk may have room later


def _nodes_text(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"node {listed}" if len(numbers) == 1 else f"nodes {listed}"


def banner(announcements: Sequence[Row]) -> str:
    """Return the addresses of the nodes, and commands to try."""
    rows = [_row(each) for each in announcements]
    first = str(rows[0]["clients"])
    command = typed_command()
    if first != BOOTSTRAP_DEFAULT:
        command += f" --bootstrap {first}"
    lines = [
        f"Penstock {VERSION} is running: {counted(len(rows), 'node')}, broker and controller each, "
        f"cluster {announcements[0]['cluster_id']}",
        *(f"  {line}" for line in table_lines(COLUMNS, rows)),
        f"  bootstrap.servers={','.join(str(row['clients']) for row in rows)}",
        f"  {_replication(announcements[0])}",
        "Try, in another terminal:",
        f"  {command} topic create greetings --partitions {len(rows)}",
        f"  {command} topic describe greetings",
        f"  {command} quorum describe",
        "Stop with Ctrl-C.",
    ]
    return "\n".join(lines)


def _replication(announced: Row) -> str:
    factor, in_sync = announced["default_replication_factor"], announced["min_insync_replicas"]
    assert isinstance(factor, int), "a node announces its default"
    return (
        f"new topics get {counted(factor, 'replica')} (default.replication.factor), and acks=all "
        f"needs {in_sync} in sync (min.insync.replicas)"
    )


def _row(announced: Row) -> Row:
    listeners: dict[str, Json] = {}
    found = announced["listeners"]
    assert isinstance(found, list), "a node announces its listeners"
    for each in found:
        name, _, address = str(each).partition("://")
        listeners[name] = address
    data = announced["data"]
    assert isinstance(data, list), "a node announces its directories"
    return {
        "node": announced["node_id"],
        "pid": announced["pid"],
        "clients": listeners["PLAINTEXT"],
        "controllers": listeners["CONTROLLER"],
        "metrics": announced["metrics"],
        "data": ", ".join(min(os.path.relpath(each), each, key=len) for each in map(str, data)),
    }
