"""`penstock group` against a node, with groups that real clients have made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cli_clients import commit, joined, produce
from cli_running import Ran, run

from penstock.client.admin.blocking import Admin
from penstock.model import TopicPartition
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def name() -> str:
    return uuid4().hex[:12]


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    """Ten records in partition 0, four in partition 1."""
    cluster.create_topic(f"t-{name}", partitions=2)
    produce(cluster.bootstrap, f"t-{name}", {0: 10, 1: 4})
    return f"t-{name}"


@pytest.fixture
def group(cluster: Cluster, name: str, topic: str) -> str:
    """Has read six records of partition 0 and one of partition 1, and is gone."""
    commit(cluster.bootstrap, f"g-{name}", topic, {0: 6, 1: 1})
    return f"g-{name}"


def at(cluster: Cluster, *arguments: str) -> Ran:
    return run("--bootstrap", cluster.bootstrap, "group", *arguments)


def as_json(cluster: Cluster, *arguments: str) -> Any:
    return at(cluster, *arguments, "--format", "json").json


def committed(cluster: Cluster, group: str) -> dict[int, int]:
    (described,) = as_json(cluster, "describe", group)
    return {row["partition"]: row["committed"] for row in described["partitions"]}


# -- list


def test_groups_are_listed_with_type_and_state(cluster: Cluster, topic: str, group: str) -> None:
    with joined(cluster.bootstrap, f"{group}-new", topic, group_protocol="consumer"):
        listed = {row["group"]: row for row in as_json(cluster, "list")}
    assert (listed[group]["type"], listed[group]["state"]) == ("classic", "Empty")
    assert listed[f"{group}-new"]["type"] == "consumer"
    assert listed[group]["coordinator"] == 1


def test_groups_are_listed_by_state_and_type(cluster: Cluster, topic: str, group: str) -> None:
    with joined(cluster.bootstrap, f"{group}-used", topic):
        in_use = {row["group"] for row in as_json(cluster, "list", "--state", "stable")}
        classic = {row["group"] for row in as_json(cluster, "list", "--type", "classic")}
        new = {row["group"] for row in as_json(cluster, "list", "--type", "consumer")}
    assert f"{group}-used" in in_use
    assert group not in in_use
    assert {group, f"{group}-used"} <= classic
    assert not {group, f"{group}-used"} & new


# -- describe


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_in_use_shows_who_reads_what_and_how_far(
    cluster: Cluster, topic: str, group: str, protocol: str
) -> None:
    with joined(cluster.bootstrap, group, topic, group_protocol=protocol):
        (described,) = as_json(cluster, "describe", group)
    assert (described["type"], described["member_count"]) == (protocol, 1)
    rows = [
        (row["topic"], row["partition"], row["committed"], row["log_end"], row["lag"])
        for row in described["partitions"]
    ]
    assert rows == [(topic, 0, 6, 10, 4), (topic, 1, 1, 4, 3)]
    assert {row["client_id"] for row in described["partitions"]} == {"reader"}
    assert {row["host"] for row in described["partitions"]} == {"127.0.0.1"}


def test_partitions_that_nobody_reads_are_shown_without_a_member(
    cluster: Cluster, topic: str, group: str
) -> None:
    (described,) = as_json(cluster, "describe", group)
    assert described["state"] == "Empty"
    assert [(row["lag"], row["member"]) for row in described["partitions"]] == [
        (4, None),
        (3, None),
    ]
    ran = at(cluster, "describe", group)
    assert (ran.code, ran.err) == (0, "")
    heading, columns, first = ran.out.splitlines()[:3]
    assert heading == f"{group}  (classic, Empty, 0 members)"
    assert columns.split()[:3] == ["TOPIC", "PARTITION", "COMMITTED"]
    assert first.split() == [topic, "0", "6", "0", "10", "4", "-", "-", "-"]


def test_what_retention_has_removed_is_no_lag(cluster: Cluster, topic: str, group: str) -> None:
    from penstock.client.admin.blocking import Admin
    from penstock.model import TopicPartition

    with Admin(bootstrap=cluster.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 8})
    (described,) = as_json(cluster, "describe", group)
    row = described["partitions"][0]
    assert (row["committed"], row["log_start"], row["log_end"], row["lag"]) == (6, 8, 10, 2)


def test_the_members_of_a_group_are_shown(cluster: Cluster, topic: str, group: str) -> None:
    with joined(cluster.bootstrap, group, topic, group_instance_id="static-1"):
        (described,) = as_json(cluster, "describe", group, "--members")
        table = at(cluster, "describe", group, "--members").out
    (member,) = described["members"]
    assert (member["client_id"], member["instance_id"]) == ("reader", "static-1")
    assert member["assigned"] == [
        {"topic": topic, "partition": 0},
        {"topic": topic, "partition": 1},
    ]
    assert f"{topic}:0,1" in table
    assert "partitions" not in described


def test_the_state_of_groups_is_one_table(cluster: Cluster, group: str) -> None:
    ran = at(cluster, "describe", group, "--state")
    assert ran.out.splitlines()[1].split() == [group, "classic", "Empty", "1", "-", "0"]


def test_all_groups_are_described_unless_named(cluster: Cluster, group: str) -> None:
    assert group in {row["group"] for row in as_json(cluster, "describe", "--state")}


def test_a_group_without_a_name_is_described_with_the_others(
    cluster: Cluster, topic: str, group: str
) -> None:
    """A commit makes one, as in Kafka."""
    with Admin(bootstrap=cluster.bootstrap) as admin:
        admin.groups.commit("", {TopicPartition(topic, 0): 3})
    ran = at(cluster, "describe", "--format", "json")
    assert ran.code == 0
    described = {row["group"]: row for row in ran.json}
    assert described.keys() >= {"", group}
    assert (described[""]["type"], described[""]["partitions"][0]["committed"]) == ("classic", 3)


def test_a_group_that_is_not_there_is_told(cluster: Cluster, group: str) -> None:
    ran = at(cluster, "describe", "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert "there is no group nobody; `penstock group list` shows which there are" in ran.err
    assert at(cluster, "describe", group, "nobody").code == 4


# -- reset


@pytest.mark.parametrize(
    ("aim", "offsets"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 10, 1: 4}),
        (["--shift-by", "-1"], {0: 5, 1: 0}),
        (["--shift-by", "2"], {0: 8, 1: 3}),
        (["--to-offset", "3"], {0: 3, 1: 3}),
        (["--to-current"], {0: 6, 1: 1}),
        (["--to-datetime", "2020-01-01T00:00:00Z"], {0: 0, 1: 0}),
        (["--to-datetime", "2200-01-01"], {0: 10, 1: 4}),
        (["--by-duration", "PT1H"], {0: 0, 1: 0}),
        (["--by-duration", "0s"], {0: 10, 1: 4}),
    ],
)
def test_offsets_go_where_they_are_told_once_it_is_executed(
    cluster: Cluster, group: str, aim: list[str], offsets: dict[int, int]
) -> None:
    shown = at(cluster, "reset", group, "--all-topics", *aim, "--format", "json")
    assert {row["partition"]: row["new_offset"] for row in shown.json} == offsets
    assert [row["done"] for row in shown.json] == [False, False]
    assert shown.err == f"nothing was changed; --execute resets {group} so\n"
    assert committed(cluster, group) == {0: 6, 1: 1}
    done = at(cluster, "reset", group, "--all-topics", *aim, "--execute")
    assert (done.code, done.err) == (0, f"2 offsets of {group} reset\n")
    assert committed(cluster, group) == offsets


def test_some_partitions_are_reset_alone(cluster: Cluster, topic: str, group: str) -> None:
    ran = at(cluster, "reset", group, "--topic", f"{topic}:1", "--to-latest", "--execute")
    assert ran.out.splitlines()[1].split() == [topic, "1", "1", "4"]
    assert committed(cluster, group) == {0: 6, 1: 4}


def test_an_offset_outside_the_log_is_brought_inside_with_a_note(
    cluster: Cluster, topic: str, group: str
) -> None:
    ran = at(cluster, "reset", group, "--topic", topic, "--to-offset", "7", "--execute")
    assert ran.code == 0
    assert f"note: {topic}-1: 7 is after the log's end, 4 is taken\n" in ran.err
    assert committed(cluster, group) == {0: 7, 1: 4}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_in_use_is_not_reset(
    cluster: Cluster, topic: str, group: str, protocol: str
) -> None:
    with joined(cluster.bootstrap, group, topic, group_protocol=protocol):
        ran = at(cluster, "reset", group, "--all-topics", "--to-latest", "--execute")
    assert (ran.code, ran.out) == (1, "")
    assert f"{group} is in use (Stable, 1 member): stop it first." in ran.err
    assert committed(cluster, group) == {0: 6, 1: 1}


def test_a_plan_is_exported_changed_and_taken_back(
    cluster: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    exported = at(cluster, "reset", group, "--all-topics", "--to-current", "--export")
    assert exported.out == f"{topic},0,6\n{topic},1,1\n"
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.out.replace(",0,6", ",0,2"))
    assert at(cluster, "reset", group, "--from-file", str(plan), "--execute").code == 0
    assert committed(cluster, group) == {0: 2, 1: 1}


def test_a_group_can_be_placed_before_it_first_starts(
    cluster: Cluster, topic: str, name: str
) -> None:
    ran = at(cluster, "reset", name, "--topic", topic, "--to-latest", "--execute")
    assert ran.code == 0
    assert f"note: there is no group {name} yet\n" in ran.err
    assert committed(cluster, name) == {0: 10, 1: 4}


def test_a_reset_that_cannot_be_says_why(cluster: Cluster, topic: str, name: str) -> None:
    nothing = at(cluster, "reset", name, "--all-topics", "--to-latest")
    assert nothing.code == 1
    assert f"{name} has committed nothing; name topics with --topic" in nothing.err
    unshifted = at(cluster, "reset", name, "--topic", topic, "--shift-by", "1")
    assert unshifted.code == 1
    assert "has no committed offset to shift" in unshifted.err
    missing = at(cluster, "reset", name, "--topic", "no-such", "--to-latest")
    assert missing.code == 1
    assert "there is no topic no-such" in missing.err
    assert at(cluster, "reset", name, "--topic", f"{topic}:7", "--to-latest").code == 1


# -- delete


def test_a_group_is_deleted_once_somebody_says_yes(cluster: Cluster, group: str) -> None:
    shown = at(cluster, "delete", group, "--dry-run")
    assert shown.out.splitlines()[1].split() == [group, "classic", "Empty", "2"]
    assert shown.err == "nothing was deleted; --yes deletes 1 group\n"
    assert at(cluster, "describe", group).code == 0
    assert at(cluster, "delete", group, "--yes").out == f"{group}: deleted\n"
    assert at(cluster, "describe", group).code == 1


@pytest.mark.parametrize("how", ["--dry-run", "--yes", "--execute"])
def test_a_group_in_use_is_not_deleted(cluster: Cluster, topic: str, group: str, how: str) -> None:
    with joined(cluster.bootstrap, group, topic):
        ran = at(cluster, "delete", group, how)
    assert ran.code == 1
    assert "the group has members; stop them first" in ran.err
    assert "NON_EMPTY_GROUP" in ran.err


@pytest.mark.parametrize(("how", "code"), [("--dry-run", 1), ("--yes", 4)])
def test_some_groups_deleted_and_some_not_ends_with_4_if_it_is_done(
    cluster: Cluster, group: str, how: str, code: int
) -> None:
    ran = at(cluster, "delete", group, "nobody", how)
    assert ran.code == code
    assert "nobody: there is no group nobody" in ran.err


def test_offsets_of_a_topic_are_deleted_once_somebody_says_yes(
    cluster: Cluster, topic: str, group: str
) -> None:
    shown = at(cluster, "delete-offsets", group, "--topic", f"{topic}:1", "--dry-run")
    assert shown.out.splitlines()[1].split() == [topic, "1", "1"]
    assert committed(cluster, group) == {0: 6, 1: 1}
    ran = at(cluster, "delete-offsets", group, "--topic", f"{topic}:1", "--yes")
    assert (ran.code, ran.out) == (0, f"{topic}-1: deleted\n")
    assert committed(cluster, group) == {0: 6}


def test_offsets_of_a_topic_that_is_read_are_not_deleted(
    cluster: Cluster, topic: str, group: str
) -> None:
    with joined(cluster.bootstrap, group, topic):
        ran = at(cluster, "delete-offsets", group, "--topic", topic, "--execute")
    assert ran.code == 1
    assert "members of the group read this topic; stop them first" in ran.err
    assert committed(cluster, group) == {0: 6, 1: 1}


def test_offsets_that_are_not_there_are_told(cluster: Cluster, group: str) -> None:
    ran = at(cluster, "delete-offsets", group, "--topic", "other", "--execute")
    assert (ran.code, ran.out) == (1, "")
    assert f"{group} has committed nothing for other" in ran.err
