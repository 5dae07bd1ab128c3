"""Framework of Kafka's commands with subcommands (kafka-storage, kafka-cluster, ...).

These parse options like argparse, with abbreviations; errors end with exit code 1.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, TypeVar

from penstock.cli.kafka.framework.examples import EXAMPLES, example_text
from penstock.cli.kafka.framework.runner import FAILED, OK, guarded, print_version

T = TypeVar("T")


class _Refused(Exception):
    """argparse has printed the error."""


class VerbParser(argparse.ArgumentParser):
    """A parser whose errors end with exit code 1 instead of 2, and whose help has an example."""

    def format_help(self) -> str:
        text = super().format_help()
        # The parser of a verb has its command's name and the verb.
        return f"{text}\n{example_text(self.prog)}\n" if self.prog in EXAMPLES else text

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog.split()[0]}: error: {message}", file=sys.stderr)
        raise _Refused

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            print(message, end="", file=sys.stderr)
        raise SystemExit(status)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print_version()
        parser.exit()


def add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v", "--version", action=_Version, nargs=0, help="print the version and end"
    )


def run_verbs(
    parser: VerbParser,
    run: Callable[[argparse.Namespace], int | None],
    failed: Callable[[Exception], None],
    arguments: Sequence[str] | None,
) -> int:
    """Run a command with subcommands and return its exit code; None of `run` is success."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if not given:
            parser.print_help(sys.stderr)
            return FAILED
        parsed = parser.parse_args(given)
    except _Refused:
        return FAILED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return guarded(lambda: run(parsed) or OK, failed)


def print_table(columns: Mapping[str, Callable[[T], object]], rows: Iterable[T]) -> None:
    """Print a heading and a line per row; a column is its head and the value of a row in it."""
    lines = [list(columns), *([str(value(row)) for value in columns.values()] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))
