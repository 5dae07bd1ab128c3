"""A reader who follows guides: saves their files, types their lines, looks at what is printed.

Everything is taken as printed. Only addresses change: the node, the schema registry and the port of
a worker are where this test has them.
"""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from guide_boxes import ROOT, Box

LINE_SECONDS_MAX = 120
NODE = ("127.0.0.1:9092", "localhost:9092")
REGISTRY = "127.0.0.1:8081"
WORKER_PORT = "8080"
# What stays in the foreground: the reader opens another terminal, and ends it after the guide.
LASTING = ("penstock worker",)


class Reader:
    """One guide, in a directory of its own."""

    def __init__(self, directory: Path, bootstrap: str, registry: str) -> None:
        self._directory = directory
        self._addresses = {
            **dict.fromkeys(NODE, bootstrap),
            REGISTRY: registry,
            WORKER_PORT: str(free_port()),
        }
        self._names: dict[str, Any] = {"__name__": "guide"}
        self._terminals: list[subprocess.Popen[str]] = []
        (directory / ".venv").symlink_to(sys.prefix)
        here = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(here), str(ROOT / "bin"), os.environ["PATH"]]),
            "PENSTOCK_BOOTSTRAP": bootstrap,
            "PENSTOCK_CONFIG": str(directory / "no-profiles"),
            "PENSTOCK_STREAMS_STATE": str(directory / "state"),
        }

    def follow(self, box: Box) -> None:
        """Do what a box says. Raise AssertionError if the guide promises something else."""
        code = self._addressed(box.code)
        if box.file_name is not None:
            (self._directory / box.file_name).write_text(code)
            return
        if not box.is_run:
            return
        if box.language == "console":
            self._console(box)
            return
        output = self._shell(code, box) if box.language == "sh" else self._python(code, box)
        assert box.shows(output), f"{box.place} prints\n{output}\nand not\n{box.printed}"

    def close(self) -> None:
        """End what runs in other terminals, in order."""
        self._names.clear()  # a producer in it goes before its node does
        for each in self._terminals:
            each.send_signal(signal.SIGTERM)
            output, _ = each.communicate(timeout=LINE_SECONDS_MAX)
            assert each.returncode == 0, output

    def _addressed(self, code: str) -> str:
        for printed, used in self._addresses.items():
            code = code.replace(printed, used)
        return code

    def _shell(self, code: str, box: Box) -> str:
        if code.startswith(LASTING):
            self._terminals.append(self._started(code))
            return ""
        process = self._started(f"set -e\n{code}")
        try:
            output, errors = process.communicate(timeout=LINE_SECONDS_MAX)
        finally:
            process.kill()
        assert process.returncode == 0, f"{box.place} fails\n{output}{errors}"
        return output

    def _console(self, box: Box) -> None:
        for command in box.commands:
            output = self._shell(f"exec 2>&1\n{self._addressed(command.line)}", box)
            assert command.shows(output), (
                f"{box.place} `{command.line}` prints\n{output}\nand not\n{command.printed}"
            )

    def _started(self, code: str) -> "subprocess.Popen[str]":
        lasting = code.startswith(LASTING)
        return subprocess.Popen(
            ["bash", "-c", f"exec {code}" if lasting else code],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if lasting else subprocess.PIPE,
            text=True,
        )

    def _python(self, code: str, box: Box) -> str:
        """In this process: Spark starts once for all guides. Tests are run as pytest would."""
        numbered, before = "\n" * (box.line - 1) + code, set(self._names)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(numbered, str(box.guide), "exec"), self._names)
            for name in [each for each in self._names if each.startswith("test_")]:
                if name not in before:
                    self._names[name]()
        return printed.getvalue()


@contextmanager
def reading(directory: Path, bootstrap: str, registry: str) -> Iterator[Reader]:
    """A reader whose Python imports from the directory, and leaves nothing imported behind."""
    before, known = Path.cwd(), set(sys.modules)
    reader = Reader(directory, bootstrap, registry)
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    try:
        yield reader
    finally:
        os.chdir(before)
        sys.path.remove(str(directory))
        reader.close()
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(directory)):
                del sys.modules[name]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port
