"""Rows for the sink: key, value, topic, and headers where there are some.

Branches that differ by expressions alone are written by one query: each row says its topic, and the
source is read once. Bad records leave by the same way, to the dead letters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from penstock.spark.datasource import TYPES
from penstock.streams.compiling.blaming import told_by
from penstock.streams.compiling.fitting import fitted
from penstock.streams.compiling.frames import (
    BAD,
    HEADERS,
    KEY,
    POSITION,
    TIMESTAMP,
    VALUE,
    Frame,
)
from penstock.streams.compiling.steps import apply_expression, inputs_of
from penstock.streams.json_text import JsonSerde
from penstock.streams.serde import Serde
from penstock.streams.serdes import serde_for
from penstock.streams.sql_text import quoted, structure
from penstock.streams.topology import Internal, Node, Sink

TOPIC = "topic"
ERROR = "penstock.error."  # what the headers of a dead letter begin with


@dataclass(frozen=True, slots=True)
class Path:
    """A sink and the expression steps between it and a frame that several share."""

    base: Node
    steps: tuple[Node, ...]
    sink: Sink | Internal


@dataclass(frozen=True, slots=True)
class Written:
    """One output of a row: when, where to, and what."""

    passes: Column | None
    topic: str
    key: Column
    value: Column


def _walked(path: Path, frame: Frame) -> tuple[dict[str, Column], list[Column], StructType]:
    """The columns at the end of a path, what they must pass, and their types."""
    columns = inputs_of(frame)
    passes: list[Column] = []
    for step in path.steps:
        with told_by(step):
            columns, passed = apply_expression(step, columns)
            if passed is not None:
                # Asked for its type here, so that it is this step that is named.
                passed = sql.coalesce(passed, sql.lit(False))
                frame.df.select(passed.alias("passed"))
                passes.append(passed)
    schema = frame.df.select(columns[KEY].alias(KEY), columns[VALUE].alias(VALUE)).schema
    return columns, passes, schema


def serdes_of_sink(path: Path, frame: Frame) -> tuple[Serde, Serde]:
    """What a sink writes in: as it was told, or by the types."""
    assert isinstance(path.sink, Sink), "internal topics have a form of their own"
    _, _, schema = _walked(path, frame)
    return (
        path.sink.key or serde_for(schema[KEY].dataType),
        path.sink.value or serde_for(schema[VALUE].dataType),
    )


def written(path: Path, frame: Frame) -> Written:
    columns, passes, schema = _walked(path, frame)
    sink = path.sink
    condition = reduce(lambda one, two: one & two, passes) if passes else None
    if isinstance(sink, Internal):
        key_serde: Serde = serde_for(schema[KEY].dataType)
        inside = sql.struct(columns[VALUE].alias(VALUE), columns[TIMESTAMP].alias(TIMESTAMP))
        both = frame.df.select(inside.alias("both")).schema["both"].dataType
        value = JsonSerde(both).encode(inside)
        return Written(condition, sink.topic, key_serde.encode(columns[KEY]), value)
    key_serde = sink.key or serde_for(schema[KEY].dataType)
    value_serde = sink.value or serde_for(schema[VALUE].dataType)
    key, value = columns[KEY], columns[VALUE]
    if sink.key is not None:
        key = fitted(key, schema[KEY].dataType, sink.key.type, sink.topic)
    if sink.value is not None:
        value = fitted(value, schema[VALUE].dataType, sink.value.type, sink.topic)
    return Written(condition, sink.topic, key_serde.encode(key), value_serde.encode(value))


def write_columns(paths: Sequence[Path], frame: Frame, dead_letters: str, app: str) -> DataFrame:
    """What the sink gets of one frame."""
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
    output: Written, frame: Frame, dead_letters: str, app: str, with_headers: bool
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


def only_dead_letters(frames: Sequence[Frame], dead_letters: str, app: str) -> DataFrame:
    """Of frames whose good rows another query takes."""
    found = [
        each.df.filter(sql.col(BAD).isNotNull()).select(
            sql.inline(sql.array(_dead_letter(dead_letters, app)))
        )
        for each in frames
    ]
    return reduce(DataFrame.unionByName, found)


def _maybe(condition: Column | None, row: Column) -> Column:
    return row if condition is None else sql.when(condition, row)


def _headers(frame: Frame) -> Column:
    return sql.col(HEADERS) if frame.has(HEADERS) else sql.lit(None).cast(TYPES[HEADERS])


def _row(key: Column, value: Column, topic: Column, headers: Column) -> Column:
    return sql.struct(
        key.alias(KEY), value.alias(VALUE), topic.alias(TOPIC), headers.alias(HEADERS)
    )


def _dead_letter(topic: str, app: str) -> Column:
    """The record as it came; its headers say why and where from."""
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
