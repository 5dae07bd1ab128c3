"""Records of a topic as typed rows; invalid ones are marked, dropped or fatal."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType

from penstock.spark.datasource import TYPES
from penstock.streams.column_functions import case, named, quoted, structure
from penstock.streams.column_serde import ColumnSerde, DecodedColumn
from penstock.streams.compilation.frames import (
    BAD,
    HEADERS,
    KEY,
    ORDER,
    POSITION,
    POSITION_TYPE,
    RAW,
    TIMESTAMP,
    VALUE,
    StepFrame,
    watermarked,
)
from penstock.streams.topology import Internal, Role, SourceNode

# Spark may not compute these columns twice, so it moves no filter below them. A moved filter
# would parse a record twice, or keep a tick from the watermark.
ONCE, SEEN = "_once", "_seen"
CAUSE, PARTITION = "_cause", "_partition"
NOT_TICK, PARSED = "_raw_partition >= 0", f"{ONCE} >= 0"


class BadRecords(StrEnum):
    """The handling of an invalid record."""

    DEAD_LETTER = "dead_letter"
    SKIP = "skip"
    FAIL = "fail"


class Inputs(Protocol):
    """The origin of records: a cluster, or a test."""

    @property
    def has_ticks(self) -> bool:
        """Return whether streams have rows of partition -1, which only move event time."""

    def stream(self, node: SourceNode | Internal, columns: tuple[str, ...]) -> DataFrame: ...

    def table_now(self, node: SourceNode, columns: tuple[str, ...]) -> DataFrame:
        """Return all records of the topic at the time of each micro-batch."""


@dataclass(frozen=True, slots=True)
class SourceRequirements:
    """The requirements of a query on its sources."""

    inputs: Inputs
    policy: BadRecords
    keep_position: bool  # a later step may find records bad
    grace_ms: int | None  # None: event time does not matter


def read_stream(node: SourceNode, reading: SourceRequirements) -> StepFrame:
    can_fail = node.key.can_fail or node.value.can_fail or node.timestamp is not None
    told = can_fail and reading.policy is not BadRecords.SKIP
    placed = told or reading.keep_position or reading.inputs.has_ticks or node.role is Role.TABLE
    wanted = RAW if placed else ("key", "value", "timestamp")
    if node.headers:
        wanted = (*wanted, HEADERS)
    raw = reading.inputs.stream(node, wanted)
    parsed = _parsed(raw, node.key, node.value)
    key, value = _decoders(node)
    columns = {KEY: key.value, VALUE: value.value, TIMESTAMP: _event_time(node, value, reading)}
    if node.headers:
        columns[HEADERS] = "_raw_headers"
    if node.role is Role.TABLE:
        columns[ORDER] = "_raw_offset"
    if reading.keep_position:
        columns[POSITION] = _position(raw.columns)
    cause = _cause(node, key, value, reading)
    if cause is not None:
        _mark(columns, cause, node, raw.columns, reading)
    if reading.inputs.has_ticks:
        columns[PARTITION] = "_raw_partition"
    df = parsed.selectExpr(*(f"{of} AS {named(name)}" for name, of in columns.items()))
    return _finished(df, node, reading, cause is not None)


def _parsed(raw: DataFrame, key: ColumnSerde, value: ColumnSerde) -> DataFrame:
    """Return the bytes under names of their own, and the costly part of decoding, done once."""
    return raw.select(
        *(sql.col(name).alias(f"_raw_{name}") for name in raw.columns),
        key.parse(sql.col("key")).alias("_key"),
        value.parse(sql.col("value")).alias("_value"),
        sql.spark_partition_id().alias(ONCE),
    )


def _decoders(node: SourceNode) -> tuple[DecodedColumn, DecodedColumn]:
    key, value = node.key.decode("_raw_key", "_key"), node.value.decode("_raw_value", "_value")
    return _bound(key), _bound(value)


def _bound(decoded: DecodedColumn) -> DecodedColumn:
    """Return the frame with a column that keeps filters above the parsing, if parsing is costly."""
    if decoded.cause is None:
        return decoded
    return DecodedColumn(case(PARSED, decoded.value), case(PARSED, decoded.cause))


def _event_time(node: SourceNode, value: DecodedColumn, reading: SourceRequirements) -> str:
    if node.timestamp is None:
        return "_raw_timestamp"
    own = f"CAST(({value.value}).{named(node.timestamp)} AS TIMESTAMP)"
    return case(NOT_TICK, own, "_raw_timestamp") if reading.inputs.has_ticks else own


def _cause(
    node: SourceNode, key: DecodedColumn, value: DecodedColumn, reading: SourceRequirements
) -> str | None:
    """Return the first error of a record."""
    causes = {"key": key.cause, "value": value.cause}
    if node.timestamp is not None:
        missing = f"_raw_value IS NOT NULL AND {_event_time(node, value, reading)} IS NULL"
        causes["timestamp"] = case(missing, quoted(f"{node.timestamp} is null"))
    said = [f"concat({quoted(part + ': ')}, {cause})" for part, cause in causes.items() if cause]
    if not said:
        return None
    first = f"coalesce({', '.join(said)})"
    return case(NOT_TICK, first) if reading.inputs.has_ticks else first


def _mark(
    columns: dict[str, str],
    cause: str,
    node: SourceNode,
    raw: list[str],
    reading: SourceRequirements,
) -> None:
    match reading.policy:
        case BadRecords.SKIP:
            columns[CAUSE] = cause
        case BadRecords.FAIL:
            begun = quoted(f"a record of {node.topic} cannot be read (partition ")
            where = f"concat({begun}, _raw_partition, ' offset ', _raw_offset, '): ', {cause})"
            failure = f"raise_error({where})"
            columns[VALUE] = case(f"{cause} IS NOT NULL", failure, columns[VALUE])
        case BadRecords.DEAD_LETTER:
            fields = {"cause": cause, "origin": quoted(node.name), POSITION: _position(raw)}
            columns[BAD] = case(f"{cause} IS NOT NULL", structure(fields))


def _finished(
    df: DataFrame, node: SourceNode, reading: SourceRequirements, can_fail: bool
) -> StepFrame:
    if node.role is Role.STREAM and reading.grace_ms is not None:
        df = watermarked(df, reading.grace_ms)
    if reading.inputs.has_ticks:
        df = _without_ticks(df)
    if can_fail and reading.policy is BadRecords.SKIP:
        df = df.filter(f"{CAUSE} IS NULL").drop(CAUSE)
    if can_fail and reading.policy is BadRecords.DEAD_LETTER:
        return StepFrame(df, frozenset((node.name,)))
    return StepFrame(df)


def _without_ticks(df: DataFrame) -> DataFrame:
    """Drop ticks after the watermark has seen them: no filter is moved below this column."""
    seen = df.selectExpr("*", f"spark_partition_id() AS {SEEN}")
    return seen.filter(f"{PARTITION} >= 0 AND {SEEN} >= 0").drop(PARTITION, SEEN)


def _position(raw: list[str]) -> str:
    def part(name: str) -> str:
        missing = f"CAST(NULL AS {TYPES[name].simpleString()})"
        return f"_raw_{name}" if name in raw else missing

    return structure({name: part(name) for name in POSITION_TYPE.fieldNames()})


def bad_record(cause: Column, origin: str, position: Column) -> Column:
    return sql.struct(
        cause.alias("cause"), sql.lit(origin).alias("origin"), position.alias(POSITION)
    )


def read_internal(
    node: Internal,
    key: ColumnSerde,
    value: ColumnSerde,
    reading: SourceRequirements,
    value_type: DataType,
) -> StepFrame:
    """Read an internal topic. Its values carry the event time: a sink cannot set a record's
    time."""
    parsed = _parsed(reading.inputs.stream(node, RAW), key, value)
    both = f"({value.decode('_raw_value', '_value').value})"
    event_time = f"{both}.timestamp"
    columns = {
        KEY: key.decode("_raw_key", "_key").value,
        VALUE: f"{both}.value",
        TIMESTAMP: event_time,
    }
    if node.role is Role.TABLE:
        columns[ORDER] = "_raw_offset"
    if reading.inputs.has_ticks:
        columns[TIMESTAMP] = case(NOT_TICK, event_time, "_raw_timestamp")
        columns[PARTITION] = "_raw_partition"
    df = parsed.selectExpr(*(f"{of} AS {named(name)}" for name, of in columns.items()))
    df = df.withColumn(VALUE, sql.col(VALUE).cast(value_type))
    if node.role is Role.STREAM and reading.grace_ms is not None:
        df = watermarked(df, reading.grace_ms)
    if reading.inputs.has_ticks:
        df = _without_ticks(df)
    return StepFrame(df)


def read_table_now(node: SourceNode, reading: SourceRequirements) -> StepFrame:
    """Return the last value of each key, without deleted keys and bad records."""
    parsed = _parsed(reading.inputs.table_now(node, RAW), node.key, node.value)
    key, value = _decoders(node)
    columns = {KEY: key.value, VALUE: value.value, "place": "struct(_raw_partition, _raw_offset)"}
    causes = [each.cause for each in (key, value) if each.cause is not None]
    if causes and reading.policy is BadRecords.FAIL:
        cause = f"coalesce({', '.join(causes)})"
        _mark(columns, cause, node, [*RAW], reading)
    elif causes:
        parsed = parsed.filter(" AND ".join(f"({cause}) IS NULL" for cause in causes))
    rows = parsed.selectExpr(*(f"{of} AS {named(name)}" for name, of in columns.items()))
    last = rows.groupBy(KEY).agg(sql.max_by(VALUE, "place").alias(VALUE))
    return StepFrame(last.filter(sql.col(VALUE).isNotNull()))
