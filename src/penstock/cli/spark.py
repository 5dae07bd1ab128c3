"""`penstock spark`: what a machine needs before pipelines run on it."""

from typing import TYPE_CHECKING

import typer

from penstock.cli.output import CommandFailed, ExitCode, note

if TYPE_CHECKING:
    from penstock.bulk.warmup import Report

app = typer.Typer(help="Pipelines on Spark.", no_args_is_help=True)

INSTALL = "pip install 'penstock[spark]'"


@app.command()
def warmup() -> None:
    """Compile the code that reads and writes records, and look for a Java."""
    try:
        from penstock.bulk.implementation import WrongChoice
        from penstock.bulk.warmup import warm_up
        from penstock.spark.java import NoJava, find_java
    except ImportError as missing:
        raise CommandFailed(f"{missing.name} is not installed: {INSTALL}") from None
    try:
        note(_told(warm_up()))
    except WrongChoice as wrong:
        raise CommandFailed(str(wrong), ExitCode.USAGE) from wrong
    try:
        java = find_java()
    except NoJava as none:
        note(f"warning: {none}")
    else:
        note(f"Spark will run on Java {java.version} in {java.home}")


def _told(report: "Report") -> str:
    if report.implementation.value == "plain":
        return (
            "without numba records are read with numpy and pyarrow and written in plain Python, "
            "many times slower; there is nothing to compile"
        )
    place = f"kept in {report.cache}" if report.cache else "not kept: no directory is safe for it"
    if report.compiled:
        return f"compiled {', '.join(report.compiled)} in {report.seconds:.1f} s, {place}"
    return f"compiled code is there, {place}"
