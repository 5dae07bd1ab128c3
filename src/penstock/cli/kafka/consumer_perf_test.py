"""kafka-consumer-perf-test: measures the time to read a number of records."""

import random
import time
from collections.abc import Mapping
from typing import Any

from penstock.cli.kafka.console_consumer import (
    HANDLED_KEYS,
    exclude_internal_topics,
    include_pattern,
)
from penstock.cli.kafka.framework.client_options import (
    key_values,
    override,
    read_properties,
    report_errors_once,
    settings_of,
)
from penstock.cli.kafka.framework.options import GivenOptions, Option
from penstock.cli.kafka.framework.runner import (
    CommandRejected,
    UsageRejected,
    command,
    require,
    say,
    say_no_effect,
)
from penstock.cli.kafka.records.missing_topics import MissingTopics
from penstock.cli.kafka.records.perf_figures import MEGABYTE, DateFormat
from penstock.client.settings import ConsumerSettings, consumer_settings

RECORDS_AT_ONCE_MAX = 5_000
POLL_SECONDS = 0.1
MORE_COLUMNS = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
GROUPS_MADE_UP = 100_000

OPTIONS = (
    Option("bootstrap-server", "REQUIRED: a server, or several.", "String: host:port,..."),
    Option("topic", "The topic to read.", "String: topic"),
    Option("include", "A regular expression of topics to read.", "String: regex"),
    Option("group", "The group to read in.", "String: gid"),
    Option("fetch-size", "Bytes of one partition per request.", "Integer: size", "1048576"),
    Option("command-property", "A key of the consumer: key=value.", "String: prop"),
    Option("from-latest", "Where nothing is committed, begin at the end."),
    Option("socket-buffer-size", "receive.buffer.bytes.", "Integer: size", "2097152"),
    Option("consumer.config", "As --command-config, older.", "String: config file"),
    Option("command-config", "A properties file for the consumer.", "String: config file"),
    Option("print-metrics", "Has no effect: librdkafka has others than Java's client."),
    Option("show-detailed-stats", "A line per --reporting-interval."),
    Option("timeout", "End when none has come for so long.", "Long: milliseconds", "10000"),
    Option("messages", "As --num-records, older.", "Long: count"),
    Option("num-records", "REQUIRED: how many to read.", "Long: count"),
    Option("reporting-interval", "Milliseconds between lines.", "Integer: interval_ms", "5000"),
    Option(
        "date-format", "How times are written.", "String: date format", "yyyy-MM-dd HH:mm:ss:SSS"
    ),
    Option("hide-header", "Leave out the line with the names of columns."),
)


@command("kafka-consumer-perf-test", "Reads so many records and says how long that took.", OPTIONS)
def main(given: GivenOptions) -> None:
    _check(given)
    say_no_effect(given, print_metrics="librdkafka keeps others than Java's client")
    interval = given.number("reporting-interval") or 0
    if interval <= 0:
        raise CommandRejected("Reporting interval must be greater than 0.")
    settings = _settings(given)
    test = _Test(
        {**settings.rdkafka, **exclude_internal_topics(given, settings)},
        date=DateFormat(given.required("date-format")),
        detailed=given.has("show-detailed-stats"),
        interval_seconds=interval / 1000,
    )
    if not given.has("hide-header"):
        first = "time, threadId" if given.has("show-detailed-stats") else "start.time, end.time"
        print(
            f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec{MORE_COLUMNS}"
        )
    wanted = given.long("num-records") or given.long("messages") or 0
    timeout_ms = given.long("timeout") or 0
    topic = given.text("topic")
    source = topic if topic is not None else include_pattern(given.required("include"))
    test.read(source, topic, wanted, timeout_ms)


def _check(given: GivenOptions) -> None:
    require(given, "bootstrap-server")
    if given.has("topic") == given.has("include"):
        raise UsageRejected(
            "Exactly one of the following arguments is required: [topic], [include]"
        )
    if given.has("messages") == given.has("num-records"):
        raise UsageRejected(
            "Exactly one of the following arguments is required: [num-records], [messages]"
        )
    if given.has("consumer.config") and given.has("command-config"):
        raise UsageRejected("Options --consumer.config and --command-config cannot go together.")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if given.has(old):
            say(f"Warning: --{old} is deprecated. Use --{new} instead.")


def _settings(given: GivenOptions) -> ConsumerSettings:
    configured = read_properties(given.text("consumer.config") or given.text("command-config"))
    configured |= key_values(given.texts("command-property"))
    made_up = f"perf-consumer-{random.randrange(GROUPS_MADE_UP)}"
    configured["group.id"] = given.text("group") or configured.get("group.id") or made_up
    begin = "latest" if given.has("from-latest") else "earliest"
    size = given.required("socket-buffer-size")
    override(configured, {"receive.buffer.bytes": size}, "--socket-buffer-size")
    override(
        configured, {"max.partition.fetch.bytes": given.required("fetch-size")}, "--fetch-size"
    )
    override(configured, {"auto.offset.reset": begin}, "--from-latest or its absence")
    override(configured, {"check.crcs": "false"}, "this command, as Kafka's does,")
    configured.setdefault("client.id", "perf-consumer-client")
    bootstrap = given.required("bootstrap-server")
    return settings_of(consumer_settings, configured, bootstrap, HANDLED_KEYS)


class _Test:
    """One test; the time to join the group is measured apart from the time to fetch."""

    def __init__(
        self,
        rdkafka: Mapping[str, Any],
        *,
        date: DateFormat,
        detailed: bool,
        interval_seconds: float,
    ) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {**rdkafka, "enable.auto.offset.store": True, **report_errors_once()}
        )
        self._date = date
        self._detailed = detailed
        self._interval = interval_seconds
        self._joining_since = time.time()
        self._joined_ms = self._joined_ms_now = 0
        self._records = self._bytes = 0

    def read(self, source: str, topic: str | None, wanted: int, timeout_ms: int) -> None:
        began = time.time()
        self._joining_since = began
        self._consumer.subscribe(
            [source], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        try:
            self._consume(MissingTopics(self._consumer, topic), wanted, timeout_ms)
            ended = time.time()
        finally:
            self._consumer.close()
        if not self._detailed:
            self._print_total(began, ended)

    def _assigned(self, consumer: Any, partitions: Any) -> None:
        elapsed_ms = int((time.time() - self._joining_since) * 1000)
        self._joined_ms += elapsed_ms
        self._joined_ms_now += elapsed_ms
        consumer.assign(partitions)

    def _revoked(self, consumer: Any, _partitions: Any) -> None:
        self._joining_since = time.time()
        consumer.unassign()

    def _consume(self, missing: MissingTopics, wanted: int, timeout_ms: int) -> None:
        last_record = last_report = time.time()
        known = (0, 0)
        while self._records < wanted:
            first = self._consumer.poll(POLL_SECONDS)
            now = time.time()
            if first is None:
                if (problem := missing.ask()) is not None:
                    raise CommandRejected(str(problem))
                if (now - last_record) * 1000 > timeout_ms:
                    break
                continue
            for message in (first, *self._consumer.consume(RECORDS_AT_ONCE_MAX, 0)):
                if missing.only(message.error()):
                    continue
                if message.error() is not None:
                    raise CommandRejected(str(message.error()))
                self._records += 1
                self._bytes += len(message) + len(message.key() or b"")
                last_record = now
            if now - last_report >= self._interval:
                if self._detailed:
                    self._print_progress(known, last_report, now)
                self._joined_ms_now = 0
                last_report, known = now, (self._records, self._bytes)
        if self._records < wanted:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the "
                "timeout."
            )

    def _print_progress(self, known: tuple[int, int], since: float, now: float) -> None:
        seconds = max(now - since, 1e-3)
        records, megabytes = self._records - known[0], (self._bytes - known[1]) / MEGABYTE
        fetched_ms = int(seconds * 1000) - self._joined_ms_now
        rate = 1000 / fetched_ms if fetched_ms > 0 else 0.0
        print(
            f"{self._date(now)}, 0, {self._bytes / MEGABYTE:.4f}, {megabytes / seconds:.4f}, "
            f"{self._records}, {records / seconds:.4f}, {self._joined_ms_now}, {fetched_ms}, "
            f"{megabytes * rate:.4f}, {records * rate:.4f}",
            flush=True,
        )

    def _print_total(self, began: float, ended: float) -> None:
        seconds = max(ended - began, 1e-3)
        fetched_ms = int(seconds * 1000) - self._joined_ms
        rate = 1000 / fetched_ms if fetched_ms > 0 else 0.0
        megabytes = self._bytes / MEGABYTE
        print(
            f"{self._date(began)}, {self._date(ended)}, {megabytes:.4f}, "
            f"{megabytes / seconds:.4f}, "
            f"{self._records}, {self._records / seconds:.4f}, {self._joined_ms}, {fetched_ms}, "
            f"{megabytes * rate:.4f}, {self._records * rate:.4f}"
        )
