"""`penstock produce`: the lines of stdin become records."""

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli.admin import connect
from penstock.cli.output import (
    BootstrapOption,
    CommandFailed,
    ExitCode,
    Format,
    FormatOption,
    bootstrap_of,
    format_of,
    key_value_pairs,
    key_values,
    note,
    print_json,
)
from penstock.cli.timed_out import NO_PARTITION, ask_reason

if TYPE_CHECKING:
    from confluent_kafka import Message

# Complaints beyond this many are counted, not printed.
COMPLAINTS_MAX = 5
POLL_EVERY_RECORDS = 1000
ACKS_ALL = ("all", "-1")


class Acks(StrEnum):
    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None


class Target(NamedTuple):
    """Where every record goes, and the headers that it carries."""

    topic: str
    partition: int
    headers: list[tuple[str, str | bytes | None]]


class Tally:
    """Counts what became of the records."""

    def __init__(self) -> None:
        self.written = 0
        self.failed = 0
        self.last_error: str | None = None
        self.timed_out: set[int] = set()  # partitions whose records did not leave in time

    def count(self, error: object, message: "Message") -> None:
        """Called by the producer once per record."""
        if error is None:
            self.written += 1
            return
        if _is_timeout(error):
            self.timed_out.add(_partition_of(message))
        self.fail(rdkafka_error_text(error))

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.last_error = reason
        if self.failed <= COMPLAINTS_MAX:
            note(f"error: {reason}")


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    *,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text between key and value; no keys without it."),
    ] = None,
    null_marker: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A key or value of this text is null.")
    ] = None,
    headers: Annotated[
        list[str],
        typer.Option("--header", metavar="KEY=VALUE", help="For every record; may be repeated."),
    ] = [],  # noqa: B006 - typer reads it, nobody changes it
    partition: Annotated[
        int | None, typer.Option(min=0, help="Default: by the key, or spread.")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="Whose acknowledgement to wait for.")] = Acks.ALL,
    compression: Annotated[Compression, typer.Option()] = Compression.NONE,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="A retry never stores a record twice; acks=all.")
    ] = False,
    timeout_ms: Annotated[
        int, typer.Option(min=1, help="How long a record may take, retries included.")
    ] = 30_000,
    properties: Annotated[
        list[str],
        typer.Option("--property", metavar="KEY=VALUE", help="A producer key of librdkafka."),
    ] = [],  # noqa: B006
    bootstrap: BootstrapOption = None,
    form: FormatOption = None,
) -> None:
    """Write the lines of stdin to a topic, one record each."""
    if idempotent and acks is not Acks.ALL:
        raise CommandFailed("--idempotent needs --acks all", ExitCode.USAGE)
    if key_separator == "":
        raise CommandFailed("--key-separator must not be empty", ExitCode.USAGE)
    servers = bootstrap_of(context, bootstrap)
    with connect(servers) as admin:
        admin.describe_cluster()  # a server that is not there is told at once
    settings = {
        "bootstrap.servers": servers,
        "client.id": "penstock-cli",
        "acks": acks.value,
        "compression.type": compression.value,
        "enable.idempotence": idempotent,
        "message.timeout.ms": timeout_ms,
        # Java's producers choose a key's partition this way, so others find it again.
        "partitioner": "murmur2_random",
        **key_values(properties, "--property"),
    }
    tally = Tally()
    lines = _lines(key_separator, null_marker, tally)
    target = Target(
        topic, -1 if partition is None else partition, [*key_value_pairs(headers, "--header")]
    )
    _send(settings, target, lines, tally)
    why = None
    if tally.timed_out:
        acks_all = settings["acks"] in ACKS_ALL
        why = ask_reason(servers, topic, tally.timed_out, acks_all)
    _conclude(tally, topic, why, format_of(context, form))


def _lines(separator: str | None, null_marker: str | None, tally: Tally) -> Iterator[Line]:
    split = None if separator is None else separator.encode()
    null = None if null_marker is None else null_marker.encode()
    for number, raw in enumerate(sys.stdin.buffer, 1):
        line = raw.removesuffix(b"\n")
        if split is None:
            yield Line(None, None if line == null else line)
            continue
        key, found, value = line.partition(split)
        if not found:
            tally.fail(f"line {number} has no {separator!r} between key and value")
            continue
        yield Line(None if key == null else key, None if value == null else value)


def _send(
    settings: Mapping[str, str | int],
    target: Target,
    lines: Iterator[Line],
    tally: Tally,
) -> None:
    from confluent_kafka import KafkaException, Producer

    try:
        producer = Producer(dict(settings), logger=silent_logger())
    except KafkaException as problem:
        raise CommandFailed(rdkafka_error_text(problem.args[0]), ExitCode.USAGE) from None
    for number, line in enumerate(lines):
        while True:
            try:
                producer.produce(
                    target.topic,
                    line.value,
                    line.key,
                    target.partition,
                    on_delivery=tally.count,
                    headers=target.headers or None,
                )
                break
            except BufferError:
                producer.poll(0.1)  # the queue is full: wait until something has left
            except KafkaException as problem:
                tally.fail(rdkafka_error_text(problem.args[0]))
                break
        if number % POLL_EVERY_RECORDS == 0:
            producer.poll(0)
    producer.flush()


def silent_logger() -> object:
    """librdkafka repeats on stderr what it reports anyway."""
    import logging

    logger = logging.getLogger("penstock.cli.rdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def rdkafka_error_text(error: object) -> str:
    """`error` is confluent_kafka's KafkaError."""
    name, text = getattr(error, "name", None), getattr(error, "str", None)
    if name is None or text is None:
        return str(error)
    return f"{text()} ({str(name()).lstrip('_')})"


def _is_timeout(error: object) -> bool:
    name = getattr(error, "name", None)
    return name is not None and name() == "_MSG_TIMED_OUT"


def _partition_of(message: "Message") -> int:
    partition = message.partition()
    return NO_PARTITION if partition is None else partition


def _conclude(tally: Tally, topic: str, why: str | None, form: Format) -> None:
    if why is not None:
        note(f"likely reason: {why}")
    if form is Format.JSON:
        print_json(
            {
                "topic": topic,
                "written": tally.written,
                "failed": tally.failed,
                "error": tally.last_error,
                "likely_reason": why,
            }
        )
    else:
        failed = f", {tally.failed} failed" if tally.failed else ""
        note(f"{tally.written} records written to {topic}{failed}")
    if tally.failed:
        raise typer.Exit(ExitCode.PARTIAL if tally.written else ExitCode.REFUSED)
