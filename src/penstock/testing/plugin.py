"""pytest: fixtures for a cluster and for topics of a test's own, and where the cluster is.

`penstock_cluster` is one for the whole run, or one per worker under pytest-xdist: a node in memory
in this process; with --penstock-reuse a node that runs and workers share, in a process of its own;
with --penstock-bootstrap one that somebody else runs. Topics have names that no other test, worker
or run has; outside of this process they are deleted after their test.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from penstock.testing.topic_names import BOOTSTRAP_VARIABLE, TopicNames

if TYPE_CHECKING:
    from penstock.testing.cluster import SettingValue
    from penstock.testing.outside import ClusterLike


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
    """Broker settings of `penstock_cluster`, to be overridden in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def penstock_cluster(
    pytestconfig: pytest.Config, penstock_settings: "Mapping[str, SettingValue]"
) -> Iterator["ClusterLike"]:
    """One cluster, shared by the tests of a run; topics keep them apart."""
    bootstrap = pytestconfig.getoption("--penstock-bootstrap")
    if bootstrap:
        from penstock.testing.outside import OutsideCluster

        if penstock_settings:
            warnings.warn("penstock_settings have no effect on an outside cluster", stacklevel=1)
        yield OutsideCluster(bootstrap)
    elif pytestconfig.getoption("--penstock-reuse"):
        from penstock.testing.outside import OutsideCluster
        from penstock.testing.sharing import SharedNode

        node = SharedNode(penstock_settings)
        try:
            yield OutsideCluster(node.bootstrap)
        finally:
            node.close()
    else:
        from penstock.testing.cluster import Cluster

        with Cluster(penstock_settings) as cluster:
            yield cluster


@pytest.fixture(scope="session")
def penstock_topic_names() -> TopicNames:
    """What keeps apart the topics of tests with one name, of workers and of runs."""
    return TopicNames()


@pytest.fixture
def penstock_topic(
    penstock_cluster: "ClusterLike",
    penstock_topic_names: TopicNames,
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """A topic of one partition, made for this test alone."""
    from penstock.testing.outside import OutsideCluster

    name = penstock_topic_names.of(request.node.name)
    yield penstock_cluster.create_topic(name)
    if isinstance(penstock_cluster, OutsideCluster):
        penstock_cluster.delete_topic(name)
