"""`penstock txn recover`: what a killed job left is seen, then ended."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.cli.main import main
from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.decisions import BatchName
from penstock.spark.sink.driver import plan_batch, settle
from penstock.spark.sink.worker import write_part
from penstock.testing import Cluster

pytest_plugins = ["spark_fixtures"]

ROWS = [pa.RecordBatch.from_pydict({"value": [b"1", b"2"]})]


@pytest.fixture
def sink(cluster: Cluster, topic: str) -> Iterator[str]:
    """A sink whose driver died after its task had written; nothing of it outlives the test."""
    options = SinkOptions({"bootstrap.servers": cluster.bootstrap}, topic=topic, sink_id=topic)
    plan = plan_batch(options, topic, may_repeat=True)
    write_part(options, plan, BatchName("query", 0), ROWS)
    yield topic
    settle(options, topic)


def recover(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    """The exit code, and what was printed."""
    capsys.readouterr()
    code = main(
        ["--bootstrap", cluster.bootstrap, "--format", "json", "txn", "recover", *arguments]
    )
    printed = capsys.readouterr()
    return code, printed.out if code == 0 else printed.err


def ongoing(admin: Admin, sink: str) -> list[str]:
    listed = admin.transactions.list_all(TransactionFilter(states=("Ongoing",)))
    return [each.transactional_id for each in listed if each.transactional_id.startswith(sink)]


def test_what_is_left_is_shown_first(
    cluster: Cluster, admin: Admin, sink: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = recover(cluster, capsys, sink)
    (row,) = json.loads(printed)
    assert (code, row["sink"], row["open_transactions"]) == (0, sink, 1)
    assert len(ongoing(admin, sink)) == 1


def test_undecided_rows_are_aborted_on_request(
    cluster: Cluster, admin: Admin, sink: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = recover(cluster, capsys, sink, "--execute")
    (row,) = json.loads(printed)
    assert (code, row["aborted_transactions"], row["finished"]) == (0, 1, None)
    assert ongoing(admin, sink) == []


def test_all_sinks_are_shown_without_a_name(
    cluster: Cluster, sink: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, printed = recover(cluster, capsys)
    assert sink in [row["sink"] for row in json.loads(printed)]


def test_a_sink_that_nobody_knows_is_refused(
    cluster: Cluster, sink: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = recover(cluster, capsys, "nobody")
    assert (code, "there is no sink nobody" in printed, sink in printed) == (1, True, True)


def test_a_wrong_client_key_is_refused(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = recover(cluster, capsys, "--property", "acks=some")
    assert (code, "kafka.acks" in printed) == (2, True)
