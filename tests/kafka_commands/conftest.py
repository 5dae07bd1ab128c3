"""One node for all tests of Kafka's commands."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from kafka_running import Node

from penstock.testing import Cluster


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    with Cluster({"num.partitions": 2}) as cluster:
        yield Node(cluster.bootstrap)


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"t-{uuid4().hex[:10]}"


@pytest.fixture
def topic(node: Node, name: str) -> str:
    """A topic of one partition."""
    node.done("topics", "--create", "--topic", name, "--partitions", "1")
    return name
