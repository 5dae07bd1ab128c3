"""Running one command as a shell would, inside the test's process."""

import io
import json
import os
import sys
from typing import Any, NamedTuple
from unittest import mock

from penstock.cli.main import main

# Whatever profiles the user who runs the tests has, they are not meant.
NO_PROFILES = os.path.join(os.path.dirname(__file__), "no-such-directory", "config.toml")


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def run(*arguments: str, stdin: bytes = b"") -> Ran:
    return _run(arguments, stdin, io.TextIOWrapper, io.TextIOWrapper)


def run_at_terminal(*arguments: str, typed: bytes = b"", shown: bool = False) -> Ran:
    """With somebody who types; and, if `shown`, who reads the output too."""
    return _run(arguments, typed, _Terminal, _Terminal if shown else io.TextIOWrapper)


def _run(
    arguments: tuple[str, ...],
    stdin: bytes,
    reading: type[io.TextIOWrapper],
    writing: type[io.TextIOWrapper],
) -> Ran:
    out, err = writing(io.BytesIO(), "utf-8"), writing(io.BytesIO(), "utf-8")
    profiles = os.environ.get("PENSTOCK_CONFIG", NO_PROFILES)
    with (
        mock.patch.dict(os.environ, {"PENSTOCK_CONFIG": profiles}),
        mock.patch.object(sys, "stdin", reading(io.BytesIO(stdin), "utf-8")),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        code = main(arguments)
        out.flush()
        err.flush()
    return Ran(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO), "made above"
    return raw.getvalue().decode()
