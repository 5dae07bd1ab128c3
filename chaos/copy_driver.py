"""`python -m chaos.copy_driver`: a streaming query from topic to topic, which others may kill.

A query that stops is started again in the same session, since starting Java takes longer than
everything else; why it stopped is told. Each line of output is one event as JSON.
"""

import argparse
import json
import time
from pathlib import Path

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.session import session

SOURCE, TARGET = "source", "target"
PARTITIONS = 4
SINK_ID = "chaos"
CHECKPOINT, BATCH_ROWS = "checkpoint", "batch-rows"
# Between two starts of a query whose node is gone.
PAUSE_SECONDS = 0.1
QUERIES_MAX = 1_000


def set_batch_rows(folder: Path, rows: int) -> None:
    """For every query that begins later."""
    made = folder / f".{BATCH_ROWS}"
    made.write_text(str(rows))
    made.rename(folder / BATCH_ROWS)


def start_copy(spark: SparkSession, given: argparse.Namespace, batch_rows: int) -> StreamingQuery:
    """Partitions are equal, and dealt out whole: what is in order in the source is in order in the
    target."""
    cluster = {"kafka.bootstrap.servers": given.bootstrap}
    rows = (
        spark.readStream.format("penstock")
        .options(**cluster)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(batch_rows))
        .option("minPartitions", str(given.tasks))
        .option("columns", "key,value")
        .load()
    )
    return (
        rows.writeStream.format("penstock")
        .options(**cluster)
        .option("topic", TARGET)
        .option("sink.id", SINK_ID)
        .option("delivery.guarantee", given.guarantee)
        .option("checkpointLocation", str(given.folder / CHECKPOINT))
        .trigger(availableNow=True)
        .start()
    )


def tell(**event: object) -> None:
    print(json.dumps(event), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.copy_driver", description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--guarantee", default="exactly-once")
    parser.add_argument("--tasks", type=int, default=PARTITIONS, help="of a batch")
    parser.add_argument("--attempts", type=int, default=1, help="of a task")
    given = parser.parse_args()
    spark = session("chaos", master=f"local[2,{given.attempts}]")
    tell(event="ready")
    for _ in range(QUERIES_MAX):
        batch_rows = int((given.folder / BATCH_ROWS).read_text())
        try:
            start_copy(spark, given, batch_rows).awaitTermination()
        except PySparkException as problem:
            tell(event="stopped", why=str(problem))
            time.sleep(PAUSE_SECONDS)
        else:
            spark.stop()
            tell(event="through", rows=batch_rows)
            return 0
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
