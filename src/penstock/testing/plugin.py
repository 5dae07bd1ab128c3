"""pytest fixtures: `penstock_cluster`, a node for the whole run, and `penstock_topic`."""

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


@pytest.fixture
def penstock_topic(penstock_cluster: "Cluster", request: pytest.FixtureRequest) -> str:
    """A topic of one partition, made for this test alone."""
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in request.node.name)[:200]
    unique = f"{name}-{id(request):x}"
    return penstock_cluster.create_topic(unique)
