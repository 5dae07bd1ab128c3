"""Running one of Kafka's commands as a shell would, inside the test's process."""

import io
import sys
from typing import NamedTuple
from unittest import mock

from penstock.cli.kafka.__main__ import run

STDIN: type[io.TextIOWrapper] = io.TextIOWrapper  # somebody else may type in a test


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def complaint(self) -> str:
        """The first line on stderr: the reason, before all options are listed."""
        return self.err.partition("\n")[0]


def ran(name: str, *arguments: str, stdin: bytes = b"") -> Ran:
    """`name` is without its `kafka-`."""
    given = STDIN(io.BytesIO(stdin), "utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with (
        mock.patch.object(sys, "stdin", given),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        code = run(f"kafka-{name}", arguments)
    texts = []
    for stream in (out, err):
        stream.flush()
        buffer = stream.buffer
        assert isinstance(buffer, io.BytesIO), "it was made so"
        texts.append(buffer.getvalue().decode())
    return Ran(code, *texts)


class Node(NamedTuple):
    """A server to run commands against."""

    bootstrap: str

    def ran(self, name: str, *arguments: str, stdin: bytes = b"") -> Ran:
        return ran(name, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)

    def done(self, name: str, *arguments: str, stdin: bytes = b"") -> Ran:
        """The same, where nothing may go wrong."""
        found = self.ran(name, *arguments, stdin=stdin)
        assert found.code == 0, found
        return found
