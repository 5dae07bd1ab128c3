"""A node in a separate process, which never outlives this one.

A thread starts the process and waits for its end: the kernel kills the child, even a stopped one,
when its starting thread is gone (node_process.py requests that). On other systems the child's input
closes with this process, as for all processes of a node.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import penstock
from penstock.testing.failures import NodeFailed, late_start

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
TOLD_LINES_MAX = 20
MODULE = "penstock.testing.node_process"


def start_child(order: Mapping[str, Any], log: Path) -> "subprocess.Popen[bytes]":
    """Start a node and send its order; the node announces itself by one line when ready."""
    paths = [str(Path(penstock.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,  # Ctrl-C is for this process, which ends the child
        )
    assert process.stdin is not None, "it is talked to"
    try:
        process.stdin.write(json.dumps(dict(order)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # ended; its log tells the cause
    return process


def tail(log: Path) -> str:
    """Return the last log lines of a node."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-TOLD_LINES_MAX:]) or "it said nothing"


class ProcessRun:
    """One run of the process, from its start to its end."""

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        self._settings = settings
        self._log = log
        self._settled = threading.Event()
        self.ended = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self.announced: dict[str, Any] | None = None
        self.failure: BaseException | None = None
        self.stopping = False  # a call of this process ends it
        self._thread = threading.Thread(target=self._live, name="penstock-process", daemon=True)

    def begin(self) -> None:
        atexit.register(self._kill_at_exit)
        self._thread.start()

    def await_start(self) -> None:
        settled = self._settled.wait(START_SECONDS_MAX)
        if settled and self.announced is not None:
            return
        self.send(signal.SIGKILL)
        self.ended.wait(STOP_SECONDS_MAX)
        if self.failure is not None:
            raise self.failure
        if not settled:
            late = late_start(self._settings, START_SECONDS_MAX)
            raise NodeFailed(f"{late}: {tail(self._log)}")
        raise NodeFailed(f"the node ended at its start: {tail(self._log)}")

    def _live(self) -> None:
        try:
            order = {"settings": dict(self._settings), "parent": os.getpid()}
            self.process = start_child(order, self._log)
            assert self.process.stdin is not None and self.process.stdout is not None
            with self.process.stdin, self.process.stdout:
                line = self.process.stdout.readline()
                if line:
                    self.announced = json.loads(line)
                self._settled.set()
                self.process.wait()
        except BaseException as error:
            self.failure = error
        finally:
            self.ended.set()
            self._settled.set()
            atexit.unregister(self._kill_at_exit)

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and not self.ended.is_set():
            self.process.send_signal(number)

    def _kill_at_exit(self) -> None:
        self.send(signal.SIGKILL)
        self.ended.wait(STOP_SECONDS_MAX)

    def end_of_itself(self) -> NodeFailed:
        code = None if self.process is None else self.process.returncode
        how = f"with code {code}"
        if code is not None and code < 0:
            how = f"by {signal.Signals(-code).name}"
        return NodeFailed(f"the node's process ended {how}: {tail(self._log)}")


class ProcessNode:
    """One node, which can be started again on the same data."""

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        self._settings = settings
        self._log = log
        self._life: ProcessRun | None = None
        self.paused = False

    @property
    def running(self) -> bool:
        """Return whether the node was started and not stopped. A failed node counts as running."""
        return self._life is not None

    @property
    def process_id(self) -> int:
        process = self._running().process
        assert process is not None, "a node that is ready has a process"
        return process.pid

    def begin_start(self) -> None:
        self._life = ProcessRun(self._settings, self._log)
        self._life.begin()

    def await_start(self) -> None:
        assert self._life is not None, "a start has begun"
        try:
            self._life.await_start()
        except BaseException:
            self._life = None
            raise

    def begin_stop(self) -> None:
        """Stop by SIGTERM; a paused node is continued first."""
        if self._life is not None and not self._life.ended.is_set():
            self._life.stopping = True
            self._life.send(signal.SIGTERM)
            self._life.send(signal.SIGCONT)

    def kill(self) -> None:
        """Stop by SIGKILL."""
        life = self._life
        if life is not None and not life.ended.is_set():
            life.stopping = True
            life.send(signal.SIGKILL)
        self._await_end(signal.SIGKILL)

    def await_end(self) -> None:
        """Wait for the end of a process that was stopped; raise its failure if it had one."""
        self._await_end(signal.SIGTERM)

    def _await_end(self, how: signal.Signals) -> None:
        life, self._life = self._life, None
        if life is None:
            return
        self.paused = False
        if not life.ended.wait(STOP_SECONDS_MAX):
            life.send(signal.SIGKILL)
            life.ended.wait(STOP_SECONDS_MAX)
            raise TimeoutError(f"the node did not stop within {STOP_SECONDS_MAX:.0f} seconds")
        assert life.process is not None, "a process has ended"
        if not life.stopping or (how is signal.SIGTERM and life.process.returncode):
            raise life.end_of_itself()

    def pause(self) -> None:
        """Send SIGSTOP, and wait until the process has stopped."""
        if self.paused:
            return
        life = self._running()
        life.send(signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, self.process_id, os.WSTOPPED | os.WNOWAIT)
        except ChildProcessError:
            life.ended.wait(STOP_SECONDS_MAX)
            raise life.end_of_itself() from None
        self.paused = True

    def resume(self) -> None:
        if self.paused:
            self._running().send(signal.SIGCONT)
            self.paused = False

    # -- state

    def check(self) -> None:
        """Raise the failure that ended the node, if any."""
        if self._life is not None and self._life.ended.is_set():
            raise self._life.end_of_itself()

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        announced = self._running().announced
        assert announced is not None, "a node that is ready has said so"
        return {name: (host, port) for name, host, port in announced["listeners"]}

    @property
    def metrics_address(self) -> str | None:
        announced = self._running().announced
        assert announced is not None, "a node that is ready has said so"
        found: str | None = announced["metrics"]
        return found

    def _running(self) -> ProcessRun:
        self.check()
        assert self._life is not None, "this node is not running"
        return self._life
