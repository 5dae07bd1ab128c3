"""kafka-console-producer and kafka-console-consumer."""

import io
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_running import Node, Ran

FROM_START = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "10000")


def produced(node: Node, topic: str, stdin: bytes, *arguments: str) -> Ran:
    """Without waiting: --timeout is linger.ms, and an idempotent producer needs half a second."""
    hasty = ("--timeout", "0", "--command-property", "enable.idempotence=false")
    return node.ran("console-producer", "--topic", topic, *hasty, *arguments, stdin=stdin)


def consumed(node: Node, topic: str, count: int, *arguments: str) -> Ran:
    wanted = ("--topic", topic, "--max-messages", str(count))
    return node.done("console-consumer", *wanted, *FROM_START, *arguments)


def with_properties(option: str, **values: str) -> list[str]:
    return [
        word
        for key, value in values.items()
        for word in (option, f"{key.replace('_', '.')}={value}")
    ]


def test_lines_become_records(node: Node, topic: str) -> None:
    assert produced(node, topic, b"one\n\ntwo\r\nthr\xc3\xa9e") == (0, "", "")
    found = consumed(node, topic, 4)
    assert found.out == "one\n\ntwo\nthrée\n"
    assert found.err == "Processed a total of 4 messages\n"


def test_a_line_has_a_key(node: Node, topic: str) -> None:
    produced(
        node,
        topic,
        b"k:v:w\n",
        *with_properties("--reader-property", parse_key="true", key_separator=":"),
    )
    found = consumed(node, topic, 1, *with_properties("--formatter-property", print_key="true"))
    assert found.out == "k\tv:w\n"


def test_a_line_has_headers(node: Node, topic: str) -> None:
    reading = with_properties(
        "--property", parse_headers="true", parse_key="true", null_marker="NUL"
    )
    produced(node, topic, b"a:1,b:NUL\tk\tNUL\n", *reading)
    printing = with_properties("--property", print_key="true", print_headers="true")
    assert consumed(node, topic, 1, *printing).out == "a:1,b:null\tk\tnull\n"


def test_a_line_without_its_separator_ends_the_command(node: Node, topic: str) -> None:
    found = produced(
        node, topic, b"plain\n", *with_properties("--reader-property", parse_key="true")
    )
    assert found.code == 1
    assert found.err == "No key separator found on line number 1: 'plain'\n"


def test_errors_may_be_ignored(node: Node, topic: str) -> None:
    reading = with_properties("--reader-property", parse_key="true", ignore_error="true")
    produced(node, topic, b"plain\n", *reading)
    printing = with_properties("--formatter-property", print_key="true", null_literal="-")
    assert consumed(node, topic, 1, *printing).out == "-\tplain\n"


def test_every_part_of_a_record_can_be_shown(node: Node, topic: str) -> None:
    produced(node, topic, b"v\n", "--sync")
    shown = dict.fromkeys(
        ("print_timestamp", "print_partition", "print_offset", "print_epoch", "print_headers"),
        "true",
    )
    printing = with_properties("--formatter-property", **shown, key_separator="|")
    first, *rest = consumed(node, topic, 1, *printing).out.split("|")
    assert first.startswith("CreateTime:") and first[11:].isdecimal()
    assert rest == ["Partition:0", "Offset:0", "Epoch:0", "NO_HEADERS", "v\n"]


def test_values_are_deserialized_by_javas_names(node: Node, topic: str) -> None:
    produced(node, topic, struct.pack(">q", 2**40 + 7) + b"\n")
    long = "org.apache.kafka.common.serialization.LongDeserializer"
    assert consumed(node, topic, 1, "--value-deserializer", long).out == f"{2**40 + 7}\n"


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_records_are_compressed(node: Node, topic: str, codec: str) -> None:
    assert produced(node, topic, b"x" * 2000, "--compression-codec", codec).code == 0
    assert len(consumed(node, topic, 1).out) == 2001


def test_an_unknown_codec_is_refused(node: Node, topic: str) -> None:
    found = produced(node, topic, b"x\n", "--compression-codec", "rar")
    assert found.code == 1 and "compression.type" in found.err


def test_reading_begins_at_an_offset(node: Node, topic: str) -> None:
    produced(node, topic, b"0\n1\n2\n")
    begin = ("--partition", "0", "--offset", "2", "--timeout-ms", "10000")
    found = node.done("console-consumer", "--topic", topic, "--max-messages", "1", *begin)
    assert found.out == "2\n"


def test_a_group_goes_on_after_what_was_printed(node: Node, topic: str, name: str) -> None:
    produced(node, topic, b"0\n1\n2\n")
    reading = (
        "--topic",
        topic,
        "--group",
        f"{name}-g",
        "--from-beginning",
        "--timeout-ms",
        "15000",
    )
    assert node.done("console-consumer", *reading, "--max-messages", "2").out == "0\n1\n"
    assert node.done("console-consumer", *reading, "--max-messages", "1").out == "2\n"


def test_topics_are_chosen_by_an_expression(node: Node, topic: str) -> None:
    produced(node, topic, b"v\n")
    reading = ("--include", f"{topic[:-1]}.", "--from-beginning", "--timeout-ms", "15000")
    assert node.done("console-consumer", *reading, "--max-messages", "1").out == "v\n"


def test_a_reader_that_waits_in_vain_ends(node: Node, topic: str) -> None:
    waiting = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "100")
    found = node.done("console-consumer", "--topic", topic, *waiting)
    assert found.out == ""
    assert found.err.endswith("\nProcessed a total of 0 messages\n")


def coordinated_in(group: str) -> int:
    """The partition of __consumer_offsets that a group belongs to: Java's hash of its name."""
    value = 0
    for letter in group:
        value = (value * 31 + ord(letter)) & 0xFFFFFFFF
    return abs(value - (value >> 31 << 32)) % 50


def test_committed_offsets_are_shown_by_their_formatter(node: Node, topic: str, name: str) -> None:
    reset = ("--reset-offsets", "--group", name, "--topic", topic, "--to-earliest", "--execute")
    node.done("consumer-groups", *reset)
    number = coordinated_in(name)
    rule = ("--topic-partitions", f"__consumer_offsets:{number}")
    end = node.done("get-offsets", *rule).out.strip().rpartition(":")[2]
    place = ("--partition", str(number), "--offset", "earliest", "--max-messages", end)
    formatter = ("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter")
    waiting = ("--timeout-ms", "15000")
    found = node.done(
        "console-consumer", "--topic", "__consumer_offsets", *place, *waiting, *formatter
    )
    wanted = f'{{"key":{{"type":1,"data":{{"group":"{name}","topic":"{topic}","partition":0}}}}'
    assert any(line.startswith(wanted) and '"offset":0' in line for line in found.lines)


def test_what_was_typed_before_an_interruption_arrives(
    node: Node, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter([b"typed\n"])

    class Interrupted(io.BytesIO):
        def readline(self, _size: int | None = -1, /) -> bytes:
            for line in typed:
                return line
            raise KeyboardInterrupt

    class Terminal(io.TextIOWrapper):
        def __init__(self, buffer: io.BytesIO, encoding: str) -> None:
            super().__init__(Interrupted(buffer.read()), encoding)

    monkeypatch.setattr("kafka_running.STDIN", Terminal)
    assert produced(node, topic, b"").code == 130
    monkeypatch.undo()
    assert consumed(node, topic, 1).out == "typed\n"


def test_a_reader_ends_when_nobody_reads_it(node: Node, topic: str) -> None:
    produced(node, topic, b"line\n" * 100_000)
    command = f"{sys.executable} -m penstock.cli.kafka kafka-console-consumer"
    wanted = f"--bootstrap-server {node.bootstrap} --topic {topic} --partition 0 --offset earliest"
    done = subprocess.run(
        ["sh", "-c", f"{command} {wanted} | head -n 1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "line\n"
    assert done.stderr.startswith("Unable to write to standard out, closing consumer.\nProcessed")


def test_a_namespace_is_refused(node: Node, topic: str) -> None:
    found = produced(node, topic, b"x\n", "--command-property", "namespace=dev.")
    assert found.code == 1 and "namespace is not taken by Kafka's commands" in found.err


def test_settings_come_from_files_and_options(node: Node, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("compression.type=lz4\nlinger.ms=0\n")
    done = node.ran(
        "console-producer", "--topic", topic, "--command-config", str(path), "--command-property",
        "acks=1", stdin=b"v\n",
    )  # fmt: skip
    assert done.code == 0 and consumed(node, topic, 1).out == "v\n"


def test_a_key_that_nobody_knows_is_refused(node: Node, topic: str) -> None:
    found = produced(node, topic, b"x\n", "--command-property", "linger.mss=1")
    assert found.code == 1 and "linger.ms" in found.err


@pytest.mark.parametrize(("waiting", "code"), [((), 0), (("--sync",), 1)])
def test_a_record_that_is_not_delivered_is_told_of(
    node: Node, topic: str, waiting: tuple[str, ...], code: int
) -> None:
    node.done("configs", "--alter", "--topic", topic, "--add-config", "max.message.bytes=100")
    found = produced(node, topic, b"x" * 500 + b"\n", *waiting)
    assert found.code == code
    assert "value: 500 bytes with error: " in found.err
    assert "1 records were not delivered" in found.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "Exactly one of the following arguments is required: [topic], [include]"),
        (("--topic", "t", "--offset", "1"), "The partition is required when offset is specified."),
        (("--topic", "t", "--partition", "0", "--offset", "-1"), "The provided offset value '-1'"),
        (
            ("--topic", "t", "--partition", "0", "--group", "g"),
            "Options group and partition cannot be specified together.",
        ),
        (
            ("--topic", "t", "--group", "g", "--command-property", "group.id=h"),
            "The group ids provided in different places",
        ),
        (("--topic", "t", "--formatter", "x"), "--formatter x: there is no such class here"),
    ],
)
def test_a_consumer_that_cannot_be_is_refused(
    node: Node, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("console-consumer", *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)


def test_an_option_without_effect_says_so(node: Node, topic: str) -> None:
    waiting = ("--partition", "0", "--timeout-ms", "1", "--enable-systest-events")
    found = node.done("console-consumer", "--topic", topic, *waiting)
    assert found.complaint.startswith("note: --enable-systest-events has no effect here")
