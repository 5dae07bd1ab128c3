"""A connection for one command."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.output import CommandFailed, ExitCode

if TYPE_CHECKING:
    from penstock.client.admin import Admin

TIMEOUT_MS = 15_000


@contextmanager
def connect(bootstrap: str) -> Iterator["Admin"]:
    """An admin client for the length of a command."""
    # Loading the protocol takes longer than printing a help text.
    from penstock.client.admin import Admin

    try:
        admin = Admin(bootstrap, client_id="penstock-cli", timeout_ms=TIMEOUT_MS)
    except ValueError as problem:
        raise CommandFailed(f"--bootstrap: {problem}", ExitCode.USAGE) from None
    with admin:
        yield admin
