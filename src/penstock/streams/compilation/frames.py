"""The columns that every step takes and gives.

key, value   typed: a structure, or a lone value
timestamp    the event time
headers      if the source was asked for them
order        of tables: the position of a change among those of its key
position     topic, partition and offset of a record, if a later step may find it bad
bad          the error of a bad record, null for all others; such rows pass every step

Only Spark knows types, so a condition that is a number, or a sum of text, fails where a step is
compiled. Spark's error shows its own plan; `told_by` names the step instead.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructField, StructType

from penstock.spark.datasource import TYPES
from penstock.streams.errors import TopologyError
from penstock.streams.topology import Filter, TopologyNode

KEY, VALUE, TIMESTAMP, HEADERS = "key", "value", "timestamp", "headers"
ORDER, POSITION, BAD = "order", "position", "bad"
RAW = ("key", "value", "topic", "partition", "offset", "timestamp")
WATERMARK = "spark.watermarkDelayMs"  # Spark's mark on a column with a watermark

POSITION_TYPE = StructType([StructField(name, TYPES[name]) for name in (*RAW, HEADERS)])
BAD_TYPE = StructType(
    [
        StructField("cause", TYPES["topic"]),
        StructField("origin", TYPES["topic"]),
        StructField(POSITION, POSITION_TYPE),
    ]
)


@dataclass(frozen=True, slots=True)
class StepFrame:
    """A DataFrame of these columns; `origins` names the steps whose bad records are in it."""

    df: DataFrame
    origins: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        return name in self.df.columns

    def type_of(self, name: str) -> DataType:
        return self.df.schema[name].dataType

    def with_columns(self, **changed: Column) -> "StepFrame":
        """Replace or add columns; the others stay, in their order."""
        names = [*self.df.columns, *(each for each in changed if not self.has(each))]
        chosen = [changed[each].alias(each) if each in changed else sql.col(each) for each in names]
        return StepFrame(self.df.select(*chosen), self.origins)

    def filter(self, condition: Column) -> "StepFrame":
        """Keep rows that pass, and bad records."""
        if self.has(BAD):
            condition = condition | sql.col(BAD).isNotNull()
        return StepFrame(self.df.filter(condition), self.origins)

    def good(self) -> "StepFrame":
        """Keep the rows for a step with state: no bad records, no positions."""
        df = self.df.filter(sql.col(BAD).isNull()) if self.has(BAD) else self.df
        return StepFrame(df.drop(BAD, POSITION))

    def only(self, *names: str) -> DataFrame:
        return self.df.select(*names)

    def without_origins(self, known: frozenset[str]) -> "StepFrame":
        """Drop the bad records that another frame of the same output has."""
        shared = sorted(self.origins & known)
        if not shared:
            return self
        kept = sql.col(BAD).isNull() | ~sql.col(f"{BAD}.origin").isin(shared)
        return StepFrame(self.df.filter(kept), self.origins - known)


def union(frames: Sequence[StepFrame]) -> StepFrame:
    """Return all rows; a bad record of several frames comes once."""
    kept: list[StepFrame] = []
    known: frozenset[str] = frozenset()
    for each in frames:
        kept.append(each.without_origins(known))
        known |= each.origins
    optional = [name for name in (HEADERS, POSITION, BAD) if any(each.has(name) for each in kept)]
    names = [KEY, VALUE, TIMESTAMP, *optional]
    if all(each.has(ORDER) for each in kept):
        names.append(ORDER)
    merged = _aligned(kept[0], names)
    for each in kept[1:]:
        merged = merged.unionByName(_aligned(each, names))
    return StepFrame(merged, known)


def _aligned(frame: StepFrame, names: Iterable[str]) -> DataFrame:
    empty = {HEADERS: TYPES[HEADERS], POSITION: POSITION_TYPE, BAD: BAD_TYPE}
    return frame.df.select(
        *(
            sql.col(name) if frame.has(name) else sql.lit(None).cast(empty[name]).alias(name)
            for name in names
        )
    )


def watermarked(df: DataFrame, grace_ms: int) -> DataFrame:
    """Add a watermark on the event time, unless there is one."""
    if WATERMARK in df.schema[TIMESTAMP].metadata:
        return df
    return df.withWatermark(TIMESTAMP, f"{grace_ms} milliseconds")


CONDITION = "; a condition is true or false: compare it, as in o.amount > 0"


@contextmanager
def told_by(node: TopologyNode) -> Iterator[None]:
    """Raise errors of Spark's analysis with the name of the step."""
    try:
        yield
    except AnalysisException as problem:
        reason = str(problem).strip().splitlines()[0]
        way_out = CONDITION if isinstance(node, Filter) else ""
        text = node.text() or type(node).__name__
        raise TopologyError(f"{node.name} ({text}): {reason}{way_out}") from problem
