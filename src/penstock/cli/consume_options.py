"""The options of `penstock consume`."""

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.completion import complete_group
from penstock.cli.known_names import PATTERN_HELP
from penstock.cli.places import PLACE_HELP


class Isolation(StrEnum):
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
    Isolation, typer.Option(help="Whether records of open and aborted transactions are shown.")
]
ReadCommittedOption = Annotated[
    bool, typer.Option("--read-committed", help="The default: --isolation read_committed.")
]
