"""Steps without state: expressions in the JVM, and Python per record on Arrow batches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from penstock.streams.column_functions import arrow_function
from penstock.streams.columns import column_of
from penstock.streams.compilation.frames import (
    BAD,
    BAD_TYPE,
    KEY,
    POSITION,
    POSITION_TYPE,
    TIMESTAMP,
    VALUE,
    StepFrame,
)
from penstock.streams.compilation.sources import BadRecords, bad_record
from penstock.streams.errors import RecordFailed, TopologyError, place_of
from penstock.streams.expressions import Expression, ExpressionKind, kind_of
from penstock.streams.rows import row_reader
from penstock.streams.schemas import plain
from penstock.streams.topology import (
    Filter,
    MapValues,
    PythonMap,
    SelectKey,
    TopologyNode,
    Transformed,
)
from penstock.streams.worker_imports import Shipped

OUT, CAUSE = "out", "cause"
PLACE = ("topic", "partition", "offset")


def inputs_of(frame: StepFrame) -> dict[str, Column]:
    return {name: sql.col(name) for name in (KEY, VALUE, TIMESTAMP) if frame.has(name)}


def apply_expression(
    node: TopologyNode, columns: dict[str, Column]
) -> tuple[dict[str, Column], Column | None]:
    """Return the columns after a step, and the condition under which the row stays."""
    match node:
        case MapValues():
            value = column_of(node.expression, columns)
            # A dict has fields even without a value: a deletion must stay a deletion.
            if node.is_table or kind_of(node.expression) is ExpressionKind.STRUCT:
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


def by_expression(node: TopologyNode, frame: StepFrame) -> StepFrame:
    columns, passed = apply_expression(node, inputs_of(frame))
    if passed is not None:
        return frame.filter(passed)
    return frame.with_columns(**{name: columns[name] for name in (KEY, VALUE)})


def key_by(frame: StepFrame, expression: Expression, name: str) -> StepFrame:
    return frame.with_columns(**{name: column_of(expression, inputs_of(frame))})


def transformed(node: Transformed, frame: StepFrame) -> StepFrame:
    """Apply a function of the user, which gets no bad records and returns none."""
    df = node.function(frame.good().df)
    missing = [name for name in (KEY, VALUE, TIMESTAMP) if name not in df.columns]
    if missing:
        raise TopologyError(
            f"the DataFrame that {node.text()} gives has no column {', '.join(missing)}: "
            "a stream has key, value and timestamp"
        )
    return StepFrame(df)


# -- Python per record


def python_map(node: PythonMap, frame: StepFrame, policy: BadRecords) -> StepFrame:
    """Call Python once per Arrow batch; a record whose call raises is a bad record."""
    key_type = node.key_type or frame.type_of(KEY)
    value_type = node.value_type or frame.type_of(VALUE)
    pair = StructType([StructField(KEY, key_type), StructField(VALUE, value_type)])
    result = StructType([StructField(OUT, ArrayType(pair)), StructField(CAUSE, StringType())])
    shape = node.parents[0].shape
    called_with = UserFunction(
        node.verb,
        node.function,
        shape.make_key or row_reader(frame.type_of(KEY)),
        shape.make_value or row_reader(frame.type_of(VALUE)),
    )
    catch = policy is not BadRecords.FAIL
    call = arrow_function(_caller(called_with, result, catch), result, once=True)
    given = sql.struct(KEY, VALUE)
    if not catch and frame.has(POSITION):
        place = [sql.col(f"{POSITION}.{name}") for name in PLACE]
        given = sql.struct(KEY, VALUE, sql.struct(*place).alias(POSITION))
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
    return StepFrame(df, origins)


Call = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class UserFunction:
    """The user's function, and the makers of its arguments from Arrow's values."""

    verb: str
    function: Callable[..., Any]
    read_key: Callable[[Any], Any]
    read_value: Callable[[Any], Any]

    def cause(self, problem: Exception) -> str:
        """Return the error in a line, with the file and line that raised it."""
        place = place_of(self.function, problem)
        return f"{type(problem).__name__}: {problem}" + (f" ({place})" if place else "")

    def pairs(self, key: Any, value: Any) -> list[dict[str, Any]]:
        """Return the results for Arrow. Unchanged values pass as they came."""
        call = self.function
        match self.verb:
            case "map":
                found: Iterable[tuple[Any, Any]] = [
                    call(self.read_key(key), self.read_value(value))
                ]
            case "flat_map":
                found = call(self.read_key(key), self.read_value(value))
            case "flat_map_values":
                return [{KEY: key, VALUE: plain(each)} for each in call(self.read_value(value))]
            case _:
                call(self.read_key(key), self.read_value(value))
                return [{KEY: key, VALUE: value}]
        return [{KEY: plain(one), VALUE: plain(two)} for one, two in found]


def _caller(called: UserFunction, result: DataType, catch: bool) -> Call:
    arrow = to_arrow_type(result, timezone="UTC")
    shipped = Shipped(called)

    def call(batch: pa.Array) -> pa.Array:
        found: list[dict[str, Any] | None] = []
        for each in batch.to_pylist():
            if each is None:
                found.append(None)
                continue
            try:
                out = shipped.what.pairs(each[KEY], each[VALUE])
                # a wrong type belongs to this record
                pa.array(out, arrow.field(OUT).type.value_type)
                found.append({OUT: out, CAUSE: None})
            except Exception as problem:  # the user's function may raise anything
                if not catch:
                    raise RecordFailed(_failure(shipped.what, each, problem)) from problem
                found.append({OUT: [], CAUSE: shipped.what.cause(problem)})
        return pa.array(found, arrow)

    return call


def _failure(called: UserFunction, record: dict[str, Any], problem: Exception) -> str:
    place = record.get(POSITION)
    where = ""
    if place is not None and place["topic"] is not None:
        where = " of {topic} (partition {partition} offset {offset})".format(**place)
    return f"{called.verb} failed for a record{where}: {called.cause(problem)}"
