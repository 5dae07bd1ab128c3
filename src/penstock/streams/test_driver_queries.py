"""One query of a test driver: a batch if it has no state, else a streaming query over files."""

import datetime
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from penstock.bulk.columns import schema_of
from penstock.spark.datasource import TYPES
from penstock.streams.column_serde import ColumnSerde
from penstock.streams.compilation.compiler import Compiler
from penstock.streams.compilation.frames import HEADERS, KEY, RAW, VALUE
from penstock.streams.compilation.outputs import serdes_of_sink
from penstock.streams.errors import QueryFailed, reason_of
from penstock.streams.processor_test_driver import ProcessorTestDriver
from penstock.streams.queries import Query
from penstock.streams.runner import ending
from penstock.streams.settings import StreamsSettings
from penstock.streams.topology import (
    DataFrameNode,
    Internal,
    Joined,
    Processed,
    Reduced,
    SinkNode,
    SourceNode,
    is_stateful,
)

COLUMNS = (*RAW, HEADERS)
ARROW = schema_of(COLUMNS)
SCHEMA = StructType([StructField(name, TYPES[name]) for name in COLUMNS])
STATE_IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
STATE_IN_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
# For a handful of records: one task per stage, and no optimization that pays off for millions.
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
FIRST_FILE_SECONDS = 1_000_000_000  # Spark takes files in the order of their times


def driver_session(spark: SparkSession | None) -> SparkSession:
    """Return a session with its own settings in the one Spark of this process."""
    from penstock.spark.session import session

    mine = (spark or SparkSession.getActiveSession() or session("penstock-trial")).newSession()
    for name, value in QUICK.items():
        mine.conf.set(name, value)
    return mine


@contextmanager
def active_session_restored(spark: SparkSession) -> Iterator[None]:
    """Restore the active session at the end: `createDataFrame` makes its own session active.

    PySpark has no public function for this. Python and Java each remember an active session.
    """
    assert spark.sparkContext._jvm is not None, "a session that runs has a Java process"
    sessions = SparkSession._get_j_spark_session_class(spark.sparkContext._jvm)
    in_python, in_java = SparkSession._activeSession, sessions.getActiveSession()
    try:
        yield
    finally:
        SparkSession._activeSession = in_python
        if in_java.isDefined():
            sessions.setActiveSession(in_java.get())
        else:
            sessions.clearActiveSession()


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as bytes; partition -1 is a tick, which moves event time alone."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: datetime.datetime
    headers: dict[str, bytes]
    partition: int
    step: int
    offset: int = 0
    is_output: bool = False

    def placed(self, offset: int) -> "RawRecord":
        return replace(self, offset=offset)


@dataclass(slots=True)
class GivenInputs:
    """The inputs of a query: the new records, as a batch or as a directory with a file per step."""

    spark: SparkSession
    streaming: bool
    directory: Path
    fresh: dict[str, list[RawRecord]] = field(default_factory=dict)
    everything: Mapping[str, list[RawRecord]] = field(default_factory=dict)

    @property
    def has_ticks(self) -> bool:
        return self.streaming

    def stream(self, node: SourceNode | Internal, columns: tuple[str, ...]) -> DataFrame:
        if not self.streaming:
            rows = [each for each in self.fresh.get(node.topic, []) if each.partition >= 0]
            return self.frame(rows).select(*columns)
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        path = self.directory_of(node.topic)
        return reader.parquet(str(path)).select(*columns)

    def table_now(self, node: SourceNode, columns: tuple[str, ...]) -> DataFrame:
        rows = [each for each in self.everything.get(node.topic, []) if each.partition >= 0]
        return self.frame(rows).select(*columns)

    def frame(self, rows: list[RawRecord]) -> DataFrame:
        with active_session_restored(self.spark):
            return self.spark.createDataFrame(table_of(rows), SCHEMA)

    def directory_of(self, topic: str) -> Path:
        path = self.directory / topic
        path.mkdir(parents=True, exist_ok=True)
        return path


def table_of(rows: list[RawRecord]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "key": each.key,
                "value": each.value,
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "timestamp": each.timestamp,
                "headers": [{"key": name, "value": data} for name, data in each.headers.items()],
            }
            for each in rows
        ],
        ARROW,
    )


class QueryTestDriver:
    """Runs a query on the new records of the log."""

    def __init__(
        self, query: Query, settings: StreamsSettings, spark: SparkSession, root: Path
    ) -> None:
        self._query, self._settings, self._spark = query, settings, spark
        self.name = query.name
        self.checkpoint = root / "checkpoints" / query.name
        self._given = [each.frame for each in query.nodes if isinstance(each, DataFrameNode)]
        self._streaming = query.stateful or any(each.isStreaming for each in self._given)
        self._inputs = GivenInputs(spark, self._streaming, root / "inputs" / query.name)
        self._taken: dict[str, int] = {}
        self._serdes: dict[int, tuple[ColumnSerde, ColumnSerde]] = {}
        self._last: Compiler | None = None
        self._files = 0
        self.sinks = [path.sink for path in query.paths]
        self._topics = list(dict.fromkeys(node.topic for node in query.inputs))

    def serdes_of(self, sink: SinkNode) -> tuple[ColumnSerde, ColumnSerde]:
        """Return the serdes by the types of the last run; resolved once per sink."""
        if id(sink) not in self._serdes:
            path = next(each for each in self._query.paths if each.sink is sink)
            compiler = self._last or self._compiler()
            self._serdes[id(sink)] = serdes_of_sink(path, compiler.frame(path.base))
        return self._serdes[id(sink)]

    def processor_of(self, store: str) -> ProcessorTestDriver | None:
        for node in self._query.nodes:
            if isinstance(node, Processed) and node.store == store:
                given = self._compiler().frame(node.parents[0]).type_of(VALUE)
                return ProcessorTestDriver(node, given)
        return None

    def advance(
        self, log: Mapping[str, list[RawRecord]], now: datetime.datetime
    ) -> list[RawRecord]:
        """Return the output for new records, with this time of the test's clock."""
        fresh = {topic: log.get(topic, [])[self._taken.get(topic, 0) :] for topic in self._topics}
        first, self._given = bool(self._given), []  # given DataFrames are taken once
        if not any(fresh.values()) and not first:
            return []
        self._taken = {topic: len(log.get(topic, [])) for topic in self._topics}
        self._inputs.everything = log
        if self._streaming:
            rows = self._stream(fresh)
        else:
            self._inputs.fresh = fresh
            rows = self._output().collect()
        steps = [each.step for records in fresh.values() for each in records]
        return list(self._records(rows, max(steps, default=0), now))

    def _compiler(self) -> Compiler:
        settings = self._settings
        return Compiler(self._query, self._inputs, settings.bad_records, settings.application_id)

    def _output(self) -> DataFrame:
        self._last = self._compiler()
        return self._last.output(self._settings.dead_letters)

    def _stream(self, fresh: dict[str, list[RawRecord]]) -> list[Row]:
        """Run all new steps, one micro-batch each; then the query ends."""
        steps = sorted({each.step for records in fresh.values() for each in records})
        for step in steps:
            self._write_files(step, fresh)
        in_python = any(
            isinstance(each, Joined | Reduced | Processed) and is_stateful(each)
            for each in self._query.nodes
        )
        self._spark.conf.set(PROVIDER, STATE_IN_ROCKSDB if in_python else STATE_IN_MEMORY)
        rows: list[Row] = []

        def collect(df: DataFrame, batch_id: int) -> None:  # noqa: ARG001
            rows.extend(df.collect())

        with ending(self._spark, self._query):
            query = self._start(collect)
        try:
            query.awaitTermination()
        except StreamingQueryException as problem:
            text = f"the query {self.name} stopped: {reason_of(problem)}"
            raise QueryFailed(text) from problem
        return rows

    def _start(self, collect: Callable[[DataFrame, int], None]) -> StreamingQuery:
        return (
            self._output()
            .writeStream.foreachBatch(collect)
            .outputMode("update" if self._query.updates else "append")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    def _write_files(self, step: int, fresh: dict[str, list[RawRecord]]) -> None:
        """Write a file for every input, if an empty one: the n-th files are one micro-batch."""
        for topic in self._topics:
            rows = [each for each in fresh[topic] if each.step == step]
            path = self._inputs.directory_of(topic) / f"{self._files:06}.parquet"
            parquet.write_table(table_of(rows), path)
            at = FIRST_FILE_SECONDS + self._files
            os.utime(path, (at, at))
        self._files += 1

    def _records(self, rows: list[Row], step: int, now: datetime.datetime) -> Iterator[RawRecord]:
        for row in rows:
            named: dict[str, Any] = row.asDict()
            headers = {each["key"]: each["value"] for each in named.get(HEADERS) or ()}
            yield RawRecord(
                topic=named["topic"],
                key=_bytes(named[KEY]),
                value=_bytes(named[VALUE]),
                timestamp=now,
                headers={name: bytes(value or b"") for name, value in headers.items()},
                partition=0,
                step=step,
                is_output=True,
            )


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)
