"""`penstock spark`: prepares a machine for pipelines."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer

from penstock.cli.terminal.output import CommandFailed, WrongUsage, note
from penstock.spark_extra import SparkMissing, require_spark

if TYPE_CHECKING:
    from penstock.bulk.implementation import WarmupReport

app = typer.Typer(help="Pipelines on Spark.", no_args_is_help=True)

P = ParamSpec("P")
R = TypeVar("R")


def needs_spark(command: Callable[P, R]) -> Callable[P, R]:
    """Return a command that ends with the line to install Spark, where Spark is missing."""

    @wraps(command)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            require_spark("this command")
        except SparkMissing as missing:
            raise CommandFailed(str(missing)) from None
        return command(*arguments, **named)

    return run


@app.command()
@needs_spark
def warmup() -> None:
    """Compile the code that reads and writes records, and look for a Java."""
    from penstock.bulk.implementation import WrongChoice, warm_up
    from penstock.spark.java import NoJava, find_java

    try:
        note(_compiled_text(warm_up()))
    except WrongChoice as wrong:
        raise WrongUsage(str(wrong)) from wrong
    try:
        java = find_java()
    except NoJava as none:
        note(f"warning: {none}")
    else:
        note(f"Spark will run on Java {java.version} in {java.home}")


def _compiled_text(report: "WarmupReport") -> str:
    if report.implementation.value == "plain":
        return (
            "without numba records are read with numpy and pyarrow and written in plain Python, "
            "many times slower; there is nothing to compile"
        )
    place = f"kept in {report.cache}" if report.cache else "not kept: no directory is safe for it"
    if report.compiled:
        return f"compiled {', '.join(report.compiled)} in {report.seconds:.1f} s, {place}"
    return f"compiled code is there, {place}"
