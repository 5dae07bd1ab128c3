"""A driver in a process, and what it starts: Java, Spark's Python daemons, their workers.

All of them are one session of the operating system, and that is how they are found: a daemon makes
a process group of its own, and its workers outlive it. `compat` runs its pipelines here too.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from bench.servers import ROOT

LOOK_SECONDS = 0.02
END_SECONDS_MAX = 20.0
LOG_TAIL_LINES = 40


class Role(StrEnum):
    """What a process of a driver's session is there for."""

    DRIVER = "driver"
    JAVA = "java"
    DAEMON = "daemon"
    WORKER = "worker"  # runs tasks
    PLANNER = "planner"  # pickles the writer: the sink plans a batch
    COMMITTER = "committer"  # commits or aborts a batch
    READER = "reader"  # knows the source's offsets
    OTHER = "other"


_MODULES = {
    "pyspark.worker": Role.WORKER,
    "pyspark.sql.worker.write_into_data_source": Role.PLANNER,
    "pyspark.sql.worker.python_streaming_sink_runner": Role.COMMITTER,
    "pyspark.sql.streaming.python_streaming_source_runner": Role.READER,
}


class Member(NamedTuple):
    process_id: int
    role: Role
    group: int
    orphan: bool  # its daemon is gone

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process_id, number)


def kill_all(members: Sequence[Member]) -> None:
    for each in members:
        each.send(signal.SIGKILL)


class SparkProcess:
    """A life of a driver. Its output is lines of JSON, and one file each for it and its log."""

    def __init__(
        self,
        arguments: Sequence[str],
        output: Path,
        surroundings: Mapping[str, str] | None = None,
    ) -> None:
        self._output = output
        self._log = output.with_suffix(".log")
        with output.open("wb") as told, self._log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=errors,
                cwd=ROOT,
                env={**os.environ, **(surroundings or {})},
                start_new_session=True,
            )

    @property
    def ended(self) -> int | None:
        """Its exit code, if it has one."""
        return self.process.poll()

    def told(self) -> list[dict[str, Any]]:
        """Every whole line so far."""
        whole = self._output.read_text(errors="replace").rpartition("\n")[0]
        return [json.loads(each) for each in whole.splitlines() if each.startswith("{")]

    def finish(self, seconds_max: float) -> dict[str, Any]:
        """The last that it tells before it ends by itself."""
        try:
            if self.process.wait(seconds_max):
                raise RuntimeError(f"the pipeline failed:\n{self.log_tail()}")
            return self.told()[-1]
        finally:
            self.kill()

    def kill(self) -> None:
        """All of it, also what is born meanwhile."""
        until = time.monotonic() + END_SECONDS_MAX
        while members := self.members():
            kill_all(members)
            self.process.poll()
            if time.monotonic() > until:
                raise RuntimeError(f"these do not die: {members}")
            time.sleep(LOOK_SECONDS)
        self.process.wait(END_SECONDS_MAX)

    def wait_until_gone(self) -> None:
        """For processes that notice that others have died."""
        until = time.monotonic() + END_SECONDS_MAX
        while self.members() and time.monotonic() < until:
            self.process.poll()
            time.sleep(LOOK_SECONDS)

    def members(self) -> list[Member]:
        found = [*_session(self.process.pid)]
        alive = {process_id for process_id, _, _ in found}
        return [
            Member(process_id, self._role(process_id, group, command), group, group not in alive)
            for process_id, group, command in found
        ]

    def _role(self, process_id: int, group: int, command: list[str]) -> Role:
        if process_id == self.process.pid:
            return Role.DRIVER
        if "org.apache.spark.deploy.SparkSubmit" in command:
            return Role.JAVA
        if "pyspark.daemon" in command and process_id == group:
            return Role.DAEMON
        return _MODULES.get(command[-1] if command else "", Role.OTHER)

    def log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])


def _session(leader: int) -> Iterator[tuple[int, int, list[str]]]:
    """Process, group and command line of everything that lives in a session."""
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) != leader or fields[0] in "ZX":
                continue
            command = Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(entry), int(fields[2]), command.rstrip("\0").split("\0")
