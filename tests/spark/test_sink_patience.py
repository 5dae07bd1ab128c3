"""A node that is away for a moment does not stop a query: the sink asks again when it is back."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from sink_output import PARTITIONS, committed, still_open

from penstock.client.transport.connection import CannotReach
from penstock.client.values import NewTopic
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.decisions import BatchName
from penstock.spark.sink.driver import commit_batch, plan_batch
from penstock.spark.sink.worker import write_part
from penstock.testing import Cluster

AWAY_SECONDS = 1.0
BATCH = BatchName("query", 0)
ROWS = [
    pa.RecordBatch.from_pydict({"value": [b"1"]}),
    pa.RecordBatch.from_pydict({"value": [b"2"]}),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A node that is started again has to be found where it was."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*probe.getsockname())
    with Cluster({"listeners": f"PLAINTEXT://{address}"}) as running:
        yield running


@pytest.fixture
def options(cluster: Cluster) -> SinkOptions:
    given = SinkOptions(
        {"bootstrap.servers": cluster.bootstrap},
        topic="target",
        sink_id="sink",
        request_timeout_ms=20_000,
    )
    with given.connect() as admin:
        admin.create_topics([NewTopic("target", PARTITIONS, 1)])
    return given


@contextmanager
def away(cluster: Cluster) -> Iterator[None]:
    """The node is gone at the beginning of the block, and comes back some time later."""
    cluster.kill()
    timer = threading.Timer(AWAY_SECONDS, cluster.start)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_batch_is_planned_when_the_node_is_back(cluster: Cluster, options: SinkOptions) -> None:
    with away(cluster):
        plan = plan_batch(options, "sink", may_repeat=True)
    assert plan.sink_id == "sink"


def test_a_task_begins_when_the_node_is_back(cluster: Cluster, options: SinkOptions) -> None:
    plan = plan_batch(options, "sink", may_repeat=True)
    with away(cluster):
        report = write_part(options, plan, BATCH, ROWS)
    commit_batch(options, "sink", BATCH, [report])
    assert committed(options) == [1, 2]


def test_a_batch_is_committed_when_the_node_is_back(cluster: Cluster, options: SinkOptions) -> None:
    report = write_part(options, plan_batch(options, "sink", may_repeat=True), BATCH, ROWS)
    with away(cluster):
        commit_batch(options, "sink", BATCH, [report])
    assert committed(options) == [1, 2]
    assert still_open(options) == []


def test_a_node_that_stays_away_is_told_of(cluster: Cluster) -> None:
    options = SinkOptions(
        {"bootstrap.servers": cluster.bootstrap}, sink_id="sink", request_timeout_ms=300
    )
    cluster.kill()
    with pytest.raises(CannotReach, match="nothing listens there"):
        plan_batch(options, "sink", may_repeat=True)
