"""`penstock debug bundle`"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.arguments.times import time_text, wall_ms
from penstock.cli.connection.access import access_of
from penstock.cli.terminal.output import (
    ExitCode,
    Format,
    WrongUsage,
    counted,
    format_of,
    note,
    print_value,
    reason_of,
)

app = typer.Typer(help="What a maintainer needs to look into a problem.", no_args_is_help=True)


@app.command()
@on_cluster
def bundle(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Default: penstock-debug-TIME.tar.gz, here."),
    ] = None,
    *,
    logs: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="The end of this log, too; may be repeated."),
    ] = None,
) -> None:
    """Collect versions, settings, descriptions, metrics and logs into one archive.

    Credentials are left out; names of topics, groups, hosts and clients are in it.
    """
    from penstock.cli.debug.bundle import collect

    stamp = time_text(wall_ms()).partition(".")[0].replace(":", "")
    folder = f"penstock-debug-{stamp}"
    path = file or Path(f"{folder}.tar.gz")
    found = collect(access_of(context), logs or ())
    try:
        found.write(path, folder)
    except OSError as problem:
        raise WrongUsage(f"{path}: {reason_of(problem)}") from None
    if format_of(context) is not Format.TABLE:
        print_value(
            format_of(context),
            {"file": str(path), "parts": [*found.files], "problems": [*found.problems]},
        )
    else:
        print(f"{path}: {counted(len(found.files), 'part')}")
    for each in found.problems:
        note(f"warning: {each}")
    note("Credentials are left out; look through it before you send it.")
    if found.problems:
        raise typer.Exit(ExitCode.PARTIAL)
