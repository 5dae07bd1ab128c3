"""`penstock txn recover`: ends open transactions of killed Spark jobs.

Decided batches are committed, other transactions of a sink are aborted, as at the restart of the
query. A running query of the sink is fenced, so recover only sinks without a running query.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.arguments.times import duration_text, wall_ms
from penstock.cli.connection.access import access_of
from penstock.cli.spark import needs_spark
from penstock.cli.terminal.output import (
    CommandFailed,
    ExecuteOption,
    Row,
    WrongUsage,
    format_of,
    note,
    print_rows,
)

if TYPE_CHECKING:
    from penstock.spark.options.sink import SinkOptions

COLUMNS = ("sink", "last_batch", "stage", "open_transactions", "oldest")
RECOVERED = ("sink", "finished", "aborted_transactions", "lost_rows")


@on_cluster
@needs_spark
def recover(
    context: typer.Context,
    sinks: Annotated[
        list[str] | None, typer.Argument(metavar="SINK", help="Default: all that are known.")
    ] = None,
    *,
    on_lost: Annotated[
        str,
        typer.Option(help="Of a decided batch whose transaction is gone: stop, rewrite or skip."),
    ] = "stop",
    execute: ExecuteOption = False,
) -> None:
    """Finish or abort what the writes of killed Spark jobs have left."""
    from penstock.spark.options.option_bag import BadOption
    from penstock.spark.options.sink import read_sink_options
    from penstock.spark.sink.driver import known_sinks

    access = access_of(context)
    asked = {**access.settings, "bootstrap.servers": access.bootstrap}
    try:
        options = read_sink_options(
            {"on.lost": on_lost, **{f"kafka.{key}": value for key, value in asked.items()}}
        )
    except BadOption as wrong:
        raise WrongUsage(str(wrong)) from None
    known = known_sinks(options)
    unknown = [each for each in sinks or () if each not in known]
    if unknown:
        listed = ", ".join(known) or "none"
        raise CommandFailed(f"there is no sink {', '.join(unknown)}; known: {listed}")
    chosen = sinks or known
    rows = [_recovered(options, each) if execute else _found(options, each) for each in chosen]
    print_rows(format_of(context), RECOVERED if execute else COLUMNS, rows)
    if not execute:
        note("nothing was changed; --execute finishes what was decided and aborts the rest")


def _found(options: "SinkOptions", sink: str) -> Row:
    from penstock.spark.sink.client_cluster import ClientCluster

    with options.connect() as admin:
        cluster = ClientCluster(admin, options)
        decision = cluster.last_decision(sink)
        opened = cluster.open_transactions(sink)
    oldest_ms = max((wall_ms() - each.started_ms for each in opened), default=None)
    return {
        "sink": sink,
        "last_batch": str(decision.batch) if decision and decision.last_batch else None,
        "stage": decision.stage.value if decision else None,
        "open_transactions": len(opened),
        "oldest": None if oldest_ms is None else duration_text(oldest_ms),
    }


def _recovered(options: "SinkOptions", sink: str) -> Row:
    from penstock.spark.sink.driver import settle
    from penstock.spark.sink.refusals import RowsLost

    try:
        settled = settle(options, sink)
    except RowsLost as lost:
        raise CommandFailed(f"{sink}: {lost}") from None
    return {
        "sink": sink,
        "finished": str(settled.last.batch) if settled.finished and settled.last else None,
        "aborted_transactions": len(settled.aborted),
        "lost_rows": settled.lost.rows if settled.lost is not None else 0,
    }
