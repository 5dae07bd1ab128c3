"""Framework of Kafka's commands with subcommands (kafka-storage, kafka-cluster, ...).

These parse options like argparse, with abbreviations; errors end with exit code 1.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from penstock.cli.kafka.framework.runner import FAILED, guarded, print_version


class _Refused(Exception):
    """argparse has printed the error."""


class VerbParser(argparse.ArgumentParser):
    """A parser whose errors end with exit code 1 instead of 2."""

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
    run: Callable[[argparse.Namespace], int],
    failed: Callable[[Exception], None],
    arguments: Sequence[str] | None,
) -> int:
    """Run a command with subcommands and return its exit code."""
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
    return guarded(lambda: run(parsed), failed)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    for row in (heads, *rows):
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
