"""The source of a batch read: a start, an end, and what filters leave between them."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.client.course import OffsetRange
from penstock.model import TopicPartition
from penstock.spark.here import cores_here
from penstock.spark.options.source import SourceOptions
from penstock.spark.source.filters import Narrowing
from penstock.spark.source.lookup import NOT_FOUND, Lookup
from penstock.spark.source.losses import Losses
from penstock.spark.source.planning import deal
from penstock.spark.source.task import Share, read_share


class WholeReader(DataSourceReader):
    """`spark.read.format("penstock")` in a session that pushes no filters down."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        lookup = Lookup(self._options.connect(), self._options)
        try:
            return self._shares(lookup)
        finally:
            lookup.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Share):
            return iter(())  # Spark makes one task of its own where none was planned
        return read_share(self._options, partition)

    def _shares(self, lookup: Lookup) -> list[Share]:
        options = self._options
        topics = lookup.topics()
        partitions = [each for each in lookup.require(topics) if self._narrowing.wants(each)]
        start = lookup.resolve(options.start, partitions, starting=True)
        end = lookup.resolve(options.end, partitions, starting=False)
        self._check(lookup, start)
        clipped = self._since(lookup, self._narrowing.clip(start, end))
        ranges = [OffsetRange(each, low, high) for each, (low, high) in clipped.items()]
        ids = lookup.position(end, topics).ids
        dealt = deal(ranges, cores_here(), options.tasks_min, options.task_records_max)
        return [Share(tuple(each), ids) for each in dealt]

    def _check(self, lookup: Lookup, start: dict[TopicPartition, int]) -> None:
        """Offsets that the job named may be gone already; a task would find it out much later."""
        earliest = lookup.earliest(list(start))
        losses = Losses(self._options.fail_on_data_loss)
        for each, offset in start.items():
            if offset < earliest[each]:
                losses.report(
                    f"{each} begins at {earliest[each]} by now; reading was to begin at {offset}"
                )
                start[each] = earliest[each]

    def _since(
        self, lookup: Lookup, clipped: dict[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Everything before the first record of a time is older, whatever comes after it."""
        since_ms = self._narrowing.since_ms
        if since_ms is None:
            return clipped
        first = lookup.first_at(dict.fromkeys(clipped, since_ms))
        return {
            each: (max(low, first[each]), high)
            for each, (low, high) in clipped.items()
            if first[each] != NOT_FOUND
        }


class PenstockReader(WholeReader):
    """The same where Spark tells of its filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Spark keeps all of them: see filters.py."""
        self._narrowing.take(filters)
        return filters
