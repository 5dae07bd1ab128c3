"""The commands against a node."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_running import Ran, run

from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster({"num.partitions": "2"}) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in str(request.node.name))
    return cluster.create_topic(name, partitions=2)


def at(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> Ran:
    return run("--bootstrap", cluster.bootstrap, *arguments, stdin=stdin)


def test_a_topic_is_created_listed_described_altered_and_deleted(cluster: Cluster) -> None:
    name = "lifetime"
    assert (
        at(cluster, "topic", "create", name, "-p", "3", "--config", "retention.ms=5000").code == 0
    )
    listed = at(cluster, "topic", "list", "--format", "json").json
    assert {"partitions": 3, "replication_factor": 1}.items() <= next(
        row for row in listed if row["name"] == name
    ).items()
    assert at(cluster, "topic", "alter", name, "-p", "4", "--config", "flush.ms=9").code == 0
    (described,) = at(cluster, "topic", "describe", name, "--format", "json").json
    assert described["configs"] == {"retention.ms": "5000", "flush.ms": "9"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3]
    assert at(cluster, "topic", "delete", name, "--yes").out == f"{name}: deleted\n"
    assert at(cluster, "topic", "describe", name).code == 1


def test_a_topic_without_counts_gets_the_brokers(cluster: Cluster) -> None:
    assert at(cluster, "topic", "create", "plain").code == 0
    (described,) = at(cluster, "topic", "describe", "plain", "--format", "json").json
    assert len(described["partitions"]) == 2


def test_some_done_and_some_not_ends_with_4(cluster: Cluster) -> None:
    ran = at(cluster, "topic", "create", "fine", "not/fine")
    assert ran.code == 4
    assert ran.out == "fine: created\n"
    assert "not/fine" in ran.err
    assert "INVALID_TOPIC_EXCEPTION" in ran.err


def test_what_the_server_refuses_ends_with_1(cluster: Cluster, topic: str) -> None:
    again = at(cluster, "topic", "create", topic)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert at(cluster, "topic", "create", topic, "--if-not-exists").code == 0
    assert at(cluster, "topic", "create", "new", "--config", "retention.mss=1").code == 1
    assert at(cluster, "topic", "delete", "never-there", "--yes").code == 1
    assert at(cluster, "topic", "delete", "never-there", "--if-exists", "-y").code == 0
    assert at(cluster, "topic", "alter", topic, "-p", "1").code == 1


def test_settings_are_set_shown_and_unset(cluster: Cluster, topic: str) -> None:
    mine = ("--topic", topic)
    assert at(cluster, "config", "set", *mine, "retention.ms=7", "segment.ms=8").code == 0
    rows = at(cluster, "config", "describe", *mine, "--format", "json").json
    own = {row["name"]: row["value"] for row in rows if row["source"] == "topic"}
    assert own == {"retention.ms": "7", "segment.ms": "8"}
    assert at(cluster, "config", "unset", *mine, "segment.ms").code == 0
    (row,) = at(cluster, "config", "describe", *mine, "segment.ms", "--format", "json").json
    assert row["source"] == "default"
    bad = at(cluster, "config", "set", *mine, "retention.ms=soon")
    assert bad.code == 1
    assert "INVALID_CONFIG" in bad.err


def test_a_groups_settings_are_set_shown_and_unset(cluster: Cluster) -> None:
    mine = ("--group", "readers")
    session = "consumer.session.timeout.ms"
    assert at(cluster, "config", "set", *mine, f"{session}=46000").out == "group readers: changed\n"
    rows = at(cluster, "config", "describe", *mine, "--format", "json").json
    assert [(row["name"], row["value"], row["source"]) for row in rows] == [
        (session, "46000", "group")
    ]
    assert at(cluster, "config", "unset", *mine, session).code == 0
    (row,) = at(cluster, "config", "describe", *mine, session, "--format", "json").json
    assert (row["value"], row["source"]) == ("45000", "default")
    bad = at(cluster, "config", "set", *mine, f"{session}=1000")
    assert bad.code == 1
    assert "group.consumer.min.session.timeout.ms" in bad.err


def test_a_groups_setting_that_does_nothing_yet_is_told(cluster: Cluster) -> None:
    ran = at(cluster, "config", "set", "--group", "readers", "share.isolation.level=read_committed")
    said = "note: share.isolation.level=read_committed is kept but has no effect yet\n"
    assert (ran.code, ran.err) == (0, said)
    at(cluster, "config", "unset", "--group", "readers", "share.isolation.level")


@pytest.mark.parametrize("whose", [(), ("--topic", "t", "--group", "g")])
def test_settings_belong_to_one_owner(cluster: Cluster, whose: tuple[str, ...]) -> None:
    ran = at(cluster, "config", "describe", *whose)
    assert ran.code == 2
    assert "one of --topic NAME, --group NAME, --broker ID, --all-brokers" in ran.err


@pytest.mark.parametrize("command", ["describe", "set", "unset"])
@pytest.mark.parametrize("owner", ["topic", "group", "broker", "all-brokers"])
def test_a_key_that_does_not_exist_is_refused_with_the_nearest(
    cluster: Cluster, topic: str, owner: str, command: str
) -> None:
    name, near = ("retention.mss", "retention.ms")
    whose = ["--topic", topic]
    if owner == "group":
        name, near = ("consumer.session.timeout", "consumer.session.timeout.ms")
        whose = ["--group", "readers"]
    elif owner != "topic":
        name, near = ("message.max.byte", "message.max.bytes")
        whose = ["--broker", "1"] if owner == "broker" else ["--all-brokers"]
    ran = at(cluster, "config", command, *whose, f"{name}=1" if command == "set" else name)
    assert (ran.code, ran.out) == (1, "")
    assert f"{name}; did you mean {near}? (INVALID_CONFIG)" in ran.err


def test_known_keys_beside_an_unknown_one_are_shown_but_not_unset(
    cluster: Cluster, topic: str
) -> None:
    mine = ("--topic", topic)
    assert at(cluster, "config", "set", *mine, "retention.ms=7").code == 0
    shown = at(cluster, "config", "describe", *mine, "retention.ms", "no.key", "--format", "json")
    assert (shown.code, [row["value"] for row in shown.json]) == (4, ["7"])
    assert at(cluster, "config", "unset", *mine, "retention.ms", "no.key").code == 1
    assert at(cluster, "topic", "alter", topic, "--delete-config", "no.key").code == 1
    (row,) = at(cluster, "config", "describe", *mine, "retention.ms", "--format", "json").json
    assert row["value"] == "7"


def test_a_known_key_that_is_not_set_is_no_error(cluster: Cluster) -> None:
    assert at(cluster, "config", "describe", "--all-brokers", "message.max.bytes").code == 0


@pytest.mark.parametrize(
    ("setting", "idle"),
    [
        ("local.retention.ms=5000", "local.retention.ms=5000"),
        ("cleanup.policy=compact,delete", None),
        ("retention.ms=5000", None),
        ("cleanup.policy=delete", None),
    ],
)
def test_what_is_kept_without_effect_is_told(
    cluster: Cluster, topic: str, setting: str, idle: str | None
) -> None:
    said = f"note: {idle} is kept but has no effect yet\n" if idle else ""
    created = at(cluster, "topic", "create", f"{topic}-new", "--config", setting)
    assert (created.code, created.err) == (0, said)
    assert at(cluster, "config", "set", "--topic", topic, setting).err == said
    assert at(cluster, "topic", "alter", topic, "--config", setting).err == said
    at(cluster, "topic", "delete", f"{topic}-new", "--yes")


def test_a_password_that_was_set_is_not_shown(cluster: Cluster) -> None:
    ran = at(cluster, "config", "set", "ssl.keystore.password=topsecret9", "--broker", "1")
    assert (ran.code, "topsecret9" in ran.out + ran.err) == (0, False)
    assert at(cluster, "config", "unset", "ssl.keystore.password", "--broker", "1").code == 0


def test_a_brokers_settings_are_shown(cluster: Cluster) -> None:
    rows = at(cluster, "config", "describe", "--broker", "1", "--format", "json").json
    values = {row["name"]: (row["value"], row["source"]) for row in rows}
    assert values["num.partitions"] == ("2", "static broker")
    missing = at(cluster, "config", "describe", "--broker", "77")
    assert missing.code == 1
    assert "there is no broker 77" in missing.err


def test_lines_become_records_and_come_back(cluster: Cluster, topic: str) -> None:
    wrote = at(
        cluster, "produce", topic, "--key-separator", ":", "--header", "h=1", "--partition", "1",
        "--null-marker", "NULL", stdin=b"a:1\nb:NULL\nc:3:4\n",
    )  # fmt: skip
    assert (wrote.code, wrote.err) == (0, f"3 records written to {topic}\n")
    read = at(cluster, "consume", topic, "--keys", "--headers", "--offsets")
    assert read.code == 0
    assert read.out == "1:0\th=1\ta\t1\n1:1\th=1\tb\tnull\n1:2\th=1\tc\t3:4\n"


def test_a_header_that_is_said_twice_is_sent_twice(cluster: Cluster, topic: str) -> None:
    at(cluster, "produce", topic, "--header", "h=1", "--header", "h=2", stdin=b"x\n")
    assert at(cluster, "consume", topic, "--headers").out == "h=1,h=2\tx\n"


def test_only_the_newline_ends_a_record(cluster: Cluster, topic: str) -> None:
    at(cluster, "produce", topic, "--partition", "0", stdin=b"a\r\nb\r\r\nc")
    rows = at(cluster, "consume", topic, "--format", "json").json_lines
    assert [row["value"] for row in rows] == ["a\r", "b\r\r", "c"]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_comes_back(cluster: Cluster, topic: str, compression: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(200))
    ran = at(
        cluster, "produce", topic, "--compression", compression, "--partition", "0", stdin=lines
    )
    assert ran.code == 0
    assert at(cluster, "consume", topic).out.encode() == lines


@pytest.mark.parametrize("options", [["--acks", "0"], ["--acks", "1"], ["--idempotent"]])
def test_every_acknowledgement_stores_the_record(
    cluster: Cluster, topic: str, options: list[str]
) -> None:
    assert at(cluster, "produce", topic, *options, stdin=b"x\n").code == 0
    assert at(cluster, "consume", topic).out == "x\n"


def test_a_line_without_its_key_is_told_and_the_rest_is_written(
    cluster: Cluster, topic: str
) -> None:
    ran = at(cluster, "produce", topic, "--key-separator", ":", stdin=b"a:1\nno key\nb:2\n")
    assert ran.code == 4
    assert "line 2 has no ':'" in ran.err
    assert len(at(cluster, "consume", topic).out.splitlines()) == 2


def test_reading_begins_where_it_is_told_to(cluster: Cluster, topic: str) -> None:
    at(cluster, "produce", topic, "--partition", "0", stdin=b"0\n1\n2\n3\n")
    only = ("--partition", "0")
    assert at(cluster, "consume", topic, *only, "--from", "2").out == "2\n3\n"
    assert at(cluster, "consume", topic, *only, "--from", "1", "--count", "2").out == "1\n2\n"
    assert at(cluster, "consume", topic, *only, "--from", "@0").out == "0\n1\n2\n3\n"
    assert at(cluster, "consume", topic, *only, "--from", "2200-01-01").out == ""
    beyond = at(cluster, "consume", topic, *only, "--from", "9")
    assert beyond.code == 1
    assert "has offsets 0 to 4, not 9" in beyond.err
    assert at(cluster, "consume", topic, "--partition", "5").code == 1
    assert at(cluster, "consume", "never-there").code == 1


def test_records_as_json_keep_everything(cluster: Cluster, topic: str) -> None:
    at(cluster, "produce", topic, "--partition", "0", "--header", "h=1", stdin=b"\xff\ntext\n")
    first, second = at(cluster, "consume", topic, "--format", "json").json_lines
    assert first["value_base64"] == "/w=="
    assert "value" not in first
    assert (second["value"], second["key"], second["offset"]) == ("text", None, 1)
    assert second["headers"] == [{"key": "h", "value": "1"}]
    assert second["timestamp_type"] == "CreateTime"


@contextmanager
def consuming(
    cluster: Cluster, *arguments: str, before: Sequence[str] = ()
) -> Iterator["subprocess.Popen[str]"]:
    """A reader in a process of its own, which does not outlive the test."""
    command = [sys.executable, "-m", "penstock", "--bootstrap", cluster.bootstrap]
    with subprocess.Popen(
        [*before, *command, "consume", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as reader:
        try:
            yield reader
        finally:
            reader.kill()


@pytest.mark.parametrize("before", [[], ["sh", "-c", """trap '' INT; exec "$@" """, "sh"]])
def test_following_goes_on_at_the_end_until_interrupted(
    cluster: Cluster, topic: str, before: list[str]
) -> None:
    """Also where a shell has started it with SIGINT ignored, as for `nohup ... &`."""
    at(cluster, "produce", topic, stdin=b"first\n")
    with consuming(cluster, topic, "--follow", before=before) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "first\n"
        at(cluster, "produce", topic, stdin=b"second\n")
        assert reader.stdout.readline() == "second\n"
        reader.send_signal(signal.SIGINT)
        _, err = reader.communicate(timeout=30)
    assert (reader.returncode, err) == (130, "")


def test_a_node_starts_serves_and_stops_at_a_signal(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "penstock", "start", "--format", "json",
        "--data", str(tmp_path / "data"), "--set", "listeners=PLAINTEXT://127.0.0.1:0",
        "--set", "metrics.listener=",
    ]  # fmt: skip
    node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        said = json.loads(node.stdout.readline())
        address = said["listeners"][0].removeprefix("PLAINTEXT://")
        assert run("--bootstrap", address, "produce", "greetings", stdin=b"hello\n").code == 0
        assert run("--bootstrap", address, "consume", "greetings").out == "hello\n"
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert second.returncode == 1
        assert second.stderr.startswith("error: ")
        assert "Traceback" not in second.stderr
        os.kill(node.pid, signal.SIGTERM)
        _, err = node.communicate(timeout=30)
    finally:
        node.kill()
        node.wait()
    assert (node.returncode, err) == (0, "")
    dumped = run("log", "dump", str(tmp_path / "data" / "greetings-0"), "--records")
    assert dumped.code == 0
    assert "value=hello" in dumped.out
