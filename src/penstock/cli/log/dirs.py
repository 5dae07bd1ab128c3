"""`penstock log dirs` and `penstock log move`: where brokers keep partitions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.partitions import TopicsOption, chosen_partitions, parse_topics
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.results import value_of
from penstock.cli.terminal.output import (
    Format,
    Json,
    Row,
    WrongUsage,
    exit_if_failed,
    format_of,
    note,
    print_rows,
    report,
)
from penstock.cli.terminal.progress_bar import bytes_text
from penstock.errors import KafkaError
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.admin.cluster_values import LogDir

DIRECTORY_COLUMNS = ("broker", "path", "partitions", "size", "free", "of", "moving_in")
REPLICA_COLUMNS = ("broker", "topic", "partition", "path", "size", "lag", "moving_in")


@on_cluster
def dirs(
    context: typer.Context,
    *,
    brokers: Annotated[
        list[int],
        typer.Option("--broker", metavar="ID", help="Only these; may be repeated."),
    ] = [],  # noqa: B006 - typer only reads the default
    topics: TopicsOption = [],  # noqa: B006
    replicas: Annotated[
        bool, typer.Option("--replicas", help="A line for each replica in them.")
    ] = False,
) -> None:
    """Show the directories of brokers: what is in them, and what is free."""
    choice = parse_topics(topics)
    with connect(access_of(context)) as admin:
        wanted = chosen_partitions(admin, choice)
        found = admin.log_dirs.describe(brokers or None, wanted or None)
    rows: list[Row] = []
    failed: dict[str, KafkaError] = {}
    form = format_of(context)
    for broker, directories in found.items():
        if isinstance(directories, KafkaError):
            failed[f"broker {broker}"] = directories
            continue
        for path, directory in directories.items():
            if isinstance(directory, KafkaError):
                failed[f"broker {broker} {path}"] = directory
            elif replicas:
                rows += _replica_rows(broker, directory)
            else:
                rows.append(_directory_row(broker, directory))
    if form is Format.TABLE:
        rows = [size_cells(row) for row in rows]
    print_rows(form, REPLICA_COLUMNS if replicas else DIRECTORY_COLUMNS, rows)
    exit_if_failed(failed, some_done=bool(rows))


def _directory_row(broker: int, directory: "LogDir") -> Row:
    here = directory.replicas.values()
    return {
        "broker": broker,
        "path": directory.path,
        "partitions": sum(not each.future for each in here),
        "size_bytes": sum(each.size_bytes for each in here),
        "usable_bytes": directory.usable_bytes,
        "total_bytes": directory.total_bytes,
        "moving_in": sum(each.future for each in here),
    }


def _replica_rows(broker: int, directory: "LogDir") -> list[Row]:
    return [
        {
            "broker": broker,
            "topic": partition.topic,
            "partition": partition.partition,
            "path": directory.path,
            "size_bytes": each.size_bytes,
            "lag": each.offset_lag,
            "moving_in": each.future,
        }
        for partition, each in sorted(directory.replicas.items())
    ]


def size_cells(row: Mapping[str, Json]) -> Row:
    """Return the row with sizes as texts."""
    named = {"size": "size_bytes", "free": "usable_bytes", "of": "total_bytes"}
    words: Row = {}
    for column, key in named.items():
        amount = row.get(key)
        words[column] = bytes_text(amount) if isinstance(amount, int) else None
    return {**row, **words}


@on_cluster
def move(
    context: typer.Context,
    partitions: Annotated[
        list[str], typer.Argument(metavar="NAME:P[,P]...", help="Partitions to move.")
    ],
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="DIR", help="A directory of the broker, as it names it.")
    ],
    broker: Annotated[
        int | None,
        typer.Option("--broker", metavar="ID", help="Whose replica; needed if there are several."),
    ] = None,
) -> None:
    """Move partitions to another directory of their broker; it goes on while they are used."""
    from penstock.client.admin.cluster_values import Replica

    choice = parse_topics(partitions, "move")
    whole = [name for name, some in choice.items() if not some]
    if whole:
        raise WrongUsage(f"say which partitions of {whole[0]}: {whole[0]}:0,1")
    with connect(access_of(context)) as admin:
        chosen = chosen_partitions(admin, choice)
        holders = {each: broker if broker is not None else _holder(admin, each) for each in chosen}
        targets = {Replica(*each, holders[each]): to for each in chosen}
        results = admin.log_dirs.alter(targets)
    failed = {str(each): error for each, error in results.items() if error is not None}
    done = [str(each) for each in results if str(each) not in failed]
    if done:
        note(
            "`penstock log dirs --replicas` shows what is on its way, `penstock log status` how far"
        )
    report(format_of(context), done, failed, f"on its way to {to}")


def _holder(admin: "Admin", partition: TopicPartition) -> int:
    found = value_of(admin.describe_topics([partition.topic])[partition.topic])
    replicas = next(p.replicas for p in found.partitions if p.partition == partition.partition)
    if len(replicas) != 1:
        brokers = ", ".join(map(str, replicas))
        raise WrongUsage(f"{partition} has replicas on {brokers}; say --broker ID")
    return replicas[0]
