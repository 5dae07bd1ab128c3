"""`penstock group reset`: a dry run that shows the new offsets; --execute commits them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.completion import complete_group
from penstock.cli.arguments.known_names import nearest_group
from penstock.cli.arguments.partitions import (
    PartitionChoice,
    TopicsOption,
    chosen_partitions,
    offsets_at,
    parse_topics,
)
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.arguments.times import DURATION_HELP, duration_of, parse_time, wall_ms
from penstock.cli.connection.access import access_of, connect
from penstock.cli.group.reset_plan import (
    Aim,
    OffsetMove,
    ResetRejected,
    ResetTo,
    ShiftBy,
    ToListed,
    ToOffset,
    ToTime,
    from_csv,
    known_offsets,
    plan_moves,
    to_csv,
)
from penstock.cli.group.view import with_next_step
from penstock.cli.terminal.output import (
    CommandFailed,
    ExecuteOption,
    ExitCode,
    Format,
    Row,
    WrongUsage,
    counted,
    error_text,
    format_of,
    note,
    print_rows,
    reason_of,
)
from penstock.client.values import At
from penstock.errors import (
    GroupIdNotFound,
    KafkaError,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

AIMS = (
    "--to-earliest, --to-latest, --to-datetime, --by-duration, --shift-by, --to-offset, "
    "--to-current, --from-file"
)
COLUMNS = ("topic", "partition", "committed", "new_offset")


@on_cluster
def reset(
    context: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group)],
    *,
    topics: TopicsOption = [],  # noqa: B006 - typer only reads the default
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All that the group has committed.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="The start of each log.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end of each log.")] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The first record at or after it: 2026-01-31T12:00:00Z."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help=f"So long ago. {DURATION_HELP}")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="From what is committed; back if negative.")
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="This offset in every partition.")
    ] = None,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="What is committed; else the end.")
    ] = False,
    from_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lines of topic,partition,offset, as --export prints."),
    ] = None,
    execute: ExecuteOption = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print the new offsets as lines for --from-file.")
    ] = False,
) -> None:
    """Move the offsets of a group that has no members."""
    aim = _only(
        ResetTo.EARLIEST if to_earliest else None,
        ResetTo.LATEST if to_latest else None,
        None if to_datetime is None else _to_time(to_datetime),
        None if by_duration is None else _ago(by_duration),
        None if shift_by is None else ShiftBy(shift_by),
        None if to_offset is None else ToOffset(to_offset),
        ResetTo.CURRENT if to_current else None,
        None if from_file is None else _listed(from_file, group),
    )
    _check_scope(aim, topics, all_topics)
    choice = parse_topics(topics)
    with connect(access_of(context)) as admin:
        _check_unused(admin, group)
        moves = _moves(admin, group, aim, choice)
        results = _commit(admin, group, moves) if execute else {}
    failed = {each: error for each, error in results.items() if error is not None}
    _show(moves, results, export, format_of(context))
    _conclude(group, moves, failed, execute)


# -- arguments


def _only(*aims: Aim | None) -> Aim:
    said = [each for each in aims if each is not None]
    if len(said) != 1:
        raise WrongUsage(f"say where to: one of {AIMS}")
    return said[0]


def _to_time(text: str) -> ToTime:
    try:
        return ToTime(parse_time(text))
    except ValueError:
        raise WrongUsage(
            f"--to-datetime {text}: must be a time such as 2026-01-31T12:00:00Z"
        ) from None


def _ago(text: str) -> ToTime:
    duration_ms = duration_of("--by-duration", text)
    return ToTime(max(0, wall_ms() - duration_ms))


def _listed(path: Path, group: str) -> ToListed:
    try:
        return ToListed(from_csv(path.read_text("utf-8"), group))
    except OSError as problem:
        raise WrongUsage(f"--from-file {path}: {reason_of(problem)}") from None
    except UnicodeDecodeError:
        raise WrongUsage(f"--from-file {path}: is no text") from None
    except ResetRejected as problem:
        raise WrongUsage(f"--from-file {path}: {problem}") from None


def _check_scope(aim: Aim, topics: list[str], all_topics: bool) -> None:
    if isinstance(aim, ToListed):
        if topics or all_topics:
            raise WrongUsage(
                "--from-file says which partitions; leave out --topic and --all-topics"
            )
    elif bool(topics) == all_topics:
        raise WrongUsage("say what to reset: --topic or --all-topics")


# -- offsets


def _check_unused(admin: "Admin", group: str) -> None:
    found = admin.groups.describe([group])[group]
    if isinstance(found, GroupIdNotFound):
        near = nearest_group(admin, group)
        meant = f"; did you mean {near}?" if near else ""
        note(f"note: there is no group {group} yet{meant}")
    elif isinstance(found, KafkaError):
        raise found
    elif found.members:
        raise CommandFailed(
            f"{group} is in use ({found.state}, {counted(len(found.members), 'member')}): stop it "
            f"first. `penstock group describe {group} --members` shows where it runs"
        )


def _moves(admin: "Admin", group: str, aim: Aim, choice: PartitionChoice) -> list[OffsetMove]:
    committed = _committed(admin, group)
    match aim:
        case ToListed(offsets):
            partitions = list(offsets)
        case _ if choice:
            partitions = chosen_partitions(admin, choice)
        case _:
            partitions = _still_there(admin, list(committed))
    if not partitions:
        raise CommandFailed(f"{group} has committed nothing; name topics with --topic")
    try:
        return plan_moves(
            aim,
            known_offsets(
                aim,
                partitions,
                committed,
                lambda place: offsets_at(admin, dict.fromkeys(partitions, place)),
            ),
        )
    except ResetRejected as problem:
        raise CommandFailed(str(problem)) from None


def _committed(admin: "Admin", group: str) -> dict[TopicPartition, int]:
    try:
        found = admin.groups.offsets(group, require_stable=True)
    except UnstableOffsetCommit:
        raise CommandFailed(
            f"an open transaction is about to commit offsets of {group}; reset it when that has "
            "ended: `penstock txn list --state Ongoing` shows which are open"
        ) from None
    return {each: known.offset for each, known in found.items()}


def _still_there(admin: "Admin", partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Return partitions of existing topics; offsets of deleted topics are left unchanged."""
    ends = admin.offsets(dict.fromkeys(partitions, At.END))
    gone = [each for each in partitions if isinstance(ends[each], UnknownTopicOrPartition)]
    for each in gone:
        note(f"note: {each} does not exist any more, and its offset is kept")
    return [each for each in partitions if each not in gone]


def _commit(
    admin: "Admin", group: str, moves: list[OffsetMove]
) -> dict[TopicPartition, KafkaError | None]:
    results = admin.groups.commit(group, {move.partition: move.offset for move in moves})
    return {
        each: None if error is None else with_next_step(group, error)
        for each, error in results.items()
    }


# -- output


def _show(
    moves: list[OffsetMove],
    results: dict[TopicPartition, KafkaError | None],
    export: bool,
    form: Format,
) -> None:
    if export:
        print(to_csv(moves), end="")
        return
    rows: list[Row] = []
    for move in moves:
        error = results.get(move.partition)
        rows.append(
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "committed": move.committed,
                "new_offset": move.offset,
                "note": move.note,
                "done": move.partition in results and error is None,
                "error": error.kafka_name() if error else None,
            }
        )
    print_rows(form, COLUMNS, rows)


def _conclude(
    group: str, moves: list[OffsetMove], failed: dict[TopicPartition, KafkaError], execute: bool
) -> None:
    for move in moves:
        if move.note is not None:
            note(f"note: {move.partition}: {move.note}")
    for partition, error in failed.items():
        note(f"error: {partition}: {error_text(error)}")
    if not execute:
        note(f"nothing was changed; --execute resets {group} so")
    else:
        note(f"{counted(len(moves) - len(failed), 'offset')} of {group} reset")
    if failed:
        raise typer.Exit(ExitCode.PARTIAL if len(failed) < len(moves) else ExitCode.REJECTED)
