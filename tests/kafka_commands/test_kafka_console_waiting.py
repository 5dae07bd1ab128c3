"""The console commands with missing topics and large batches behave like Java's."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_running import Node, ran

from penstock.cli.kafka import console_consumer, console_producer
from penstock.cli.kafka.records.line_reader import LineRecord
from penstock.testing import Cluster

NOBODY = "127.0.0.1:1"
LARGE = b"x" * 3_000_000
FROM_START = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "10000")
PLAIN = ("--timeout", "0", "--command-property", "enable.idempotence=false")


@pytest.fixture(scope="module")
def strict() -> Iterator[Node]:
    """A node that makes no topics by itself."""
    with Cluster({"auto.create.topics.enable": "false"}) as cluster:
        yield Node(cluster.bootstrap)


def stored(node: Node, topic: str, count: int) -> list[str]:
    wanted = ("--topic", topic, "--max-messages", str(count))
    return node.done("console-consumer", *wanted, *FROM_START).lines


# -- kafka-console-producer


def test_a_line_that_is_too_large_keeps_no_other_from_arriving(node: Node, topic: str) -> None:
    found = node.ran("console-producer", "--topic", topic, stdin=b"a\n" + LARGE + b"\nb\n")
    assert found.code == 0
    assert found.err.startswith(
        f"ERROR Error when sending message to topic {topic} with key: null, value: 3000000 bytes "
        "with error: "
    )
    assert found.err.endswith("1 records were not delivered\n")
    assert stored(node, topic, 2) == ["a", "b"]


def test_what_came_before_a_line_without_its_separator_arrives(node: Node, topic: str) -> None:
    keyed = ("--reader-property", "parse.key=true")
    found = node.ran("console-producer", "--topic", topic, *keyed, stdin=b"k\tv\nplain\nk\tw\n")
    assert found.code == 1 and found.err.startswith("No key separator found on line number 2")
    assert node.done("get-offsets", "--topic", topic).out == f"{topic}:0:1\n"


def test_with_sync_a_line_that_is_too_large_ends_the_command(node: Node, topic: str) -> None:
    lines = b"a\n" + LARGE + b"\nb\n"
    found = node.ran("console-producer", "--topic", topic, "--sync", *PLAIN, stdin=lines)
    assert found.code == 1 and "with --sync that ends the command" in found.err
    end = node.done("get-offsets", "--topic", topic).out
    assert end == f"{topic}:0:1\n"


def test_a_limit_below_librdkafkas_is_held(node: Node, topic: str) -> None:
    small = ("--command-property", "max.request.size=300")
    lines = b"a\n" + b"x" * 400 + b"\nb\n"
    found = node.ran("console-producer", "--topic", topic, *PLAIN, *small, stdin=lines)
    assert found.code == 0 and "max.request.size is 300" in found.err
    assert stored(node, topic, 2) == ["a", "b"]


def test_each_record_waits_for_a_cluster_as_long_as_it_may_block() -> None:
    began = time.monotonic()
    found = ran(
        "console-producer", "--bootstrap-server", NOBODY, "--topic", "t", "--max-block-ms", "300",
        stdin=b"a\nb\n",
    )  # fmt: skip
    assert found.code == 0
    assert 0.6 <= time.monotonic() - began < 10
    assert found.err.count("Topic t not present in metadata after 300 ms") == 2
    assert found.err.endswith("2 records were not delivered\n")


def test_with_sync_a_cluster_that_is_not_there_gives_1() -> None:
    found = ran(
        "console-producer", "--bootstrap-server", NOBODY, "--topic", "t", "--max-block-ms", "200",
        "--sync", stdin=b"a\nb\n",
    )  # fmt: skip
    assert found.code == 1
    assert found.err.count("not present in metadata") == 1


def test_a_topic_that_nobody_makes_is_waited_for_as_long(strict: Node, name: str) -> None:
    found = strict.ran(
        "console-producer", "--topic", name, "--max-block-ms", "300", *PLAIN, stdin=b"a\n"
    )
    assert found.code == 0
    assert f"Error while fetching metadata: {{{name}=UNKNOWN_TOPIC_OR_PARTITION}}" in found.err
    assert f"Topic {name} not present in metadata after 300 ms" in found.err


def test_a_topic_that_cannot_be_is_not_waited_for(node: Node) -> None:
    began = time.monotonic()
    found = node.ran("console-producer", "--topic", "a b", *PLAIN, stdin=b"a\n")
    assert time.monotonic() - began < 20, "max.block.ms is 60 s"
    assert "INVALID_TOPIC_EXCEPTION" in found.err


def by_last_byte(_topic: str, _key: bytes | None, value: bytes | None, count: int) -> int:
    """A partitioner, by its Python path."""
    return int((value or b"0")[-1:]) % count


@pytest.mark.parametrize(
    "partitioner", ["test_kafka_console_waiting:by_last_byte", "consistent", "round_robin"]
)
def test_the_partitioner_that_was_asked_for_is_used(
    node: Node, name: str, partitioner: str
) -> None:
    node.done("topics", "--create", "--topic", name, "--partitions", "2")
    keyed = ("--reader-property", "parse.key=true")
    said = ("--command-property", f"partitioner.class={partitioner}")
    lines = b"".join(b"d\t%d\n" % number for number in (1, 3, 5, 7))
    found = node.done("console-producer", "--topic", name, *PLAIN, *keyed, *said, stdin=lines)
    assert "partitioner" not in found.err
    ends = [line.rpartition(":")[2] for line in node.done("get-offsets", "--topic", name).lines]
    # Odd numbers are 1; crc32("d") % 2 is 0, where murmur2 has 1; in turn is half and half.
    assert ends == {"t": ["0", "4"], "c": ["4", "0"], "r": ["2", "2"]}[partitioner[0]]


def test_a_partitioner_that_is_none_is_refused(node: Node, topic: str) -> None:
    said = ("--command-property", "partitioner.class=no.such.thing")
    found = node.ran("console-producer", "--topic", topic, *PLAIN, *said, stdin=b"x\n")
    assert found.code == 1 and "partitioner.class: no partitioner no.such.thing" in found.err


@pytest.mark.parametrize("option", ["max-block-ms", "batch-size", "message-send-max-retries"])
def test_a_number_that_is_none_is_refused_by_its_option(option: str) -> None:
    found = ran("console-producer", "--bootstrap-server", NOBODY, "--topic", "t", f"--{option}=x")
    assert found.code == 1
    assert found.complaint == f"Cannot parse argument 'x' of option {option}"


# -- keys without an effect


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("value.serializer=org.apache.kafka.common.serialization.StringSerializer", "value.s"),
        ("interceptor.classes=a.b", "interceptor.classes"),
        ("compression.type=lz4", "compression.type=lz4"),
        ("metadata.max.idle.ms=9000", "metadata.max.idle.ms"),
        ("schema.registry.url=http://127.0.0.1:1", "schema.registry.url"),
    ],
)
def test_a_producers_key_without_effect_says_so(
    node: Node, topic: str, said: str, told: str
) -> None:
    found = node.ran(
        "console-producer", "--topic", topic, *PLAIN, "--command-property", said, stdin=b"x\n"
    )
    assert found.code == 0 and found.err.startswith(f"note: {told}")
    assert "has no effect here" in found.complaint


@pytest.mark.parametrize(
    "said",
    [
        "max.poll.records=5",
        "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer",
        "handler.timeout.ms=5",
        "default.api.timeout.ms=5",
        "interceptor.classes=a.b",
    ],
)
def test_a_consumers_key_without_effect_says_so(node: Node, topic: str, said: str) -> None:
    waiting = ("--partition", "0", "--timeout-ms", "1", "--command-property", said)
    found = node.done("console-consumer", "--topic", topic, *waiting)
    assert found.complaint.startswith(f"note: {said.partition('=')[0]} has no effect here")


def test_a_files_servers_give_way_to_those_of_the_option(
    node: Node, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers={NOBODY}\n")
    config = ("--command-config", str(path))
    found = node.ran("console-producer", "--topic", topic, *PLAIN, *config, stdin=b"v\n")
    assert found.code == 0 and stored(node, topic, 1) == ["v"]
    wanted = ("--topic", topic, "--max-messages", "1", *FROM_START)
    assert node.done("console-consumer", *wanted, *config).out == "v\n"
    assert topic in node.done("topics", "--list", *config).lines


# -- kafka-console-consumer


def read_before_it_is_there(
    node: Node, made: Callable[[], object], *arguments: str, told: str = "WARN "
) -> tuple[int, str]:
    """Starts a reader of one record, waits until it tells what it misses, and then has it made."""
    command = [sys.executable, "-m", "penstock.cli.kafka", "kafka-console-consumer"]
    where = ["--bootstrap-server", node.bootstrap, "--max-messages", "1", "--timeout-ms", "30000"]
    with subprocess.Popen(
        [*command, *where, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stderr is not None, "it is a pipe"
        first = reader.stderr.readline()
        assert first.startswith(told), first + reader.stderr.read()
        made()
        out, _ = reader.communicate(timeout=60)
    return reader.returncode, out


def said_once_there(node: Node, topic: str, *arguments: str) -> None:
    node.done("topics", "--create", "--topic", topic, *arguments)
    node.done("console-producer", "--topic", topic, *PLAIN, stdin=b"v\n")


def test_a_topic_that_is_not_there_is_waited_for(strict: Node, name: str) -> None:
    found = read_before_it_is_there(
        strict, lambda: said_once_there(strict, name), "--topic", name, "--from-beginning"
    )
    assert found == (0, "v\n")


def test_topics_that_an_expression_will_choose_are_waited_for(strict: Node, name: str) -> None:
    wanted = ("--include", f"{name}-.*", "--from-beginning")
    found = read_before_it_is_there(strict, lambda: said_once_there(strict, f"{name}-a"), *wanted)
    assert found == (0, "v\n")


def test_a_partition_that_is_not_there_is_waited_for(strict: Node, name: str) -> None:
    # librdkafka gives a new topic half a minute before it tells that it is not there.
    told_soon = ("--command-property", "topic.metadata.propagation.max.ms=100")
    wanted = ("--topic", name, "--partition", "0", "--offset", "earliest", *told_soon)
    found = read_before_it_is_there(strict, lambda: said_once_there(strict, name), *wanted)
    assert found == (0, "v\n")


def test_a_reader_makes_the_topic_that_it_names_where_brokers_do_that(
    node: Node, name: str
) -> None:
    def sent() -> None:
        until = time.monotonic() + 20
        while name not in node.done("topics", "--list").lines:
            assert time.monotonic() < until, "the reader has its topic made"
        node.done("console-producer", "--topic", name, *PLAIN, stdin=b"v\n")

    assert read_before_it_is_there(node, sent, "--topic", name, "--from-beginning") == (0, "v\n")


def test_a_topic_that_cannot_be_ends_a_reader_as_kafkas_does(node: Node) -> None:
    found = node.ran("console-consumer", "--topic", "a b", "--timeout-ms", "30000")
    assert found.code == 0
    assert "no record came within" not in found.err and "terminating consumer process" in found.err
    assert found.err.endswith("Processed a total of 0 messages\n")


def test_a_performance_test_waits_for_its_topic_until_its_timeout(strict: Node, name: str) -> None:
    wanted = ("--topic", name, "--num-records", "1", "--timeout", "500", "--hide-header")
    found = strict.done("consumer-perf-test", *wanted)
    assert found.lines[0].startswith("WARNING: Exiting before consuming the expected number")


@pytest.mark.parametrize(("limit", "printed"), [("-1", 3), ("0", 0), ("-2", 0), ("2", 2)])
def test_one_below_zero_is_no_limit(node: Node, topic: str, limit: str, printed: int) -> None:
    node.done("console-producer", "--topic", topic, *PLAIN, stdin=b"a\nb\nc\n")
    reading = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "1000")
    found = node.done("console-consumer", "--topic", topic, *reading, "--max-messages", limit)
    assert len(found.lines) == printed
    assert found.err.endswith(f"Processed a total of {printed} messages\n")


def test_a_record_that_cannot_be_written_counts(node: Node, topic: str) -> None:
    node.done("console-producer", "--topic", topic, *PLAIN, stdin=b"a\n")
    long = "org.apache.kafka.common.serialization.LongDeserializer"
    reading = ("--topic", topic, *FROM_START, "--max-messages", "1", "--value-deserializer", long)
    found = node.ran("console-consumer", *reading)
    assert found.code == 1 and found.err.endswith("Processed a total of 1 messages\n")


def test_a_group_without_a_name_is_refused(node: Node, topic: str) -> None:
    found = node.ran("console-consumer", "--topic", topic, "--group=", "", "--timeout-ms", "1000")
    assert found.code == 1 and "the group id is empty" in found.err


# -- ended by a signal


def test_a_reader_that_is_ended_commits_what_it_printed_and_leaves(
    node: Node, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.done("console-producer", "--topic", topic, *PLAIN, stdin=b"a\nb\n")
    printed = console_consumer._ConsoleReader.printed

    def printed_and_ended(self: console_consumer._ConsoleReader, message: Any) -> None:
        printed(self, message)
        if message.offset() == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(console_consumer._ConsoleReader, "printed", printed_and_ended)
    wanted = ("--topic", topic, "--group", topic, "--from-beginning")
    found = node.ran("console-consumer", *wanted)
    assert (found.code, found.out) == (143, "a\nb\n")
    assert found.err == "Processed a total of 2 messages\n"
    described = node.done("consumer-groups", "--describe", "--group", topic)
    assert f"Consumer group '{topic}' has no active members." in described.err + described.out
    assert re.search(rf"{topic} +{topic} +0 +2 +2 +0 ", described.out)


def test_what_was_read_before_a_signal_arrives(
    node: Node, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def records(_reader: object) -> Iterator[LineRecord]:
        yield LineRecord(None, b"a", [])
        yield LineRecord(None, b"b", [])
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal comes at once")

    monkeypatch.setattr(console_producer, "_records", records)
    assert node.ran("console-producer", "--topic", topic, *PLAIN).code == 143
    assert stored(node, topic, 2) == ["a", "b"]
