"""Colours are for terminals, and for those who want them."""

import io

import pytest
from cli_running import run, run_at_terminal

from penstock.cli.terminal.output import Style, coloured, styled


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_has_colours_unless_somebody_does_not_want_them(
    environment: dict[str, str], wanted: bool
) -> None:
    assert coloured(Terminal(), environment) is wanted
    assert not coloured(io.StringIO(), environment)


def test_nothing_is_styled_where_it_is_not_wanted() -> None:
    assert styled("a", Style.RED, wanted=False) == "a"
    assert styled("a", Style.RED, wanted=True) == "\x1b[31ma\x1b[0m"
    assert styled("", Style.RED, wanted=True) == ""


def test_an_error_is_red_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    command = ("--bootstrap", "127.0.0.1:1", "topic", "list")
    assert run_at_terminal(*command, shown=True).err.startswith("\x1b[31merror:\x1b[0m ")
    assert run(*command).err.startswith("error: ")
    monkeypatch.setenv("NO_COLOR", "1")
    assert run_at_terminal(*command, shown=True).err.startswith("error: ")


def test_the_heading_of_a_table_is_bold_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert run_at_terminal("profile", "list", shown=True).out.startswith("\x1b[1mNAME")
    assert run("profile", "list").out.startswith("NAME")
