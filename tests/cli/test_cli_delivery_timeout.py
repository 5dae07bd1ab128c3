"""Reasons for records that were not written in time, which librdkafka does not report."""

from collections.abc import Iterator

import pytest
from cli_running import run

from penstock.cli.connection.access import Access
from penstock.cli.connection.delivery_timeout import NO_PARTITION, ask_reason, reason
from penstock.client.values import PartitionDescription, TopicDescription
from penstock.errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from penstock.testing import Cluster

TIMEOUT = ("--timeout-ms", "1500")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster({"auto.create.topics.enable": False}) as running:
        yield running


def described(*partitions: tuple[int, list[int]]) -> TopicDescription:
    """Partitions by leader and in-sync replicas; all have replicas on 1 and 2."""
    return TopicDescription(
        "orders",
        bytes(16),
        False,
        tuple(
            PartitionDescription(number, leader, 0, (1, 2), tuple(in_sync), ())
            for number, (leader, in_sync) in enumerate(partitions)
        ),
    )


def test_the_reason_is_named_when_records_time_out(cluster: Cluster) -> None:
    ran = run("--bootstrap", cluster.bootstrap, "produce", "missing", *TIMEOUT, stdin=b"x\n")
    assert ran.code == 1
    assert "MSG_TIMED_OUT" in ran.err
    assert "likely reason: there is no topic missing" in ran.err


def test_the_reason_is_part_of_the_json(cluster: Cluster) -> None:
    ran = run(
        "--bootstrap", cluster.bootstrap, "produce", "missing", *TIMEOUT, "--format", "json",
        stdin=b"x\n",
    )  # fmt: skip
    assert ran.json["likely_reason"].startswith("there is no topic missing")


def test_a_topic_that_is_well_is_no_reason(cluster: Cluster) -> None:
    """Though it asks for more replicas than there are: the server does not insist on those."""
    strict = cluster.create_topic("strict", partitions=1, config={"min.insync.replicas": 2})
    assert ask_reason(Access(cluster.bootstrap), strict, {0}, acks_all=True) is None


def test_too_few_in_sync_replicas_are_the_reason() -> None:
    said = reason("orders", described((1, [1])), {0}, 2)
    assert said is not None
    assert said.startswith("orders-0 has 1 in-sync replica, fewer than its min.insync.replicas=2")
    assert "takes no records with acks=all" in said


def test_replicas_count_only_with_acks_all() -> None:
    assert reason("orders", described((1, [1])), {0}, None) is None


def test_replicas_that_the_partition_does_not_have_are_no_reason() -> None:
    assert reason("orders", described((1, [1, 2])), {0}, 3) is None


def test_a_server_that_has_gone_is_the_reason() -> None:
    said = ask_reason(Access("127.0.0.1:1"), "orders", {0}, acks_all=True)
    assert said == "127.0.0.1:1 cannot be reached: nothing listens there"


def test_a_partition_without_a_leader_is_the_reason() -> None:
    said = reason("orders", described((1, [1, 2]), (-1, [2])), {1}, None)
    assert said == "orders-1 has no leader; it is held by broker 1, 2: is it running?"


def test_partitions_that_were_not_written_to_are_no_reason() -> None:
    topic = described((1, [1, 2]), (-1, []))
    assert reason("orders", topic, {0}, 2) is None
    assert reason("orders", topic, {NO_PARTITION}, 2) is not None


def test_a_topic_that_cannot_be_used_is_the_reason() -> None:
    missing = reason("orders", UnknownTopicOrPartition(), {NO_PARTITION}, None)
    assert missing == "there is no topic orders; `penstock topic create orders` makes it"
    rejected = reason("orders", TopicAuthorizationFailed(), {0}, None)
    assert rejected == "Topic authorization failed (TOPIC_AUTHORIZATION_FAILED)"
