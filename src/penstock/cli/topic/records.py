"""`penstock topic offsets|delete-records`: where logs begin and end, and moving their beginning."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.completion import complete_topic
from penstock.cli.arguments.partitions import chosen_partitions, parse_topics
from penstock.cli.arguments.places import PLACE_HELP, PlaceKind, bounds, find_place, parse_place
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.terminal.output import (
    DryRunOption,
    Row,
    WrongUsage,
    YesOption,
    confirm,
    counted,
    exit_if_failed,
    format_of,
    note,
    print_rows,
)
from penstock.errors import KafkaError
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

Topics = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME[:P,P]...",
        autocompletion=complete_topic,
        help="Topics, or some of their partitions.",
    ),
]


@on_cluster
def offsets(
    context: typer.Context,
    topics: Topics,
    *,
    at: Annotated[
        str | None, typer.Option("--at", metavar="PLACE", help=f"Also the offset of: {PLACE_HELP}")
    ] = None,
) -> None:
    """Show where the log of each partition begins and ends."""
    place = None if at is None else parse_place(at, "--at")
    with connect(access_of(context)) as admin:
        partitions = _named(admin, topics)
        starts, ends = bounds(admin, partitions)
        found = {} if place is None else find_place(admin, partitions, place)
    rows: list[Row] = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "start": starts[each],
            "end": ends[each],
            "offsets": ends[each] - starts[each],
            **({} if at is None else {"at": found[each]}),
        }
        for each in partitions
    ]
    columns = ["topic", "partition", "start", "end", "offsets"]
    print_rows(format_of(context), columns if at is None else [*columns, "at"], rows)


@on_cluster
def delete_records(
    context: typer.Context,
    topics: Topics,
    *,
    before: Annotated[
        str, typer.Option("--before", metavar="PLACE", help=f"What comes before: {PLACE_HELP}")
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete the records before a place: the logs begin there from then on."""
    place = parse_place(before, "--before")
    if place.kind is PlaceKind.START:
        raise WrongUsage("--before start: there is nothing before it")
    access = access_of(context)
    with connect(access) as admin:
        partitions = _named(admin, topics)
        starts, _ = bounds(admin, partitions)
        wanted = find_place(admin, partitions, place)
        moved = {each: offset for each, offset in wanted.items() if offset > starts[each]}
        results: dict[TopicPartition, int | KafkaError] = {}
        if moved and not dry_run:
            count = sum(offset - starts[each] for each, offset in moved.items())
            where = counted(len(moved), "partition")
            confirm(f"Delete {count:,} offsets of {where} at {access.where}?", yes=yes)
            results = admin.delete_records(moved)
    rows: list[Row] = []
    for each in partitions:
        result = results.get(each)
        failed = isinstance(result, KafkaError)
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "start": starts[each],
                "new_start": starts[each] if failed else max(wanted[each], starts[each]),
                "deleted": 0 if failed else max(0, wanted[each] - starts[each]),
                "done": each in results and not failed,
            }
        )
    print_rows(format_of(context), ("topic", "partition", "start", "new_start", "deleted"), rows)
    if dry_run and moved:
        note("nothing was deleted; without --dry-run it would be")
    elif not moved:
        note("nothing to delete: the logs begin there already, or later")
    errors = {str(each): got for each, got in results.items() if isinstance(got, KafkaError)}
    exit_if_failed(errors, some_done=len(errors) < len(results))


def _named(admin: "Admin", topics: list[str]) -> list[TopicPartition]:
    choice = parse_topics(topics, "topics")
    return chosen_partitions(admin, choice)
