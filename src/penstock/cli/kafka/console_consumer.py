"""kafka-console-consumer: prints records as they come.

The command waits for missing topics and partitions. A permanent error is printed on stderr and
ends the command with exit code 0, as in Kafka's tool.
"""

import random
import re
import sys
from collections.abc import Iterator
from typing import Any

from penstock.cli.kafka.framework.client_options import (
    key_values,
    read_properties,
    report_errors_once,
    settings_of,
)
from penstock.cli.kafka.framework.options import LONG_LAST, GivenOptions, Option, whole
from penstock.cli.kafka.framework.runner import (
    FAILED,
    INTERRUPTED,
    OK,
    CommandRejected,
    UsageRejected,
    command,
    discard_output,
    require,
    say,
    say_no_effect,
)
from penstock.cli.kafka.records.formatters import DEFAULT, Formatter, formatter_of
from penstock.cli.kafka.records.missing_topics import MissingTopics
from penstock.cli.terminal.signals import Signalled, ended_by_signals
from penstock.client.failures import from_rdkafka
from penstock.client.settings import ConsumerSettings, consumer_settings
from penstock.model import INTERNAL_TOPICS

RECORDS_AT_ONCE_MAX = 500
NO_LIMIT = -1  # of --max-messages
POLL_SECONDS = 0.5
GROUPS_MADE_UP = 100_000
# Keys that this command implements, besides librdkafka.
HANDLED_KEYS = ("auto.commit.interval.ms", "enable.auto.commit", "exclude.internal.topics")
PROPERTIES_HELP = (
    "print.timestamp, print.partition, print.offset, print.epoch, print.headers, print.key, "
    "print.value (true), key.separator (tab), line.separator, headers.separator (comma), "
    "null.literal (null), key.deserializer, value.deserializer, headers.deserializer."
)

OPTIONS = (
    Option("topic", "The topic to read.", "String: topic"),
    Option("include", "A regular expression of topics to read.", "String: regex"),
    Option("partition", "The one partition to read; from its end, but for --offset.", "Integer"),
    Option("offset", "Where to begin: an offset, earliest or latest.", "String: offset", "latest"),
    Option("consumer-property", "As --command-property, older.", "String: consumer_prop"),
    Option("command-property", "A key of the consumer: key=value.", "String: consumer_prop"),
    Option("consumer.config", "As --command-config, older.", "String: config file"),
    Option("command-config", "A properties file for the consumer.", "String: config file"),
    Option("formatter", "How records are written.", "String: class", DEFAULT),
    Option("property", "As --formatter-property, older.", "String: prop"),
    Option("formatter-property", f"What is written: {PROPERTIES_HELP}", "String: prop"),
    Option("formatter-config", "A properties file of such.", "String: config file"),
    Option("from-beginning", "Where nothing is committed, begin at the start, not at the end."),
    Option("max-messages", "End after so many.", "Integer: num_messages"),
    Option("timeout-ms", "End when none has come for so long.", "Long: timeout_ms"),
    Option("skip-message-on-error", "Go on after a record that cannot be written."),
    Option("bootstrap-server", "REQUIRED: a server, or several.", "String: host:port,..."),
    Option("key-deserializer", "What keys are; as the property key.deserializer.", "String"),
    Option("value-deserializer", "What values are; as value.deserializer.", "String"),
    Option("enable-systest-events", "Has no effect: for Kafka's own system tests."),
    Option(
        "isolation-level",
        "read_committed leaves out what open and aborted transactions wrote.",
        "String",
        "read_uncommitted",
    ),
    Option("group", "The group to read in.", "String: consumer group id"),
)
OLDER = {"consumer-property": "command-property", "consumer.config": "command-config"}


@command("kafka-console-consumer", "Prints records as they come.", OPTIONS)
def main(given: GivenOptions) -> int:
    _check(given)
    say_no_effect(given, enable_systest_events="it is for Kafka's own system tests")
    formatter = _formatter(given)
    begin = _begin(given)
    reader = _ConsoleReader(_settings(given), given)
    try:
        with ended_by_signals():
            reader.start(given, begin)
            code = _print(reader, formatter, given)
            sys.stdout.flush()
    except ReadingEnded as ended:
        say(f"ERROR Error processing message, terminating consumer process: {ended}")
        code = OK
    except Signalled as signalled:
        code = signalled.code
    except KeyboardInterrupt:
        code = INTERRUPTED  # Ctrl-C is the usual end of this command
    except BrokenPipeError:
        discard_output()
        say("Unable to write to standard out, closing consumer.")
        code = OK
    finally:
        reader.close()
        say(f"Processed a total of {reader.count} messages")
    return code


# -- arguments


def _check(given: GivenOptions) -> None:
    if given.has("topic") == given.has("include"):
        raise UsageRejected(
            "Exactly one of the following arguments is required: [topic], [include]"
        )
    for old, new in (*OLDER.items(), ("property", "formatter-property")):
        if given.has(old) and given.has(new):
            raise UsageRejected(f"Options --{old} and --{new} cannot be specified together.")
    if given.has("partition"):
        if not given.has("topic"):
            raise UsageRejected("The topic is required when partition is specified.")
        if given.has("from-beginning") and given.has("offset"):
            raise UsageRejected("Options from-beginning and offset cannot be specified together.")
    elif given.has("offset"):
        raise UsageRejected("The partition is required when offset is specified.")
    require(given, "bootstrap-server")


def _begin(given: GivenOptions) -> int:
    """Return an offset, or librdkafka's constant for the beginning or the end."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

    said = given.required("offset").lower()
    if not given.has("offset"):
        said = "earliest" if given.has("from-beginning") else "latest"
    match said:
        case "earliest":
            return int(OFFSET_BEGINNING)
        case "latest":
            return int(OFFSET_END)
    try:
        offset = whole(said, LONG_LAST)
    except ValueError:
        offset = -1
    if offset < 0:
        raise UsageRejected(
            f"The provided offset value '{said}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long."
        )
    return offset


def _formatter(given: GivenOptions) -> Formatter:
    properties = read_properties(given.text("formatter-config"))
    for option in ("key-deserializer", "value-deserializer"):
        if (name := given.text(option)) is not None:
            properties[option.replace("-", ".")] = name
    properties |= key_values([*given.texts("property"), *given.texts("formatter-property")])
    try:
        return formatter_of(given.required("formatter"), properties)
    except CommandRejected as rejected:
        raise UsageRejected(str(rejected)) from None


def _settings(given: GivenOptions) -> ConsumerSettings:
    configured = read_properties(given.text("consumer.config") or given.text("command-config"))
    extra = key_values([*given.texts("consumer-property"), *given.texts("command-property")])
    groups = {given.text("group"), configured.get("group.id"), extra.get("group.id")}
    named = sorted(each for each in groups if each)
    if len(named) > 1:
        raise UsageRejected(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. Detected group "
            "ids: " + ", ".join(f"'{each}'" for each in named)
        )
    if "" in groups:
        raise CommandRejected("the group id is empty: give it a name, or leave it out")
    if named and given.has("partition"):
        raise UsageRejected("Options group and partition cannot be specified together.")
    configured |= extra
    reset = configured.get("auto.offset.reset")
    if given.has("from-beginning") and reset not in (None, "earliest"):
        raise CommandRejected(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    configured.setdefault(
        "auto.offset.reset", "earliest" if given.has("from-beginning") else "latest"
    )
    configured.setdefault("client.id", "console-consumer")
    if given.has("isolation-level") or "isolation.level" not in configured:
        configured["isolation.level"] = given.required("isolation-level")
    if not named:
        # A random group is not used again, so its offsets are not committed.
        configured["group.id"] = f"console-consumer-{random.randrange(GROUPS_MADE_UP)}"
        configured.setdefault("enable.auto.commit", "false")
    else:
        configured["group.id"] = named[0]
    bootstrap = given.required("bootstrap-server")
    return settings_of(consumer_settings, configured, bootstrap, HANDLED_KEYS)


# -- reading and printing


class ReadingEnded(Exception):
    """The cluster reported a permanent error."""


class _ConsoleReader:
    """A consumer of librdkafka that commits printed records only."""

    def __init__(self, settings: ConsumerSettings, given: GivenOptions) -> None:
        from confluent_kafka import Consumer

        if isinstance(settings.offset_reset, tuple):
            raise CommandRejected(
                "auto.offset.reset=by_duration has no effect here; kafka-consumer-groups "
                "--reset-offsets --by-duration moves a group"
            )
        self._commits = settings.auto_commit
        self._consumer = Consumer(
            {
                **settings.rdkafka,
                "enable.auto.offset.store": False,
                **report_errors_once(),
                **exclude_internal_topics(given, settings),
            }
        )
        self._assigned: Any = None  # the chosen partition with its start offset
        self._missing = MissingTopics(
            self._consumer, given.text("topic"), given.number("partition"), self._assign
        )
        self.count = 0

    def start(self, given: GivenOptions, begin: int) -> None:
        from confluent_kafka import TopicPartition

        topic, partition = given.text("topic"), given.number("partition")
        if topic is not None and partition is not None:
            self._assigned = TopicPartition(topic, partition, begin)
            self._assign()
        elif topic is not None:
            self._consumer.subscribe([topic])
        else:
            self._consumer.subscribe([include_pattern(given.required("include"))])

    def _assign(self) -> None:
        self._consumer.unassign()
        self._consumer.assign([self._assigned])

    def messages(self, timeout_seconds: float | None) -> Iterator[Any]:
        """Yield messages until none comes for the timeout; raise ReadingEnded at an error."""
        waited = 0.0
        while True:
            step = POLL_SECONDS
            if timeout_seconds is not None:
                step = min(step, timeout_seconds - waited)
            first = self._consumer.poll(max(step, 0.0))
            if first is None:
                sys.stdout.flush()
                waited += step
                if (problem := self._missing.ask()) is not None:
                    raise ReadingEnded(problem)
                if timeout_seconds is not None and waited >= timeout_seconds:
                    return
                continue
            for message in (first, *self._consumer.consume(RECORDS_AT_ONCE_MAX, 0)):
                if self._missing.only(message.error()):
                    continue
                if (error := message.error()) is not None:
                    raise ReadingEnded(from_rdkafka(error))
                waited = 0.0
                yield message
            sys.stdout.flush()

    def printed(self, message: Any) -> None:
        if self._commits:
            self._consumer.store_offsets(message)

    def close(self) -> None:
        self._consumer.close()


def exclude_internal_topics(given: GivenOptions, settings: ConsumerSettings) -> dict[str, str]:
    """Return settings that exclude internal topics from an expression."""
    if given.has("topic") or not settings.excludes_internal_topics:
        return {}
    return {"topic.blacklist": ",".join(f"^{name}$" for name in sorted(INTERNAL_TOPICS))}


def include_pattern(expression: str) -> str:
    """Return the expression for whole names, as in Java; librdkafka searches within names."""
    try:
        re.compile(expression)
    except re.error as problem:
        raise UsageRejected(f"--include {expression}: {problem}") from None
    return f"^({expression})$"


def _print(reader: _ConsoleReader, formatter: Formatter, given: GivenOptions) -> int:
    from confluent_kafka import KafkaException

    timeout_ms, wanted = given.long("timeout-ms"), given.number("max-messages")
    if timeout_ms is not None and timeout_ms < 0:
        timeout_ms = None
    if wanted == NO_LIMIT:
        wanted = None
    elif wanted is not None and wanted <= 0:
        return OK
    skips = given.has("skip-message-on-error")
    out = sys.stdout.buffer
    for message in reader.messages(None if timeout_ms is None else timeout_ms / 1000):
        reader.count += 1
        try:
            out.write(formatter(message))
        except (ValueError, KafkaException) as problem:
            say(f"ERROR Error processing message: {problem}")
            if not skips:
                return FAILED
        reader.printed(message)
        if wanted is not None and reader.count >= wanted:
            return OK
    if timeout_ms is not None:
        say(
            "ERROR Error processing message, terminating consumer process: no record came within "
            f"{timeout_ms} ms"
        )
    return OK
