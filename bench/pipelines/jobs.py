"""The jobs that are measured: each with Penstock, and with nothing in its place."""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from bench import topics
from bench.stats import Bound, Target
from penstock.spark.foreach import write_batch
from penstock.streams import Streams

PARTITIONS = 4
TASKS = 4
STREAM_BATCH = 500_000
SMALL_BATCH = 10
SMALL_BATCHES = 110
COUNTED_ROWS = 4_000_000
GROUPS = 1_000
QUERY_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Size:
    """How much is moved: rows of this many bytes."""

    rows: int
    value_bytes: int


@dataclass(slots=True)
class Place:
    """Where a job runs."""

    spark: SparkSession
    bootstrap: str
    scratch: Path
    quick: bool
    made: int = 0

    def new_topic(self, partitions: int = PARTITIONS) -> str:
        self.made += 1
        name = f"bench-{self.made}"
        topics.create(self.bootstrap, name, partitions)
        return name

    def rows(self, rows: int) -> int:
        return rows // 20 if self.quick else rows

    def null(self, size: Size, columns: str) -> DataFrame:
        reader = self.spark.read.format("null").option("columns", columns)
        return reader.options(rows=size.rows, bytes=size.value_bytes, tasks=TASKS).load()

    def null_stream(self, rows: int, value_bytes: int, batch: int, tasks: int) -> DataFrame:
        reader = self.spark.readStream.format("null").option("columns", ALL)
        return reader.options(rows=rows, bytes=value_bytes, batch=batch, tasks=tasks).load()

    def read(self, topic: str) -> DataFrame:
        reader = self.spark.read.format("penstock").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("minPartitions", TASKS).option("maxRecordsPerPartition", 10**9).load()

    def write(self, rows: DataFrame, topic: str) -> None:
        writer = rows.write.format("penstock").mode("append").option("topic", topic)
        writer = writer.option("delivery.guarantee", "at-least-once")
        writer.option("kafka.bootstrap.servers", self.bootstrap).save()


ALL = "key,value,topic,partition,offset,timestamp,timestampType"
Job = Callable[[Place], float]


@dataclass(frozen=True, slots=True)
class Row:
    """A pair of jobs; the ratio is ours over the other one's."""

    name: str
    title: str
    unit: str
    target: Target | None
    ours: Job
    other: Job
    other_name: str = "null"


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def nowhere(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


# -- batch read and write


def batch_read(size: Size) -> tuple[Job, Job]:
    filled: dict[str, str] = {}

    def ours(place: Place) -> float:
        rows = place.rows(size.rows)
        if place.bootstrap not in filled:
            topic = filled[place.bootstrap] = place.new_topic()
            ready = place.null(Size(rows, size.value_bytes), "value")
            place.write(ready, topic)
        frame = place.read(filled[place.bootstrap])
        return rows / seconds(lambda: nowhere(frame))

    def other(place: Place) -> float:
        rows = place.rows(size.rows)
        frame = place.null(Size(rows, size.value_bytes), ALL)
        return rows / seconds(lambda: nowhere(frame))

    return ours, other


def batch_write(size: Size) -> tuple[Job, Job]:
    def ours(place: Place) -> float:
        rows = place.rows(size.rows)
        frame, topic = place.null(Size(rows, size.value_bytes), "value"), place.new_topic()
        rate = rows / seconds(lambda: place.write(frame, topic))
        topics.delete(place.bootstrap, topic)
        return rate

    def other(place: Place) -> float:
        rows = place.rows(size.rows)
        frame = place.null(Size(rows, size.value_bytes), "value")
        writer = frame.write.format("null").mode("append")
        return rows / seconds(writer.save)

    return ours, other


# -- streams


def run(place: Place, frame: DataFrame, sink: str, **options: str) -> list[float]:
    """The milliseconds of each batch with rows, of a query that reads what is there and ends."""
    checkpoint = tempfile.mkdtemp(dir=place.scratch)
    writer = frame.writeStream.format(sink).option("checkpointLocation", checkpoint)
    query = writer.options(**options).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(QUERY_SECONDS_MAX):
            raise TimeoutError("the query does not end")
        told = [each for each in query.recentProgress if each.numInputRows]
        return [float(each.durationMs["triggerExecution"]) for each in told]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)


def stream_write(delivery: str, batch: int, batches: int) -> Job:
    """Rows per second into the sink, by the median batch; milliseconds where batches are small."""

    def measure(place: Place) -> float:
        topic = place.new_topic()
        size = place.rows(batch) if batch > SMALL_BATCH else batch
        tasks = TASKS if batch > SMALL_BATCH else 1
        frame = place.null_stream(size * batches, 100, size, tasks).select("value")
        told = run(
            place,
            frame,
            "penstock",
            **{
                "kafka.bootstrap.servers": place.bootstrap,
                "topic": topic,
                "delivery.guarantee": delivery,
            },
        )
        topics.delete(place.bootstrap, topic)
        typical = median(told[1:])  # the first batch pays for everybody's start
        return size / typical * 1000 if batch > SMALL_BATCH else typical

    return measure


def small_batches() -> tuple[Job, Job]:
    def ours(place: Place) -> float:
        topic = place.new_topic(partitions=1)
        place.write(place.null(Size(SMALL_BATCH * SMALL_BATCHES, 100), "value"), topic)
        reader = place.spark.readStream.format("penstock").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", place.bootstrap)
        reader = reader.option("startingOffsets", "earliest")
        frame = reader.option("maxOffsetsPerTrigger", SMALL_BATCH).load()
        typical = median(run(place, frame, "noop")[1:])
        topics.delete(place.bootstrap, topic)
        return typical

    def other(place: Place) -> float:
        frame = place.null_stream(SMALL_BATCH * SMALL_BATCHES, 100, SMALL_BATCH, 1)
        return median(run(place, frame, "noop")[1:])

    return ours, other


# -- Streams


def filled_topic(place: Place, rows: int) -> str:
    """Rows of 100 bytes under GROUPS different keys."""
    topic = place.new_topic()
    frame = place.null(Size(rows, 100), "value,offset")
    key = (sql.col("offset") % GROUPS).cast("string")
    place.write(frame.select(key.alias("key"), "value"), topic)
    return topic


def rate_of(query: StreamingQuery) -> float:
    """Of the batches that had rows, from their planning to their commit."""
    told = [each for each in query.recentProgress if each.numInputRows]
    rows = sum(each.numInputRows for each in told)
    return rows / sum(float(each.durationMs["triggerExecution"]) for each in told) * 1000


def streams_count() -> tuple[Job, Job]:
    """The same topic, decoding, state store and exactly-once writes of the changes on both
    sides; what differs is who has written the query down."""
    filled: dict[str, str] = {}

    def topic_of(place: Place) -> str:
        if place.bootstrap not in filled:
            filled[place.bootstrap] = filled_topic(place, place.rows(COUNTED_ROWS))
        return filled[place.bootstrap]

    def ours(place: Place) -> float:
        topic, out = topic_of(place), place.new_topic()
        state = tempfile.mkdtemp(dir=place.scratch)
        app = Streams(out, place.bootstrap, state_dir=state, bad_records="skip")
        app.stream(topic).group_by_key().count().to(out)
        with app.start(once=True, spark=place.spark) as running:
            if not running.wait(seconds=QUERY_SECONDS_MAX):
                raise TimeoutError("the application does not end")
            (query,) = running.queries.values()
            rate = rate_of(query)
        shutil.rmtree(state, ignore_errors=True)
        topics.delete(place.bootstrap, out)
        return rate

    def other(place: Place) -> float:
        topic, out = topic_of(place), place.new_topic()
        checkpoint = tempfile.mkdtemp(dir=place.scratch)
        client = {"kafka.bootstrap.servers": place.bootstrap}
        reader = place.spark.readStream.format("penstock").options(**client)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        reader = reader.option("isolation.level", "read_committed").option("group.id", out)
        frame = reader.option("columns", "key,value,timestamp").load()
        key = sql.make_valid_utf8(sql.col("key").cast("string"))
        counted = frame.select(key.alias("key")).where("key IS NOT NULL").groupBy("key").count()
        value = sql.col("count").cast("string").cast("binary")
        rows = counted.select(sql.col("key").cast("binary"), value.alias("value"))

        def write(batch: DataFrame, number: int) -> None:
            write_batch(batch, number, sink_id=out, options={**client, "topic": out})

        writer = rows.writeStream.outputMode("update").foreachBatch(write)
        writer = writer.option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        try:
            if not query.awaitTermination(QUERY_SECONDS_MAX):
                raise TimeoutError("the query does not end")
            return rate_of(query)
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)
            topics.delete(place.bootstrap, out)

    return ours, other


def _at_least(ratio: float) -> Target:
    return Target(Bound.AT_LEAST, ratio)


def _rows() -> list[Row]:
    small, large = Size(8_000_000, 100), Size(4_000_000, 1_000)
    rate, time_ms = "rows/s", "ms"
    exactly, at_least = "exactly-once", "at-least-once"
    return [
        Row("read-100", "batch read, 100 B", rate, _at_least(0.65), *batch_read(small)),
        Row("read-1k", "batch read, 1 KB", rate, _at_least(0.70), *batch_read(large)),
        Row("write-100", "batch write, 100 B", rate, _at_least(0.45), *batch_write(small)),
        Row("write-1k", "batch write, 1 KB", rate, _at_least(0.60), *batch_write(large)),
        Row(
            "exactly-large",
            f"exactly-once stream, batches of {STREAM_BATCH:,} rows",
            rate,
            _at_least(0.85),
            stream_write(exactly, STREAM_BATCH, 8),
            stream_write(at_least, STREAM_BATCH, 8),
            at_least,
        ),
        Row(
            "exactly-small",
            f"exactly-once stream, batches of {SMALL_BATCH} rows",
            time_ms,
            None,
            stream_write(exactly, SMALL_BATCH, 60),
            stream_write(at_least, SMALL_BATCH, 60),
            at_least,
        ),
        Row(
            "micro",
            f"micro-batch of {SMALL_BATCH} records to nowhere",
            time_ms,
            Target(Bound.AT_MOST, 1.15),
            *small_batches(),
        ),
        Row(
            "streams-count",
            f"Streams count over {GROUPS:,} keys, against the same groupBy",
            rate,
            _at_least(0.9),
            *streams_count(),
            "DataFrame",
        ),
    ]


ROWS = _rows()
