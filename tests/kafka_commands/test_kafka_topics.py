"""kafka-topics."""

import re

import pytest
from kafka_running import Node, ran


def test_a_topic_is_created(node: Node, name: str) -> None:
    assert node.done("topics", "--create", "--topic", name).out == f"Created topic {name}.\n"


def test_a_topic_that_is_there_is_refused(node: Node, topic: str) -> None:
    found = node.ran("topics", "--create", "--topic", topic)
    assert found.code == 1
    assert found.out.startswith("Error while executing topic command : ")
    assert "already exists" in found.out


def test_a_topic_that_is_there_is_no_matter_if_it_may_be(node: Node, topic: str) -> None:
    assert node.done("topics", "--create", "--topic", topic, "--if-not-exists").out == ""


def test_dots_and_underscores_bring_a_warning(node: Node, name: str) -> None:
    assert node.done("topics", "--create", "--topic", f"{name}.a_b").out.startswith("WARNING: ")


def test_topics_are_listed_by_name(node: Node, topic: str) -> None:
    lines = node.done("topics", "--list").lines
    assert topic in lines and lines == sorted(lines)


def test_a_list_takes_an_expression(node: Node, topic: str) -> None:
    assert node.done("topics", "--list", "--topic", f"{topic[:-1]}.").lines == [topic]


def test_a_description_has_a_line_for_the_topic_and_one_per_partition(
    node: Node, name: str
) -> None:
    node.done(
        "topics", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=9"
    )
    first, *rest = node.done("topics", "--describe", "--topic", name).lines
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\t"
        r"Configs: .*retention\.ms=9.*",
        first,
    )
    assert rest == [
        f"\tTopic: {name}\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \t"
        "LastKnownElr: "
        for number in (0, 1)
    ]


def test_a_topic_is_described_by_its_id(node: Node, topic: str) -> None:
    first = node.done("topics", "--describe", "--topic", topic).lines[0]
    topic_id = first.split("\t")[1].removeprefix("TopicId: ")
    assert node.done("topics", "--describe", "--topic-id", topic_id).lines[0] == first


@pytest.mark.parametrize("action", ["--describe", "--delete"])
def test_a_topic_that_is_missing_is_told(node: Node, name: str, action: str) -> None:
    found = node.ran("topics", action, "--topic", name)
    assert found.code == 1
    assert found.out == (
        f"Error while executing topic command : Topic '{name}' does not exist as expected\n"
    )


@pytest.mark.parametrize("action", ["--describe", "--delete"])
def test_a_topic_that_is_missing_is_no_matter_if_it_may_be(
    node: Node, name: str, action: str
) -> None:
    assert node.done("topics", action, "--topic", name, "--if-exists").out == ""


@pytest.mark.usefixtures("topic")
def test_nothing_is_shown_of_partitions_that_are_well(node: Node) -> None:
    for report in ("under-replicated", "unavailable", "under-min-isr"):
        assert node.done("topics", "--describe", f"--{report}-partitions").out == ""


def test_partitions_at_their_least_replicas_are_shown(node: Node, topic: str) -> None:
    found = node.done("topics", "--describe", "--topic", topic, "--at-min-isr-partitions")
    assert [line.split("\t")[1] for line in found.lines] == [f"Topic: {topic}"]


def test_a_topic_grows(node: Node, topic: str) -> None:
    assert node.done("topics", "--alter", "--topic", topic, "--partitions", "3").out == ""
    assert "PartitionCount: 3" in node.done("topics", "--describe", "--topic", topic).out


def test_a_topic_never_shrinks(node: Node, topic: str) -> None:
    node.done("topics", "--alter", "--topic", topic, "--partitions", "3")
    assert node.ran("topics", "--alter", "--topic", topic, "--partitions", "2").code == 1


def test_a_topic_is_deleted(node: Node, topic: str) -> None:
    assert node.done("topics", "--delete", "--topic", topic).out == ""
    assert topic not in node.done("topics", "--list").lines


def test_replicas_are_assigned_by_hand(node: Node, name: str) -> None:
    node.done("topics", "--create", "--topic", name, "--replica-assignment", "1,1")
    assert "PartitionCount: 2" in node.done("topics", "--describe", "--topic", name).out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--list", "--create"), "Command must include exactly one action: "),
        (("--create",), 'Missing required argument "[topic]"'),
        (("--alter", "--topic", "x"), 'Missing required argument "[partitions]"'),
        (
            ("--list", "--partitions", "1"),
            'Option "[partitions]" can\'t be used with option "[list]"',
        ),
        (
            ("--create", "--topic", "x", "--partitions", "1", "--replica-assignment", "1"),
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
    ],
)
def test_options_that_do_not_fit_bring_up_all_of_them(
    node: Node, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("topics", *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)
    assert "--replication-factor" in found.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--partitions", "0"), "The partitions must be greater than 0"),
        (("--replication-factor", "0"), "The replication factor must be between 1 and 32767"),
        (("--config", "x"), "Invalid topic config: all configs to be added must be in the format"),
        (("--replica-assignment", "1:1"), "Partition replica lists may not contain duplicate"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    node: Node, name: str, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("topics", "--create", "--topic", name, *arguments)
    assert found.code == 1
    assert found.out.startswith(f"Error while executing topic command : {complaint}")


def test_a_server_that_is_not_there_is_told() -> None:
    found = ran("topics", "--bootstrap-server", "127.0.0.1:1", "--list")
    assert found.code == 1
    assert found.out.startswith("Error while executing topic command : 127.0.0.1:1 ")


def test_a_client_file_is_read(node: Node, tmp_path: object) -> None:
    found = node.ran("topics", "--list", "--command-config", f"{tmp_path}/missing.properties")
    assert found.code == 1 and "no such file" in found.out
