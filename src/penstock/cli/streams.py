"""`penstock streams run|describe|list|reset`"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.shared_options import on_cluster, with_format
from penstock.cli.connection.access import Access, access_of, connect
from penstock.cli.spark import needs_spark
from penstock.cli.terminal.output import (
    CommandFailed,
    ExecuteOption,
    Format,
    Row,
    WrongUsage,
    format_of,
    note,
    print_rows,
    print_value,
    report,
)
from penstock.client.namespace import NO_NAMESPACE

if TYPE_CHECKING:
    from penstock.streams.app import Streams
    from penstock.streams.registry import KnownApplication
    from penstock.streams.settings import StreamsSettings

app = typer.Typer(
    help="Run, describe, list and reset applications of penstock.streams.", no_args_is_help=True
)

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A script or module with the application: revenue.py, revenue.py:app, shop.main:app.",
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", help="Where applications keep their state; state.dir by default."),
]


def _load(target: str) -> "Streams":
    from penstock.cli.user_code import USER_FAILURES, import_failed
    from penstock.streams.app_loader import load
    from penstock.streams.errors import StreamsError

    try:
        return load(target)
    except StreamsError as problem:
        raise WrongUsage(str(problem)) from problem
    except USER_FAILURES as problem:
        raise import_failed(target.partition(":")[0], problem) from problem


@app.command()
@needs_spark
def run(
    target: Target,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is there now, and end.")
    ] = False,
    trigger: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help='Time between micro-batches, such as "5 seconds".'),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="A Spark master; this machine by default.")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Serve metrics for Prometheus on 127.0.0.1; 0: a free port."),
    ] = None,
) -> None:
    """Run an application until it is interrupted, with its progress on the terminal."""
    from penstock.spark.session import session
    from penstock.streams.errors import StreamsError
    from penstock.streams.java_output import carried_output, interrupts_wait, shut_on_interrupt
    from penstock.streams.progress import StreamsMetricsPort, Terminal

    application = _load(target)
    name = application.settings.application_id
    try:
        with carried_output() as output, interrupts_wait(output):
            spark = session(name, master=master)
        with (
            shut_on_interrupt(output),
            application.start(once=once, trigger=trigger, spark=spark) as running,
        ):
            port = (
                None if metrics_port is None else StreamsMetricsPort(running.metrics, metrics_port)
            )
            if port is not None:
                note(f"metrics on http://127.0.0.1:{port.port}/metrics")
            try:
                running.wait(Terminal())
            finally:
                if port is not None:
                    port.close()
    except StreamsError as problem:
        raise CommandFailed(str(problem)) from problem
    except KeyboardInterrupt:
        note(f"{name} was interrupted; the next run continues from its checkpoints")
        raise


@app.command()
@with_format
@needs_spark
def describe(context: typer.Context, target: Target) -> None:
    """Draw an application's topology: its queries, their steps, what they read and write."""
    from dataclasses import asdict

    from penstock.streams.errors import StreamsError
    from penstock.streams.registry import known_of

    application = _load(target)
    try:
        if format_of(context) is Format.TABLE:
            print(application.describe())
            return
        plan = application.plan()
    except StreamsError as problem:
        raise CommandFailed(str(problem)) from problem
    known: Row = asdict(known_of(application.settings, plan))
    known["queries"] = [
        {
            "name": query.name,
            "stateful": query.stateful,
            "mode": "update" if query.updates else "append",
            "grace_ms": query.grace_ms,
            "reads": [node.topic for node in query.inputs],
            "writes": [*query.topics] if query.writes else [],
            "stores": [*query.stores],
            "steps": [{"name": node.name, "does": node.text()} for node in query.nodes],
        }
        for query in plan.queries
    ]
    print_value(format_of(context), known)


@app.command("list")
@with_format
@needs_spark
def list_applications(context: typer.Context, *, state_dir: StateDir = None) -> None:
    """List the applications that have run with this state directory."""
    from penstock.streams.registry import is_running, last_batch, list_known
    from penstock.streams.settings import state_directory

    directory = state_directory(state_dir)
    rows: list[Row] = []
    for known in list_known(directory):
        mine = directory / known.application_id
        batches = [last_batch(mine, query) for query in known.queries]
        committed = [each + 1 for each in batches if each is not None]
        rows.append(
            {
                "application": known.application_id,
                "state": "running" if is_running(mine) else "stopped",
                "queries": [*known.queries],
                "batches": sum(committed),
                "reads": [*known.reads],
                "writes": [*known.writes],
                "bootstrap": known.bootstrap,
            }
        )
    columns = ("application", "state", "queries", "batches", "reads", "writes")
    print_rows(format_of(context), columns, rows)


@app.command()
@on_cluster
@needs_spark
def reset(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A script with the application, or its id.")
    ],
    *,
    state_dir: StateDir = None,
    execute: ExecuteOption = False,
) -> None:
    """Send an application back to its beginning: state, checkpoints, offsets, internal topics."""
    from penstock.streams.errors import StreamsError
    from penstock.streams.reset import apply, plan_reset
    from penstock.streams.topics import open_admin

    # Names of applications have no namespace.
    access = replace(access_of(context), namespace=NO_NAMESPACE)
    known, directory, settings = _known(target, state_dir, access)
    chosen = format_of(context)
    try:
        # A script has credentials; for an id only the address was stored, no secrets.
        there = replace(access, bootstrap=known.bootstrap)
        with connect(there) if settings is None else open_admin(settings) as admin:
            plan = plan_reset(known, directory, admin)
            if not execute or not plan.items:
                rows: list[Row] = [
                    {"kind": each.kind, "name": each.name, "detail": each.detail}
                    for each in plan.items
                ]
                print_rows(chosen, ("kind", "name", "detail"), rows)
                _explain(known, len(plan.items))
                return
            done, failed = apply(plan, admin)
    except StreamsError as problem:
        raise CommandFailed(str(problem)) from problem
    report(chosen, done, failed, "removed")
    if not failed:
        note(f"{known.application_id} may start again, once, with its state in {directory}")


def _explain(known: "KnownApplication", count: int) -> None:
    if not count:
        note(f"{known.application_id} has nothing to reset")
        return
    written = [topic for topic in known.writes if topic not in known.internal_topics]
    topics = ", ".join(written) or "the topics it writes to"
    note(f"nothing was done; --execute does {'it' if count == 1 else 'them all'}")
    note(
        f"{topics} and {known.dead_letters} stay as they are: the next run writes its results again"
    )


def _known(
    target: str, state_dir: Path | None, access: Access
) -> "tuple[KnownApplication, Path, StreamsSettings | None]":
    """Return an application by its script, by its id in the state directory, or, if that is
    gone, by its groups on the cluster."""
    from penstock.streams.registry import known_of, read_known
    from penstock.streams.settings import state_directory

    if target.endswith(".py") or ":" in target:
        application = _load(target)
        settings = application.settings
        root = settings.state_dir if state_dir is None else state_dir
        return known_of(settings, application.plan()), root / settings.application_id, settings
    directory = state_directory(state_dir) / target
    known = read_known(directory)
    if known is None and state_dir is None:
        raise WrongUsage(
            f"there is no application {target} in {directory.parent}. If its state directory is "
            "gone, say where it was: --state-dir DIR, or the application's script in place of its "
            "name; `penstock streams list` shows which there are"
        )
    known = known or _known_of_cluster(target, access)
    if known is None:
        raise WrongUsage(
            f"there is no application {target} in {directory.parent}, and no group of it on "
            f"{access.bootstrap}; `penstock streams list` shows which there are, --bootstrap says "
            "where else to look, and the application's script can stand in place of its name"
        )
    return known, directory, None


def _known_of_cluster(application_id: str, access: Access) -> "KnownApplication | None":
    """Return an application by the groups that its progress is committed to."""
    from penstock.streams.registry import known_by_groups

    with connect(access) as admin:
        groups = [each.group_id for each in admin.groups.list_all()]
    return known_by_groups(application_id, access.bootstrap, groups)
