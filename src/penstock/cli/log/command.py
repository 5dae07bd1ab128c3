"""`penstock log dirs|move|status|dump`

Log directories of brokers and their replicas, background tasks of a running node, and the contents
of the files of a data directory, which needs no server.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments.shared_options import on_cluster, with_format
from penstock.cli.connection.access import BOOTSTRAP_VARIABLE, Access, access_of
from penstock.cli.connection.metrics_port import AskedNode, node_at
from penstock.cli.log.dirs import dirs, move
from penstock.cli.log.status import show_status
from penstock.cli.terminal.output import (
    CommandFailed,
    ExitCode,
    Format,
    Json,
    Options,
    Row,
    WrongUsage,
    format_of,
    note,
    print_next_value,
    reason_of,
)

app = typer.Typer(
    help="Look into logs: directories, moves between them, duties, files.", no_args_is_help=True
)

app.command()(dirs)
app.command()(move)


@app.command()
@on_cluster
def status(
    context: typer.Context,
    *,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            envvar="PENSTOCK_METRICS",
            metavar="HOST:PORT",
            help="Where the node serves its metrics. Default: asked of the node at --bootstrap.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Again every second.")] = False,
) -> None:
    """Show the progress of a node's long tasks: cleaning, deletion, recovery, moves."""
    options: Options = context.obj
    meant = None
    # A variable names the usual cluster; only a typed address is checked against --address.
    typed = options.bootstrap not in (None, os.environ.get(BOOTSTRAP_VARIABLE))
    if address is None or typed:
        meant = _node_at(access_of(context), address)
        address = meant.address
    show_status(address, format_of(context), meant, watch=watch)


def _node_at(access: Access, address: str | None) -> AskedNode:
    from penstock.client.transport.connection import CannotReach

    try:
        return node_at(access, address)
    except CannotReach as problem:
        raise CommandFailed(
            f"{problem}. --address HOST:PORT alone asks a node that does not listen for clients",
            ExitCode.CANNOT_REACH,
        ) from None


@app.command()
@with_format
def dump(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH")],
    records: Annotated[
        bool, typer.Option("--records", help="The records of each batch too, decoded.")
    ] = False,
) -> None:
    """Print segments, indexes, snapshots and checkpoints: files, or a partition's directory."""
    from penstock.cli.log.dump import dump_file

    chosen = format_of(context)
    faults = 0
    for file in [file for path in paths for file in _files(path)]:
        if chosen is Format.TABLE:
            print(f"-- {file} ({file.stat().st_size} bytes)")
        for row in dump_file(file, records):
            faults += "fault" in row
            _print_row(file, row, chosen)
    if faults:
        raise CommandFailed(f"{faults} faults were found")


def _files(path: Path) -> list[Path]:
    from penstock.cli.log.dump import files_in

    try:
        return files_in(path)
    except FileNotFoundError:
        raise WrongUsage(
            f"{path}: there is no such file or directory; name a file of a data directory, or the "
            "directory of a partition such as data/orders-0"
        ) from None
    except OSError as problem:
        raise WrongUsage(f"{path}: {reason_of(problem)}") from None


def _print_row(file: Path, row: Row, form: Format) -> None:
    if form is not Format.TABLE:
        print_next_value(form, {"file": str(file), **row})
        return
    if "fault" in row:
        note(f"fault: {file}: {row['fault']}")
        return
    indent = "    " if "record" in row else "  "
    print(indent + "  ".join(f"{name}={_plain(value)}" for name, value in row.items()))


def _plain(value: Json) -> str:
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}={_plain(each)}" for name, each in value.items()) + "}"
    return "-" if value is None else str(value)
