"""`penstock txn` against a node, with transactions that real clients have open."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from cli_clients import (
    WAIT_SECONDS_MAX,
    begin_two_phase,
    transactional,
    write_hanging,
    write_open,
)
from cli_running import Ran, run
from confluent_kafka import Producer

from penstock.cli.arguments.times import HOUR_MS, wall_ms
from penstock.client.admin.blocking import Admin
from penstock.model import TopicPartition
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster({"transaction.partition.verification.enable": False}) as running:
        yield running


@pytest.fixture
def name() -> str:
    return uuid4().hex[:12]


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    return cluster.create_topic(f"t-{name}", partitions=2)


@pytest.fixture
def opened(cluster: Cluster, topic: str, name: str) -> Iterator[Producer]:
    """A transaction with one record in partition 1."""
    producer = transactional(cluster.bootstrap, name, transaction_timeout_ms=60_000)
    write_open(producer, topic, partition=1)
    yield producer
    producer.purge()


def at(cluster: Cluster, *arguments: str) -> Ran:
    return run("--bootstrap", cluster.bootstrap, "txn", *arguments)


def as_json(cluster: Cluster, *arguments: str) -> Any:
    return at(cluster, *arguments, "--format", "json").json


def open_in(cluster: Cluster, topic: str, partition: int) -> list[int | None]:
    place = TopicPartition(topic, partition)
    with Admin(bootstrap=cluster.bootstrap) as admin:
        found = admin.transactions.producers([place])[place]
    assert isinstance(found, list)
    return [each.transaction_start for each in found]


def test_transactions_are_listed(cluster: Cluster, name: str, opened: Producer) -> None:
    (row,) = [row for row in as_json(cluster, "list") if row["transactional_id"] == name]
    assert (row["state"], row["coordinator"]) == ("Ongoing", 1)
    opened.commit_transaction(WAIT_SECONDS_MAX)
    (row,) = [row for row in as_json(cluster, "list") if row["transactional_id"] == name]
    assert row["state"] in ("PrepareCommit", "CompleteCommit")


@pytest.mark.usefixtures("opened")
def test_transactions_are_listed_by_what_is_asked(cluster: Cluster, name: str) -> None:
    def listed(*filters: str) -> bool:
        return name in {row["transactional_id"] for row in as_json(cluster, "list", *filters)}

    (described,) = as_json(cluster, "describe", name)
    assert listed("--state", "ongoing")
    assert not listed("--state", "Empty", "--state", "CompleteCommit")
    assert listed("--producer-id", str(described["producer_id"]))
    assert not listed("--producer-id", str(described["producer_id"] + 1_000_000))
    assert not listed("--longer-than", "1h")
    assert listed("--pattern", f"{name[:10]}.*")
    assert not listed("--pattern", "nobody.*")


@pytest.mark.usefixtures("opened")
def test_what_is_open_for_long_is_open(cluster: Cluster, name: str) -> None:
    """An id without a transaction began at -1 for the server, which is long ago."""
    idle = f"idle-{name}"
    transactional(cluster.bootstrap, idle, transaction_timeout_ms=60_000)
    rows = as_json(cluster, "list", "--longer-than", "0ms")
    names = {row["transactional_id"] for row in rows}
    assert name in names
    assert idle not in names
    ran = at(cluster, "list", "--longer-than", "0ms", "--state", "Empty")
    assert ran.code == 2
    assert "what is Empty is not open" in ran.err


def test_a_pattern_that_is_none_is_named_with_what_is_wrong(cluster: Cluster) -> None:
    ran = at(cluster, "list", "--pattern", "(")
    assert ran.code == 1
    assert "--pattern '(' is no regular expression (RE2), the server says: missing )" in ran.err


@pytest.mark.usefixtures("opened")
def test_a_transaction_is_described(cluster: Cluster, topic: str, name: str) -> None:
    (row,) = as_json(cluster, "describe", name)
    assert (row["state"], row["timeout_ms"]) == ("Ongoing", 60_000)
    assert row["partitions"] == [{"topic": topic, "partition": 1}]
    assert 0 <= row["open_ms"] < 60_000
    assert f"{topic}:1" in at(cluster, "describe", name).out


def test_a_transaction_that_has_ended_is_not_open(
    cluster: Cluster, name: str, opened: Producer
) -> None:
    opened.commit_transaction(WAIT_SECONDS_MAX)
    (row,) = as_json(cluster, "describe", name)
    while row["state"] != "CompleteCommit":
        (row,) = as_json(cluster, "describe", name)
    assert (row["start_ms"] > 0, row["open_ms"]) == (True, None)
    header, cells = at(cluster, "describe", name).out.splitlines()
    assert cells[header.index("OPEN FOR") :].split()[0] == "-"


def test_a_participant_of_a_two_phase_commit_has_no_time_limit(cluster: Cluster, name: str) -> None:
    begin_two_phase(cluster.bootstrap, name)
    (row,) = as_json(cluster, "describe", name)
    assert row["timeout_ms"] is None
    header, cells = at(cluster, "describe", name).out.splitlines()
    assert cells[header.index("TIMEOUT") :].split()[0] == "none"


def test_a_transactional_id_that_is_not_there_is_told(cluster: Cluster) -> None:
    ran = at(cluster, "describe", "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert "there is no transactional id nobody; `penstock txn list` shows" in ran.err


@pytest.mark.usefixtures("opened")
def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    cluster: Cluster, topic: str
) -> None:
    ran = at(cluster, "find-hanging", "--topic", topic, "--max-timeout", "0ms", "--format", "json")
    assert (ran.code, ran.json) == (0, [])
    assert ran.err == "2 partitions looked at; no transaction hangs\n"
    assert at(cluster, "find-hanging", "--broker", "1").code == 0


def test_a_transaction_that_nobody_will_end_is_found_and_aborted(
    cluster: Cluster, topic: str
) -> None:
    hour_ago = wall_ms() - HOUR_MS
    producer_id = write_hanging(cluster.bootstrap, topic, last_write_ms=hour_ago)
    (row,) = as_json(cluster, "find-hanging", "--topic", topic)
    assert (row["topic"], row["partition"], row["start_offset"]) == (topic, 0, 0)
    assert (row["producer_id"], row["last_timestamp"]) == (producer_id, hour_ago)
    assert as_json(cluster, "find-hanging", "--topic", topic, "--max-timeout", "2h") == []
    assert row in [
        {**each, "idle_ms": row["idle_ms"]}
        for each in as_json(cluster, "find-hanging", "--broker", "1")
    ]
    which = ("--topic", topic, "--partition", "0", "--start-offset", "0")
    assert "does not hang" not in at(cluster, "abort", *which).err
    assert at(cluster, "abort", *which, "--execute").code == 0
    assert as_json(cluster, "find-hanging", "--topic", topic) == []


@pytest.mark.usefixtures("opened")
def test_a_transaction_is_aborted_in_a_partition_once_somebody_says_yes(
    cluster: Cluster, topic: str, name: str
) -> None:
    which = ("--topic", topic, "--partition", "1", "--start-offset", "0")
    assert at(cluster, "abort", *which).code == 2
    shown = at(cluster, "abort", *which, "--dry-run", "--format", "json")
    assert (shown.code, shown.json[0]["start_offset"]) == (0, 0)
    assert f"warning: this transaction does not hang: {name} has it open (Ongoing)" in shown.err
    assert "nothing was written; --yes aborts this transaction" in shown.err
    assert open_in(cluster, topic, 1) == [0]
    ran = at(cluster, "abort", *which, "--yes")
    assert (ran.code, ran.out) == (0, f"{topic}-1: aborted\n")
    assert open_in(cluster, topic, 1) == [None]


def test_a_transaction_that_is_not_open_cannot_be_aborted(
    cluster: Cluster, topic: str, opened: Producer
) -> None:
    def abort(partition: str, offset: str) -> Ran:
        which = ("--topic", topic, "--partition", partition, "--start-offset", offset)
        return at(cluster, "abort", *which, "--execute")

    assert abort("1", "5").code == 1
    assert "begins at offset 5; open ones begin at 0" in abort("1", "5").err
    assert "begins at offset 0; none is open there" in abort("0", "0").err
    assert f"{topic} has no partition 9" in abort("9", "0").err
    opened.abort_transaction(WAIT_SECONDS_MAX)


@pytest.mark.usefixtures("opened")
def test_an_abort_with_an_old_epoch_is_refused(cluster: Cluster, topic: str, name: str) -> None:
    (row,) = as_json(cluster, "describe", name)
    successor = transactional(cluster.bootstrap, name)
    write_open(successor, topic, partition=1)
    ran = at(
        cluster, "abort", "--topic", topic, "--partition", "1", "--execute",
        "--producer-id", str(row["producer_id"]),
        "--producer-epoch", str(row["producer_epoch"]), "--coordinator-epoch", "-1",
    )  # fmt: skip
    assert ran.code == 1
    assert "has a newer epoch than 0 here by now; `penstock txn find-hanging` shows" in ran.err
    assert "INVALID_PRODUCER_EPOCH" in ran.err
