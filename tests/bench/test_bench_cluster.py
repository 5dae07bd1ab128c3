"""The rows about three nodes: real ones, which lose a controller, a broker, and all at once."""

from collections.abc import Iterator

import pytest

from bench import cluster_rows
from bench.cluster import SHORT, three_nodes
from bench.row import Context


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    with three_nodes("penstock", tmp_path_factory.mktemp("three"), SHORT) as cluster:
        yield Context(cluster.nodes[0].running(), 1.0, quick=True, cluster=cluster)


@pytest.fixture(autouse=True)
def one_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_rows, "KILLS_QUICK", 1)


def test_another_controller_acts_after_a_kill(context: Context) -> None:
    assert cluster_rows.slowest_kill(context).value > 0


def test_a_killed_broker_serves_again(context: Context) -> None:
    assert cluster_rows.slowest_return(context).details["kills"] == 1


def test_three_nodes_start_after_a_clean_stop(context: Context) -> None:
    sample = cluster_rows.restarted(context)
    assert sample.value >= sample.details["brokers_s"] > 0
