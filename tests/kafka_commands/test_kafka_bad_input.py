"""Kafka's commands with files and numbers that cannot be meant: a sentence, and no traceback."""

import json
from pathlib import Path

import pytest
from kafka_running import Node

HUGE = "99999999999"


@pytest.mark.parametrize("said", ['{"partitions": 5}', '{"partitions": {"topic": "t"}}'])
@pytest.mark.parametrize(
    "command",
    [
        ("delete-records", "--offset-json-file"),
        ("leader-election", "--election-type", "preferred", "--path-to-json-file"),
        ("reassign-partitions", "--execute", "--reassignment-json-file"),
    ],
    ids=lambda command: command[0],
)
def test_partitions_that_are_no_list_are_refused(
    node: Node, tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "partitions.json"
    path.write_text(said)
    name, *options = command
    found = node.ran(name, *options, str(path))
    assert found.code == 1
    assert f"{path}: partitions is no list" in found.err + found.out


@pytest.mark.parametrize("said", ["5", "[5]", '[{"topic": 5}]', '[{"topic": "t"}, {}]', "[]"])
def test_topics_to_move_that_are_no_list_of_topics_are_refused(
    node: Node, tmp_path: Path, said: str
) -> None:
    path = tmp_path / "topics.json"
    path.write_text(f'{{"version": 1, "topics": {said}}}')
    move = ("--generate", "--broker-list", "1", "--topics-to-move-json-file", str(path))
    found = node.ran("reassign-partitions", *move)
    assert found.code == 1
    assert f'{path}: must be {{"version": 1, "topics"' in found.err + found.out


@pytest.mark.parametrize("offset", ["9" * 20, "9" * 5_000, "-1", "soon"])
def test_an_offset_that_is_none_is_refused(node: Node, topic: str, offset: str) -> None:
    wanted = ("--topic", topic, "--partition", "0", "--offset", offset)
    found = node.ran("console-consumer", *wanted)
    assert found.code == 1
    assert found.complaint.startswith(f"The provided offset value '{offset}' is incorrect.")


def test_a_broker_that_no_cluster_can_have_is_refused(node: Node, name: str) -> None:
    found = node.ran("topics", "--create", "--topic", name, "--replica-assignment", HUGE)
    assert found.code == 1
    assert f"'{HUGE}' is not broker ids with colons between" in found.err + found.out


def test_what_the_protocol_has_no_room_for_is_refused(
    node: Node, topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.json"
    beyond = {"topic": topic, "partition": 0, "offset": 2**63}
    path.write_text(json.dumps({"partitions": [beyond]}))
    found = node.ran("delete-records", "--offset-json-file", str(path))
    assert found.code == 1
    assert "what was given cannot be sent: DeleteRecordsRequest" in found.err
