"""Runs nodes as child processes, from the start of all to the end of the last one.

A signal stops all of them. A node that ends by itself is reported and not started again; the others
go on. Nodes end with this process, however that ends (child.py).
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from penstock.cli.terminal.output import Row

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_SECONDS_MAX = 1.0
SLOW_START_SECONDS = 5.0
READ_BYTES_MAX = 64 * 1024


class NodeCommand(NamedTuple):
    """A node, and the arguments of `penstock` that start it."""

    node_id: int
    arguments: list[str]


class NodeEnd(NamedTuple):
    """The end of a node; `how` is a text such as `by SIGKILL`."""

    node_id: int
    how: str
    clean: bool


class Reports(Protocol):
    """The output of the command about its nodes."""

    def all_started(self, announcements: Sequence[Row]) -> None: ...
    def slow_start(self, waiting: Sequence[int]) -> None: ...
    def stopping(self) -> None: ...
    def node_ended(self, end: NodeEnd) -> None: ...
    def log_line(self, node_id: int, line: str) -> None: ...


class ChildNode:
    """One process of a node, and the lines that it prints."""

    def __init__(self, command: NodeCommand) -> None:
        self.node_id = command.node_id
        self.announced: Row | None = None
        self.end: NodeEnd | None = None
        self._texts = {"out": b"", "err": b""}
        module = [sys.executable, "-P", "-m", "penstock.cli.start_nodes.child", str(os.getpid())]
        self.process = subprocess.Popen(
            [*module, *command.arguments],
            stdin=subprocess.PIPE,  # closed by the end of this process
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, which stops the nodes
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.streams = {
            self.process.stdout.fileno(): "out",
            self.process.stderr.fileno(): "err",
        }

    def read(self, descriptor: int) -> tuple[str, list[str]]:
        """Return the stream of a readable descriptor, and its new lines."""
        name = self.streams[descriptor]
        data = os.read(descriptor, READ_BYTES_MAX)
        if not data:
            del self.streams[descriptor]
            rest, self._texts[name] = self._texts[name], b""
            return name, [rest.decode(errors="replace")] if rest else []
        *lines, self._texts[name] = (self._texts[name] + data).split(b"\n")
        return name, [line.decode(errors="replace") for line in lines]

    def send(self, number: signal.Signals) -> None:
        if self.end is None:
            self.process.send_signal(number)


class Supervisor:
    """The nodes of one command."""

    def __init__(self, commands: Sequence[NodeCommand], reports: Reports) -> None:
        self._commands = commands
        self._reports = reports
        self._nodes: list[ChildNode] = []
        self._is_stopping = False
        self._has_news = False  # a signal that is not reported yet
        self._has_started = False
        self._all_clean = True

    def run(self) -> int:
        """Start the nodes, and return the exit code when all have ended: 0 if every one of them was
        stopped by a signal to this process, and cleanly."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        before = {
            each: signal.signal(each, self._on_signal)
            for each in SIGNALS
            if signal.getsignal(each) is not signal.SIG_IGN  # nohup
        }
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            self._start_nodes()
            self._watch(reading)
        finally:
            for each in self._nodes:
                each.send(signal.SIGKILL)
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(reading)
            os.close(writing)
        return 0 if self._all_clean else 1

    def _start_nodes(self) -> None:
        """Start the nodes one by one, and no more after a signal."""
        for each in self._commands:
            if self._is_stopping:
                return
            node = ChildNode(each)
            self._nodes.append(node)
            if self._is_stopping:  # the signal may have come before the node was in the list
                node.send(signal.SIGTERM)

    def _on_signal(self, _number: int, _frame: object) -> None:
        """Stop all nodes; at a second signal, kill those that have not ended."""
        if self._is_stopping:
            self._stop(signal.SIGKILL)
        else:
            self._has_news = True  # for `_watch`: the signal may have interrupted a report
            self._stop()

    def _stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self._is_stopping = True
        for each in self._nodes:
            each.send(how)

    def _watch(self, wakeup: int) -> None:
        slow_s = time.monotonic() + SLOW_START_SECONDS
        while any(each.end is None or each.streams for each in self._nodes):
            if self._has_news:
                self._has_news = False
                self._reports.stopping()
            owners = {number: each for each in self._nodes for number in each.streams}
            ready, _, _ = select.select([wakeup, *owners], [], [], LOOK_SECONDS_MAX)
            for descriptor in ready:
                if descriptor == wakeup:
                    with suppress(BlockingIOError):
                        os.read(wakeup, READ_BYTES_MAX)
                else:
                    self._read(owners[descriptor], descriptor)
            for each in self._nodes:
                self._look_for_end(each)
            is_starting = not (self._has_started or self._is_stopping)
            if is_starting and time.monotonic() >= slow_s:
                slow_s = float("inf")
                self._reports.slow_start([x.node_id for x in self._nodes if x.announced is None])

    def _read(self, node: ChildNode, descriptor: int) -> None:
        name, lines = node.read(descriptor)
        for line in lines:
            if name == "err":
                self._reports.log_line(node.node_id, line)
            else:
                self._take(node, line)

    def _take(self, node: ChildNode, line: str) -> None:
        """Note an event that a node prints."""
        event = json.loads(line)
        if event.get("event") != "started":
            return
        node.announced = event
        announced = [each.announced for each in self._nodes if each.announced is not None]
        if len(announced) == len(self._nodes) and not self._is_stopping:
            self._has_started = True
            self._reports.all_started(announced)

    def _look_for_end(self, node: ChildNode) -> None:
        if node.end is not None or node.process.poll() is None:
            return
        code = node.process.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        # A process that has not begun to serve may not handle the signal yet.
        is_unready = node.announced is None and code == -signal.SIGTERM
        clean = self._is_stopping and (code == 0 or is_unready)
        self._all_clean = self._all_clean and clean
        node.end = NodeEnd(node.node_id, how, clean)
        if not clean:
            self._reports.node_ended(node.end)
        if not self._has_started and not self._is_stopping:
            self._stop()  # a cluster starts as a whole
