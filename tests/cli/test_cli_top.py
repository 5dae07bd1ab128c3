"""`penstock top`: frames of two snapshots of a cluster, and the command."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from cli_clients import commit, produce
from cli_running import NO_PROFILES, run

from penstock.cli.top.view import (
    FIXED_LINES,
    ClusterSnapshot,
    GroupSnapshot,
    TopFrame,
    frame_of,
    lag_of,
    lines_of,
    rows_that_fit,
)
from penstock.client.values import Broker, PartitionDescription, TopicDescription
from penstock.model import TopicPartition
from penstock.testing import Cluster

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
WAIT_SECONDS_MAX = 60.0


def topic(name: str, leader: int = 1, in_sync: tuple[int, ...] = (1, 2)) -> TopicDescription:
    partition = PartitionDescription(0, leader, 0, (1, 2), in_sync, ())
    return TopicDescription(name, bytes(16), False, (partition,))


def look(
    at_s: float,
    ends: Mapping[TopicPartition, int],
    *groups: GroupSnapshot,
    starts: Mapping[TopicPartition, int] | None = None,
    topics: tuple[TopicDescription, ...] = (topic("a"), topic("b", leader=2, in_sync=(2,))),
) -> ClusterSnapshot:
    brokers = (Broker(1, "one", 9092), Broker(2, "two", 9092, "r"))
    return ClusterSnapshot(at_s, "cluster", 2, brokers, topics, starts or {}, ends, groups)


def group(name: str, committed: Mapping[TopicPartition, int]) -> GroupSnapshot:
    return GroupSnapshot(name, "Stable", 1, committed)


def test_a_rate_is_the_difference_of_end_offsets_over_the_time_between() -> None:
    frame = frame_of(look(12.0, {A: 130, B: 10}), look(10.0, {A: 100, B: 10}))
    assert frame.records_per_s == 15.0
    assert [(row["topic"], row["records_per_s"]) for row in frame.topics] == [
        ("a", 15.0),
        ("b", 0.0),
    ]
    assert [(row["broker"], row["records_per_s"]) for row in frame.brokers] == [
        (1, 15.0),
        (2, 0.0),
    ]


def test_after_the_first_look_there_are_no_rates() -> None:
    frame = frame_of(look(1.0, {A: 5, B: 7}, group("g", {A: 5})), None)
    assert frame.records_per_s is None
    assert {row["records_per_s"] for row in (*frame.topics, *frame.brokers)} == {None}
    assert frame.groups[0]["lag_per_s"] is None


def test_a_topic_that_was_made_again_has_no_negative_rate() -> None:
    assert frame_of(look(2.0, {A: 0}), look(1.0, {A: 100})).records_per_s == 0.0
    assert frame_of(look(2.0, {A: 9}), look(1.0, {})).records_per_s == 0


def test_topics_are_ordered_by_traffic_and_then_by_size() -> None:
    frame = frame_of(look(2.0, {A: 50, B: 20}), look(1.0, {A: 50, B: 10}))
    assert [row["topic"] for row in frame.topics] == ["b", "a"]
    still = frame_of(look(1.0, {A: 50, B: 70}), None)
    assert [row["topic"] for row in still.topics] == ["b", "a"]


def test_groups_are_ordered_by_lag_with_those_that_have_none_last() -> None:
    now = look(
        2.0, {A: 100, B: 50}, group("small", {A: 90}), group("none", {}), group("big", {A: 0, B: 0})
    )
    before = look(1.0, {A: 100, B: 50}, group("small", {A: 70}))
    rows = frame_of(now, before).groups
    assert [(row["group"], row["lag"], row["lag_per_s"]) for row in rows] == [
        ("big", 150, None),
        ("small", 10, -20.0),
        ("none", None, None),
    ]


def test_what_retention_has_removed_or_is_gone_is_no_lag() -> None:
    seen = look(1.0, {A: 100}, starts={A: 60})
    assert lag_of(group("g", {A: 10, TopicPartition("gone", 0): 5}), seen) == 40
    assert lag_of(group("g", {A: 200}), seen) == 0


def test_what_is_not_well_is_counted() -> None:
    frame = frame_of(look(1.0, {}), None)
    assert {row["topic"]: row["unhealthy"] for row in frame.topics} == {"a": 0, "b": 1}
    assert {row["broker"]: row["out_of_sync"] for row in frame.brokers} == {1: 1, 2: 0}


def test_the_controller_is_told_beside_the_number_of_a_broker() -> None:
    frame = frame_of(look(1.0, {}), None)
    assert [(row["broker"], row["controller"]) for row in frame.brokers] == [(1, False), (2, True)]
    heading, one, two = lines_of(frame, rows=5)[2:5]
    assert "CONTROLLER" in heading
    assert (one.split()[:5], two.split()[:5]) == (
        ["1", "one:9092", "-", "no", "no"],
        ["2", "two:9092", "r", "no", "yes"],
    )


def test_the_number_of_a_broker_is_no_amount() -> None:
    seen = look(1.0, {})
    frame = frame_of(replace(seen, brokers=(Broker(1001, "one", 9092),)), None)
    assert lines_of(frame, rows=5)[3].split()[0] == "1001"


def test_lines_are_cut_to_the_terminal_and_tables_to_their_rows() -> None:
    many = tuple(topic(f"topic-{number}") for number in range(30))
    ends = {TopicPartition(each.name, 0): 1_000_000 for each in many}
    frame = frame_of(look(1.0, ends, topics=many), None)
    lines = lines_of(frame, rows=rows_that_fit(24), width=40)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 40
    assert "... and 25 more" in lines
    assert "1,000,000" in "\n".join(lines_of(frame, rows=5))


@pytest.mark.parametrize("height", [1, 10, 24, 100])
def test_there_are_always_some_rows(height: int) -> None:
    assert rows_that_fit(height) >= 3
    assert rows_that_fit(height) * 3 + FIXED_LINES <= max(height, 3 * 3 + FIXED_LINES)


def test_headings_are_bold_where_colours_are_wanted() -> None:
    frame = TopFrame("c", None, [], [], [], 0)
    assert "\x1b[1mTOPIC" in "\n".join(lines_of(frame, rows=1, colours=True))
    assert "\x1b" not in "\n".join(lines_of(frame, rows=1))


# -- the command


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        name = running.create_topic("busy", partitions=2)
        produce(running.bootstrap, name, {0: 7, 1: 3})
        commit(running.bootstrap, "readers", name, {0: 5})
        yield running


def test_one_frame_shows_brokers_topics_and_groups(cluster: Cluster) -> None:
    ran = run("--bootstrap", cluster.bootstrap, "top", "--once", "--interval", "0.1")
    assert ran.code == 0
    assert "1 broker, 1 topic, 1 group, 0.0 records/s" in ran.out
    assert "\x1b" not in ran.out
    shown = run(
        "--bootstrap", cluster.bootstrap, "top", "--once", "-i", "0.1", "--format", "json"
    ).json
    assert [(row["topic"], row["offsets"]) for row in shown["topics"]] == [("busy", 10)]
    assert [(row["group"], row["lag"]) for row in shown["groups"]] == [("readers", 2)]
    assert shown["records_per_s"] == 0
    assert [(row["broker"], row["controller"]) for row in shown["brokers"]] == [(1, True)]


def test_several_frames_are_lines_for_programs(cluster: Cluster) -> None:
    ran = run("--bootstrap", cluster.bootstrap, "top", "-n", "2", "-i", "0.1", "--format", "json")
    first, second = ran.json_lines
    assert (first["records_per_s"], second["records_per_s"]) == (None, 0.0)
    internal = run("--bootstrap", cluster.bootstrap, "top", "-n", "1", "--internal")
    assert "__consumer_offsets" in internal.out


def _shown_on(terminal: int, wanted: bytes) -> bytes:
    """What a terminal shows until something is there."""
    seen = b""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while wanted not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 65536)
    return seen


def test_on_a_terminal_it_goes_on_until_q(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "penstock", "--bootstrap", cluster.bootstrap, "top"]
    environment = {**os.environ, "PENSTOCK_CONFIG": NO_PROFILES, "TERM": "xterm"}
    with subprocess.Popen(
        [*command, "-i", "0.2"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as watching:
        try:
            seen = _shown_on(ours, b"readers")
            assert b"\x1b[?1049h" in seen and b"busy" in seen and b"readers" in seen
            _shown_on(ours, b"\x1b[H")  # it draws again
            os.write(ours, b"q")
            left = _shown_on(ours, b"\x1b[?1049l")
            assert b"\x1b[?25h\x1b[?1049l" in left
            assert watching.wait(WAIT_SECONDS_MAX) == 0
        finally:
            watching.kill()
    os.close(ours)
    os.close(theirs)
