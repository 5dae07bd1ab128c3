"""Fixtures of the tests that ask one API at a time (see api_asking.py)."""

from collections.abc import Iterator

import pytest
from api_asking import Asker, asking, new_topic

from penstock.testing.cluster import Cluster


@pytest.fixture
def asker(penstock_cluster: Cluster) -> Iterator[Asker]:
    with asking(penstock_cluster) as opened:
        yield opened


@pytest.fixture
def topic(penstock_cluster: Cluster) -> str:
    """A topic of one partition for this test alone."""
    return new_topic(penstock_cluster)
