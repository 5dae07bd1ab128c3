"""`python -m compat.order_driver`: the order pipeline as a process, which others may kill.

Reads what the topics have, in small batches, and ends; then prints one line of JSON with what came
out. Started again with the same folder it goes on where its checkpoints are.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.orders.pipeline import (
    Place,
    archived_results,
    committed_results,
    start_archive,
    start_revenue,
    totals,
)
from penstock.spark.session import session

COPY = "copy"
RECORDS_PER_BATCH = "400"
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
}


def copy_topic(place: Place) -> str:
    return f"{place.orders}-copy"


def place_of(bootstrap: str, folder: Path) -> Place:
    return Place(bootstrap, folder, trigger={"availableNow": True})


def start_copy(spark: SparkSession, place: Place) -> StreamingQuery:
    """Every order to another topic: many rows where the results are few."""
    stream = spark.readStream.format("penstock").options(**place.cluster)
    stream = stream.option("subscribe", place.orders).option("startingOffsets", "earliest")
    rows = stream.option("maxOffsetsPerTrigger", RECORDS_PER_BATCH).load()
    return (
        rows.select("key", "value")
        .writeStream.format("penstock")
        .options(**place.cluster)
        .option("topic", copy_topic(place))
        .option("checkpointLocation", place.checkpoint(COPY))
        .trigger(**place.trigger)
        .start()
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.order_driver", description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master")
    given = parser.parse_args()
    # On a cluster of this machine the workers have this Python too.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session("orders", master=given.master, conf=SMALL if given.master else None)
    place = place_of(given.bootstrap, given.folder)
    for query in (
        start_copy(spark, place),
        start_revenue(spark, place, maxOffsetsPerTrigger=RECORDS_PER_BATCH),
    ):
        query.awaitTermination()
    start_archive(spark, place).awaitTermination()
    found = {
        "topic": totals(committed_results(spark, place)),
        "files": totals(archived_results(spark, place)),
        "executors": len(spark._jsc.sc().statusTracker().getExecutorInfos()) - 1,
    }
    spark.stop()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
