"""The `penstock` command: its subcommands, shared options, and exit codes of errors."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.cli import (
    broker,
    cluster,
    dlq,
    quorum,
    quota,
    spark,
    start,
    streams,
    user,
    version,
    worker,
)
from penstock.cli.acl import command as acl_command
from penstock.cli.arguments.completion import complete_profile
from penstock.cli.arguments.shared_options import SettingsOption
from penstock.cli.cert import command as cert_command
from penstock.cli.config import command as config_command
from penstock.cli.consume import command as consume_command
from penstock.cli.debug import command as debug_command
from penstock.cli.examples import add_examples
from penstock.cli.group import command as group_command
from penstock.cli.log import command as log_command
from penstock.cli.produce import command as produce_command
from penstock.cli.profile import command as profile_command
from penstock.cli.terminal.output import (
    BOOTSTRAP_DEFAULT,
    CommandFailed,
    ExitCode,
    Format,
    Options,
    error_text,
    note,
)
from penstock.cli.top import command as top_command
from penstock.cli.topic import command as topic_command
from penstock.cli.txn import command as txn_command
from penstock.errors import KafkaError
from penstock.release import VERSION

app = typer.Typer(
    name="penstock",
    help="Event streaming that speaks Kafka's protocol.",
    epilog="Exit codes: 0 done, 1 the server said no or the node cannot start, 2 the command was "
    "not understood or a file that it names cannot be read, 3 the server cannot be reached, "
    "4 some of it was done, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("start")(start.start)
app.add_typer(topic_command.app, name="topic")
app.command("produce")(produce_command.produce)
app.command("consume")(consume_command.consume)
app.add_typer(group_command.app, name="group")
app.add_typer(config_command.app, name="config")
app.add_typer(acl_command.app, name="acl")
app.add_typer(cluster.app, name="cluster")
app.add_typer(broker.app, name="broker")
app.add_typer(cert_command.app, name="cert")
app.add_typer(quorum.app, name="quorum")
app.add_typer(quota.app, name="quota")
app.add_typer(user.app, name="user")
app.add_typer(txn_command.app, name="txn")
app.add_typer(log_command.app, name="log")
app.add_typer(dlq.app, name="dlq")
app.command("top")(top_command.top)
app.add_typer(profile_command.app, name="profile")
app.add_typer(spark.app, name="spark")
app.add_typer(streams.app, name="streams")
app.command("worker")(worker.worker)
app.add_typer(debug_command.app, name="debug")
app.command("version")(version.version)
add_examples(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    *,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="PENSTOCK_BOOTSTRAP",
            help="A server of the cluster, or several with commas between. "
            f"Default: the profile's, or {BOOTSTRAP_DEFAULT}.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="PENSTOCK_PROFILE",
            autocompletion=complete_profile,
            help="A profile: see `penstock profile`. Default: the current one, if there is one.",
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            envvar="PENSTOCK_NAMESPACE",
            help="Stands before all names of topics, groups and transactional ids; others are "
            "hidden. It keeps environments apart, and is no security boundary. '' for none.",
        ),
    ] = None,
    settings: SettingsOption = [],  # noqa: B006 - typer only reads the default
    format: Annotated[
        Format | None,
        typer.Option(
            envvar="PENSTOCK_FORMAT",
            help="How results are printed; json and yaml are the stable forms for programs.",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - it acts as soon as it is read
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end."),
    ] = False,
) -> None:
    context.obj = Options(bootstrap, format, profile, namespace, tuple(settings or ()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # `nohup penstock ... &` starts with SIGINT ignored, so Ctrl-C could not end a --follow.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(args=arguments, prog_name="penstock")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.REJECTED)
    except CommandFailed as failed:
        note(f"error: {failed}")
        return int(failed.code)
    except KafkaError as rejected:
        return _rejected(rejected)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except Exception as problem:
        return _from_outside(problem)
    return int(ExitCode.OK)


def _rejected(error: KafkaError) -> int:
    """Print the server's error and the next step; return the exit code."""
    note(f"error: {error_text(error)}")
    if error.next_step:
        note(f"{error.next_step}.")
    return int(ExitCode.REJECTED)


def _from_outside(problem: Exception) -> int:
    """Print an error of a package that is imported lazily; return the exit code."""
    from penstock.client.failures.kinds import ClientError, TimedOut
    from penstock.client.transport.connection import CannotReach, NotAuthenticated
    from penstock.credentials.stores import BadStore
    from penstock.wire.primitives import UnencodableValue

    if isinstance(problem, UnencodableValue):
        note(f"error: what was given cannot be sent: {problem}")
        return int(ExitCode.USAGE)
    if isinstance(problem, BadStore):
        note(f"error: {problem}")
        return int(ExitCode.USAGE)
    if isinstance(problem, NotAuthenticated):
        note(f"error: {problem}")
        note("Check what was given for sasl.* and ssl.*, by -X or in the profile.")
        return int(ExitCode.CANNOT_REACH)
    if isinstance(problem, CannotReach):
        note(f"error: {problem}")
        note("Is a node running there? `penstock start` starts one; --bootstrap says where.")
        return int(ExitCode.CANNOT_REACH)
    if isinstance(problem, ClientError):
        note(f"error: {problem}")
        timed_out = isinstance(problem, TimedOut)
        return int(ExitCode.CANNOT_REACH if timed_out else ExitCode.REJECTED)
    if isinstance(problem, OSError) and problem.errno == errno.ENOSPC:
        # The interpreter must not flush stdout again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        note("error: the output cannot be written: no space left on the device")
        return int(ExitCode.REJECTED)
    if os.environ.get("PENSTOCK_TRACEBACK"):
        raise problem
    note(f"error: {type(problem).__name__}: {problem}")
    note("This is a fault of penstock; PENSTOCK_TRACEBACK=1 shows where it happened.")
    return int(ExitCode.REJECTED)
