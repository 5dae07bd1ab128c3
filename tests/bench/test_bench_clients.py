"""The rows about Python clients: every kind of load delivers, and says how much."""

import pytest

from bench.clients import KINDS, Load, run
from bench.row import Suite
from bench.rows import ROWS
from depth import sample
from penstock.testing.cluster import Cluster


@pytest.mark.parametrize("kind", sample(tuple(KINDS), every=3))
def test_each_kind_of_load_delivers_records(kind: str) -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("load", 2)
        done = run(kind, Load(cluster.bootstrap, topic, 0.1))
    assert done.records >= 1000
    assert done.seconds > 0.0
    assert done.cpu_seconds > 0.0


def test_the_rows_have_the_names_that_they_are_asked_for_by() -> None:
    names = [row.name for row in ROWS if row.suite is Suite.CLIENTS]
    assert {"client-batch", "client-send", "client-post"} < set(names)
    assert {"client-aiokafka", "client-kafka-python"} < set(names)
