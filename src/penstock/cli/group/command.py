"""`penstock group list|describe|reset|delete|delete-offsets`"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.completion import complete_group
from penstock.cli.arguments.known_names import explained_groups, missing_group
from penstock.cli.arguments.partitions import (
    PartitionChoice,
    TopicsOption,
    parse_topics,
    partitions_text,
)
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import Access, access_of, connect
from penstock.cli.connection.results import split_results
from penstock.cli.group.reset import reset
from penstock.cli.group.view import (
    MEMBER_COLUMNS,
    OFFSET_COLUMNS,
    STATE_COLUMNS,
    heading,
    member_row,
    offset_rows,
    shown_partitions,
    state_row,
    with_next_step,
)
from penstock.cli.terminal.output import (
    CommandFailed,
    DryRunOption,
    ExitCode,
    Format,
    Row,
    WrongUsage,
    YesOrExecuteOption,
    confirm,
    counted,
    error_text,
    exit_if_failed,
    format_of,
    note,
    print_rows,
    print_value,
    report,
)
from penstock.client.values import At
from penstock.errors import GroupIdNotFound, KafkaError, NonEmptyGroup, UnknownTopicOrPartition
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.admin.coordinator_values import CommittedOffset, GroupDescription

app = typer.Typer(
    help="List and describe consumer groups, reset their offsets, delete them.",
    no_args_is_help=True,
)
app.command()(reset)


class GroupStateOption(StrEnum):
    """States in Kafka's spelling; some belong to classic groups only, some to consumer groups."""

    EMPTY = "Empty"
    STABLE = "Stable"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    DEAD = "Dead"


class GroupType(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


Groups = Annotated[list[str], typer.Argument(metavar="GROUP", autocompletion=complete_group)]


@app.command("list")
@on_cluster
def list_groups(
    context: typer.Context,
    *,
    states: Annotated[
        list[GroupStateOption],
        typer.Option("--state", case_sensitive=False, help="Only these; may be repeated."),
    ] = [],  # noqa: B006 - typer only reads the default
    types: Annotated[
        list[GroupType],
        typer.Option("--type", case_sensitive=False, help="Only these; may be repeated."),
    ] = [],  # noqa: B006
) -> None:
    """List groups."""
    with connect(access_of(context)) as admin:
        found = admin.groups.list_all(states=states, types=types)
    rows: list[Row] = [
        {
            "group": each.group_id,
            "type": each.type or None,
            "state": each.state or None,
            "protocol": each.protocol_type or None,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    print_rows(format_of(context), ("group", "type", "state", "coordinator"), rows)


@app.command()
@on_cluster
def describe(
    context: typer.Context,
    names: Groups = [],  # noqa: B006
    *,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Offsets and lag of each partition; the default.")
    ] = False,
    members: Annotated[bool, typer.Option("--members", help="Who is in the group.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Only the state of each group.")] = False,
) -> None:
    """Describe groups, or all groups if none is named: committed offsets and lag."""
    if state and (members or offsets):
        raise WrongUsage(
            "--state is one line per group; it does not go with --members or --offsets"
        )
    offsets = offsets or not (members or state)
    with connect(access_of(context)) as admin:
        wanted = names or _describable(admin)
        found, errors = split_results(admin.groups.describe(wanted))
        described = list(found.values())
        rows = [state_row(each) for each in described]
        if members:
            for row, group in zip(rows, described, strict=True):
                row["members"] = [member_row(each) for each in group.members]
        if offsets:
            for row, partitions in zip(rows, _offset_rows(admin, described), strict=True):
                row["partitions"] = [*partitions]
        failed = _explained(admin, errors)
    if format_of(context) is not Format.TABLE:
        print_value(format_of(context), [*rows])
    elif state:
        print_rows(Format.TABLE, STATE_COLUMNS, rows)
    else:
        for row, group in zip(rows, described, strict=True):
            _print_described(row, group)
    exit_if_failed(failed, some_done=bool(described))


def _explained(admin: "Admin", failed: dict[str, KafkaError]) -> dict[str, KafkaError]:
    """Return the errors with a next step; for a missing group, with a similar name."""
    return {
        name: error if isinstance(error, GroupIdNotFound) else with_next_step(name, error)
        for name, error in explained_groups(admin, failed).items()
    }


def _describable(admin: "Admin") -> list[str]:
    """Return all classic and consumer groups."""
    listed = admin.groups.list_all()
    return [each.group_id for each in listed if not each.type or each.type in set(GroupType)]


def _offset_rows(admin: "Admin", groups: "list[GroupDescription]") -> list[list[Row]]:
    """Return the rows of each group; one request asks for the offsets of all logs."""
    committed = [admin.groups.offsets(group.group_id) for group in groups]
    partitions = [
        each
        for group, mine in zip(groups, committed, strict=True)
        for each in shown_partitions(group, mine)
    ]
    starts = admin.offsets(dict.fromkeys(partitions, At.BEGINNING))
    ends = admin.offsets(dict.fromkeys(partitions, At.END))
    for each, problem in ends.items():
        if isinstance(problem, UnknownTopicOrPartition):
            note(f"note: {each} does not exist any more")
        elif isinstance(problem, KafkaError):
            note(f"warning: {each}: {error_text(problem)}")
    return [
        offset_rows(group, mine, starts, ends)
        for group, mine in zip(groups, committed, strict=True)
    ]


def _print_described(row: Row, group: "GroupDescription") -> None:
    print(heading(group))
    if "members" in row:
        members = [
            {**member_row(each), "partitions": partitions_text(each.assigned)}
            for each in group.members
        ]
        if members:
            print_rows(Format.TABLE, MEMBER_COLUMNS, members)
        else:
            print("no members")
    match row.get("partitions"):
        case []:
            print("nothing committed and nothing assigned")
        case list(partitions):
            print_rows(
                Format.TABLE,
                OFFSET_COLUMNS,
                [each for each in partitions if isinstance(each, dict)],
            )
    print()


@app.command()
@on_cluster
def delete(
    context: typer.Context,
    names: Groups,
    *,
    yes: YesOrExecuteOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete groups that have no members, with all that they have committed."""
    chosen, access = format_of(context), access_of(context)
    if not dry_run:
        confirm(
            _question(f"{counted(len(names), 'group')} with all offsets", access, names), yes=yes
        )
    with connect(access) as admin:
        if dry_run:
            _show_deletable(admin, names, chosen)
            return
        results = admin.groups.delete(names)
        failed = _explained(admin, {n: each for n, each in results.items() if each is not None})
    report(chosen, [name for name in results if name not in failed], failed, "deleted")


def _question(what: str, access: Access, names: list[str]) -> str:
    return f"Delete {what} at {access.where}: {', '.join(names)}?"


def _show_deletable(admin: "Admin", names: list[str], form: Format) -> None:
    rows: list[Row] = []
    failed: dict[str, KafkaError] = {}
    for name, found in admin.groups.describe(names).items():
        if isinstance(found, KafkaError):
            failed |= _explained(admin, {name: found})
        elif found.members:
            failed[name] = with_next_step(name, NonEmptyGroup())
        else:
            rows.append({**state_row(found), "offsets": len(admin.groups.offsets(name))})
    print_rows(form, ("group", "type", "state", "offsets"), rows)
    for name, error in failed.items():
        note(f"error: {name}: {error_text(error)}")
    if rows:
        note(f"nothing was deleted; --yes deletes {counted(len(rows), 'group')}")
    if failed:
        raise typer.Exit(ExitCode.REJECTED)  # a dry run does nothing, so PARTIAL would be wrong


@app.command("delete-offsets")
@on_cluster
def delete_offsets(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group)],
    *,
    topics: TopicsOption,
    yes: YesOrExecuteOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Forget what a group has committed for topics that none of its members reads."""
    choice = parse_topics(topics)
    form, access = format_of(context), access_of(context)
    if not dry_run:
        confirm(_question(f"what {name} has committed for", access, topics), yes=yes)
    with connect(access) as admin:
        committed = admin.groups.offsets(name)
        if not committed and isinstance(admin.groups.describe([name])[name], GroupIdNotFound):
            raise CommandFailed(missing_group(admin, name))
        chosen = _chosen(name, choice, committed)
        if dry_run:
            rows: list[Row] = [
                {**each._asdict(), "committed": committed[each].offset} for each in chosen
            ]
            print_rows(form, ("topic", "partition", "committed"), rows)
            note(f"nothing was deleted; --yes deletes {counted(len(rows), 'offset')}")
            return
        results = admin.groups.delete_offsets(name, chosen)
    failed = {
        str(each): with_next_step(name, error)
        for each, error in results.items()
        if error is not None
    }
    report(form, [str(each) for each in results if str(each) not in failed], failed, "deleted")


def _chosen(
    group: str, choice: PartitionChoice, committed: "dict[TopicPartition, CommittedOffset]"
) -> list[TopicPartition]:
    """Return the named partitions; raise CommandFailed if one has no committed offset."""
    chosen: list[TopicPartition] = []
    for topic, numbers in choice.items():
        there = [each for each in committed if each.topic == topic]
        named = [TopicPartition(topic, number) for number in numbers] or there
        missing = [str(each) for each in named if each not in committed]
        if missing or not named:
            raise CommandFailed(
                f"{group} has committed nothing for {', '.join(missing) or topic}; "
                f"`penstock group describe {group}` shows what it has"
            )
        chosen += named
    return chosen
