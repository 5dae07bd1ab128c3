"""The reference of commands is what the commands say of themselves."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from cli_running import run
from typer.main import get_command

from penstock.cli.examples import EXAMPLES, NOUN_EXAMPLES
from penstock.cli.main import app
from penstock.cli.terminal.output import Options
from tools.commands_reference import leaves, reference

PENSTOCK: Any = get_command(app)
FILE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_the_reference_is_up_to_date() -> None:
    assert FILE.read_text() == reference(), "run `make reference`"


def test_every_command_is_in_the_reference() -> None:
    text = reference()
    for path, command in leaves("penstock", PENSTOCK):
        assert f"### {path}\n" in text
        assert command.help, path


def test_every_command_has_examples_in_its_help_and_no_other_has_any() -> None:
    found = dict(leaves("penstock", PENSTOCK))
    assert {path.partition(" ")[2] for path in found} == set(EXAMPLES)
    for path, command in found.items():
        assert EXAMPLES[path.partition(" ")[2]][0] in run(*path.split()[1:], "--help").out, path
        assert command.epilog


def test_penstock_and_every_noun_have_examples_in_their_help() -> None:
    nouns = [name for name, each in PENSTOCK.commands.items() if hasattr(each, "commands")]
    assert ["", *sorted(nouns)] == sorted(NOUN_EXAMPLES)
    for noun, examples in NOUN_EXAMPLES.items():
        listed = "".join(f"    {each}\n" for each in examples)
        assert f"  Examples:\n{listed}" in run(*noun.split(), "--help").out, noun


@pytest.mark.parametrize(
    "line",
    sorted({each for of in (EXAMPLES, NOUN_EXAMPLES) for some in of.values() for each in some}),
)
def test_an_example_can_be_typed(line: str) -> None:
    words = shlex.split(line.rpartition("| ")[2])[1:]
    command = PENSTOCK
    context = command.make_context("penstock", words, obj=Options())
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, words, parent=context)
    assert command.callback is not None


def test_every_option_is_explained() -> None:
    bare = [
        f"{path} {each.opts[0]}"
        for path, command in leaves("penstock", PENSTOCK)
        for each in command.params
        if each.param_type_name == "option" and not each.help
    ]
    assert bare == []
