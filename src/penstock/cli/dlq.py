"""`penstock dlq list|show|replay|purge`: records that ended in a dead-letter topic."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from penstock.cli.arguments.completion import complete_group, complete_topic
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.arguments.times import time_text
from penstock.cli.connection.access import Access, access_of
from penstock.cli.consume.record_view import as_json, escape_control_characters, pretty
from penstock.cli.terminal.output import (
    DryRunOption,
    Format,
    Json,
    Row,
    WrongUsage,
    YesOption,
    confirm,
    counted,
    format_of,
    note,
    print_next_value,
    print_rows,
    print_value,
)

if TYPE_CHECKING:
    from penstock.model import TopicPartition
    from penstock.retry.dead_letter import Choice, Letter
    from penstock.retry.dead_letters import DeadLetters, DeadTopic

T = TypeVar("T")

app = typer.Typer(
    help="List, show, replay and purge dead letters: records that no retry has helped.",
    no_args_is_help=True,
)

TopicArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        autocompletion=complete_topic,
        help="A dead-letter topic; with --group its source will do.",
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="GROUP", autocompletion=complete_group, help="Of this group only."
    ),
]
AtOption = Annotated[
    list[str],
    typer.Option(
        "--at",
        metavar="PARTITION[:OFFSETS]",
        help="Only these, e.g. 0:5-9,12; may be repeated.",
        show_default=False,
    ),
]
KeyOption = Annotated[
    list[str],
    typer.Option(
        "--key", metavar="TEXT", help="Only this key; may be repeated.", show_default=False
    ),
]
CauseOption = Annotated[
    str | None, typer.Option("--cause", metavar="TEXT", help="Only where the cause has this in it.")
]


# -- looking


@app.command("list")
@on_cluster
def list_topics(
    context: typer.Context,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Names that fit, e.g. 'orders.*'.")
    ] = "*",
    *,
    group: GroupOption = None,
) -> None:
    """List dead-letter topics, and how many letters wait in them."""

    async def look(dead: "DeadLetters") -> "list[DeadTopic]":
        return await dead.topics(pattern, group)

    found = _with_letters(access_of(context), look)
    rows: list[Row] = [
        {
            "topic": each.name,
            "source": each.source,
            "group": each.group,
            "letters": each.letters,
            "replayed": each.replayed,
            "oldest": None if each.oldest_ms is None else time_text(each.oldest_ms),
        }
        for each in found
    ]
    columns = ("topic", "source", "group", "letters", "replayed", "oldest")
    print_rows(format_of(context), columns, rows)


@app.command()
@on_cluster
def show(
    context: typer.Context,
    topic: TopicArgument,
    *,
    group: GroupOption = None,
    at: AtOption = [],  # noqa: B006 - typer only reads the default
    key: KeyOption = [],  # noqa: B006
    cause: CauseOption = None,
    replayed: Annotated[
        bool, typer.Option("--replayed", help="Also those that were replayed.")
    ] = False,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="At most so many.")] = 100,
) -> None:
    """Show dead letters: why each was given up, where it came from, and what it says."""
    form = format_of(context)
    choice = _choice(at, key, cause, replayed=None if replayed else False)
    name = _name(topic, group)

    async def look(dead: "DeadLetters") -> int:
        from contextlib import aclosing

        shown = 0
        async with aclosing(dead.letters(name, choice)) as letters:
            async for letter in letters:
                if shown == count:
                    note(f"there are more; -n {count} were shown")
                    break
                _show(letter, form)
                shown += 1
        return shown

    if not _with_letters(access_of(context), look):
        note("no dead letters")


def letter_json(letter: "Letter") -> Row:
    trail = letter.trail
    source: Json = None
    if trail is not None:
        source = {"topic": trail.topic, "partition": trail.partition, "offset": trail.offset}
    return {
        **as_json(letter.record),
        "cause": trail.cause if trail is not None else None,
        "attempts": trail.attempts if trail is not None else None,
        "group": trail.group if trail is not None else None,
        "source": source,
        "first_failed": trail.first_failed_ms if trail is not None else None,
        "last_failed": trail.last_failed_ms if trail is not None else None,
        "replayed": letter.replayed,
    }


def _show(letter: "Letter", form: Format) -> None:
    if form is not Format.TABLE:
        print_next_value(form, letter_json(letter))
        return
    record, trail = letter.record, letter.trail
    replayed = ", replayed" if letter.replayed else ""
    print(f"{record.topic}-{record.partition}@{record.offset}{replayed}")
    if trail is None:
        print("  not written by a retry: it says nothing of its way")
    else:
        print(f"  cause     {_text(trail.cause.encode())}")
        failed_ms = trail.last_failed_ms
        last = "" if failed_ms is None else f", the last at {time_text(failed_ms)}"
        print(f"  attempts  {trail.attempts}{last}")
        print(f"  source    {trail.topic}-{trail.partition}@{trail.offset}, group {trail.group}")
    for name, value in letter.own_headers:
        print(f"  header    {_text(name.encode())}: {_text(value)}")
    print(f"  key       {_text(record.key)}")
    print(f"  value     {_text(pretty(record.value) or record.value)}")


# -- changing


@app.command()
@on_cluster
def replay(
    context: typer.Context,
    topic: TopicArgument,
    *,
    group: GroupOption = None,
    at: AtOption = [],  # noqa: B006
    key: KeyOption = [],  # noqa: B006
    cause: CauseOption = None,
    every: Annotated[bool, typer.Option("--all", help="All that were not replayed.")] = False,
    to_source: Annotated[
        bool,
        typer.Option(
            "--to-source",
            help="Write them to the source topic, where every group reads them again. Without it "
            "they go to the group's first retry topic, for that group alone.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Give dead letters another chance, each once: those that were replayed are left out."""
    if every == bool(at or key or cause):
        raise WrongUsage("say which: --at, --key, --cause, or --all")
    choice, name = _choice(at, key, cause, replayed=False), _name(topic, group)
    form = format_of(context)

    async def do(dead: "DeadLetters") -> Row:
        if dry_run:
            found = [each async for each in dead.letters(name, choice)]
            return {"topic": name, "replayed": 0, "would_be_replayed": len(found)}
        done = await dead.replay(name, choice, to="source" if to_source else "retry")
        written: Row = dict(done.topics)
        return {
            "topic": name,
            "replayed": done.count,
            "written_to": written,
            "without_trail": done.without_trail,
        }

    result = _with_letters(access_of(context), do)
    if form is not Format.TABLE:
        print_value(form, result)
    elif dry_run:
        print(f"{result['would_be_replayed']} letters of {name} would be replayed")
    else:
        print(f"{result['replayed']} letters of {name} were replayed")
        match result["written_to"]:
            case dict(targets):
                for target, number in targets.items():
                    print(f"  {target}: {number}")
    if result.get("without_trail"):
        note(f"{result['without_trail']} were not: they do not say where they came from")


@app.command()
@on_cluster
def purge(
    context: typer.Context,
    topic: TopicArgument,
    *,
    group: GroupOption = None,
    only_replayed: Annotated[
        bool,
        typer.Option("--replayed", help="Only those at the front that were replayed."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also records that no retry has put there."),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete dead letters for good. A topic that holds other records, too, is left alone."""
    access, name = access_of(context), _name(topic, group)

    async def do(dead: "DeadLetters") -> "dict[TopicPartition, int]":
        counts = await dead.purge(name, only_replayed=only_replayed, dry_run=True, force=force)
        if dry_run or not sum(counts.values()):
            return counts
        confirm(
            f"Delete {counted(sum(counts.values()), 'record' if force else 'letter')} of {name}, "
            f"{access.where}?",
            yes=yes,
        )
        return await dead.purge(name, only_replayed=only_replayed, force=force)

    counts = _with_letters(access, do)
    rows: list[Row] = [
        {"topic": place.topic, "partition": place.partition, "letters": count}
        for place, count in counts.items()
    ]
    print_rows(format_of(context), ("topic", "partition", "letters"), rows)
    if dry_run:
        note("nothing was deleted; without --dry-run it would be")


# -- shared by the commands


def _with_letters(access: Access, work: "Callable[[DeadLetters], Coroutine[Any, Any, T]]") -> T:
    """Run a coroutine with the dead letters of the cluster."""
    from penstock.client.settings import SettingRefused
    from penstock.retry.dead_letters import DeadLetters

    async def run() -> T:
        async with DeadLetters(
            dict(access.settings),
            bootstrap=access.bootstrap,
            namespace=access.namespace.prefix or None,
        ) as dead:
            return await work(dead)

    try:
        return asyncio.run(run())
    except SettingRefused as rejected:
        raise WrongUsage(f"-X {rejected}") from None


def _choice(at: list[str], key: list[str], cause: str | None, *, replayed: bool | None) -> "Choice":
    from penstock.retry.dead_letter import Choice, parse_partition_offsets

    try:
        offsets = parse_partition_offsets(at) if at else None
    except ValueError as wrong:  # NoChoice, or too many digits
        raise WrongUsage(f"--at {wrong}") from None
    return Choice(offsets, frozenset(each.encode() for each in key), cause, replayed)


def _name(topic: str, group: str | None) -> str:
    from penstock.retry.dead_letters import dead_topic_of

    return dead_topic_of(topic, group)


def _text(data: bytes | None) -> str:
    return "-" if data is None else escape_control_characters(data).decode()
