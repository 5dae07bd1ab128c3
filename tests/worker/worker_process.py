"""A worker in a process of its own: started as a user would, watched by what it prints."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

END_SECONDS_MAX = 30
# librdkafka asks for a producer id, and again after half a second if no connection is up yet.
WITHOUT_ID = {"enable.idempotence": False}


class WorkerProcess:
    """`penstock worker MODULE:APP`. Its output is read line by line."""

    def __init__(self, directory: Path, target: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "worker", target, *arguments],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []

    def until(self, part: str) -> str:
        """The next line that has this in it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)
            if part in line:
                return line
        raise AssertionError(f"it ended before it said {part!r}:\n{''.join(self.lines)}")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code; the rest of its output is read."""
        out, _ = self._process.communicate(timeout=END_SECONDS_MAX)
        self.lines += out.splitlines(keepends=True)
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=END_SECONDS_MAX)

    @property
    def running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def worker_process(directory: Path, target: str, *arguments: str) -> Iterator[WorkerProcess]:
    process = WorkerProcess(directory, target, *arguments)
    try:
        yield process
    finally:
        if process.running:
            process.kill()
