"""The source of a batch read: a start, an end, and filters between them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.client.raw.range_progress import OffsetRange
from penstock.model import TopicPartition
from penstock.spark.environment import cores_here
from penstock.spark.options.bounds import PartitionOffsets
from penstock.spark.options.option_bag import BadOption
from penstock.spark.options.source import SourceOptions
from penstock.spark.source.batch_shares import deal
from penstock.spark.source.data_loss import OTHER_OFFSETS, Losses, within_log
from penstock.spark.source.filters import Narrowing
from penstock.spark.source.lookup import NOT_FOUND, Lookup
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
            return iter(())  # Spark makes one task of its own if none was planned
        return read_share(self._options, partition)

    def _shares(self, lookup: Lookup) -> list[Share]:
        options = self._options
        topics = lookup.topics()
        partitions = lookup.require(topics)
        # Offsets by partition must name all partitions, also filtered ones.
        wanted = [each for each in partitions if self._narrowing.wants(each)]
        start = lookup.resolve(options.start, partitions, wanted, starting=True)
        end = lookup.resolve(options.end, partitions, wanted, starting=False)
        self._check(lookup, start, end)
        clipped = self._since(lookup, self._narrowing.clip(start, end))
        ranges = [OffsetRange(each, low, high) for each, (low, high) in clipped.items()]
        ids = lookup.position(end, topics).ids
        dealt = deal(ranges, cores_here(), options.tasks_min, options.task_records_max)
        return [Share(tuple(each), ids) for each in dealt]

    def _check(
        self, lookup: Lookup, start: dict[TopicPartition, int], end: dict[TopicPartition, int]
    ) -> None:
        """Check the named offsets against the log now; a task would find them missing much
        later."""
        options = self._options
        losses = Losses(options.fail_on_data_loss)
        earliest = lookup.earliest(list(start))
        for each, offset in start.items():
            if offset < earliest[each]:
                losses.report(
                    f"{each} begins at {earliest[each]} by now; reading was to begin at {offset}",
                    OTHER_OFFSETS,
                )
                start[each] = earliest[each]
        if isinstance(options.start, PartitionOffsets):
            start |= within_log(start, lookup.log_end(list(start)), "startingOffsets", losses)
        if isinstance(options.end, PartitionOffsets):
            end |= within_log(end, lookup.log_end(list(end)), "endingOffsets", losses)
            _require_order(start, end)

    def _since(
        self, lookup: Lookup, clipped: dict[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Narrow ranges by timestamp: every record before the first of that time is older."""
        since_ms = self._narrowing.since_ms
        if since_ms is None:
            return clipped
        first = lookup.first_at(dict.fromkeys(clipped, since_ms))
        return {
            each: (max(low, first[each]), high)
            for each, (low, high) in clipped.items()
            if first[each] != NOT_FOUND
        }


def _require_order(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    wrong = [each for each in end if start[each] > end[each]]
    if wrong:
        first = min(wrong)
        raise BadOption(
            f"{first} is to be read from {start[first]} to {end[first]}: "
            "endingOffsets must not be before where reading begins"
        )


class PenstockReader(WholeReader):
    """The same, in a session that pushes filters down."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Return all filters: Spark applies them again, see filters.py."""
        self._narrowing.take(filters)
        return filters
