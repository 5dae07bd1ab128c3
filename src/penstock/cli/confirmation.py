"""Asking before something is destroyed.

On a terminal the command asks; elsewhere it needs --yes, so that a script that was not meant to
destroy anything does not.
"""

import sys
from typing import Annotated

import typer

from penstock.cli.output import CommandFailed, ExitCode

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do it without asking; a script must say so.")
]
YesOrExecuteOption = Annotated[
    bool,
    typer.Option("--yes", "-y", "--execute", help="Do it without asking; a script must say so."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


def confirm(question: str, *, yes: bool) -> None:
    """Returns if it may be done; else the command ends, and nothing was changed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{question} Nobody is there to ask, so nothing was changed; --yes does it",
            ExitCode.USAGE,
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed("nothing was changed")
