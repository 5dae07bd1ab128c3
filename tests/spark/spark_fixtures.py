"""An embedded node and a Spark session, each once for all tests of a process."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from spark_pipeline import Pipeline

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.spark.session import session
from penstock.testing import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    # Records of these tests have times of their own: retention must not take them for old ones.
    with Cluster({"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session("tests", master="local[2]")
    yield running
    running.stop()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap=cluster.bootstrap) as open_admin:
        yield open_admin


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions that no other test uses."""
    name = f"topic-{crc32(request.node.nodeid.encode()):x}"
    made = admin.create_topics([NewTopic(name, 2)])[name]
    assert not isinstance(made, Exception), made
    return name


@pytest.fixture
def produce(cluster: Cluster) -> Callable[..., None]:
    """Writes values to a partition through librdkafka."""

    def write(
        topic: str,
        values: Sequence[bytes],
        partition: int = 0,
        config: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **(config or {})})
        for value in values:
            producer.produce(topic, value, partition=partition, **fields)
        assert producer.flush(30) == 0

    return write


@pytest.fixture
def pipeline(
    spark: SparkSession, cluster: Cluster, admin: Admin, topic: str, tmp_path: Path
) -> Pipeline:
    return Pipeline(spark, cluster, admin, topic, tmp_path)
