"""`penstock produce`: lines, JSON or whole files become records."""

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.completion import complete_topic
from penstock.cli.arguments.known_names import nearest_topic
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import CLIENT_ID, access_of, connect
from penstock.cli.connection.delivery_timeout import ask_reason
from penstock.cli.produce.options import (
    Acks,
    AcksOption,
    Compression,
    CompressionOption,
    FilesArgument,
    HeadersOption,
    IdempotentOption,
    Input,
    InputOption,
    KeySeparatorOption,
    NullMarkerOption,
    PartitionOption,
    TimeoutOption,
)
from penstock.cli.produce.progress import ProduceProgress, Tally
from penstock.cli.terminal.output import (
    ExitCode,
    Format,
    WrongUsage,
    counted,
    format_of,
    key_value_pairs,
    note,
    print_value,
    reason_of,
)
from penstock.cli.terminal.signals import Signalled, ended_by_signals
from penstock.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from penstock.cli.produce.input_chunks import InputChunk, NamedInput
    from penstock.cli.produce.sender import RecordSender

ACKS_ALL = ("all", "-1")
STDIN = "-"
# Records that wait to be sent: enough to keep the connection busy, within a memory limit.
QUEUE_RECORDS_MAX = 500_000
BUFFER_BYTES = 256 * 1024 * 1024
LINGER_MS = 20
FLUSH_S = 0.2


@on_cluster
def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)],
    files: FilesArgument = None,
    *,
    kind: InputOption = Input.LINES,
    key_separator: KeySeparatorOption = None,
    null_marker: NullMarkerOption = None,
    headers: HeadersOption = [],  # noqa: B006 - typer only reads the default
    partition: PartitionOption = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    idempotent: IdempotentOption = False,
    timeout_ms: TimeoutOption = 30_000,
) -> None:
    """Write lines to a topic, one record each: those of stdin, or of files."""
    if idempotent and acks is not Acks.ALL:
        raise WrongUsage("--idempotent needs --acks all")
    if key_separator == "":
        raise WrongUsage("--key-separator must not be empty")
    if key_separator is not None and kind is not Input.LINES:
        raise WrongUsage("--key-separator goes with --input lines")
    pairs = key_value_pairs(headers, "--header")
    access = access_of(context)
    from penstock.cli.connection.client_keys import producer_values
    from penstock.cli.produce.input_chunks import chunks_of
    from penstock.cli.produce.sender import RecordSender, Target

    settings = producer_values(
        access,
        {
            "client.id": CLIENT_ID,
            "acks": acks.value,
            "compression.type": compression.value,
            "enable.idempotence": idempotent,
            "delivery.timeout.ms": timeout_ms,
            "linger.ms": min(LINGER_MS, timeout_ms // 2),
            "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
            "buffer.memory": BUFFER_BYTES,
        },
    )
    target = Target(
        access.namespace.add_topic(topic),
        -1 if partition is None else partition,
        tuple((name, value.encode()) for name, value in pairs),
    )
    with ExitStack() as stack:
        inputs = _inputs(files or [], stack)
        with connect(access) as admin:  # fails at once if the server cannot be reached
            found = admin.describe_topics([topic])[topic]
            created = isinstance(found, UnknownTopicOrPartition)
            near = nearest_topic(admin, topic) if created else None
        progress = ProduceProgress(sys.stderr, [each.size_bytes for each in inputs])
        tally = Tally(progress.note)
        chunks = chunks_of(kind, inputs, key_separator, null_marker, tally.reject)
        with _collector_disabled(), ended_by_signals():
            send(RecordSender(settings, target, tally), chunks, tally, progress)
    why = None
    if tally.timed_out:
        acks_all = str(settings.get("acks", "all")) in ACKS_ALL
        why = ask_reason(access, topic, tally.timed_out, acks_all)
    created = created and tally.written > 0
    if created:
        meant = f"; did you mean {near}?" if near else ""
        note(f"note: there was no topic {topic}, so the server created it{meant}")
    _conclude(tally, topic, why, format_of(context), created=created)


def _inputs(files: list[Path], stack: ExitStack) -> "list[NamedInput]":
    from penstock.cli.produce.input_chunks import NamedInput

    found: list[NamedInput] = []
    for path in files or [Path(STDIN)]:
        if str(path) == STDIN:
            found.append(NamedInput("stdin", sys.stdin.buffer, None))
            continue
        try:
            stream = stack.enter_context(path.open("rb"))
            size_bytes = path.stat().st_size if path.is_file() else None
        except OSError as problem:
            raise WrongUsage(f"{path}: {reason_of(problem)}") from None
        found.append(NamedInput(str(path), stream, size_bytes))
    return found


@contextmanager
def _collector_disabled() -> Iterator[None]:
    """Disable the garbage collector: no cycles arise here, and collections cost a tenth."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def send(
    sender: "RecordSender", chunks: "Iterator[InputChunk]", tally: Tally, progress: ProduceProgress
) -> None:
    from penstock.cli.produce.input_chunks import InputEnded

    try:
        try:
            for chunk in chunks:
                sender.send(chunk)
                progress.read_bytes += chunk.read_bytes
                progress.show(tally.accepted, sender.waiting)
        except InputEnded as ended:
            tally.break_off(str(ended))
        while sender.waiting:
            sender.wait(FLUSH_S)
            progress.show(tally.accepted, sender.waiting)
    except (KeyboardInterrupt, Signalled):
        progress.end()
        waiting = sender.waiting
        written = max(0, tally.written - waiting)
        note(f"interrupted: {counted(written, 'record')} written, {waiting} more may have been")
        raise
    finally:
        progress.end()


def _conclude(
    tally: Tally, topic: str, why: str | None, form: Format, *, created: bool = False
) -> None:
    if why is not None:
        note(f"likely reason: {why}")
    if form is not Format.TABLE:
        print_value(
            form,
            {
                "topic": topic,
                "created": created,
                "written": tally.written,
                "failed": tally.failed,
                "error": tally.last_error,
                "likely_reason": why,
            },
        )
    else:
        failed = f", {tally.failed} failed" if tally.failed else ""
        note(f"{counted(tally.written, 'record')} written to {topic}{failed}")
    if tally.failed or tally.broken_off:
        nothing_done = ExitCode.USAGE if tally.broken_off else ExitCode.REJECTED
        raise typer.Exit(ExitCode.PARTIAL if tally.written else nothing_done)
