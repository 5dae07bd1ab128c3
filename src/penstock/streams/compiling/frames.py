"""The columns that every step takes and gives.

key, value   typed: a structure, or a lone value
timestamp    the event time
headers      if the source was asked for them
order        of tables: the place of a change among those of its key
position     where a record came from, if a later step may find it bad
bad          why a record could not be read, null for all others; such rows pass every step
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructField, StructType

from penstock.spark.datasource import TYPES

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
class Frame:
    """A DataFrame of these columns; `origins` names the steps whose bad records are among them."""

    df: DataFrame
    origins: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        return name in self.df.columns

    def type_of(self, name: str) -> DataType:
        return self.df.schema[name].dataType

    def with_columns(self, **changed: Column) -> "Frame":
        """The others stay, in their order."""
        names = [*self.df.columns, *(each for each in changed if not self.has(each))]
        chosen = [changed[each].alias(each) if each in changed else sql.col(each) for each in names]
        return Frame(self.df.select(*chosen), self.origins)

    def filter(self, condition: Column) -> "Frame":
        """Bad records pass."""
        if self.has(BAD):
            condition = condition | sql.col(BAD).isNotNull()
        return Frame(self.df.filter(condition), self.origins)

    def good(self) -> "Frame":
        """Only what a step with state takes: bad records and positions are of no use to it."""
        df = self.df.filter(sql.col(BAD).isNull()) if self.has(BAD) else self.df
        return Frame(df.drop(BAD, POSITION))

    def only(self, *names: str) -> DataFrame:
        return self.df.select(*names)

    def without_origins(self, known: frozenset[str]) -> "Frame":
        """Without the bad records that another frame of the same output has already."""
        shared = sorted(self.origins & known)
        if not shared:
            return self
        kept = sql.col(BAD).isNull() | ~sql.col(f"{BAD}.origin").isin(shared)
        return Frame(self.df.filter(kept), self.origins - known)


def union(frames: Sequence[Frame]) -> Frame:
    """All rows; a bad record that several have comes once."""
    kept: list[Frame] = []
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
    return Frame(merged, known)


def _aligned(frame: Frame, names: Iterable[str]) -> DataFrame:
    empty = {HEADERS: TYPES[HEADERS], POSITION: POSITION_TYPE, BAD: BAD_TYPE}
    return frame.df.select(
        *(
            sql.col(name) if frame.has(name) else sql.lit(None).cast(empty[name]).alias(name)
            for name in names
        )
    )


def watermarked(df: DataFrame, grace_ms: int) -> DataFrame:
    """With a watermark on the event time, unless it has one."""
    if WATERMARK in df.schema[TIMESTAMP].metadata:
        return df
    return df.withWatermark(TIMESTAMP, f"{grace_ms} milliseconds")
