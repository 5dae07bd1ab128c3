"""`penstock consume`: the records of topics, to their ends or as they come."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli.arguments.completion import complete_group, complete_topic
from penstock.cli.arguments.known_names import PATTERN_HELP, matching
from penstock.cli.arguments.partitions import partitions_of
from penstock.cli.arguments.places import PLACE_HELP, LogPlace, PlaceKind, find_place, parse_place
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import CLIENT_ID, Access, access_of, connect
from penstock.cli.consume.filters import parse_filters
from penstock.cli.consume.printers import Shown, printer_for
from penstock.cli.terminal.output import (
    CommandFailed,
    ExitCode,
    Format,
    WrongUsage,
    counted,
    format_of,
    note,
)
from penstock.cli.terminal.signals import Signalled, ended_by_signals

if TYPE_CHECKING:
    from penstock.cli.consume.reader import RecordReader


class ConsumeIsolation(StrEnum):
    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


FromOption = Annotated[
    str, typer.Option("--from", "-o", metavar="PLACE", help=f"Where to begin: {PLACE_HELP}")
]
PatternOption = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="REGEX",
        help=f"Topics that match when the command starts. {PATTERN_HELP}",
    ),
]
PartitionsOption = Annotated[
    list[int],
    typer.Option(
        "--partition", "-p", min=0, help="May be repeated. Default: all.", show_default=False
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="NAME",
        autocompletion=complete_group,
        help="Read as a member of this group and commit what was printed; --from counts where it "
        "has committed nothing.",
    ),
]
CountOption = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="Stop after this many records.")
]
FollowOption = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Wait for more at the end. --from end does so by itself."),
]
FilterOption = Annotated[
    list[str],
    typer.Option(
        "--filter",
        metavar="FILTER",
        help="Only records that pass, such as key=abc, value~regex, header.trace=1, "
        "value.user.id=7, offset>=100, timestamp>=2026-01-31, !value. May be repeated.",
        show_default=False,
    ),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="TEXT",
        help="%t topic, %p partition, %o offset, %k key, %v value, %h headers, %d time, "
        "%T milliseconds, %K and %V lengths, %H number of headers, %e epoch, %j JSON.",
    ),
]
KeysOption = Annotated[bool, typer.Option("--keys", help="Print keys too.")]
HeadersOption = Annotated[bool, typer.Option("--headers", help="Print headers too.")]
TimestampsOption = Annotated[bool, typer.Option("--timestamps", help="Print timestamps too.")]
OffsetsOption = Annotated[bool, typer.Option("--offsets", help="Print partitions and offsets too.")]
NullMarkerOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Stands for a key or value that is null.")
]
PrettyOption = Annotated[
    bool | None,
    typer.Option(
        "--pretty/--no-pretty",
        help="JSON values over several lines. Default: on a terminal.",
        show_default=False,
    ),
]
IsolationOption = Annotated[
    ConsumeIsolation,
    typer.Option(help="Whether records of open and aborted transactions are shown."),
]
ReadCommittedOption = Annotated[
    bool, typer.Option("--read-committed", help="The default: --isolation read_committed.")
]


RESETS = {PlaceKind.START: "earliest", PlaceKind.END: "latest"}


class ConsumeRequest(NamedTuple):
    """The topics to read, where to begin, and whether to wait for more."""

    topics: tuple[str, ...]
    place: LogPlace
    partitions: list[int]
    group: str | None
    isolation: ConsumeIsolation
    follow: bool


@on_cluster
def consume(
    context: typer.Context,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)
    ] = None,
    *,
    pattern: PatternOption = None,
    begin: FromOption = "start",
    partitions: PartitionsOption = [],  # noqa: B006 - typer only reads the default
    group: GroupOption = None,
    count: CountOption = None,
    follow: FollowOption = False,
    filters: FilterOption = [],  # noqa: B006
    template: TemplateOption = None,
    keys: KeysOption = False,
    headers: HeadersOption = False,
    timestamps: TimestampsOption = False,
    offsets: OffsetsOption = False,
    null_marker: NullMarkerOption = "null",
    pretty: PrettyOption = None,
    isolation: IsolationOption = ConsumeIsolation.COMMITTED,
    read_committed: ReadCommittedOption = False,
) -> None:
    """Print the records of topics. Without --group it joins no group and commits nothing."""
    if bool(topics) == (pattern is not None):
        raise WrongUsage("say what to read: TOPIC..., or --pattern REGEX")
    place = parse_place(begin, "--from")
    if read_committed:
        isolation = ConsumeIsolation.COMMITTED
    wait = follow or place.kind is PlaceKind.END
    passing = parse_filters(filters)
    access = access_of(context)
    named = tuple(dict.fromkeys(topics)) if topics else _matching(access, pattern or "")
    wanted = ConsumeRequest(named, place, partitions, group, isolation, wait)
    if partitions and len(named) > 1:
        raise WrongUsage("--partition goes with one topic")
    shown = Shown(offsets, timestamps, keys, headers, topics=len(named) > 1)
    form = format_of(context)
    if template is not None and form is not Format.TABLE:
        raise WrongUsage("--template and --format are two ways to say it")
    print_record = printer_for(form, template, shown, null_marker.encode(), pretty)
    printed = 0
    with ended_by_signals(), _reading(access, wanted) as reading:
        for batch in reading.batches(lambda: _ask_why_quiet(access, wanted)):
            done = 0
            try:
                for record in batch:
                    if all(each(record) for each in passing):
                        print_record(record)
                        printed += 1
                    done += 1
                    if printed == count:
                        break
                if wait or printed == count:
                    sys.stdout.flush()
                reading.finish(batch[:done])
            except (KeyboardInterrupt, Signalled):
                reading.finish(batch[:done])  # the next reader of the group prints the others
                raise
            if printed == count:
                return


def _matching(access: Access, pattern: str) -> tuple[str, ...]:
    """Return the topics that match; raise CommandFailed if none does."""
    with connect(access) as admin:
        there = [each.name for each in admin.list_topics() if not each.internal]
    found = matching(pattern, there, "--pattern")
    if not found:
        raise CommandFailed(f"--pattern {pattern!r} matches none of {counted(len(there), 'topic')}")
    return tuple(found)


def _reading(access: Access, wanted: ConsumeRequest) -> "RecordReader":
    from penstock.cli.connection.client_keys import consumer_values
    from penstock.cli.consume.reader import RecordReader

    own: dict[str, str | int | bool] = {
        "client.id": CLIENT_ID,
        "isolation.level": wanted.isolation.value,
    }
    if wanted.group is not None:
        _check_member(wanted)
        own["group.id"] = access.namespace.add(wanted.group)
    given, settings = consumer_values(access, own)
    if wanted.group is None:
        if settings.group_id is not None:
            note("note: group.id has no effect without --group NAME")
        with connect(access) as admin:
            chosen = [
                each
                for topic in wanted.topics
                for each in partitions_of(admin, topic, wanted.partitions)
            ]
            begins = find_place(admin, chosen, wanted.place)
        return RecordReader.of_partitions(given, access.namespace, begins, follow=wanted.follow)
    with connect(access) as admin:
        for topic in wanted.topics:
            partitions_of(admin, topic, [])
    own |= {
        "enable.auto.commit": settings.auto_commit,
        "auto.offset.reset": RESETS[wanted.place.kind],
    }
    return RecordReader.of_group(
        {**given, **own}, access.namespace, wanted.topics, follow=wanted.follow
    )


def _ask_why_quiet(access: Access, wanted: ConsumeRequest) -> None:
    """Raise CommandFailed with the reason why no records come; CannotReach without an answer.

    Return if there is no such reason: a rebalance or a restarted node may delay records.
    """
    from penstock.cli.connection.delivery_timeout import NO_PARTITION, reason

    with connect(access) as admin:
        found = admin.describe_topics(wanted.topics)
    for topic, each in found.items():
        why = reason(topic, each, wanted.partitions or [NO_PARTITION], None)
        if why is not None:
            raise CommandFailed(f"not all was read: {why}", ExitCode.CANNOT_REACH)


def _check_member(wanted: ConsumeRequest) -> None:
    if wanted.group == "":
        raise WrongUsage("--group: a group needs a name")
    if wanted.partitions:
        raise WrongUsage("--group and --partition: a group shares the partitions out itself")
    if wanted.place.kind not in RESETS:
        raise WrongUsage(
            "--group goes with --from start or --from end, where nothing is committed yet; "
            f"`penstock group reset {wanted.group}` moves a group"
        )
