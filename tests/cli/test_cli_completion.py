"""Shells complete commands and options."""

import os
import subprocess
import sys

import pytest

PROGRAM = "import sys; from penstock.cli.main import main; sys.exit(main())"


def ask(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("penstock to", ["topic", "top"]),
        ("penstock topic del", ["delete", "delete-records"]),
        ("penstock consume orders --isol", ["--isolation"]),
        ("penstock consume orders --isolation read_c", ["read_committed"]),
        ("penstock topic list --format y", ["yaml"]),
    ],
)
def test_bash_is_told_what_could_follow(line: str, found: list[str]) -> None:
    words = line.split(" ")
    said = ask(_PENSTOCK_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert sorted(said.split()) == sorted(found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell: str) -> None:
    assert "penstock" in ask(_PENSTOCK_COMPLETE=f"source_{shell}")
