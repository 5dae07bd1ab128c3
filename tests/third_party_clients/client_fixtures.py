"""Fixtures of the tests with real clients: a node on disk, each client over it, fresh topics."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from client_adapters import CLIENTS, Client, MakeTopic
from group_members import BRISK_GROUPS

from penstock.testing.cluster import Cluster

# For a module whose tests run over three brokers, too: there in one worker, over one cluster.
OVER_ONE_AND_THREE_BROKERS = pytest.mark.parametrize(
    "disk_cluster",
    [1, pytest.param(3, marks=pytest.mark.xdist_group("three-brokers"))],
    ids=["one broker", "three brokers"],
    indirect=True,
)


@pytest.fixture(scope="session")
def disk_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Nodes over a temporary directory, shared by the tests of a run; topics keep them apart."""
    # Tests write records of 2023: retention would delete them between a write and a read.
    settings = {**BRISK_GROUPS, "log.retention.ms": "-1"}
    with Cluster(settings, brokers=getattr(request, "param", 1), memory=False) as cluster:
        yield cluster


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
