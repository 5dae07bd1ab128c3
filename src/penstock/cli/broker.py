"""`penstock broker list|describe|apis|unregister`"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.number_limits import INT32_MAX
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.cluster import BROKER_COLUMNS, broker_row
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.known_cluster import describe_nodes
from penstock.cli.log.dirs import size_cells
from penstock.cli.terminal.output import (
    CommandFailed,
    Format,
    Row,
    YesOption,
    confirm,
    exit_if_failed,
    format_of,
    print_rows,
    print_value,
    report,
)
from penstock.errors import BrokerNotAvailable, KafkaError

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.admin.cluster_values import LogDir

app = typer.Typer(help="The brokers of the cluster.", no_args_is_help=True)

BrokerId = Annotated[int, typer.Argument(metavar="ID", max=INT32_MAX)]


@app.command("list")
@on_cluster
def list_brokers(
    context: typer.Context,
    *,
    fenced: Annotated[
        bool, typer.Option("--fenced", help="Only those that are registered and not alive.")
    ] = False,
) -> None:
    """List brokers: where they are, and what they lead."""
    with connect(access_of(context)) as admin:
        rows = _rows(admin)
    print_rows(format_of(context), BROKER_COLUMNS, [x for x in rows if x["fenced"] or not fenced])


def _rows(admin: "Admin") -> list[Row]:
    cluster = describe_nodes(admin)
    partitions = [each for topic in admin.list_topics() for each in topic.partitions]
    return [broker_row(each, cluster.controller_id, partitions) for each in cluster.brokers]


@app.command()
@on_cluster
def describe(context: typer.Context, broker: BrokerId) -> None:
    """Describe a broker: where it is, what it leads, its directories."""
    with connect(access_of(context)) as admin:
        rows = {row["broker"]: row for row in _rows(admin)}
        if broker not in rows:
            known = ", ".join(map(str, rows))
            raise CommandFailed(f"there is no broker {broker}; there is {known}")
        found: dict[str, LogDir | KafkaError] | KafkaError
        if rows[broker]["fenced"]:
            found = BrokerNotAvailable("It is fenced: its directories are not known.")
        else:
            found = admin.log_dirs.describe([broker])[broker]
    directories: list[Row] = []
    failed: dict[str, KafkaError] = {}
    if isinstance(found, KafkaError):
        failed[f"broker {broker}"] = found
        found = {}
    for path, directory in found.items():
        if isinstance(directory, KafkaError):
            failed[path] = directory
            continue
        directories.append(
            {
                "path": path,
                "replicas": len(directory.replicas),
                "size_bytes": sum(each.size_bytes for each in directory.replicas.values()),
                "usable_bytes": directory.usable_bytes,
                "total_bytes": directory.total_bytes,
            }
        )
    form = format_of(context)
    if form is not Format.TABLE:
        print_value(form, {**rows[broker], "directories": [*directories]})
    else:
        print_rows(Format.TABLE, BROKER_COLUMNS, [rows[broker]])
        print()
        cells = [size_cells(each) for each in directories]
        print_rows(Format.TABLE, ("path", "replicas", "size", "free"), cells)
    exit_if_failed(failed, some_done=True)


@app.command()
@on_cluster
def apis(
    context: typer.Context,
    broker: Annotated[
        int | None, typer.Argument(metavar="ID", help="Default: all brokers.")
    ] = None,
) -> None:
    """Show which versions of each API brokers serve."""
    from penstock.client.transport.connection import CannotReach
    from penstock.wire.apis import APIS

    with connect(access_of(context)) as admin:
        found = admin.api_versions()
    names = {api.key: api.name for api in APIS.values()}
    rows: list[Row] = []
    failed: dict[str, KafkaError] = {}
    for each, answered in found.items():
        if broker not in (None, each.node_id):
            continue
        if isinstance(answered, CannotReach):
            raise answered
        if isinstance(answered, KafkaError):
            failed[f"broker {each.node_id}"] = answered
            continue
        for key, versions in sorted(answered.versions.items()):
            rows.append(
                {
                    "broker": each.node_id,
                    "api": names.get(key),
                    "key": key,
                    "lowest": versions.lowest,
                    "highest": versions.highest,
                }
            )
    if broker is not None and not rows and not failed:
        raise CommandFailed(f"there is no broker {broker}; `penstock broker list` shows them")
    print_rows(format_of(context), ("broker", "api", "key", "lowest", "highest"), rows)
    exit_if_failed(failed, some_done=bool(rows))


@app.command()
@on_cluster
def unregister(context: typer.Context, broker: BrokerId, *, yes: YesOption = False) -> None:
    """Take a broker that will not come back out of the cluster's metadata."""
    access = access_of(context)
    confirm(f"Unregister broker {broker} at {access.where}?", yes=yes)
    with connect(access) as admin:
        admin.unregister_broker(broker)
    report(format_of(context), [f"broker {broker}"], {}, "unregistered")
