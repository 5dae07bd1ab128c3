"""`penstock consume`: the records of topics, to their ends or as they come."""

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli.access import Access, access_of
from penstock.cli.admin import CLIENT_ID, connect
from penstock.cli.completion import complete_topic
from penstock.cli.consume_options import (
    CountOption,
    FilterOption,
    FollowOption,
    FromOption,
    GroupOption,
    HeadersOption,
    Isolation,
    IsolationOption,
    KeysOption,
    NullMarkerOption,
    OffsetsOption,
    PartitionsOption,
    PatternOption,
    PrettyOption,
    ReadCommittedOption,
    TemplateOption,
    TimestampsOption,
)
from penstock.cli.ending_signals import Signalled, ended_by_signals
from penstock.cli.filters import parse_filters
from penstock.cli.known_names import matching
from penstock.cli.output import CommandFailed, ExitCode, Format, counted, format_of, note
from penstock.cli.partitions import partitions_of
from penstock.cli.places import Kind, Place, find_place, parse_place
from penstock.cli.record_printing import Shown, printer_for
from penstock.cli.shared_options import on_cluster

if TYPE_CHECKING:
    from penstock.cli.record_reading import Reading

RESETS = {Kind.START: "earliest", Kind.END: "latest"}


class Wanted(NamedTuple):
    """What to read, and up to where."""

    topics: tuple[str, ...]
    place: Place
    partitions: list[int]
    group: str | None
    isolation: Isolation
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
    partitions: PartitionsOption = [],  # noqa: B006 - typer reads it, nobody changes it
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
    isolation: IsolationOption = Isolation.COMMITTED,
    read_committed: ReadCommittedOption = False,
) -> None:
    """Print the records of topics. Without --group it joins no group and commits nothing."""
    if bool(topics) == (pattern is not None):
        raise CommandFailed("say what to read: TOPIC..., or --pattern REGEX", ExitCode.USAGE)
    place = parse_place(begin, "--from")
    if read_committed:
        isolation = Isolation.COMMITTED
    wait = follow or place.kind is Kind.END
    passing = parse_filters(filters)
    access = access_of(context)
    named = tuple(dict.fromkeys(topics)) if topics else _matching(access, pattern or "")
    wanted = Wanted(named, place, partitions, group, isolation, wait)
    if partitions and len(named) > 1:
        raise CommandFailed("--partition goes with one topic", ExitCode.USAGE)
    shown = Shown(offsets, timestamps, keys, headers, topics=len(named) > 1)
    form = format_of(context)
    if template is not None and form is not Format.TABLE:
        raise CommandFailed("--template and --format are two ways to say it", ExitCode.USAGE)
    print_record = printer_for(form, template, shown, null_marker.encode(), pretty)
    printed = 0
    with ended_by_signals(), _reading(access, wanted) as reading:
        for batch in reading.batches(lambda: _look_after(access, wanted)):
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
                reading.finish(batch[:done])  # the others are printed by whoever reads next
                raise
            if printed == count:
                return


def _matching(access: Access, pattern: str) -> tuple[str, ...]:
    """Return the topics that match; CommandFailed if none does."""
    with connect(access) as admin:
        there = [each.name for each in admin.list_topics() if not each.internal]
    found = matching(pattern, there, "--pattern")
    if not found:
        raise CommandFailed(f"--pattern {pattern!r} matches none of {counted(len(there), 'topic')}")
    return tuple(found)


def _reading(access: Access, wanted: Wanted) -> "Reading":
    from penstock.cli.client_keys import consumer_values
    from penstock.cli.record_reading import Reading

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
        return Reading.of_partitions(given, access.namespace, begins, follow=wanted.follow)
    with connect(access) as admin:
        for topic in wanted.topics:
            partitions_of(admin, topic, [])
    own |= {
        "enable.auto.commit": settings.auto_commit,
        "auto.offset.reset": RESETS[wanted.place.kind],
    }
    return Reading.of_group({**given, **own}, access.namespace, wanted.topics, follow=wanted.follow)


def _look_after(access: Access, wanted: Wanted) -> None:
    """Not all was read, and nothing comes: why, if the cluster tells; CannotReach if it does not.

    It may be well: a group that is waited for, a node that was away.
    """
    from penstock.cli.timed_out import NO_PARTITION, reason

    with connect(access) as admin:
        found = admin.describe_topics(wanted.topics)
    for topic, each in found.items():
        why = reason(topic, each, wanted.partitions or [NO_PARTITION], None)
        if why is not None:
            raise CommandFailed(f"not all was read: {why}", ExitCode.CANNOT_REACH)


def _check_member(wanted: Wanted) -> None:
    if wanted.group == "":
        raise CommandFailed("--group: a group needs a name", ExitCode.USAGE)
    if wanted.partitions:
        raise CommandFailed(
            "--group and --partition: a group shares the partitions out itself", ExitCode.USAGE
        )
    if wanted.place.kind not in RESETS:
        raise CommandFailed(
            "--group goes with --from start or --from end, where nothing is committed yet; "
            f"`penstock group reset {wanted.group}` moves a group",
            ExitCode.USAGE,
        )
