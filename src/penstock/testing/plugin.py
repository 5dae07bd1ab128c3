"""The pytest plugin: fixtures for a cluster and for a test's own topics, and options for the
cluster.

`penstock_cluster` is one for the whole run, or one per worker under pytest-xdist: a node in memory
in this process, or several with --penstock-brokers. With --penstock-reuse it is a node in a
separate process, shared by runs and workers; with --penstock-bootstrap it is a running cluster.
Topic names are unique among tests, workers and runs; topics outside of this process are deleted
after their test.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from penstock.testing.topic_names import BOOTSTRAP_VARIABLE, TopicNames

if TYPE_CHECKING:
    from penstock.testing.external_cluster import ClusterLike
    from penstock.testing.node_settings import SettingValue


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock", "a cluster for tests that speaks Kafka's protocol")
    group.addoption(
        "--penstock-bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get(BOOTSTRAP_VARIABLE) or None,
        help=f"use the Kafka at this address instead of starting one (or {BOOTSTRAP_VARIABLE})",
    )
    group.addoption(
        "--penstock-reuse",
        action="store_true",
        help="share one node between workers, and with runs that follow within ten minutes",
    )
    group.addoption(
        "--penstock-brokers",
        type=int,
        default=1,
        metavar="N",
        help="start so many nodes (or let the fixture penstock_brokers return the number)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--penstock-bootstrap") and config.getoption("--penstock-reuse"):
        raise pytest.UsageError(
            "--penstock-reuse shares a node that is started here, and --penstock-bootstrap "
            f"({BOOTSTRAP_VARIABLE}) names one that is not: choose one of them"
        )


def pytest_report_header(config: pytest.Config) -> str | None:
    bootstrap = config.getoption("--penstock-bootstrap")
    return f"penstock: tests use the cluster at {bootstrap}" if bootstrap else None


@pytest.fixture(scope="session")
def penstock_settings() -> "Mapping[str, SettingValue]":
    """Return the broker settings of `penstock_cluster`, to be overridden in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def penstock_brokers(pytestconfig: pytest.Config) -> int:
    """Return the number of nodes of `penstock_cluster`, to be overridden in a conftest.py."""
    count: int = pytestconfig.getoption("--penstock-brokers")
    return count


@pytest.fixture(scope="session")
def penstock_cluster(
    pytestconfig: pytest.Config,
    penstock_settings: "Mapping[str, SettingValue]",
    penstock_brokers: int,
) -> Iterator["ClusterLike"]:
    """Yield one cluster, shared by the tests of a run; topics separate them."""
    bootstrap = pytestconfig.getoption("--penstock-bootstrap")
    if bootstrap:
        from penstock.testing.external_cluster import OutsideCluster

        if penstock_settings:
            warnings.warn("penstock_settings have no effect on an outside cluster", stacklevel=1)
        if penstock_brokers != 1:
            warnings.warn("penstock_brokers has no effect on an outside cluster", stacklevel=1)
        yield OutsideCluster(bootstrap)
    elif pytestconfig.getoption("--penstock-reuse"):
        from penstock.testing.external_cluster import OutsideCluster
        from penstock.testing.shared_node import SharedNode

        if penstock_brokers != 1:
            raise pytest.UsageError("--penstock-reuse shares one node: leave out the brokers")
        node = SharedNode(penstock_settings)
        try:
            yield OutsideCluster(node.bootstrap)
        finally:
            node.close()
    else:
        from penstock.testing.cluster import Cluster

        with Cluster(penstock_settings, brokers=penstock_brokers) as cluster:
            yield cluster


@pytest.fixture(scope="session")
def penstock_topic_names() -> TopicNames:
    """Return the topic names of this run, unique among tests, workers and runs."""
    return TopicNames()


@pytest.fixture
def penstock_topic(
    penstock_cluster: "ClusterLike",
    penstock_topic_names: TopicNames,
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """Yield a topic of one partition, made for this test alone."""
    from penstock.testing.external_cluster import OutsideCluster

    name = penstock_topic_names.of(request.node.name)
    yield penstock_cluster.create_topic(name)
    if isinstance(penstock_cluster, OutsideCluster):
        penstock_cluster.delete_topic(name)
