"""The `penstock` command: what all commands share, and the way from an error to its exit code."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli import (
    config,
    consume,
    group,
    log,
    produce,
    spark,
    start,
    streams,
    topic,
    txn,
    version,
)
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    CommandFailed,
    ExitCode,
    Format,
    Options,
    error_text,
    note,
)
from penstock.errors import KafkaError

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
app.add_typer(topic.app, name="topic")
app.add_typer(config.app, name="config")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(txn.app, name="txn")
app.add_typer(log.app, name="log")
app.add_typer(spark.app, name="spark")
app.add_typer(streams.app, name="streams")
app.command("version")(version.version)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    bootstrap: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            envvar="PENSTOCK_BOOTSTRAP",
            help="A server of the cluster, or several with commas between.",
        ),
    ] = BOOTSTRAP_DEFAULT,
    format: Annotated[
        Format, typer.Option(help="How results are printed; json is the stable form for programs.")
    ] = Format.TABLE,
    version: Annotated[  # noqa: ARG001 - it acts as soon as it is read
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end."),
    ] = False,
) -> None:
    context.obj = Options(bootstrap, format)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    # `nohup penstock ... &` starts with SIGINT ignored, and then nothing would end a --follow.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(args=arguments, prog_name="penstock")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.REFUSED)
    except CommandFailed as failed:
        note(f"error: {failed}")
        return int(failed.code)
    except KafkaError as refused:
        note(f"error: {error_text(refused)}")
        return int(ExitCode.REFUSED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except Exception as problem:
        return _from_outside(problem)
    return int(ExitCode.OK)


def _from_outside(problem: Exception) -> int:
    """Errors of rooms that are loaded only when a command needs them."""
    from penstock.client.connection import CannotReach

    if isinstance(problem, CannotReach):
        note(f"error: {problem}")
        note("Is a node running there? `penstock start` starts one; --bootstrap says where.")
        return int(ExitCode.CANNOT_REACH)
    if os.environ.get("PENSTOCK_TRACEBACK"):
        raise problem
    note(f"error: {type(problem).__name__}: {problem}")
    note("This is a fault of penstock; PENSTOCK_TRACEBACK=1 shows where it happened.")
    return int(ExitCode.REFUSED)


if __name__ == "__main__":
    sys.exit(main())
