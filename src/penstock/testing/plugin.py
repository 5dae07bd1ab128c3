"""pytest fixtures: `penstock_cluster`, a node for the whole run, and `penstock_topic`."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.cluster import Cluster


@pytest.fixture(scope="session")
def penstock_cluster() -> Iterator["Cluster"]:
    """A node in memory, shared by the tests of a run; topics keep them apart."""
    from penstock.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def penstock_topic_numbers() -> Iterator[int]:
    """What keeps apart the topics of tests with one name, and of one test that runs twice."""
    return itertools.count(1)


@pytest.fixture
def penstock_topic(
    penstock_cluster: "Cluster",
    penstock_topic_numbers: Iterator[int],
    request: pytest.FixtureRequest,
) -> str:
    """A topic of one partition, made for this test alone."""
    name = "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in request.node.name
    )
    return penstock_cluster.create_topic(f"{name[:200]}-{next(penstock_topic_numbers)}")
