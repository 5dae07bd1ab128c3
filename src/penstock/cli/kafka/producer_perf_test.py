"""kafka-producer-perf-test: sends records at a given rate and prints their latencies."""

import argparse
import json
import random
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.cli.kafka.framework.client_options import (
    BOOTSTRAP_KEY,
    read_file,
    read_properties,
    settings_of,
)
from penstock.cli.kafka.framework.runner import CommandRejected, print_failure, say
from penstock.cli.kafka.framework.subcommands import VerbParser, run_verbs
from penstock.cli.kafka.records.perf_figures import Latencies, ThroughputLimit
from penstock.cli.kafka.records.splitting_sender import SplittingSender
from penstock.cli.kafka.records.topic_sender import HANDLED_KEYS, NotTaken
from penstock.client.settings import ProducerSettings, producer_settings

REPORT_MS = 5_000
TRANSACTION_MS = 3_000
POLL_EVERY = 1_000
TRANSACTION_SECONDS = 60.0
FAILURES_SHOWN_MAX = 20
# Payloads are cut out of one text of random letters, at random places.
LETTERS_BEYOND = 64 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    return run_verbs(_parser(), _run, print_failure, arguments)


def _parser() -> VerbParser:
    parser = VerbParser(prog="kafka-producer-perf-test", description="How fast records go out.")
    add = parser.add_argument
    add("--bootstrap-server", metavar="BOOTSTRAP-SERVERS", help="a server, or several")
    add("--topic", required=True, metavar="TOPIC", help="where to")
    add("--num-records", required=True, type=int, metavar="NUM-RECORDS", help="how many")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, metavar="RECORD-SIZE", help="bytes of a record")
    payload.add_argument("--payload-file", metavar="PAYLOAD-FILE", help="a file of payloads")
    payload.add_argument("--payload-monotonic", action="store_true", help="numbers as payloads")
    add("--payload-delimiter", default="\\n", metavar="PAYLOAD-DELIMITER", help="between payloads")
    add("--throughput", required=True, type=float, metavar="THROUGHPUT", help="per second; -1: all")
    add("--producer-props", nargs="+", metavar="PROP-NAME=PROP-VALUE", help="older name of:")
    add("--command-property", nargs="+", metavar="PROP-NAME=PROP-VALUE", help="producer keys")
    add("--producer.config", dest="producer_config", metavar="CONFIG-FILE", help="older name of:")
    add("--command-config", metavar="CONFIG-FILE", help="a properties file for the producer")
    add("--print-metrics", action="store_true", help="print librdkafka's statistics at the end")
    add("--transactional-id", metavar="TRANSACTIONAL-ID", help="send in transactions of this id")
    add("--transaction-duration-ms", type=int, metavar="TRANSACTION-DURATION", help="each so long")
    add("--warmup-records", type=int, default=0, metavar="WARMUP-RECORDS", help="not counted twice")
    add(
        "--reporting-interval",
        type=int,
        default=REPORT_MS,
        metavar="INTERVAL-MS",
        help="a line every so many ms",
    )
    return parser


def _run(parsed: argparse.Namespace) -> None:
    _check(parsed)
    payload = _payloads(parsed)
    properties = _properties(parsed)
    transactional = _transactional(parsed, properties)
    where = parsed.bootstrap_server or properties.get(BOOTSTRAP_KEY)
    if where is None:
        raise CommandRejected("say --bootstrap-server, or bootstrap.servers in a property or file")
    settings = settings_of(producer_settings, properties, where, HANDLED_KEYS)
    run = _Run(settings, parsed, transactional_ms=transactional)
    run.send_all(payload)


# -- arguments


def _check(parsed: argparse.Namespace) -> None:
    for name in ("num_records", "record_size", "transaction_duration_ms", "reporting_interval"):
        value = getattr(parsed, name)
        if value is not None and value <= 0:
            raise CommandRejected(f"--{name.replace('_', '-')} should be greater than zero")
    if parsed.warmup_records >= parsed.num_records:
        raise CommandRejected("--warmup-records should be fewer than --num-records")
    pairs = (("producer_props", "command_property"), ("producer_config", "command_config"))
    for old, new in pairs:
        if getattr(parsed, old) and getattr(parsed, new):
            raise CommandRejected(
                f"--{new.replace('_', '-')} and its older name cannot go together"
            )


def _properties(parsed: argparse.Namespace) -> dict[str, str]:
    properties = read_properties(parsed.producer_config or parsed.command_config)
    for text in [*(parsed.producer_props or []), *(parsed.command_property or [])]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CommandRejected(f"Invalid property: {text}")
        properties[key] = value
    properties.setdefault("client.id", "perf-producer-client")
    return properties


def _transactional(parsed: argparse.Namespace, properties: dict[str, str]) -> int | None:
    """Return the duration of a transaction; None without transactions."""
    wanted = parsed.transactional_id or properties.get("transactional.id")
    if wanted is None and parsed.transaction_duration_ms is None:
        return None
    properties["transactional.id"] = wanted or f"performance-producer-{uuid.uuid4()}"
    return int(parsed.transaction_duration_ms or TRANSACTION_MS)


def _payloads(parsed: argparse.Namespace) -> Callable[[int], bytes]:
    """Return a function from the number of a record to its payload."""
    chosen = random.Random(0)
    if parsed.payload_monotonic:
        return lambda number: str(number).encode()
    if parsed.payload_file is not None:
        print(f"Reading payloads from: {Path(parsed.payload_file).absolute()}")
        delimiter = "\n" if parsed.payload_delimiter == "\\n" else parsed.payload_delimiter
        payloads = [text.encode() for text in read_file(parsed.payload_file).split(delimiter)]
        while payloads and not payloads[-1]:
            payloads.pop()
        if not payloads:
            raise CommandRejected("File does not exist or empty file provided.")
        print(f"Number of records read: {len(payloads)}")
        return lambda _number: chosen.choice(payloads)
    size = parsed.record_size
    letters = bytes(chosen.choices(range(65, 91), k=size + LETTERS_BEYOND))
    place = chosen.randrange
    return lambda _number: letters[(at := place(LETTERS_BEYOND)) : at + size]


# -- sending


class _Run:
    """One test, with a producer of its own."""

    def __init__(
        self,
        settings: ProducerSettings,
        parsed: argparse.Namespace,
        *,
        transactional_ms: int | None,
    ) -> None:
        self._parsed = parsed
        self._transactional_ms = transactional_ms
        self._statistics = ""
        extra: dict[str, Any] = {}
        if parsed.print_metrics:
            extra = {"statistics.interval.ms": 500, "stats_cb": self._take_statistics}
        self._sender = SplittingSender(settings, parsed.topic, extra)
        self._failures = 0
        self._figures = Latencies(parsed.num_records, parsed.reporting_interval)
        self._steady: Latencies | None = None

    def _take_statistics(self, text: str) -> None:
        self._statistics = text

    def send_all(self, payload: Callable[[int], bytes]) -> None:
        count = self._parsed.num_records
        warmup = self._parsed.warmup_records
        if warmup:
            print(
                f"Warmup first {warmup} records. Steady state results will print after the "
                "complete test summary."
            )
        if self._transactional_ms is not None:
            self._sender.producer.init_transactions(TRANSACTION_SECONDS)
        pace = ThroughputLimit(self._parsed.throughput)
        longest_ms = self._transactional_ms or 0
        began: float | None = None
        for number in range(count):
            if number == warmup and warmup:
                print("In steady state.", flush=True)
                self._steady = Latencies(count - warmup, None)
            if self._transactional_ms is not None and began is None:
                self._sender.producer.begin_transaction()
                began = time.monotonic()
            self._send(payload(number))
            if began is not None and (time.monotonic() - began) * 1000 >= longest_ms:
                self._sender.producer.commit_transaction(TRANSACTION_SECONDS)
                began = None
            if number % POLL_EVERY == 0:
                self._sender.poll(0)
            pace.wait(number + 1, self._sender.poll)
        if began is not None:
            self._sender.producer.commit_transaction(TRANSACTION_SECONDS)
        self._sender.finish()
        self._conclude()

    def _send(self, payload: bytes) -> None:
        delivered = self._delivered if self._steady is None else self._delivered_steadily
        try:
            self._sender.send(payload, delivered)
        except NotTaken as rejected:
            self._tell(str(rejected))

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._figures.add(_latency_ms(message), len(message))
        else:
            self._tell(error.str())

    def _tell(self, why: str) -> None:
        self._failures += 1
        if self._failures <= FAILURES_SHOWN_MAX:
            say(why)

    def _delivered_steadily(self, error: Any, message: Any) -> None:
        """Count a record after the warmup: in the total, and in the steady state."""
        assert self._steady is not None, "the steady state has begun"
        if error is None:
            self._steady.add(_latency_ms(message), len(message))
        self._delivered(error, message)

    def _conclude(self) -> None:
        print(self._figures.total())
        if self._steady is not None:
            print(self._steady.total("steady state records sent"))
        if self._parsed.print_metrics and self._statistics:
            _print_statistics(self._statistics)
        if self._failures:
            say(f"{self._failures} records were not delivered")


def _latency_ms(message: Any) -> int:
    return int((message.latency() or 0) * 1000)


def _print_statistics(text: str) -> None:
    found = {
        f"producer-metrics:{name}": value
        for name, value in json.loads(text).items()
        if isinstance(value, int | float)
    }
    width = max(map(len, found))
    print(f"\n{'Metric Name':<{width}}   Value")
    for name in sorted(found):
        print(f"{name:<{width}} : {found[name]}")
