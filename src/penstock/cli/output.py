"""How commands speak: results on stdout as tables or JSON, everything else on stderr.

Exit codes:

    0    done
    1    the server said no, or the node cannot start: a bad value, an address in use
    2    the command was not understood, or a file that it names cannot be read
    3    the server cannot be reached
    4    some of it was done, some was not
    130  interrupted
"""

import json
import sys
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Annotated, NamedTuple, TypeAlias

import typer

from penstock.errors import KafkaError

# What JSON can hold: the rows that commands print.
Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"


class ExitCode(IntEnum):
    OK = 0
    REFUSED = 1
    USAGE = 2
    CANNOT_REACH = 3
    PARTIAL = 4
    INTERRUPTED = 130


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


class Options(NamedTuple):
    """What was said before the name of the command."""

    bootstrap: str
    format: Format


class CommandFailed(Exception):
    """Ends a command with a sentence for people and an exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.REFUSED) -> None:
        super().__init__(message)
        self.code = code


BootstrapOption = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="A server of the cluster, or several."),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="json is the stable form for programs.")
]
ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Do it. Without this, only say what would be done.")
]


def bootstrap_of(context: typer.Context, said: str | None) -> str:
    """The address for this command: its own option, or the one before its name."""
    if said is not None:
        return said
    options: Options = context.obj
    return options.bootstrap


def format_of(context: typer.Context, said: Format | None) -> Format:
    if said is not None:
        return said
    options: Options = context.obj
    return options.format


def print_json(value: Json) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Json) -> None:
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_rows(form: Format, columns: Sequence[str], rows: Sequence[dict[str, Json]]) -> None:
    """Rows as a JSON array, or the named columns as a table."""
    if form is Format.JSON:
        print_json(list(rows))
        return
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [
        max([len(column), *(len(line[at]) for line in cells)]) for at, column in enumerate(columns)
    ]
    for line in [[column.replace("_", " ").upper() for column in columns], *cells]:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def _cell(value: Json) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ",".join(map(str, value)) or "-"
        case _:
            return str(value)


def note(text: str) -> None:
    """Something for people that is not a result."""
    print(text, file=sys.stderr)


def counted(count: int, noun: str) -> str:
    """`1 member`, `2 members`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def reason_of(problem: OSError) -> str:
    """Why a file cannot be used, in words."""
    return (problem.strerror or str(problem)).lower()


def error_text(error: KafkaError) -> str:
    """What the server said, with Kafka's name of it for those who look it up."""
    return f"{error.message} ({error.kafka_name()})"


def report(form: Format, done: Sequence[str], failed: dict[str, KafkaError], verb: str) -> None:
    """Say for each item whether it was done; ends the command unless all were."""
    if form is Format.JSON:
        rows: list[Json] = [{"name": name, "done": True} for name in done]
        rows += [
            {"name": name, "done": False, "error": error.kafka_name(), "message": error.message}
            for name, error in failed.items()
        ]
        print_json(rows)
    else:
        for name in done:
            print(f"{name}: {verb}")
    for name, error in failed.items():
        note(f"error: {name}: {error_text(error)}")
    if failed:
        raise typer.Exit(ExitCode.PARTIAL if done else ExitCode.REFUSED)


def key_values(texts: Sequence[str], option: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a dict; of a key that is said twice the last one counts."""
    return dict(key_value_pairs(texts, option))


def key_value_pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    """`KEY=VALUE` texts in their order, where a key may come again."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandFailed(f"{option} {text}: must be KEY=VALUE", ExitCode.USAGE)
        pairs.append((key, value))
    return pairs
