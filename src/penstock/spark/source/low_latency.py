"""The source for few records and short waits: read on the driver, without tasks.

Spark's Python tasks take tens of milliseconds per batch; here the planning process has read the
rows by the time it reports new offsets. A batch has at most `maxOffsetsPerTrigger` records, or
RECORDS_MAX: they pass through the driver.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import SimpleDataSourceStreamReader

from penstock.client.cluster.nodes import Nodes
from penstock.spark.options.source import SourceOptions
from penstock.spark.source.positions import Position
from penstock.spark.source.stream import Json, PlannedReader
from penstock.spark.source.task import open_nodes, read_share_from

RECORDS_MAX = 100_000


class PenstockSimpleReader(PlannedReader, SimpleDataSourceStreamReader):
    """The reader of `lowLatency=true`."""

    def __init__(self, options: SourceOptions) -> None:
        limits = options.limits
        bounded = replace(limits, offsets_max=limits.offsets_max or RECORDS_MAX)
        super().__init__(replace(options, limits=bounded))
        self._nodes: Nodes | None = None

    def read(self, start: Json) -> tuple[Iterator[pa.RecordBatch], Json]:
        begin = Position.from_json(start)
        end = self._plans.end_of_batch(begin, unlimited=False)
        return self._rows(begin, end), end.to_json()

    def readBetweenOffsets(self, start: Json, end: Json) -> Iterator[pa.RecordBatch]:
        return self._rows(Position.from_json(start), Position.from_json(end))

    def _rows(self, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        if self._nodes is None:
            self._nodes = open_nodes(self._options)
        rows: list[pa.RecordBatch] = []
        for share in self._plans.shares(start, end):
            rows += read_share_from(self._nodes, self._options, share)
        return iter(rows)
