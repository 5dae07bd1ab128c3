"""The reference of commands is what the commands say of themselves."""

from pathlib import Path

from typer.main import get_command

from penstock.cli.main import app
from penstock.cli.reference import leaves, reference

FILE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_the_reference_is_up_to_date() -> None:
    assert FILE.read_text() == reference(), "run `make reference`"


def test_every_command_is_in_the_reference() -> None:
    text = reference()
    for path, command in leaves("penstock", get_command(app)):
        assert f"### {path}\n" in text
        assert command.help, path


def test_every_option_is_explained() -> None:
    bare = [
        f"{path} {each.opts[0]}"
        for path, command in leaves("penstock", get_command(app))
        for each in command.params
        if each.param_type_name == "option" and not each.help
    ]
    assert bare == []
