"""`penstock consume`: the records of a topic, to its end or as they come."""

import base64
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer

from penstock.cli.admin import connect
from penstock.cli.output import (
    BootstrapOption,
    CommandFailed,
    ExitCode,
    Format,
    FormatOption,
    Json,
    bootstrap_of,
    format_of,
    key_values,
    note,
    print_json_line,
)
from penstock.cli.partitions import offsets_at, partitions_of
from penstock.cli.times import parse_time, time_text
from penstock.client.values import At
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

    from penstock.client.admin import Admin

POLL_S = 0.2
TIMESTAMP_MAX = 2**63 - 1


class Isolation(StrEnum):
    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class Place(NamedTuple):
    """Where to begin: an offset, or a place that each partition has its own offset for."""

    offset: int | None
    timestamp: int | None


class Shown(NamedTuple):
    """Which parts of a record are printed."""

    offsets: bool
    timestamps: bool
    keys: bool
    headers: bool


PlaceOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="beginning, end, an offset, a time (2026-01-31T12:00:00Z), or @ and milliseconds.",
    ),
]


def consume(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    *,
    begin: PlaceOption = "beginning",
    partitions: Annotated[
        list[int],
        typer.Option(
            "--partition", min=0, help="May be repeated. Default: all.", show_default=False
        ),
    ] = [],  # noqa: B006 - typer reads it, nobody changes it
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after this many records.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Wait for more at the end. --from end does so by itself."
        ),
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Print keys too.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print headers too.")] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print timestamps too.")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Print partitions and offsets too.")
    ] = False,
    isolation: Annotated[
        Isolation, typer.Option(help="Whether records of open and aborted transactions are shown.")
    ] = Isolation.COMMITTED,
    properties: Annotated[
        list[str],
        typer.Option("--property", metavar="KEY=VALUE", help="A consumer key of librdkafka."),
    ] = [],  # noqa: B006
    bootstrap: BootstrapOption = None,
    form: FormatOption = None,
) -> None:
    """Print the records of a topic. Joins no group and commits nothing."""
    place = _parse_place(begin)
    servers = bootstrap_of(context, bootstrap)
    with connect(servers) as admin:
        chosen = partitions_of(admin, topic, partitions)
        begins = _begins(admin, chosen, place)
    settings = {
        "bootstrap.servers": servers,
        "client.id": "penstock-cli",
        "group.id": "penstock-cli",  # librdkafka wants one; without commits it is never used
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": isolation.value,
        **key_values(properties, "--property"),
    }
    wait = follow or place.timestamp == At.END
    shown = Shown(offsets, timestamps, keys, headers)
    json_lines = format_of(context, form) is Format.JSON
    for number, message in enumerate(_messages(settings, begins, wait), 1):
        if json_lines:
            print_json_line(_as_json(message))
        else:
            _print_plain(message, shown)
        if wait:
            sys.stdout.flush()
        if number == count:
            break


def _parse_place(text: str) -> Place:
    if text in ("beginning", "earliest"):
        return Place(None, At.BEGINNING)
    if text in ("end", "latest"):
        return Place(None, At.END)
    if text.isdecimal():
        return Place(int(text), None)
    if text.startswith("@") and text[1:].isdecimal() and int(text[1:]) <= TIMESTAMP_MAX:
        return Place(None, int(text[1:]))
    try:
        return Place(None, parse_time(text))
    except ValueError:
        raise CommandFailed(
            f"--from {text}: must be beginning, end, an offset, a time such as "
            "2026-01-31T12:00:00Z, or @ and milliseconds",
            ExitCode.USAGE,
        ) from None


def _begins(
    admin: "Admin", partitions: list[TopicPartition], place: Place
) -> dict[TopicPartition, int]:
    """The first offset of each partition; a place without a record is its end."""
    if place.offset is not None:
        return _inside(admin, dict.fromkeys(partitions, place.offset))
    assert place.timestamp is not None, "a place is an offset or a timestamp"
    found = offsets_at(admin, dict.fromkeys(partitions, place.timestamp))
    beyond = [each for each, offset in found.items() if offset < 0]
    return {**found, **offsets_at(admin, dict.fromkeys(beyond, At.END))}


def _inside(admin: "Admin", begins: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    first = offsets_at(admin, dict.fromkeys(begins, At.BEGINNING))
    last = offsets_at(admin, dict.fromkeys(begins, At.END))
    for each, offset in begins.items():
        if not first[each] <= offset <= last[each]:
            raise CommandFailed(
                f"partition {each.partition} of {each.topic} has offsets {first[each]} to "
                f"{last[each]}, not {offset}; --partition chooses partitions"
            )
    return begins


def _messages(
    settings: Mapping[str, str | bool], begins: dict[TopicPartition, int], wait: bool
) -> Iterator["Message"]:
    """confluent_kafka's messages, until every partition has come to its end."""
    import confluent_kafka as kafka

    from penstock.cli.produce import rdkafka_error_text, silent_logger

    try:
        consumer = kafka.Consumer(dict(settings), logger=silent_logger())
    except kafka.KafkaException as problem:
        raise CommandFailed(rdkafka_error_text(problem.args[0]), ExitCode.USAGE) from None
    reading = set(begins)
    try:
        consumer.assign([kafka.TopicPartition(*each, offset) for each, offset in begins.items()])
        while wait or reading:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield message
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                reading.discard(_partition_of(message))
            elif error.fatal() or not error.retriable():
                raise CommandFailed(rdkafka_error_text(error))
            else:
                note(f"warning: {rdkafka_error_text(error)}")
    finally:
        consumer.close()


def _partition_of(message: "Message") -> TopicPartition:
    topic, partition = message.topic(), message.partition()
    assert topic is not None, "an event of a partition names it"
    assert partition is not None, "an event of a partition names it"
    return TopicPartition(topic, partition)


def _headers_of(message: "Message") -> list[tuple[str, bytes | None]]:
    # The library's types allow what one may send; what one receives are pairs with bytes.
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])


def _or_null(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _as_json(message: "Message") -> dict[str, Json]:
    kind, timestamp = message.timestamp()
    headers: list[Json] = [
        {"key": name, **_bytes_json("value", value)} for name, value in _headers_of(message)
    ]
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": {1: "CreateTime", 2: "LogAppendTime"}.get(kind),
        **_bytes_json("key", message.key()),
        **_bytes_json("value", message.value()),
        "headers": headers,
    }


def _bytes_json(name: str, data: bytes | None) -> dict[str, Json]:
    """Text where it is text, else base64 under a name that says so."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _print_plain(message: "Message", shown: Shown) -> None:
    """The value as it is, with what was asked for before it and tabs between."""
    parts: list[bytes] = []
    if shown.offsets:
        parts.append(f"{message.partition()}:{message.offset()}".encode())
    if shown.timestamps:
        parts.append(time_text(message.timestamp()[1]).encode())
    if shown.headers:
        parts.append(b",".join(f"{k}=".encode() + (v or b"") for k, v in _headers_of(message)))
    if shown.keys:
        parts.append(_or_null(message.key()))
    parts.append(_or_null(message.value()))
    sys.stdout.buffer.write(b"\t".join(parts) + b"\n")
