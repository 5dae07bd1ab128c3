"""`penstock worker MODULE:APP`: runs a worker until a signal."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import Access, access_of
from penstock.cli.terminal.output import BOOTSTRAP_DEFAULT, CommandFailed, Options, WrongUsage, note
from penstock.log_levels import LogLevel

if TYPE_CHECKING:
    from penstock.worker import Worker

PORT_MAX = 65_535
LOCAL_HOST = "127.0.0.1"


@on_cluster
def worker(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:APP", help="Where the Worker is, e.g. shop.billing:app or billing:app."
        ),
    ],
    *,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="[HOST:]PORT",
            help="Serve /health, /ready and /metrics there; 127.0.0.1 if no host is said.",
        ),
    ] = None,
    stop_timeout: Annotated[
        float | None,
        typer.Option(
            "--stop-timeout", metavar="SECONDS", min=0, help="How long what was begun may take."
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", case_sensitive=False, help="What is logged.")
    ] = LogLevel.INFO,
) -> None:
    """Handle records with the functions of a Worker, until SIGTERM, SIGHUP or Ctrl-C.

    What is said here, in the environment or in the profile goes before what the Worker says.
    """
    address = None if http is None else _address(http)
    access = access_of(context)
    application = load(target)
    configure(application, access, context.obj)
    if stop_timeout is not None:
        application.stop_timeout_s = stop_timeout
    from penstock.cli.terminal.log_lines import logging_to
    from penstock.client.settings import SettingRefused
    from penstock.worker.process import end_with_threads_left, serve

    topics = ", ".join(application.handlings)
    note(f"worker {application.group} handles {topics} at {application.bootstrap}")
    try:
        with logging_to(sys.stderr, log_level):
            asyncio.run(
                serve(
                    application,
                    address=address,
                    on_listening=lambda at: note(
                        f"http://{at[0]}:{at[1]}/health, /ready, /metrics"
                    ),
                )
            )
            end_with_threads_left()
            note(f"worker {application.group} has ended: what was finished is committed")
    except SettingRefused as rejected:
        raise WrongUsage(f"-X {rejected}") from None
    except OSError as problem:
        if address is None:
            raise
        raise CommandFailed(f"--http {http}: {problem}") from problem


def _address(said: str) -> tuple[str, int]:
    host, _, port = said.rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise WrongUsage(f"--http {said}: say a port, or HOST:PORT")
    return host.strip("[]") or LOCAL_HOST, int(port)


def load(target: str) -> "Worker":
    """Return the Worker at a Python path; the current directory is searched first."""
    from penstock.cli.user_code import USER_FAILURES, import_failed
    from penstock.client.runtime.python_paths import NotThere
    from penstock.client.runtime.python_paths import load as load_path
    from penstock.worker import Worker

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    path = target if ":" in target else f"{target}:app"
    try:
        found = load_path(path)
    except NotThere as problem:
        raise WrongUsage(f"{target}: {problem}") from problem
    except USER_FAILURES as problem:
        raise import_failed(path.partition(":")[0], problem) from problem
    if not isinstance(found, Worker):
        raise WrongUsage(f"{target} is a {type(found).__name__}, not a penstock.worker.Worker")
    if not found.handlings:
        raise CommandFailed(f"{target} handles no topic: decorate a function with @app.on(...)")
    return found


def configure(application: "Worker", access: Access, options: Options) -> None:
    """Override settings of the application by flags, environment and profile."""
    own = application.bootstrap or application.settings.get("bootstrap.servers")
    elsewhere = (
        options.bootstrap is not None or access.bootstrap != BOOTSTRAP_DEFAULT or own is None
    )
    application.bootstrap = access.bootstrap if elsewhere else str(own)
    application.settings = {**application.settings, **access.settings}
    if access.namespace or options.namespace is not None:
        application.namespace = access.namespace.prefix
