"""Queries that end after the present records."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from penstock.streams.queries import Query

NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


@contextmanager
def ending(spark: SparkSession, query: Query) -> Iterator[None]:
    """Start such a query in this block.

    With timers by the wall clock Spark always sees a reason for one more batch without data, and
    would never end. A query takes the session's settings at its start.
    """
    if not query.by_the_wall:
        yield
        return
    before = spark.conf.get(NO_DATA_BATCHES)
    spark.conf.set(NO_DATA_BATCHES, "false")
    try:
        yield
    finally:
        spark.conf.set(NO_DATA_BATCHES, before or "true")
