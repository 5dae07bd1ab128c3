"""kafka-console-producer: every line of stdin becomes a record.

Undelivered records are reported on stderr. They do not change the exit code, but with --sync the
first one ends the command with exit code 1.
"""

import sys
from collections.abc import Iterator
from typing import Any

from penstock.cli.kafka.framework.client_options import (
    key_values,
    override,
    read_properties,
    settings_of,
)
from penstock.cli.kafka.framework.options import INT_LAST, LONG_LAST, GivenOptions, Option
from penstock.cli.kafka.framework.runner import (
    FAILED,
    INTERRUPTED,
    OK,
    CommandRejected,
    UsageRejected,
    command,
    require,
    say,
)
from penstock.cli.kafka.records.line_reader import KEYS, LineReader, LineRecord, LineRejected
from penstock.cli.kafka.records.topic_sender import HANDLED_KEYS, NotTaken, TopicSender
from penstock.cli.terminal.signals import Signalled, ended_by_signals
from penstock.client.cluster.nodes import parse_bootstrap
from penstock.client.settings import ProducerSettings, producer_settings

READER = "org.apache.kafka.tools.LineMessageReader"
POLL_EVERY = 1_000  # records, so that reports of failures are served soon
FAILURES_SHOWN_MAX = 20

# Options for keys of the producer, with the defaults of Kafka's command.
FOR_KEYS = {
    "timeout": "linger.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "message-send-max-retries": "retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "socket-buffer-size": "send.buffer.bytes",
    "max-memory-bytes": "buffer.memory",
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "max-block-ms": "max.block.ms",
}
LONGS = (
    "timeout",
    "retry-backoff-ms",
    "metadata-expiry-ms",
    "max-block-ms",
    "max-memory-bytes",
)
READER_HELP = (
    "parse.key, key.separator (tab), parse.headers, headers.delimiter (tab), headers.separator "
    "(comma), headers.key.separator (colon), ignore.error, null.marker. A line is headers, key, "
    "value."
)

OPTIONS = (
    Option("topic", "REQUIRED: where to.", "String: topic"),
    Option("bootstrap-server", "REQUIRED: a server, or several.", "String: host:port,..."),
    Option("sync", "Wait for each record before the next line is read."),
    Option(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip if none of them is named.",
        "String: compression-codec",
        optional=True,
    ),
    Option("batch-size", "batch.size of the producer.", "Integer: size", "16384"),
    Option("message-send-max-retries", "retries of the producer.", "Integer", "3"),
    Option("retry-backoff-ms", "retry.backoff.ms of the producer.", "Long", "100"),
    Option("timeout", "linger.ms of the producer.", "Long: timeout_ms", "1000"),
    Option("request-required-acks", "acks of the producer.", "String: acks", "-1"),
    Option("request-timeout-ms", "request.timeout.ms of the producer.", "Integer: ms", "1500"),
    Option("metadata-expiry-ms", "metadata.max.age.ms of the producer.", "Long: ms", "300000"),
    Option("max-block-ms", "max.block.ms of the producer.", "Long: ms", "60000"),
    Option("max-memory-bytes", "buffer.memory of the producer.", "Long: bytes", "33554432"),
    Option("max-partition-memory-bytes", "As --batch-size, older.", "Integer: bytes", "16384"),
    Option("line-reader", "What reads lines; there is this one.", "String: reader_class", READER),
    Option("socket-buffer-size", "send.buffer.bytes of the producer.", "Integer: size", "102400"),
    Option("property", "As --reader-property, older.", "String: prop"),
    Option("reader-property", f"How lines are read: {READER_HELP}", "String: prop"),
    Option("reader-config", "A properties file of such.", "String: config file"),
    Option("producer-property", "As --command-property, older.", "String: producer_prop"),
    Option("command-property", "A key of the producer: key=value.", "String: producer_prop"),
    Option("producer.config", "As --command-config, older.", "String: config file"),
    Option("command-config", "A properties file for the producer.", "String: config file"),
)
OLDER = {
    "producer-property": "command-property",
    "producer.config": "command-config",
    "property": "reader-property",
}


@command("kafka-console-producer", "Every line of stdin becomes a record.", OPTIONS)
def main(given: GivenOptions) -> int:
    require(given, "topic")
    for old, new in OLDER.items():
        if given.has(old) and given.has(new):
            raise UsageRejected(f"Options --{new} and --{old} cannot be specified together.")
    _check_bootstrap(given)
    reader = _reader(given)
    settings = _settings(given)
    topic = given.required("topic")
    sender = _Sender(settings, topic, wait_for_each=given.has("sync"))
    try:
        with ended_by_signals():
            for record in _records(reader):
                sender.send(record)
    except LineRejected as rejected:
        say(str(rejected))
        sender.finish()
        return FAILED
    except CommandRejected:
        sender.finish()
        raise
    except KeyboardInterrupt:
        sender.finish()  # deliver lines typed before Ctrl-C
        return INTERRUPTED
    except Signalled as signalled:
        sender.finish()
        return signalled.code
    sender.finish()
    return OK


# -- arguments


def _check_bootstrap(given: GivenOptions) -> None:
    require(given, "bootstrap-server")
    try:
        parse_bootstrap(given.required("bootstrap-server"))
    except ValueError as problem:
        raise UsageRejected(f"--bootstrap-server: {problem}") from None


def _reader(given: GivenOptions) -> LineReader:
    wanted = given.required("line-reader")
    if wanted not in (READER, READER.rpartition(".")[2]):
        raise CommandRejected(f"--line-reader {wanted}: there is {READER} only")
    properties = read_properties(given.text("reader-config"))
    properties |= key_values([*given.texts("property"), *given.texts("reader-property")])
    for key in properties:
        if key not in KEYS:
            say(f"note: reader property {key} has no effect here: it is none of {', '.join(KEYS)}")
    return LineReader.of(properties)


def _settings(given: GivenOptions) -> ProducerSettings:
    configured = read_properties(given.text("producer.config") or given.text("command-config"))
    configured |= key_values([*given.texts("producer-property"), *given.texts("command-property")])
    for option, key in FOR_KEYS.items():
        if option != "request-required-acks":
            given.number(option, LONG_LAST if option in LONGS else INT_LAST)
        if given.has(option) or key not in configured:
            configured[key] = given.required(option)
    codec = given.text("compression-codec") or "gzip"
    codec = codec if given.has("compression-codec") else "none"
    override(configured, {"compression.type": codec}, "--compression-codec")
    configured.setdefault("client.id", "console-producer")
    bootstrap = given.required("bootstrap-server")
    return settings_of(producer_settings, configured, bootstrap, HANDLED_KEYS)


# -- reading


def _records(reader: LineReader) -> Iterator[LineRecord]:
    prompt = sys.stdin.isatty() and sys.stdout.isatty()
    number = 0
    while True:
        number += 1
        if prompt:
            print(">", end="", flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        yield LineRecord(None, line, []) if reader.plain else reader.record(line, number)


# -- sending


class _Sender:
    """Sends lines; a failed line does not stop the others."""

    def __init__(self, settings: ProducerSettings, topic: str, *, wait_for_each: bool) -> None:
        self._topic = topic
        self._wait_for_each = wait_for_each
        only_errors = {"delivery.report.only.error": True}
        self._sender = TopicSender(settings, topic, self._reported, only_errors)
        self._since_poll = 0
        self.failures = 0

    def send(self, record: LineRecord) -> None:
        before = self.failures
        try:
            self._sender.send(record.value, record.key, record.headers)
        except NotTaken as rejected:
            self._tell(record.key, record.value, str(rejected))
        self._since_poll += 1
        if self._wait_for_each:
            self._sender.finish()
            if self.failures > before:
                raise CommandRejected(
                    "a record was not delivered; with --sync that ends the command"
                )
        elif self._since_poll >= POLL_EVERY:
            self._since_poll = 0
            self._sender.producer.poll(0)

    def finish(self) -> None:
        """Wait until all records are delivered or failed."""
        self._sender.finish()
        if self.failures:
            say(f"{self.failures} records were not delivered")

    def _reported(self, error: Any, message: Any) -> None:
        if error is not None:
            self._tell(message.key(), message.value(), error.str())

    def _tell(self, key: bytes | None, value: bytes | None, why: str) -> None:
        self.failures += 1
        if self.failures <= FAILURES_SHOWN_MAX:
            say(
                f"ERROR Error when sending message to topic {self._topic} with key: {_size(key)}, "
                f"value: {_size(value)} with error: {why}"
            )


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"
