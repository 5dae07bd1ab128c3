"""Steps without state: expressions in the JVM, and Python per record on Arrow batches."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from penstock.streams.arrow import arrow_function
from penstock.streams.columns import column_of
from penstock.streams.compiling.frames import (
    BAD,
    BAD_TYPE,
    KEY,
    POSITION,
    POSITION_TYPE,
    TIMESTAMP,
    VALUE,
    Frame,
)
from penstock.streams.compiling.sources import BadRecords, bad_record
from penstock.streams.errors import TopologyError
from penstock.streams.expressions import Expression
from penstock.streams.rows import row_reader
from penstock.streams.schemas import plain
from penstock.streams.shipping import Shipped
from penstock.streams.topology import Filter, MapValues, Node, PythonMap, SelectKey, Transformed

OUT, CAUSE = "out", "cause"


def inputs_of(frame: Frame) -> dict[str, Column]:
    return {name: sql.col(name) for name in (KEY, VALUE, TIMESTAMP) if frame.has(name)}


def apply_expression(
    node: Node, columns: dict[str, Column]
) -> tuple[dict[str, Column], Column | None]:
    """The columns after a step, and the condition under which the row stays."""
    match node:
        case MapValues():
            value = column_of(node.expression, columns)
            if node.is_table:
                value = sql.when(columns[VALUE].isNotNull(), value)
            return {**columns, VALUE: value}, None
        case SelectKey():
            return {**columns, KEY: column_of(node.expression, columns)}, None
        case Filter():
            passed = column_of(node.condition, columns)
            if node.is_table:
                return {**columns, VALUE: sql.when(passed, columns[VALUE])}, None
            return columns, passed
        case _:
            raise AssertionError(f"{node.name} is not done by expressions")


def by_expression(node: Node, frame: Frame) -> Frame:
    columns, passed = apply_expression(node, inputs_of(frame))
    if passed is not None:
        return frame.filter(passed)
    return frame.with_columns(**{name: columns[name] for name in (KEY, VALUE)})


def key_by(frame: Frame, expression: Expression, name: str) -> Frame:
    return frame.with_columns(**{name: column_of(expression, inputs_of(frame))})


def transformed(node: Transformed, frame: Frame) -> Frame:
    """A function of the user's, which gets no bad records and gives none."""
    df = node.function(frame.good().df)
    missing = [name for name in (KEY, VALUE, TIMESTAMP) if name not in df.columns]
    if missing:
        raise TopologyError(
            f"the DataFrame that {node.text()} gives has no column {', '.join(missing)}: "
            "a stream has key, value and timestamp"
        )
    return Frame(df)


# -- Python per record


def python_map(node: PythonMap, frame: Frame, policy: BadRecords) -> Frame:
    """One call for all records of an Arrow batch; a record whose call raises is a bad one."""
    key_type = node.key_type or frame.type_of(KEY)
    value_type = node.value_type or frame.type_of(VALUE)
    pair = StructType([StructField(KEY, key_type), StructField(VALUE, value_type)])
    result = StructType([StructField(OUT, ArrayType(pair)), StructField(CAUSE, StringType())])
    read = (row_reader(frame.type_of(KEY)), row_reader(frame.type_of(VALUE)))
    call = arrow_function(
        _caller(node.verb, node.function, read, result, policy is not BadRecords.FAIL),
        result,
        once=True,
    )
    given = sql.struct(KEY, VALUE)
    if frame.has(BAD):
        given = sql.when(sql.col(BAD).isNull(), given)
    called = frame.with_columns(_called=call(given))
    failed = sql.col(f"_called.{CAUSE}").isNotNull()
    origins = frame.origins
    out = sql.col(f"_called.{OUT}")
    if policy is BadRecords.DEAD_LETTER:
        cause = sql.concat(sql.lit(f"{node.verb}: "), sql.col(f"_called.{CAUSE}"))
        known = frame.has(POSITION)
        position = sql.col(POSITION) if known else sql.lit(None).cast(POSITION_TYPE)
        bad = sql.when(failed, bad_record(cause, node.name, position)).cast(BAD_TYPE)
        called = called.with_columns(
            **{BAD: sql.coalesce(sql.col(BAD), bad) if frame.has(BAD) else bad}
        )
        nothing = sql.lit(None).cast(pair)
        out = sql.when(sql.col(BAD).isNotNull(), sql.array(nothing)).otherwise(out)
        origins |= {node.name}
    names = [name for name in called.df.columns if name not in (KEY, VALUE, "_called")]
    exploded = called.df.select(*names, sql.explode(out).alias("_pair"))
    df = exploded.select(
        sql.col(f"_pair.{KEY}").alias(KEY), sql.col(f"_pair.{VALUE}").alias(VALUE), *names
    )
    return Frame(df, origins)


Call = Callable[[pa.Array], pa.Array]


def _caller(
    verb: str,
    function: Callable[..., Any],
    read: tuple[Callable[[Any], Any], Callable[[Any], Any]],
    result: DataType,
    catch: bool,
) -> Call:
    arrow = to_arrow_type(result, timezone="UTC")
    read_key, read_value = read
    pairs_of, shipped = PAIRS[verb], Shipped(function)

    def call(batch: pa.Array) -> pa.Array:
        found: list[dict[str, Any] | None] = []
        for each in batch.to_pylist():
            if each is None:
                found.append(None)
                continue
            try:
                pairs = pairs_of(shipped.what, read_key(each[KEY]), read_value(each[VALUE]))
                out = [{KEY: plain(key), VALUE: plain(value)} for key, value in pairs]
                pa.array(out, arrow.field(OUT).type.value_type)  # a wrong type is this record's
                found.append({OUT: out, CAUSE: None})
            except Exception as problem:  # whatever the user's function raises
                if not catch:
                    raise
                found.append({OUT: [], CAUSE: f"{type(problem).__name__}: {problem}"})
        return pa.array(found, arrow)

    return call


Pairs = Iterable[tuple[Any, Any]]


def _mapped(function: Callable[..., Any], key: Any, value: Any) -> Pairs:
    return [function(key, value)]


def _flat_mapped(function: Callable[..., Any], key: Any, value: Any) -> Pairs:
    return list(function(key, value))


def _flat_mapped_values(function: Callable[..., Any], key: Any, value: Any) -> Pairs:
    return [(key, each) for each in function(value)]


def _peeked(function: Callable[..., Any], key: Any, value: Any) -> Pairs:
    function(key, value)
    return [(key, value)]


PAIRS: dict[str, Callable[[Callable[..., Any], Any, Any], Pairs]] = {
    "map": _mapped,
    "flat_map": _flat_mapped,
    "flat_map_values": _flat_mapped_values,
    "peek": _peeked,
}
