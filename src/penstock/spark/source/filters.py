"""Filters of a batch read that save reading records: on partition, offset, timestamp.

They only narrow the fetched ranges. Spark applies all filters again, so a filter that is not
understood here costs time, never a wrong row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from penstock.model import TopicPartition

OFFSET_MAX = 2**63 - 1


@dataclass(slots=True)
class Narrowing:
    """The rest after the filters: topics, partitions, offsets, and times at or after one."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_min: int = 0
    offset_end: int = OFFSET_MAX
    since_ms: int | None = None

    def take(self, filters: Iterable[Filter]) -> None:
        for each in filters:
            self._take(each)

    def wants(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def clip(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the start and end offset of each partition within the filters."""
        return {
            each: (max(start[each], self.offset_min), min(end[each], self.offset_end))
            for each in end
            if self.wants(each)
        }

    def _take(self, each: Filter) -> None:
        match each:
            case EqualTo((column,), value) | EqualNullSafe((column,), value):
                self._at_least(column, value)
                self._at_most(column, value)
                self._among(column, (value,))
            case In((column,), values):
                self._among(column, values)
            case GreaterThanOrEqual((column,), value):
                self._at_least(column, value)
            case GreaterThan((column,), value):
                self._at_least(column, value + 1 if isinstance(value, int) else value)
            case LessThanOrEqual((column,), value):
                self._at_most(column, value)
            case LessThan((column,), value):
                self._at_most(column, value - 1 if isinstance(value, int) else value)

    def _at_least(self, column: str, value: object) -> None:
        match column, value:
            case "offset", int(offset):
                self.offset_min = max(self.offset_min, offset)
            case "timestamp", datetime() as moment:
                # Down to the millisecond: records have no finer times.
                self.since_ms = max(self.since_ms or 0, _epoch_ms(moment))

    def _at_most(self, column: str, value: object) -> None:
        match column, value:
            case "offset", int(offset):
                self.offset_end = min(self.offset_end, offset + 1)

    def _among(self, column: str, values: Iterable[object]) -> None:
        match column:
            case "topic":
                names = frozenset(each for each in values if isinstance(each, str))
                self.topics = names if self.topics is None else self.topics & names
            case "partition":
                numbers = frozenset(each for each in values if isinstance(each, int))
                self.partitions = numbers if self.partitions is None else self.partitions & numbers


def _epoch_ms(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.astimezone(UTC)
    return int(aware.timestamp() * 1000)
