"""`penstock consume` against a node: places, filters, templates, groups, terminals."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pytest
import yaml  # type: ignore[import-untyped]
from cli_clients import WAIT_SECONDS_MAX, produce, transactional, write_open
from cli_running import Ran, run, run_at_terminal

from penstock.cli.arguments.places import LogPlace, PlaceKind, find_place
from penstock.cli.connection.access import Access
from penstock.cli.consume import command, reader
from penstock.cli.consume.command import ConsumeIsolation
from penstock.cli.terminal.output import CommandFailed, ExitCode
from penstock.client.values import PartitionDescription, TopicDescription
from penstock.model import TopicPartition
from penstock.testing import Cluster

ESCAPE = "\x1b[2J"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in str(request.node.name))
    return cluster.create_topic(name, partitions=2)


def at(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> Ran:
    return run("--bootstrap", cluster.bootstrap, *arguments, stdin=stdin)


@pytest.fixture
def ten(cluster: Cluster, topic: str) -> str:
    """A topic with 0 to 9 in its first partition, and a to c in its second."""
    at(
        cluster,
        "produce",
        topic,
        "--partition",
        "0",
        stdin=b"".join(b"%d\n" % n for n in range(10)),
    )
    at(cluster, "produce", topic, "--partition", "1", stdin=b"a\nb\nc\n")
    return topic


@pytest.mark.parametrize(
    ("place", "first", "second"),
    [
        ("start", "0123456789", "abc"),
        ("-2", "89", "bc"),
        ("-100", "0123456789", "abc"),
        ("+2", "23456789", "c"),
        ("+100", "", ""),
        ("3", "3456789", ""),
        ("@0", "0123456789", "abc"),
        ("@2200-01-01T00:00", "", ""),
    ],
)
def test_reading_begins_at_the_place(
    cluster: Cluster, ten: str, place: str, first: str, second: str
) -> None:
    rows = at(cluster, "consume", ten, "-o", place, "--format", "json").json_lines
    for partition, values in enumerate((first, second)):
        assert [row["value"] for row in rows if row["partition"] == partition] == [*values]


def test_a_number_of_records_counts_those_that_pass(cluster: Cluster, ten: str) -> None:
    ran = at(cluster, "consume", ten, "--filter", "partition=0", "--filter", "offset>4", "-n", "2")
    assert ran.out == "5\n6\n"


def test_a_template_prints_each_record(cluster: Cluster, ten: str) -> None:
    ran = at(cluster, "consume", ten, "-p", "1", "--template", r"%t/%p@%o=%v;\c")
    assert ran.out == f"{ten}/1@0=a;{ten}/1@1=b;{ten}/1@2=c;"


def test_records_as_yaml_are_documents(cluster: Cluster, ten: str) -> None:
    documents = list(yaml.safe_load_all(at(cluster, "consume", ten, "--format", "yaml").out))
    assert sorted(each["value"] for each in documents) == [*"0123456789abc"]


def test_a_null_is_printed_as_it_was_asked_for(cluster: Cluster, topic: str) -> None:
    at(cluster, "produce", topic, "--null-marker", "-", stdin=b"-\n")
    assert at(cluster, "consume", topic).out == "null\n"
    assert at(cluster, "consume", topic, "--null-marker", "NIL").out == "NIL\n"
    assert at(cluster, "consume", topic, "--filter", "!value").out == "null\n"


def test_what_is_not_committed_is_shown_on_request(cluster: Cluster, topic: str) -> None:
    producer = transactional(cluster.bootstrap, "open")
    write_open(producer, topic, value=b"open")
    seen = at(cluster, "consume", topic, "--isolation", "read_uncommitted")
    assert seen.out == "open\n"
    assert at(cluster, "consume", topic, "--read-committed").out == ""
    producer.abort_transaction(WAIT_SECONDS_MAX)


# -- groups


def test_a_group_commits_what_was_printed_and_goes_on_from_there(
    cluster: Cluster, ten: str
) -> None:
    mine = ("--group", f"{ten}-readers")
    assert len(at(cluster, "consume", ten, *mine, "-n", "3").out.splitlines()) == 3
    described = at(cluster, "group", "describe", mine[1], "--format", "json").json
    assert sum(row["lag"] or 0 for row in described[0]["partitions"]) <= 10
    rest = at(cluster, "consume", ten, *mine)
    assert (rest.code, len(rest.out.splitlines())) == (0, 10)
    assert at(cluster, "consume", ten, *mine).out == ""


def test_a_group_that_should_not_commit_does_not(cluster: Cluster, ten: str) -> None:
    mine = ("--group", f"{ten}-readers", "-X", "enable.auto.commit=false")
    for _ in range(2):
        assert len(at(cluster, "consume", ten, *mine).out.splitlines()) == 13


# -- terminals


def test_json_is_spread_over_lines_on_a_terminal(cluster: Cluster, topic: str) -> None:
    at(cluster, "produce", topic, "-X", "linger.ms=0", stdin=b'{"a":[1]}\n')
    command = ("--bootstrap", cluster.bootstrap, "consume", topic)
    wide = '{\n  "a": [\n    1\n  ]\n}\n'
    assert run_at_terminal(*command, shown=True).out == wide
    assert run_at_terminal(*command, "--no-pretty", shown=True).out == '{"a":[1]}\n'
    assert run(*command).out == '{"a":[1]}\n'
    assert run(*command, "--pretty").out == wide


def test_a_record_cannot_steer_the_terminal(cluster: Cluster, topic: str) -> None:
    at(cluster, "produce", topic, stdin=f"{ESCAPE}x\n".encode())
    command = ("--bootstrap", cluster.bootstrap, "consume", topic)
    assert run_at_terminal(*command, shown=True).out == "\\x1b[2Jx\n"
    assert run(*command).out == f"{ESCAPE}x\n"


# -- namespaces and settings


def test_a_namespace_keeps_environments_apart(cluster: Cluster) -> None:
    dev = ("--namespace", "dev.")
    assert at(cluster, *dev, "topic", "create", "shared").out == "shared: created\n"
    assert at(cluster, *dev, "produce", "shared", stdin=b"from dev\n").code == 0
    assert at(cluster, *dev, "consume", "shared", "--group", "g").out == "from dev\n"
    rows = at(cluster, "consume", "shared", *dev, "--format", "json").json_lines
    assert [row["topic"] for row in rows] == ["shared"]
    names = [row["name"] for row in at(cluster, "topic", "list", "--format", "json").json]
    assert "dev.shared" in names and "shared" not in names
    own = at(cluster, *dev, "topic", "list", "--format", "json").json
    assert [row["name"] for row in own] == ["shared"]
    groups = at(cluster, *dev, "group", "list", "--format", "json").json
    assert [row["group"] for row in groups] == ["g"]
    assert at(cluster, "consume", "shared").code == 1


def test_a_setting_without_effect_is_told(cluster: Cluster, ten: str) -> None:
    ran = at(cluster, "consume", ten, "-X", "linger.ms=5", "-X", "group.id=x", "-n", "1")
    assert ran.code == 0
    assert "note: linger.ms has no effect here: it is a key of a producer" in ran.err
    assert "group.id has no effect without --group" in ran.err


def test_security_reaches_every_client(cluster: Cluster, ten: str) -> None:
    """The node speaks plain text, so nobody who was told to speak TLS gets through."""
    for words in ["topic", "list"], ["consume", ten], ["produce", ten]:
        ran = at(cluster, *words, "-X", "security.protocol=SSL", stdin=b"x\n")
        assert ran.code == 3, ran


def test_a_group_needs_a_name(cluster: Cluster, topic: str) -> None:
    rejected = at(cluster, "consume", topic, "--group", "")
    assert (rejected.code, rejected.err) == (2, "error: --group: a group needs a name\n")


# -- a node that goes away


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A node that may come to harm; whoever reads from it is not patient."""
    monkeypatch.setattr(reader, "QUIET_S_MAX", 0.5)
    with Cluster() as running:
        running.create_topic("t", partitions=2)
        produce(running.bootstrap, "t", {0: 2, 1: 1})
        yield running


def once_found(monkeypatch: pytest.MonkeyPatch, harm: Callable[[], None]) -> None:
    """Something happens when the command knows where to begin, and has read nothing yet."""

    def find(*arguments: Any) -> dict[TopicPartition, int]:
        found = find_place(*arguments)
        harm()
        return found

    monkeypatch.setattr(command, "find_place", find)


def test_reading_ends_if_the_node_goes_away_and_stays_away(
    mortal: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_found(monkeypatch, mortal.kill)
    ran = at(mortal, "consume", "t")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("warning: 1/1 brokers are down (ALL_BROKERS_DOWN)\nerror: ")
    assert "Is a node running there?" in ran.err


def test_reading_ends_if_the_node_does_not_answer_any_more(
    mortal: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_found(monkeypatch, mortal.pause)
    ran = at(mortal, "consume", "t", "-X", "request.timeout.ms=300")
    mortal.resume()
    assert (ran.code, ran.out) == (3, "")


def test_reading_goes_on_when_the_node_is_back(
    mortal: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_found(monkeypatch, mortal.stop)
    looked: list[str] = []

    def ask_cluster(_access: Access, wanted: command.ConsumeRequest) -> None:
        if not looked:
            mortal.start()
        looked.extend(wanted.topics)

    monkeypatch.setattr(command, "_ask_why_quiet", ask_cluster)
    ran = at(mortal, "consume", "t")
    assert ran.code == 0
    assert sorted(ran.out.split()) == ["0", "0", "1"]
    assert set(looked) == {"t"}


def test_who_follows_is_told_once_that_the_node_is_away_and_waits(
    mortal: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_found(monkeypatch, mortal.stop)
    noted: list[str] = []

    def note(text: str) -> None:
        noted.append(text)
        mortal.start()

    monkeypatch.setattr(reader, "note", note)
    ran = at(mortal, "consume", "t", "--follow", "-n", "3")
    assert sorted(ran.out.split()) == ["0", "0", "1"]
    assert noted == ["warning: 1/1 brokers are down (ALL_BROKERS_DOWN)"]


def test_a_partition_that_nobody_leads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = PartitionDescription(0, -1, 0, (2,), (), ())
    admin = mock.MagicMock()
    admin.describe_topics.return_value = {
        "t": TopicDescription("t", bytes(16), False, (partition,))
    }
    monkeypatch.setattr(command, "connect", lambda _access: nullcontext(admin))
    wanted = command.ConsumeRequest(
        ("t",), LogPlace(PlaceKind.START), [], None, ConsumeIsolation.COMMITTED, False
    )
    with pytest.raises(CommandFailed, match="not all was read: t-0 has no leader") as failed:
        command._ask_why_quiet(Access("h:1"), wanted)
    assert failed.value.code == ExitCode.CANNOT_REACH
