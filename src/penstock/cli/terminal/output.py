"""Output of commands: results on stdout as tables, JSON or YAML, everything else on stderr.

Exit codes:

    0    done
    1    the server said no, or the node cannot start: a bad value, an address in use
    2    the command was not understood, or a file that it names cannot be read
    3    the server cannot be reached
    4    some of it was done, some was not
    130  interrupted
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Annotated, NamedTuple, Protocol, TypeAlias

import typer

from penstock.errors import KafkaError


class ColourStream(Protocol):
    """A stream that may be a terminal."""

    def isatty(self) -> bool: ...


class Style(StrEnum):
    BOLD = "1"
    RED = "31"
    YELLOW = "33"
    CYAN = "36"


def coloured(stream: ColourStream, environment: Mapping[str, str] | None = None) -> bool:
    """Return whether this stream shows colours: a terminal that is not dumb, without NO_COLOR."""
    known = os.environ if environment is None else environment
    return not known.get("NO_COLOR") and known.get("TERM") != "dumb" and stream.isatty()


def styled(text: str, style: Style, *, wanted: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if wanted and text else text


# A JSON value, and the rows that commands print.
Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Row: TypeAlias = dict[str, Json]

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"


class ExitCode(IntEnum):
    OK = 0
    REJECTED = 1
    USAGE = 2
    CANNOT_REACH = 3
    PARTIAL = 4
    INTERRUPTED = 130


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Options(NamedTuple):
    """Shared options from before and behind the name of the command, and from the environment.

    None for options that are not given.
    """

    bootstrap: str | None = None
    format: Format | None = None
    profile: str | None = None
    namespace: str | None = None
    settings: tuple[str, ...] = ()  # of -X: key=value

    def followed_by(self, later: "Options") -> "Options":
        """Return these options overridden by later ones; settings are concatenated."""
        said = {name: value for name, value in later._asdict().items() if value is not None}
        return self._replace(**{**said, "settings": (*self.settings, *later.settings)})


class CommandFailed(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.REJECTED) -> None:
        super().__init__(message)
        self.code = code


class WrongUsage(CommandFailed):
    """The command was not understood, or a file that it names cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)


ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Do it. Without this, only say what would be done.")
]


def format_of(context: typer.Context) -> Format:
    options: Options = context.obj
    return options.format or Format.TABLE


# -- results


def print_value(form: Format, value: Json) -> None:
    """Print one result as JSON or YAML."""
    assert form is not Format.TABLE, "a value has no columns"
    if form is Format.JSON:
        print(json.dumps(value, ensure_ascii=False, indent=2))
        return
    from penstock.cli.terminal.yaml_output import to_yaml

    print(to_yaml(value), end="")


def print_next_value(form: Format, value: Json) -> None:
    """Print one of many results: a line of JSON, or a document of YAML."""
    assert form is not Format.TABLE, "a value has no columns"
    if form is Format.JSON:
        print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        return
    print("---")
    print_value(form, value)


def print_rows(form: Format, columns: Sequence[str], rows: Sequence[Mapping[str, Json]]) -> None:
    """Print rows as JSON or YAML, or the named columns as a table."""
    if form is not Format.TABLE:
        print_value(form, [dict(row) for row in rows])
        return
    for line in table_lines(columns, rows, colours=coloured(sys.stdout)):
        print(line)


def table_lines(
    columns: Sequence[str], rows: Sequence[Mapping[str, Json]], *, colours: bool = False
) -> list[str]:
    """Return a heading and a line for each row, in aligned columns."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    heading = [column.replace("_", " ").upper() for column in columns]
    first, *others = aligned([heading, *cells])
    return [styled(first, Style.BOLD, wanted=colours), *others]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines whose cells stand in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


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
    """Return the text with control characters escaped, safe for a terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


# -- notes

_NOTE_STYLES = {"error": Style.RED, "warning": Style.YELLOW, "note": Style.CYAN}


def note(text: str) -> None:
    """Print a note, a warning or an error to stderr."""
    kind, colon, rest = text.partition(":")
    style = _NOTE_STYLES.get(kind)
    if colon and style is not None:
        text = styled(kind + colon, style, wanted=coloured(sys.stderr)) + rest
    print(text, file=sys.stderr)


def counted(count: int, noun: str) -> str:
    """Return `1 member`, `2 members`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def reason_of(problem: OSError) -> str:
    """Return the reason why a file cannot be used."""
    return (problem.strerror or str(problem)).lower()


def error_text(error: KafkaError) -> str:
    """Return the server's message with Kafka's name of the error."""
    return f"{error.message} ({error.kafka_name()})"


def report(form: Format, done: Sequence[str], failed: Mapping[str, KafkaError], verb: str) -> None:
    """Print the result of each item; exit with an error unless all were done."""
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
    exit_if_failed(failed, some_done=bool(done))


def exit_if_failed(failed: Mapping[str, KafkaError], *, some_done: bool) -> None:
    """Print the failures; exit with an error if there are any."""
    for name, error in failed.items():
        note(f"error: {name}: {error_text(error)}")
    if failed:
        raise typer.Exit(ExitCode.PARTIAL if some_done else ExitCode.REJECTED)


# -- arguments


def key_values(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return `KEY=VALUE` texts as a dict; the last value of a key wins."""
    return dict(key_value_pairs(texts, option))


def key_value_pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Return `KEY=VALUE` texts in their order, with repeated keys."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise WrongUsage(f"{option} {text}: must be KEY=VALUE")
        pairs.append((key, value))
    return pairs


YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do it without asking; a script must say so.")
]
YesOrExecuteOption = Annotated[
    bool,
    typer.Option("--yes", "-y", "--execute", help="Do it without asking; a script must say so."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


def confirm(question: str, *, yes: bool) -> None:
    """Return if the user agrees; otherwise raise CommandFailed before any change."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise WrongUsage(f"{question} Stdin is no terminal, so nothing was changed; --yes confirms")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed("nothing was changed")
