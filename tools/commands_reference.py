"""Writes the reference of all commands, docs/reference/commands.md, from the commands themselves.

python -m tools.commands_reference > docs/reference/commands.md
"""

import inspect
from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from textwrap import dedent
from typing import Any, get_args

from typer.main import get_command

from penstock.cli.arguments import places
from penstock.cli.arguments.shared_options import CLUSTER_NAMES, FORMAT_NAMES
from penstock.cli.connection import access
from penstock.cli.consume import filters, template
from penstock.cli.examples import EXAMPLES
from penstock.cli.main import app
from penstock.cli.profile import profiles

_HEAD = """\
# Commands

Made from the code by `python -m tools.commands_reference`; do not edit.

One command, a noun and a verb: `penstock topic create orders`. Results are on stdout, everything
else (notes, warnings, errors, progress) on stderr. Tables are for people; `--format json` and
`--format yaml` are the stable forms for programs: one value, or with `consume`, `log dump` and
`top` a line of JSON or a document of YAML each. Colours are for terminals only, and never where
`NO_COLOR` is set.

What destroys something asks first; a script says `--yes`. Resets show what they would do, and do it
with `--execute`. `penstock --install-completion` teaches your shell to complete commands and
options, and names of topics and groups, which it asks of the cluster.
"""

_EXIT_CODES = """\
## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | the server said no, or the node cannot start: a bad value, an address in use |
| 2 | the command was not understood, a file that it names cannot be read, or nobody said `--yes` |
| 3 | the server cannot be reached, or does not answer in time |
| 4 | some of it was done, some was not; what was not is told on stderr |
| 130 | interrupted |
"""


def reference() -> str:
    root = get_command(app)
    parts = [_HEAD, _EXIT_CODES, _everywhere(), _guides()]
    parts += ["## Commands of each noun\n"]
    parts += [_command(name, each) for name, each in leaves("penstock", root)]
    return "\n".join(parts)


def _everywhere() -> str:
    """Return the shared options, and how a cluster is chosen."""
    rows = _table(get_command(app), skipped=frozenset())
    return (
        "## Options of every command\n\n"
        "They stand before the name of the command or after it; what comes later wins.\n\n"
        f"{rows}\n## Which cluster\n\n{_prose(access)}\n## Profiles\n\n{_prose(profiles)}"
    )


def _guides() -> str:
    return (
        f"## Places in a log\n\n{_prose(places)}\n"
        f"## Filters of `penstock consume`\n\n{_prose(filters)}\n"
        f"## Templates of `penstock consume`\n\n{_prose(template)}"
    )


def _prose(module: Any) -> str:
    """Return the docstring of a module, with indented parts as code blocks."""
    text = inspect.cleandoc(module.__doc__ or "")
    parts: list[str] = []
    for indented, some in groupby(text.split("\n\n"), lambda part: part.startswith("    ")):
        joined = "\n\n".join(some)
        parts.append(f"```\n{dedent(joined)}\n```" if indented else joined)
    return "\n\n".join(parts) + "\n"


def leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    subcommands = getattr(command, "commands", None)
    if not subcommands:
        yield path, command
        return
    for name, each in subcommands.items():
        yield from leaves(f"{path} {name}", each)


def _command(path: str, command: Any) -> str:
    arguments = " ".join(
        _metavar(each) for each in command.params if each.param_type_name == "argument"
    )
    usage = f"{path} {arguments}".strip()
    taken = {each.name for each in command.params}
    lines = [f"### {path}\n", f"    {usage} [OPTIONS]\n", f"{command.help or ''}\n"]
    own = _table(command, skipped=frozenset(CLUSTER_NAMES))
    if own:
        lines.append(own)
    if taken >= set(CLUSTER_NAMES):
        lines.append("Also the options of every command.\n")
    elif taken >= set(FORMAT_NAMES):
        lines.append("Also `--format`.\n")
    examples = EXAMPLES.get(path.partition(" ")[2], ())
    if examples:
        lines.append("\n".join(["```", *examples, "```", ""]))
    return "\n".join(lines)


def _table(command: Any, skipped: frozenset[str]) -> str:
    """Return a table of options, and of arguments with a help text."""
    rows: list[str] = []
    for each in command.params:
        if each.name in skipped or (each.param_type_name == "argument" and not each.help):
            continue
        names = _metavar(each)
        if each.param_type_name == "option":
            names = ", ".join((*each.opts, *each.secondary_opts))
            names += f" {each.metavar}" if each.metavar else ""
        said = " ".join(part for part in (each.help or "", _choices(command, each)) if part)
        if each.envvar:
            said += f" Environment: `{each.envvar}`."
        rows.append(f"| `{names}` | {_default(each)} | {said.replace('|', chr(92) + '|')} |")
    if not rows:
        return ""
    return "\n".join(["| option | default | |", "|---|---|---|", *rows, ""])


def _metavar(parameter: Any) -> str:
    text = str(parameter.metavar or (parameter.name or "").upper())
    if parameter.param_type_name == "argument" and not parameter.required:
        text = f"[{text}]"
    return text if parameter.nargs == 1 or text.endswith("...") else f"{text}..."


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or value == [] or callable(value):
        return "required" if parameter.required else ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _choices(command: Any, parameter: Any) -> str:
    """Return the values of an enumeration, from the annotation of the function."""
    if command.callback is None:
        return ""
    found = inspect.signature(command.callback).parameters.get(parameter.name)
    kinds = [] if found is None else _enums(found.annotation)
    return f"One of {', '.join(f'`{each.value}`' for each in kinds[0])}." if kinds else ""


def _enums(annotation: Any) -> list[type[Enum]]:
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [annotation]
    return [kind for each in get_args(annotation) for kind in _enums(each)]


if __name__ == "__main__":
    print(reference(), end="")
