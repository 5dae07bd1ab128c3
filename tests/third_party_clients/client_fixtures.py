"""Fixtures of the tests with real clients: a node on disk, each client over it, fresh topics."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from client_adapters import CLIENTS, Client, MakeTopic
from group_members import BRISK_GROUPS

from penstock.testing.cluster import Cluster

# Tests write records of 2023: retention would delete them between a write and a read.
SETTINGS = {**BRISK_GROUPS, "log.retention.ms": "-1"}


@pytest.fixture(scope="session")
def one_node() -> Iterator[Cluster]:
    """A node over a temporary directory, shared by the tests of a run; topics keep them apart."""
    with Cluster(memory=False, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def three_nodes() -> Iterator[Cluster]:
    """The same with three nodes, and three replicas of each partition."""
    with Cluster(memory=False, settings=SETTINGS, brokers=3) as cluster:
        yield cluster


@pytest.fixture
def disk_cluster(request: pytest.FixtureRequest) -> Cluster:
    """One node; for tests marked with ALSO_ON_THREE three nodes as well."""
    cluster: Cluster = request.getfixturevalue(getattr(request, "param", "one_node"))
    return cluster


@pytest.fixture(params=CLIENTS, ids=[each.name for each in CLIENTS])
def client(request: pytest.FixtureRequest, disk_cluster: Cluster) -> Client:
    made: Client = request.param(disk_cluster)
    return made


@pytest.fixture
def make_topic(disk_cluster: Cluster) -> MakeTopic:
    def make(partitions: int = 1, **config: Any) -> str:
        settings = {name.replace("_", "."): str(value) for name, value in config.items()}
        return disk_cluster.create_topic(f"clients-{uuid4().hex[:12]}", partitions, settings)

    return make
