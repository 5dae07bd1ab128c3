"""Orders from a topic, summed up per minute, to another topic.

Spark runs this file to learn what the pipeline consists of; the data flows later.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, from_json, window
from pyspark.sql.functions import sum as sum_

CLUSTER = {"kafka.bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP", "127.0.0.1:9092")}
ORDER = "order_id LONG, customer_id STRING, amount_cents LONG, ordered_at TIMESTAMP"

spark = SparkSession.active()

dp.create_sink("revenue", "penstock", {**CLUSTER, "topic": "revenue-per-minute"})


@dp.temporary_view
def orders() -> DataFrame:
    stream = spark.readStream.format("penstock").options(**CLUSTER).option("subscribe", "orders")
    rows = stream.option("startingOffsets", "earliest").load()
    value = from_json(rows.value.cast("string"), ORDER).alias("order")
    # The watermark belongs here: Spark looks up what it is put on at once, and a view of the
    # pipeline cannot be looked up yet.
    return rows.select(value).select("order.*").withWatermark("ordered_at", "30 seconds")


@dp.append_flow(target="revenue")
def revenue_per_minute() -> DataFrame:
    totals = (
        spark.readStream.table("orders")
        .groupBy(window("ordered_at", "1 minute"))
        .agg(count("*").alias("orders"), sum_("amount_cents").alias("revenue_cents"))
    )
    return totals.selectExpr(
        "CAST(window.start AS STRING) AS key",
        "to_json(struct(window.start AS window_start, orders, revenue_cents)) AS value",
    )
