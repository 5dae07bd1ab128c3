"""`penstock top`: brokers, topics by traffic and groups by lag, again and again."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.known_cluster import describe_nodes
from penstock.cli.connection.partition_health import ask_min_insync, lagging_topics
from penstock.cli.terminal.output import (
    Format,
    coloured,
    error_text,
    format_of,
    print_next_value,
    print_value,
)
from penstock.cli.terminal.signals import ended_by_signals
from penstock.cli.top.view import (
    ClusterSnapshot,
    GroupSnapshot,
    TopFrame,
    frame_of,
    lines_of,
    rows_that_fit,
)
from penstock.client.values import At
from penstock.errors import KafkaError
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

GROUPS_MAX = 500
ROWS_PIPED = 20
QUIT = b"qQ\x03\x04"
KEYS_MAX = 64
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _LINE_END, _REST = "\x1b[H", "\x1b[K\n", "\x1b[J"

# Waits so many seconds; returns True if a key asks to quit.
Wait: TypeAlias = Callable[[float], bool]


@on_cluster
def top(
    context: typer.Context,
    *,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, help="Seconds between two looks.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame, after two looks, and end.")
    ] = False,
    frames: Annotated[
        int | None, typer.Option("--frames", "-n", min=1, help="End after this many frames.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", min=1, help="Of each table. Default: what fits, 20 when piped."),
    ] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also the topics that the server keeps for itself.")
    ] = False,
) -> None:
    """Watch a cluster: brokers, topics by traffic, groups by lag. q ends it."""
    form = format_of(context)
    live = form is Format.TABLE and sys.stdout.isatty() and not once and frames is None
    with ended_by_signals(), connect(access_of(context)) as admin:
        if live:
            _watch(admin, interval, rows, internal)
            return
        many = not once and frames != 1
        before: ClusterSnapshot | None = None
        left = 1 if once else frames
        while left is None or left > 0:
            now = take_snapshot(admin, internal)
            if before is None and once:
                time.sleep(interval)
                before, now = now, take_snapshot(admin, internal)
            _print(frame_of(now, before), form, rows or ROWS_PIPED, many)
            before = now
            left = None if left is None else left - 1
            if left != 0:
                time.sleep(interval)


def _print(frame: TopFrame, form: Format, rows: int, many: bool) -> None:
    if form is not Format.TABLE:
        (print_next_value if many else print_value)(form, frame.as_json())
    else:
        print("\n".join(lines_of(frame, rows=rows, colours=coloured(sys.stdout))))
        if many:
            print()
    sys.stdout.flush()


# -- requests


def take_snapshot(admin: "Admin", internal: bool) -> ClusterSnapshot:
    cluster = describe_nodes(admin)
    topics = [each for each in admin.list_topics() if internal or not each.internal]
    partitions = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader >= 0
    ]
    ends = _found(admin, partitions, At.END)
    starts = _found(admin, list(ends), At.BEGINNING)
    at_s = time.monotonic()
    groups, left_out = _groups(admin)
    return ClusterSnapshot(
        at_s,
        cluster.cluster_id,
        cluster.controller_id,
        cluster.brokers,
        topics,
        starts,
        ends,
        groups,
        left_out,
        ask_min_insync(admin, lagging_topics(topics)),
    )


def _found(
    admin: "Admin", partitions: list[TopicPartition], place: At
) -> dict[TopicPartition, int]:
    """Return offsets of partitions; those without a leader are left out."""
    found = admin.offsets(dict.fromkeys(partitions, int(place))) if partitions else {}
    return {each: got.offset for each, got in found.items() if not isinstance(got, KafkaError)}


def _groups(admin: "Admin") -> tuple[list[GroupSnapshot], int]:
    listed = admin.groups.list_all()
    asked = listed[:GROUPS_MAX]
    names = [each.group_id for each in asked]
    described = admin.groups.describe(names) if names else {}
    committed = admin.groups.offsets_of(names) if names else {}
    seen: list[GroupSnapshot] = []
    for each in asked:
        about, offsets = described.get(each.group_id), committed.get(each.group_id)
        answered = {} if offsets is None or isinstance(offsets, KafkaError) else offsets
        seen.append(
            GroupSnapshot(
                each.group_id,
                each.state,
                None if about is None or isinstance(about, KafkaError) else len(about.members),
                {place: offset.offset for place, offset in answered.items()},
            )
        )
    return seen, len(listed) - len(asked)


# -- a terminal


def _watch(admin: "Admin", interval: float, rows: int | None, internal: bool) -> None:
    """Draw frames until a key quits; an unreachable cluster may come back."""
    from penstock.client.transport.connection import CannotReach

    before: ClusterSnapshot | None = None
    said: list[str] = []
    with _screen() as wait:
        while True:
            width, height = shutil.get_terminal_size()
            try:
                now = take_snapshot(admin, internal)
            except CannotReach as problem:
                shown = [f"cannot reach it: {problem}", *said]
            except KafkaError as rejected:
                shown = [f"the server said no: {error_text(rejected)}", *said]
            else:
                fitting = rows or rows_that_fit(height)
                frame = frame_of(now, before)
                colours = coloured(sys.stdout)
                shown = said = lines_of(frame, rows=fitting, width=width, colours=colours)
                before = now
            visible = [*shown[: height - 1]]
            sys.stdout.write(_HOME + "".join(line + _LINE_END for line in visible) + _REST)
            sys.stdout.flush()
            if wait(interval):
                return


@contextmanager
def _screen() -> Iterator[Wait]:
    """Switch to the alternate screen of the terminal, and back at the end."""
    sys.stdout.write(_ENTER)
    try:
        with _keys() as wait:
            yield wait
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@contextmanager
def _keys() -> Iterator[Wait]:
    """Read single keys if stdin is a terminal; otherwise only wait."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import select
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    modes = termios.tcgetattr(descriptor)

    def wait(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([descriptor], [], [], left)[0]:
                return False
            typed = os.read(descriptor, KEYS_MAX)
            if not typed or any(each in QUIT for each in typed):
                return True  # end of file: the terminal is closed
        return False

    try:
        tty.setcbreak(descriptor)
        yield wait
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
