"""The pipeline: orders, joined with customers, counted per minute and country, written once.

Two queries. `start_revenue` reads orders and writes results to a topic in transactions;
`start_archive` reads the results that are committed and writes them to Parquet files.
docs/pipelines.md goes through it step by step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, count, date_format, from_json, max_by, window
from pyspark.sql.functions import sum as sum_
from pyspark.sql.streaming.query import StreamingQuery

from examples.orders.shop import WATERMARK_DELAY, WINDOW, Cell, Total

ORDER = "order_id LONG, customer_id STRING, amount_cents LONG, ordered_at TIMESTAMP"
CUSTOMER = "customer_id STRING, name STRING, country STRING"
RESULT = (
    "window_start TIMESTAMP, window_end TIMESTAMP, country STRING, orders LONG, revenue_cents LONG"
)

REVENUE, ARCHIVE = "revenue", "archive"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pipeline reads and writes.

    `options` go to every read and write; `trigger` says when a batch begins, in Spark's words.
    """

    bootstrap: str
    folder: Path
    orders: str = "orders"
    customers: str = "customers"
    revenue: str = "revenue-per-minute"
    options: Mapping[str, str] = field(default_factory=dict)
    trigger: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cluster(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}

    @property
    def parquet(self) -> str:
        return str(self.folder / "parquet")

    def group(self, query: str) -> str:
        """Where the lag of a query shows."""
        return f"{self.revenue}.{query}"

    def checkpoint(self, query: str) -> str:
        return str(self.folder / "checkpoints" / query)


def read_customers(spark: SparkSession, place: Place) -> DataFrame:
    """The newest record of each customer, read again for every batch of orders."""
    reader = spark.read.format("penstock").options(**place.cluster)
    rows = reader.option("subscribe", place.customers).option("columns", "key,value,offset").load()
    # Spark plans a read once and keeps it; only a filter makes it ask the source again.
    rows = rows.where("offset >= 0")
    newest = rows.groupBy("key").agg(max_by("value", "offset").alias("value"))
    return _decoded(newest, CUSTOMER)


def read_orders(spark: SparkSession, place: Place, **limits: str) -> DataFrame:
    stream = spark.readStream.format("penstock").options(**place.cluster, **limits)
    stream = stream.option("subscribe", place.orders).option("startingOffsets", "earliest")
    rows = stream.option("columns", "value").option("group.id", place.group(REVENUE)).load()
    return _decoded(rows, ORDER)


def revenue_per_minute(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """One row per window and country, once no order of the window is waited for any more."""
    known = orders.withWatermark("ordered_at", f"{WATERMARK_DELAY.seconds} seconds").join(
        broadcast(customers), "customer_id"
    )
    counted = known.groupBy(window("ordered_at", f"{WINDOW.seconds} seconds"), "country").agg(
        count("*").alias("orders"), sum_("amount_cents").alias("revenue_cents")
    )
    return counted.select(
        counted.window.start.alias("window_start"),
        counted.window.end.alias("window_end"),
        "country",
        "orders",
        "revenue_cents",
    )


def start_revenue(spark: SparkSession, place: Place, **limits: str) -> StreamingQuery:
    results = revenue_per_minute(read_orders(spark, place, **limits), read_customers(spark, place))
    records = results.selectExpr("country AS key", "to_json(struct(*)) AS value")
    return (
        records.writeStream.format("penstock")
        .options(**place.cluster)
        .option("topic", place.revenue)
        .option("checkpointLocation", place.checkpoint(REVENUE))
        .queryName(REVENUE)
        .trigger(**place.trigger)
        .start()
    )


def start_archive(spark: SparkSession, place: Place) -> StreamingQuery:
    stream = spark.readStream.format("penstock").options(**place.cluster)
    stream = stream.option("subscribe", place.revenue).option("startingOffsets", "earliest")
    stream = stream.option("isolation.level", "read_committed").option("columns", "value")
    rows = stream.option("group.id", place.group(ARCHIVE)).load()
    return (
        _decoded(rows, RESULT)
        .writeStream.format("parquet")
        .option("path", place.parquet)
        .option("checkpointLocation", place.checkpoint(ARCHIVE))
        .queryName(ARCHIVE)
        .trigger(**place.trigger)
        .start()
    )


def committed_results(spark: SparkSession, place: Place) -> DataFrame:
    """What the topic has, as every reader of committed records sees it."""
    reader = spark.read.format("penstock").options(**place.cluster)
    reader = reader.option("subscribe", place.revenue).option("isolation.level", "read_committed")
    return _decoded(reader.load(), RESULT)


def archived_results(spark: SparkSession, place: Place) -> DataFrame:
    return spark.read.schema(RESULT).parquet(place.parquet)


def totals(results: DataFrame) -> list[tuple[Cell, Total]]:
    """Collected; times as text, since Python would give them in this machine's time zone."""
    began = date_format("window_start", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("began")
    rows = results.select(began, "country", "orders", "revenue_cents").collect()
    return [(Cell(row[0], row[1]), Total(row[2], row[3])) for row in rows]


def _decoded(rows: DataFrame, schema: str) -> DataFrame:
    """The columns of a JSON value."""
    text = rows.select(from_json(rows.value.cast("string"), schema).alias("decoded"))
    return text.select("decoded.*")
