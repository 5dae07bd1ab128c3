"""Tasks that go on while their batch is given up."""

import pyarrow as pa
import pytest

from penstock.client.admin.blocking import Admin
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.decisions import BatchName
from penstock.spark.sink.driver import commit_batch, plan_batch, settle
from penstock.spark.sink.worker import TaskFenced, write_part
from penstock.testing import Cluster

pytest_plugins = ["spark_fixtures"]

ROWS = [pa.RecordBatch.from_pydict({"value": [b"1", b"2"]})]


@pytest.fixture
def options(cluster: Cluster, topic: str) -> SinkOptions:
    return SinkOptions({"bootstrap.servers": cluster.bootstrap}, topic=topic, sink_id=topic)


def ongoing(admin: Admin, sink: str) -> list[str]:
    listed = admin.transactions.list_all(TransactionFilter(states=("Ongoing",)))
    return [each.transactional_id for each in listed if each.transactional_id.startswith(sink)]


def test_a_task_that_writes_after_its_batch_was_given_up_leaves_nothing_open(
    admin: Admin, topic: str, options: SinkOptions
) -> None:
    plan = plan_batch(options, topic, may_repeat=True)
    settle(options, topic)
    with pytest.raises(TaskFenced, match="given up"):
        write_part(options, plan, BatchName("query", 0), ROWS)
    assert ongoing(admin, topic) == []


def test_a_copy_that_ends_after_the_commit_leaves_nothing_open(
    admin: Admin, topic: str, options: SinkOptions
) -> None:
    plan = plan_batch(options, topic, may_repeat=True)
    batch = BatchName("query", 0)
    commit_batch(options, topic, batch, [write_part(options, plan, batch, ROWS)])
    with pytest.raises(TaskFenced):
        write_part(options, plan, batch, ROWS)
    assert ongoing(admin, topic) == []


def test_a_plan_that_had_to_abort_something_is_in_charge(
    admin: Admin, topic: str, options: SinkOptions
) -> None:
    write_part(options, plan_batch(options, topic, may_repeat=True), BatchName("query", 0), ROWS)
    plan = plan_batch(options, topic, may_repeat=True)
    batch = BatchName("query", 0)
    commit_batch(options, topic, batch, [write_part(options, plan, batch, ROWS)])
    assert ongoing(admin, topic) == []
