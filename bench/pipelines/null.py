"""The baseline: a source of ready Arrow batches and a sink that only counts them.

What is left is Spark and the way between Java and Python, which no Python source can do without.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.bulk.columns import schema_of
from penstock.spark.datasource import PenstockSource
from penstock.spark.options.option_bag import OptionBag
from penstock.spark.options.source import read_columns

ROWS_PER_BATCH = 40_000  # about what a chunk of 4 MB holds of records of 100 bytes
TIMESTAMP_US = 1_700_000_000_000_000


def ready_batch(columns: Sequence[str], rows: int, value_bytes: int) -> pa.RecordBatch:
    """Rows as the source would give them."""
    made = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([b"x" * value_bytes] * rows, pa.binary()),
        "topic": pa.array(["topic"] * rows),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([TIMESTAMP_US] * rows, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_arrays([made[name] for name in columns], schema=schema_of(columns))


class Rows(InputPartition):
    """How many rows a task gives."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class NullSource(DataSource):
    """Options: rows, bytes, tasks, columns, and for a stream batch (rows of one)."""

    @classmethod
    def name(cls) -> str:
        return "null"

    def schema(self) -> StructType:
        return PenstockSource(self.options).schema()

    def reader(self, schema: StructType) -> "NullReader":  # noqa: ARG002
        return NullReader(dict(self.options))

    def streamReader(self, schema: StructType) -> "NullStream":  # noqa: ARG002
        return NullStream(dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        return NullWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> "NullStreamWriter":  # noqa: ARG002
        return NullStreamWriter()


def _give(options: dict[str, str], count: int) -> Iterator[pa.RecordBatch]:
    columns = read_columns(OptionBag({"columns": options["columns"]}))
    size = min(count, ROWS_PER_BATCH)
    batch = ready_batch(columns, size, int(options["bytes"]))
    while count > 0:
        yield batch if count >= size else batch.slice(0, count)
        count -= size


class NullReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        tasks = int(self._options["tasks"])
        return [Rows(int(self._options["rows"]) // tasks) for _ in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return _give(self._options, partition.count)


class NullStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(int(self._options["batch"]))

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002
        end = start["rows"] + int(self._options["batch"])
        return {"rows": min(end, int(self._options["rows"]))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        count, tasks = end["rows"] - start["rows"], int(self._options["tasks"])
        return [Rows(count // tasks) for _ in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return _give(self._options, partition.count)


def _count(batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    for batch in batches:
        batch.num_rows  # noqa: B018  # the batch has arrived; that is all
    return WriterCommitMessage()


class NullWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _count(iterator)


class NullStreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _count(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass
