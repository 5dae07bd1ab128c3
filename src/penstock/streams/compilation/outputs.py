"""Rows for the sink: key, value, topic, and headers if there are any.

Branches that differ by expressions alone are written by one query: each row has its topic, and the
source is read once. Bad records leave by the same sink, to the dead letters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from penstock.spark.datasource import TYPES
from penstock.streams.column_functions import quoted, structure
from penstock.streams.column_serde import ColumnSerde
from penstock.streams.compilation.frames import (
    BAD,
    HEADERS,
    KEY,
    POSITION,
    TIMESTAMP,
    VALUE,
    StepFrame,
    told_by,
)
from penstock.streams.compilation.schema_fit import fitted
from penstock.streams.compilation.steps import apply_expression, inputs_of
from penstock.streams.json_text import JsonSerde
from penstock.streams.serdes import serde_for
from penstock.streams.topology import Internal, SinkNode, TopologyNode

TOPIC = "topic"
ERROR = "penstock.error."  # the prefix of a dead letter's headers


@dataclass(frozen=True, slots=True)
class Path:
    """A sink, and the expression steps between it and a shared frame."""

    base: TopologyNode
    steps: tuple[TopologyNode, ...]
    sink: SinkNode | Internal


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output of a row: condition, topic, key and value."""

    passes: Column | None
    topic: str
    key: Column
    value: Column


def _walked(path: Path, frame: StepFrame) -> tuple[dict[str, Column], list[Column], StructType]:
    """Return the columns at the end of a path, their condition, and their types."""
    columns = inputs_of(frame)
    passes: list[Column] = []
    for step in path.steps:
        with told_by(step):
            columns, passed = apply_expression(step, columns)
            if passed is not None:
                # The type is requested here, so that an error names this step.
                passed = sql.coalesce(passed, sql.lit(False))
                frame.df.select(passed.alias("passed"))
                passes.append(passed)
    schema = frame.df.select(columns[KEY].alias(KEY), columns[VALUE].alias(VALUE)).schema
    return columns, passes, schema


def serdes_of_sink(path: Path, frame: StepFrame) -> tuple[ColumnSerde, ColumnSerde]:
    """Return the serdes of a sink: the configured ones, or those of the types."""
    assert isinstance(path.sink, SinkNode), "internal topics have a form of their own"
    _, _, schema = _walked(path, frame)
    return (
        path.sink.key or serde_for(schema[KEY].dataType),
        path.sink.value or serde_for(schema[VALUE].dataType),
    )


def written(path: Path, frame: StepFrame) -> OutputRow:
    columns, passes, schema = _walked(path, frame)
    sink = path.sink
    condition = reduce(lambda one, two: one & two, passes) if passes else None
    if isinstance(sink, Internal):
        key_serde: ColumnSerde = serde_for(schema[KEY].dataType)
        inside = sql.struct(columns[VALUE].alias(VALUE), columns[TIMESTAMP].alias(TIMESTAMP))
        both = frame.df.select(inside.alias("both")).schema["both"].dataType
        value = JsonSerde(both).encode(inside)
        return OutputRow(condition, sink.topic, key_serde.encode(columns[KEY]), value)
    key_serde = sink.key or serde_for(schema[KEY].dataType)
    value_serde = sink.value or serde_for(schema[VALUE].dataType)
    key, value = columns[KEY], columns[VALUE]
    if sink.key is not None:
        key = fitted(key, schema[KEY].dataType, sink.key.type, sink.topic)
    if sink.value is not None:
        value = fitted(value, schema[VALUE].dataType, sink.value.type, sink.topic)
    return OutputRow(condition, sink.topic, key_serde.encode(key), value_serde.encode(value))


def write_columns(
    paths: Sequence[Path], frame: StepFrame, dead_letters: str, app: str
) -> DataFrame:
    """Return the rows of one frame for the sink."""
    outputs = [written(path, frame) for path in paths]
    with_headers = frame.has(HEADERS) or frame.has(BAD)
    if len(outputs) == 1:
        return _one(outputs[0], frame, dead_letters, app, with_headers)
    rows = [
        _maybe(each.passes, _row(each.key, each.value, sql.lit(each.topic), _headers(frame)))
        for each in outputs
    ]
    if frame.has(BAD):
        rows = [sql.when(sql.col(BAD).isNull(), row) for row in rows]
        rows.append(sql.when(sql.col(BAD).isNotNull(), _dead_letter(dead_letters, app)))
    kept = sql.filter(sql.array(*rows), lambda row: row.isNotNull())
    df = frame.df.select(sql.inline(kept))
    return df if with_headers else df.drop(HEADERS)


def _one(
    output: OutputRow, frame: StepFrame, dead_letters: str, app: str, with_headers: bool
) -> DataFrame:
    kept = frame if output.passes is None else frame.filter(output.passes)
    row = {KEY: output.key, VALUE: output.value, TOPIC: sql.lit(output.topic)}
    if with_headers:
        row[HEADERS] = _headers(frame)
    if frame.has(BAD):
        letter = _dead_letter(dead_letters, app)
        is_bad = sql.col(BAD).isNotNull()
        row = {
            name: sql.when(is_bad, letter.getField(name)).otherwise(each)
            for name, each in row.items()
        }
    return kept.df.select(*(each.alias(name) for name, each in row.items()))


def only_dead_letters(frames: Sequence[StepFrame], dead_letters: str, app: str) -> DataFrame:
    """Return the dead letters of frames whose good rows another query takes."""
    found = [
        each.df.filter(sql.col(BAD).isNotNull()).select(
            sql.inline(sql.array(_dead_letter(dead_letters, app)))
        )
        for each in frames
    ]
    return reduce(DataFrame.unionByName, found)


def _maybe(condition: Column | None, row: Column) -> Column:
    return row if condition is None else sql.when(condition, row)


def _headers(frame: StepFrame) -> Column:
    return sql.col(HEADERS) if frame.has(HEADERS) else sql.lit(None).cast(TYPES[HEADERS])


def _row(key: Column, value: Column, topic: Column, headers: Column) -> Column:
    return sql.struct(
        key.alias(KEY), value.alias(VALUE), topic.alias(TOPIC), headers.alias(HEADERS)
    )


def _dead_letter(topic: str, app: str) -> Column:
    """Return the original record; its headers have the cause and the origin."""
    said = {
        "cause": f"{BAD}.cause",
        "topic": f"{BAD}.{POSITION}.topic",
        "partition": f"{BAD}.{POSITION}.partition",
        "offset": f"{BAD}.{POSITION}.offset",
        "timestamp": f"unix_millis({BAD}.{POSITION}.timestamp)",
        "application": quoted(app),
        "step": f"{BAD}.origin",
    }
    ours = ", ".join(
        structure({"key": quoted(ERROR + name), "value": f"CAST(CAST({of} AS STRING) AS BINARY)"})
        for name, of in said.items()
    )
    headers = TYPES[HEADERS].simpleString()
    theirs = f"coalesce({BAD}.{POSITION}.headers, CAST(array() AS {headers}))"
    fields = {
        KEY: f"{BAD}.{POSITION}.key",
        VALUE: f"{BAD}.{POSITION}.value",
        TOPIC: quoted(topic),
        HEADERS: f"concat({theirs}, array({ours}))",
    }
    return sql.expr(structure(fields))
