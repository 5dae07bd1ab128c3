"""Kafka's Java tool and our command of the same name, run with the same arguments.

What they print is compared after what must differ was masked: ids, times, the names of what each
made for itself, and Java's names of exceptions.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.servers import java_class
from compat.report import Report

SECONDS_MAX = 120
WHO = "@who"  # in arguments: `java` or `ours`, so that both can make something
CLASSES = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "server-start": "kafka.Kafka",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}

_MASKS = (
    (re.compile(r"\b(?:java|ours)-"), "who-"),
    (re.compile(r"(?:org\.apache\.kafka\.common\.errors|java\.util\.concurrent)\.\w+: "), ""),
    (re.compile(r"\b1[7-9]\d{11}\b"), "TIME"),
    (re.compile(r"\d+ ms ago"), "AGE"),
    (re.compile(r"requirement failed: |(?<=or ) (?=\")"), ""),
    (re.compile(r"\b(HighWatermark: +)\d+"), r"\1N"),
)
# Lines that Java's tools add: stack traces, and the older names of options.
_NOISE = re.compile(
    r"\s+at |Caused by: |Warning: --|Option --\S+ is deprecated|WARNING: Due to|SLF4J"
)


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Twin:
    """One call of a command; `reads` turns what was printed into what must be equal."""

    name: str
    arguments: tuple[str, ...]
    given: str = ""
    reads: Callable[[Ran], object] | None = None


def ran_by_java(name: str, arguments: Sequence[str], given: str = "") -> Ran:
    said = [argument.replace(WHO, "java") for argument in arguments]
    return _ran(java_class(CLASSES[name], *said), given)


def ran_by_us(name: str, arguments: Sequence[str], given: str = "") -> Ran:
    said = [argument.replace(WHO, "ours") for argument in arguments]
    return _ran([sys.executable, "-m", "penstock.cli.kafka", f"kafka-{name}", *said], given)


def _ran(command: Sequence[str], given: str) -> Ran:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def masked(text: str) -> list[str]:
    """The lines that count, without what must differ."""
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in text.splitlines() if line and not _NOISE.match(line)]


def printed(found: Ran) -> object:
    """The exit code and what is on stdout."""
    return found.code, masked(found.out)


def in_any_order(found: Ran) -> object:
    return found.code, sorted(line.strip() for line in masked(found.out))


def only_code(found: Ran) -> object:
    return found.code


def refused(found: Ran) -> object:
    """The exit code and the reason on stderr, before all options are listed."""
    reasons = [line for line in masked(found.err) if not line.startswith(("usage: ", "WARN: "))]
    return found.code, [] if not reasons else reasons[0]


def compare(report: Report, twin: Twin) -> None:
    """One fact: both say the same."""
    reads = twin.reads or printed
    fact = f"kafka-{twin.name} {' '.join(_short(each) for each in twin.arguments)}"
    theirs = ran_by_java(twin.name, twin.arguments, twin.given)
    ours = ran_by_us(twin.name, twin.arguments, twin.given)
    wanted, found = reads(theirs), reads(ours)
    report.expect(
        wanted == found,
        fact,
        f"Java's: {wanted}\nours:   {found}\nJava's stderr: {theirs.err[-300:]}\n"
        f"our stderr: {ours.err[-300:]}",
    )


def _short(argument: str) -> str:
    return argument.rpartition("/")[2] if argument.startswith("/") else argument
