"""A connection for one command."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.access import Access
from penstock.cli.output import CommandFailed, ExitCode

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.settings import AdminSettings

CLIENT_ID = "penstock-cli"
TIMEOUT_S = 15.0


@contextmanager
def connect(access: Access) -> Iterator["Admin"]:
    """An admin client for the length of a command."""
    # Loading the protocol takes longer than printing a help text.
    from penstock.client.admin.blocking import Admin

    said = _settings(access) if access.settings else None
    try:
        if said is None:
            admin = Admin(
                access.bootstrap,
                client_id=CLIENT_ID,
                timeout_s=TIMEOUT_S,
                namespace=access.namespace,
            )
        else:
            timed = "request.timeout.ms" in access.settings
            admin = Admin(
                access.bootstrap,
                client_id=said.client_id if "client.id" in access.settings else CLIENT_ID,
                timeout_s=said.request_timeout_ms / 1000 if timed else TIMEOUT_S,
                api_timeout_s=said.api_timeout_ms / 1000,
                security=said.security,
                namespace=access.namespace,
            )
    except ValueError as problem:
        raise CommandFailed(f"--bootstrap: {problem}", ExitCode.USAGE) from None
    with admin:
        yield admin


def _settings(access: Access) -> "AdminSettings":
    """Keys that are of other clients are no mistake: a command may have some of those too."""
    from penstock.client.settings import SettingRefused, admin_settings

    try:
        return admin_settings(access.settings, bootstrap=access.bootstrap)
    except SettingRefused as refused:
        raise CommandFailed(f"-X {refused}", ExitCode.USAGE) from None
