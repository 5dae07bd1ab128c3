"""kafka-consumer-groups."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from kafka_running import Node, ran

RECORDS = b"".join(b"%d\n" % number for number in range(10))
POLL_SECONDS = 0.2
POLLS_MAX = 150


@pytest.fixture
def filled(node: Node, topic: str) -> str:
    """A topic with ten records."""
    hasty = ("--timeout", "0", "--command-property", "enable.idempotence=false")
    node.done("console-producer", "--topic", topic, *hasty, stdin=RECORDS)
    return topic


@pytest.fixture
def group(node: Node, filled: str, name: str) -> str:
    """A group without members that has committed offset 4."""
    reset = ("--reset-offsets", "--group", name, "--topic", filled, "--to-offset", "4")
    node.done("consumer-groups", *reset, "--execute")
    return name


@pytest.fixture
def member(node: Node, group: str, filled: str) -> Iterator[Consumer]:
    """Somebody in the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "client.id": "reader",
            "enable.auto.commit": False,
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe([filled])
    try:
        for _ in range(POLLS_MAX):
            consumer.poll(POLL_SECONDS)
            if consumer.assignment():
                break
        yield consumer
    finally:
        consumer.close()


def test_groups_are_listed(node: Node, group: str) -> None:
    assert group in node.done("consumer-groups", "--list").lines


def test_groups_are_listed_with_type_and_state(node: Node, group: str) -> None:
    first, *rest = node.done("consumer-groups", "--list", "--type", "--state").lines
    assert first.split() == ["GROUP", "TYPE", "STATE"]
    assert [group, "Classic", "Empty"] in [line.split() for line in rest]


def test_a_list_takes_states(node: Node, group: str) -> None:
    assert group not in node.done("consumer-groups", "--list", "--state", "stable").out


def test_an_empty_group_is_described(node: Node, group: str, filled: str) -> None:
    found = node.done("consumer-groups", "--describe", "--group", group)
    assert found.err == f"\nConsumer group '{group}' has no active members.\n"
    blank, heads, row = found.lines
    assert blank == ""
    assert heads == (
        f"{'GROUP':<15} {'TOPIC':<15} PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG"
        f"             {'CONSUMER-ID':<15} {'HOST':<15} CLIENT-ID"
    )
    assert row.split() == [group, filled, "0", "4", "10", "6", "-", "-", "-"]


def test_a_member_is_described(node: Node, group: str, filled: str, member: Consumer) -> None:
    (row,) = node.done("consumer-groups", "--describe", "--group", group).lines[2:]
    member_id, host, client_id = row.split()[6:]
    assert (row.split()[:6], host, client_id) == (
        [group, filled, "0", "4", "10", "6"],
        "/127.0.0.1",
        "reader",
    )
    members = node.done("consumer-groups", "--describe", "--group", group, "--members", "--verbose")
    heads, row = members.lines[1:]
    assert heads.split() == [
        "GROUP",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
    ]
    assert row.split()[1] == member_id and row.split()[6] == f"{filled}:0"
    assert member.assignment()


def test_a_state_is_described(node: Node, group: str) -> None:
    heads, row = node.done("consumer-groups", "--describe", "--group", group, "--state").lines[1:]
    assert heads == (
        f"{'GROUP':<15} {'COORDINATOR (ID)':<25} {'ASSIGNMENT-STRATEGY':<20} {'STATE':<20} #MEMBERS"
    )
    assert row.split()[0] == group and row.split()[-2:] == ["Empty", "0"]
    assert f"{node.bootstrap}  (1)" in row


def test_a_group_that_is_missing_is_told(node: Node, name: str) -> None:
    found = node.done("consumer-groups", "--describe", "--group", name)
    assert found.out == f"\nError: Consumer group '{name}' does not exist.\n"


@pytest.mark.parametrize(
    ("aim", "offset"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-current",), 4),
        (("--to-offset", "7"), 7),
        (("--shift-by", "-3"), 1),
        (("--shift-by", "99"), 10),
        (("--to-datetime", "2001-01-01T00:00:00.000"), 0),
        (("--by-duration", "PT1H"), 0),
    ],
)
def test_a_reset_shows_where_to(
    node: Node, group: str, filled: str, aim: tuple[str, ...], offset: int
) -> None:
    reset = ("--reset-offsets", "--group", group, "--topic", filled, "--dry-run")
    blank, heads, row = node.done("consumer-groups", *reset, *aim).lines
    assert (blank, heads) == ("", f"{'GROUP':<15} {'TOPIC':<15} PARTITION  NEW-OFFSET")
    assert row.split() == [group, filled, "0", str(offset)]


def test_what_was_not_committed_cannot_be_shifted(node: Node, name: str, filled: str) -> None:
    reset = ("--reset-offsets", "--group", name, "--topic", filled, "--shift-by", "1", "--execute")
    found = node.ran("consumer-groups", *reset)
    assert found.code == 1 and not found.out
    assert found.complaint.startswith(f"{filled}-0 has no committed offset to shift")


def test_a_reset_changes_nothing_unless_told(node: Node, group: str) -> None:
    reset = ("--reset-offsets", "--group", group, "--all-topics", "--to-latest")
    assert node.done("consumer-groups", *reset).complaint.startswith("WARN: ")
    row = node.done("consumer-groups", "--describe", "--group", group).lines[-1]
    assert row.split()[3] == "4"


def test_a_plan_goes_out_and_comes_in_again(
    node: Node, group: str, filled: str, tmp_path: object
) -> None:
    reset = ("--reset-offsets", "--group", group)
    exported = node.done(
        "consumer-groups", *reset, "--all-topics", "--to-offset", "9", "--export", "--dry-run"
    )
    assert exported.out == f"{filled},0,9\n\n"
    path = f"{tmp_path}/plan.csv"
    with open(path, "w") as file:
        file.write(exported.out)
    node.done("consumer-groups", *reset, "--from-file", path, "--execute")
    row = node.done("consumer-groups", "--describe", "--group", group).lines[-1]
    assert row.split()[3] == "9"


def test_a_group_in_use_is_not_reset(node: Node, group: str, member: Consumer) -> None:
    reset = ("--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute")
    found = node.done("consumer-groups", *reset)
    assert f"Error: Assignments can only be reset if the group '{group}' is inactive" in found.out
    assert member.assignment()


def test_a_group_is_deleted(node: Node, group: str) -> None:
    found = node.done("consumer-groups", "--delete", "--group", group)
    assert found.out == f"Deletion of requested consumer groups ('{group}') was successful.\n"
    assert group not in node.done("consumer-groups", "--list").lines


def test_what_cannot_be_deleted_is_told(node: Node, group: str, name: str) -> None:
    found = node.done("consumer-groups", "--delete", "--group", group, "--group", f"{name}-not")
    assert "Error: Deletion of some consumer groups failed:" in found.out
    assert f"* Group '{name}-not' could not be deleted due to: " in found.out
    assert f"These consumer groups were deleted successfully: '{group}'" in found.out


def test_offsets_of_a_topic_are_forgotten(node: Node, group: str, filled: str) -> None:
    found = node.done("consumer-groups", "--delete-offsets", "--group", group, "--topic", filled)
    assert found.lines[0] == f"Request succeeded for deleting offsets from group {group}."
    assert found.lines[2:] == [
        f"{'TOPIC':<15} PARTITION  STATUS         ",
        f"{filled:<15} 0          Successful     ",
    ]


def test_an_expression_is_looked_at_without_a_server() -> None:
    assert ran("consumer-groups", "--validate-regex", "a.*").out.endswith(" is valid.\n")
    assert " is invalid: " in ran("consumer-groups", "--validate-regex", "a(").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--describe",), "Option [describe] takes one of these options: [group], [all-groups]"),
        (("--describe", "--group", "g", "--state", "x"), "Option [describe] does not take a value"),
        (
            ("--reset-offsets", "--group", "g", "--topic", "t", "--dry-run"),
            "Option '[reset-offsets]'",
        ),
        (
            ("--reset-offsets", "--group", "g", "--to-latest", "--dry-run"),
            "One of the reset scopes should be defined: --all-topics, --topic.",
        ),
        (
            ("--reset-offsets", "--group", "g", "--to-latest", "--to-earliest", "--dry-run"),
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (("--list", "--members"), "Option(s) [members] are unavailable given other options"),
        (("--delete-offsets", "--group", "g"), "Option [delete-offsets] takes the following"),
        (("--list", "--state", "x"), "Invalid state list 'x'. Valid states are: "),
    ],
)
def test_options_that_do_not_fit_are_refused(
    node: Node, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("consumer-groups", *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)


def test_a_server_that_is_not_there_is_told_with_0() -> None:
    found = ran("consumer-groups", "--bootstrap-server", "127.0.0.1:1", "--list")
    assert found.code == 0
    assert found.out.startswith("\nError: Executing consumer group command failed due to ")
