"""A node and a Spark session, each once for all examples."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.spark.session import session
from penstock.testing import Cluster


@pytest.fixture(scope="session")
def example_cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture(scope="session")
def example_spark() -> SparkSession:
    """Ends with the process, not with this fixture: other tests may have found the same one."""
    return session("tests", master="local[2]")
