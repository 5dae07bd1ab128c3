"""The source in Spark itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.model import TopicPartition
from penstock.testing import Cluster

pytest_plugins = ["spark_fixtures"]
pytestmark = pytest.mark.xdist_group("spark")

Produce = Callable[..., None]
SECONDS_MAX = 120


def read(spark: SparkSession, cluster: Cluster, **options: str) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**options).load()


def follow(spark: SparkSession, cluster: Cluster, **options: str) -> DataFrame:
    stream = spark.readStream.format("penstock")
    stream = stream.option("kafka.bootstrap.servers", cluster.bootstrap)
    return stream.options(startingOffsets="earliest", **options).load()


def run(rows: DataFrame, target: Path, checkpoint: Path) -> StreamingQuery:
    """What is there now, to files."""
    values = rows.selectExpr("CAST(value AS STRING) AS value")
    query = (
        values.writeStream.format("json")
        .option("path", str(target))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(SECONDS_MAX)
    return query


def written(spark: SparkSession, target: Path) -> list[str]:
    return sorted(
        row.value for row in spark.read.schema("value STRING").json(str(target)).collect()
    )


def test_a_batch_is_filtered_and_counted(
    spark: SparkSession, cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"%d" % number for number in range(100)])
    produce(topic, [b"other"] * 7, partition=1)
    rows = read(spark, cluster, subscribe=topic)
    assert rows.filter("partition = 0 AND offset >= 90").count() == 10


def test_the_columns_are_those_of_sparks_kafka_source(
    spark: SparkSession, cluster: Cluster, topic: str
) -> None:
    assert read(spark, cluster, subscribe=topic, includeHeaders="true").dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_a_query_restarts_from_its_checkpoint(
    spark: SparkSession, cluster: Cluster, topic: str, produce: Produce, tmp_path: Path
) -> None:
    produce(topic, [b"1", b"2"])
    rows = follow(spark, cluster, subscribe=topic, maxOffsetsPerTrigger="1")
    run(rows, tmp_path / "out", tmp_path / "checkpoint")
    produce(topic, [b"3"])
    run(rows, tmp_path / "out", tmp_path / "checkpoint")
    assert written(spark, tmp_path / "out") == ["1", "2", "3"]


def test_progress_is_committed_to_the_group_up_to_the_last_batch(
    spark: SparkSession,
    cluster: Cluster,
    admin: Admin,
    topic: str,
    produce: Produce,
    tmp_path: Path,
) -> None:
    produce(topic, [b"1", b"2", b"3"])
    rows = follow(spark, cluster, subscribe=topic, **{"group.id": topic})
    run(rows, tmp_path / "out", tmp_path / "checkpoint")
    # Spark tells its listeners in order: whoever is told last has waited for all before.
    spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
    committed = admin.groups.offsets(topic)
    assert {each: found.offset for each, found in committed.items()} == {
        TopicPartition(topic, 0): 3,
        TopicPartition(topic, 1): 0,
    }


def test_a_low_latency_query_reads_the_same(
    spark: SparkSession, cluster: Cluster, topic: str, produce: Produce, tmp_path: Path
) -> None:
    produce(topic, [b"1", b"2"])
    rows = follow(spark, cluster, subscribe=topic, lowLatency="true")
    run(rows, tmp_path / "out", tmp_path / "checkpoint")
    produce(topic, [b"3"])
    run(rows, tmp_path / "out", tmp_path / "checkpoint")
    assert written(spark, tmp_path / "out") == ["1", "2", "3"]


def test_a_topic_made_anew_between_two_runs_stops_the_query_with_the_reason(
    spark: SparkSession,
    cluster: Cluster,
    admin: Admin,
    topic: str,
    produce: Produce,
    tmp_path: Path,
) -> None:
    produce(topic, [b"1"])
    rows = follow(spark, cluster, subscribe=topic)
    run(rows, tmp_path / "out", tmp_path / "checkpoint")
    admin.delete_topics([topic])
    admin.create_topics([NewTopic(topic, 2)])
    produce(topic, [b"2", b"3"])
    with pytest.raises(StreamingQueryException, match="deleted and created again"):
        run(rows, tmp_path / "out", tmp_path / "checkpoint")


def test_a_wrong_option_is_named_when_the_data_is_asked_for(
    spark: SparkSession, cluster: Cluster, topic: str
) -> None:
    with pytest.raises(Exception, match="startingOffsets is 'first'"):
        read(spark, cluster, subscribe=topic, startingOffsets="first").count()


def test_spark_finds_the_format_by_its_name_alone(
    spark: SparkSession, cluster: Cluster, topic: str, produce: Produce
) -> None:
    produce(topic, [b"1", b"2"])
    bare = spark.newSession()  # nothing was registered here
    bare.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert read(bare, cluster, subscribe=topic).filter("offset > 0").count() == 1
