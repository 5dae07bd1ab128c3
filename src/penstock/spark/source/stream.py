"""The source of a streaming query: the driver plans, tasks read.

While the query runs, Spark keeps one such object in a Python process of its own. Tasks get copies,
which have no connection and no memory of earlier batches.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.raw.range_progress import OffsetRange
from penstock.model import TopicPartition
from penstock.spark.environment import cores_here
from penstock.spark.hang_up import end_quietly
from penstock.spark.options.bounds import LATEST, Edge, PartitionOffsets, has_place
from penstock.spark.options.source import SourceOptions
from penstock.spark.source.batch_shares import deal, holds_back, limited
from penstock.spark.source.data_loss import Losses, base_of, unknown_to, within_log
from penstock.spark.source.lookup import Lookup
from penstock.spark.source.positions import Position
from penstock.spark.source.task import Share, read_share

Json = dict[str, dict[str, int | str]]
LAG = "@lag"  # beside the topics in a query's progress; no topic can have this name


class Planner:
    """Plans batches: the latest offsets, the end of a batch, and the share of each task."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._lookup = Lookup(options.connect(), options)
        self._losses = Losses(options.fail_on_data_loss)
        self._goal: Position | None = None  # of a query that reads up to now, and ends
        self._began_at = time.monotonic()
        self._first: Position | None = None
        self._first_is_unstored = False
        self._newest: Position | None = None
        self._end: Position | None = None

    def close(self) -> None:
        self._lookup.close()

    def first(self) -> Position:
        """Return the start of the query, the same for the lifetime of this process.

        Spark asks twice for one batch: to find its end, and to plan it. Records may come in
        between.
        """
        if self._first is None:
            self._first = self._find_first()
            late = has_place(self._options.start, LATEST) or self._options.late_start_is_latest
            self._first_is_unstored = late
        return self._first

    def _find_first(self) -> Position:
        lookup = self._lookup
        topics = lookup.topics()
        partitions = lookup.require(topics)
        if self._goal is not None and self._options.start == Edge(LATEST):
            return self._goal
        offsets = lookup.resolve(self._options.start, partitions, partitions, starting=True)
        if isinstance(self._options.start, PartitionOffsets):
            ends = lookup.log_end(partitions)
            offsets = within_log(offsets, ends, "startingOffsets", self._losses)
        return lookup.position(offsets, topics)

    def read_up_to_now(self) -> None:
        """Ignore records that are newer than this moment."""
        self._goal = self._now()

    def end_of_batch(self, start: Position, unlimited: bool) -> Position:
        now = self._goal or self._now()
        self._newest = now
        self._end = self._end_between(start, now, unlimited)
        return self._end

    def _end_between(self, start: Position, now: Position, unlimited: bool) -> Position:
        if self._first_is_unstored and self._is_first(start):
            # The first batch is empty and stores the start in the checkpoint. If it had records, a
            # restarted query that repeats it would start elsewhere.
            self._first_is_unstored = False
            return start
        base = self._base(start, now)
        end: Mapping[TopicPartition, int] = now.offsets
        limits = self._options.limits
        if not unlimited and self._goal is None:
            waited_ms = (time.monotonic() - self._began_at) * 1000
            if holds_back(base, now.offsets, limits, waited_ms):
                return start
        if not unlimited and limits.offsets_max is not None:
            end = limited(base, now.offsets, limits.offsets_max)
        if dict(end) != dict(start.offsets):
            self._began_at = time.monotonic()
        return Position(dict(end), now.ids)

    def latest(self) -> Json | None:
        """Return the latest offsets for the query's progress, and the lag of each topic."""
        if self._newest is None or self._end is None:
            return None
        lag = dict.fromkeys((each.topic for each in self._newest.offsets), 0)
        for each, offset in self._newest.offsets.items():
            lag[each.topic] += max(0, offset - self._end.offsets.get(each, 0))
        return {**self._newest.to_json(), LAG: {**lag}}

    def shares(self, start: Position, end: Position) -> list[Share]:
        base = self._base(self._not_after(start, end), end)
        ranges = [OffsetRange(each, base[each], offset) for each, offset in end.offsets.items()]
        options = self._options
        dealt = deal(ranges, cores_here(), options.tasks_min, options.task_records_max)
        return [Share(tuple(each), end.ids) for each in dealt]

    def _base(self, start: Position, end: Position) -> dict[TopicPartition, int]:
        earliest = self._lookup.earliest(unknown_to(start, end))
        return base_of(start, end, earliest, self._losses, self._lookup.asks_for)

    def _is_first(self, start: Position) -> bool:
        return self._first is not None and start.to_json() == self._first.to_json()

    def _not_after(self, start: Position, end: Position) -> Position:
        """Return the start of a batch. A restarted query that repeats its first batch gets the
        start again, and the end of its checkpoint may lie before it."""
        if not self._is_first(start):
            return start
        known = {
            each: min(offset, end.offsets[each])
            for each, offset in start.offsets.items()
            if each in end.offsets
        }
        return Position(known, start.ids)

    def _now(self) -> Position:
        lookup = self._lookup
        topics = lookup.topics()
        return lookup.position(lookup.latest(lookup.partitions(topics)), topics)


class PlannedReader(SupportsTriggerAvailableNow):
    """A reader with a planner on the driver. A copy of the reader has the options alone."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._planner: Planner | None = None

    def __reduce__(self) -> tuple[type, tuple[SourceOptions]]:
        return type(self), (self._options,)

    @property
    def _plans(self) -> Planner:
        if self._planner is None:
            end_quietly()
            self._planner = Planner(self._options)
        return self._planner

    def initialOffset(self) -> Json:
        return self._plans.first().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._plans.read_up_to_now()


class PenstockStreamReader(PlannedReader, DataSourceStreamReader):
    """The reader of `spark.readStream.format("penstock")`."""

    # -- on the driver

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return one of the limits: Spark carries only one, and `latestOffset` reads the others."""
        limits = self._options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        unlimited = isinstance(limit, ReadAllAvailable)
        return self._plans.end_of_batch(Position.from_json(start), unlimited).to_json()

    def reportLatestOffset(self) -> Json | None:
        return self._plans.latest()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        return self._plans.shares(Position.from_json(start), Position.from_json(end))

    def commit(self, end: Json) -> None:
        """Do nothing: the listener commits progress (progress.py), and this call comes a batch
        late."""

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    # -- in a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share), "one of those that were planned"
        return read_share(self._options, partition)
