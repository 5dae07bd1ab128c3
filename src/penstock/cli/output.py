"""How commands speak: results on stdout as tables, JSON or YAML, everything else on stderr.

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
from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Annotated, NamedTuple, TypeAlias

import typer

from penstock.cli.colours import Style, coloured, styled
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
    YAML = "yaml"


class Options(NamedTuple):
    """What was said before the name of the command, and after it; the environment counts as said.

    None where nothing was said.
    """

    bootstrap: str | None = None
    format: Format | None = None
    profile: str | None = None
    namespace: str | None = None
    settings: tuple[str, ...] = ()  # of -X: key=value

    def followed_by(self, later: "Options") -> "Options":
        """What comes later wins; of settings both are kept, in their order."""
        said = {name: value for name, value in later._asdict().items() if value is not None}
        return self._replace(**{**said, "settings": (*self.settings, *later.settings)})


class CommandFailed(Exception):
    """Ends a command with a sentence for people and an exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.REFUSED) -> None:
        super().__init__(message)
        self.code = code


ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Do it. Without this, only say what would be done.")
]


def format_of(context: typer.Context) -> Format:
    options: Options = context.obj
    return options.format or Format.TABLE


# -- results


def print_json(value: Json) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Json) -> None:
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_value(form: Format, value: Json) -> None:
    """One result for programs."""
    assert form is not Format.TABLE, "a value has no columns"
    if form is Format.JSON:
        print_json(value)
        return
    from penstock.cli.yaml_output import to_yaml

    print(to_yaml(value), end="")


def print_next_value(form: Format, value: Json) -> None:
    """One of many results for programs: a line of JSON, or a document of YAML."""
    assert form is not Format.TABLE, "a value has no columns"
    if form is Format.JSON:
        print_json_line(value)
        return
    print("---")
    print_value(form, value)


def print_rows(form: Format, columns: Sequence[str], rows: Sequence[Mapping[str, Json]]) -> None:
    """Rows as an array for programs, or the named columns as a table."""
    if form is not Format.TABLE:
        print_value(form, [dict(row) for row in rows])
        return
    for line in table_lines(columns, rows, colours=coloured(sys.stdout)):
        print(line)


def table_lines(
    columns: Sequence[str], rows: Sequence[Mapping[str, Json]], *, colours: bool = False
) -> list[str]:
    """A heading and a line for each row, in columns of one width."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    heading = [column.replace("_", " ").upper() for column in columns]
    widths = [max(map(len, column)) for column in zip(heading, *cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (heading, *cells)
    ]
    return [styled(lines[0], Style.BOLD, wanted=colours), *lines[1:]]


def _cell(value: Json) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return shown(",".join(map(str, value))) or "-"
        case _:
            return shown(str(value))


def shown(text: str) -> str:
    """As a terminal may show it: names that others chose must not steer it."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


# -- everything else

_NOTE_STYLES = {"error": Style.RED, "warning": Style.YELLOW, "note": Style.CYAN}


def note(text: str) -> None:
    """Something for people that is not a result."""
    kind, colon, rest = text.partition(":")
    style = _NOTE_STYLES.get(kind)
    if colon and style is not None:
        text = styled(kind + colon, style, wanted=coloured(sys.stderr)) + rest
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


def report(form: Format, done: Sequence[str], failed: Mapping[str, KafkaError], verb: str) -> None:
    """Say for each item whether it was done; ends the command unless all were."""
    if form is not Format.TABLE:
        rows: list[Json] = [{"name": name, "done": True} for name in done]
        rows += [
            {"name": name, "done": False, "error": error.kafka_name(), "message": error.message}
            for name, error in failed.items()
        ]
        print_value(form, rows)
    else:
        for name in done:
            print(f"{name}: {verb}")
    conclude(failed, some_done=bool(done))


def conclude(failed: Mapping[str, KafkaError], *, some_done: bool) -> None:
    """Tell what failed, and end the command with it."""
    for name, error in failed.items():
        note(f"error: {name}: {error_text(error)}")
    if failed:
        raise typer.Exit(ExitCode.PARTIAL if some_done else ExitCode.REFUSED)


# -- what was said


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
