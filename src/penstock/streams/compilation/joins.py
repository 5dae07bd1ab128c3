"""Joins. Two streams: Spark's own, within a time. With a table: one operator over both sides."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.streams.columns import column_of
from penstock.streams.compilation.frames import KEY, ORDER, TIMESTAMP, VALUE, StepFrame, watermarked
from penstock.streams.compilation.keyed import (
    LEFT_SIDE,
    RIGHT_SIDE,
    StreamTableJoin,
    TableTableJoin,
    alone,
)
from penstock.streams.compilation.steps import key_by
from penstock.streams.errors import TopologyError
from penstock.streams.topology import Joined, JoinKind

RIGHT, ON = "right", "_on"
SPARKS_KINDS = {JoinKind.INNER: "inner", JoinKind.LEFT: "left", JoinKind.OUTER: "full"}


def join_streams(node: Joined, left: StepFrame, right: StepFrame, grace_ms: int) -> StepFrame:
    """Join records whose times are close; an unmatched row comes once no partner can come any
    more."""
    mine = watermarked(key_by(left, node.left_on, ON).df, grace_ms).select(
        KEY, VALUE, TIMESTAMP, ON
    )
    other = watermarked(key_by(right, node.right_on, ON).df, grace_ms).select(
        sql.col(KEY).alias("_right_key"),
        sql.col(VALUE).alias(RIGHT),
        sql.col(TIMESTAMP).alias("_right_time"),
        sql.col(ON).alias("_right_on"),
    )
    mine, other = _comparable(mine, ON, other, "_right_on", node)
    condition = (
        (sql.col(ON) == sql.col("_right_on"))
        & (sql.col("_right_time") >= sql.col(TIMESTAMP) - _length(node.before_ms))
        & (sql.col("_right_time") <= sql.col(TIMESTAMP) + _length(node.after_ms))
    )
    pairs = mine.join(other, condition, SPARKS_KINDS[node.kind])
    key, time = sql.col(KEY), sql.col(TIMESTAMP)
    if node.kind is JoinKind.OUTER:
        key = sql.coalesce(key, sql.col("_right_key"))
        time = sql.coalesce(time, sql.col("_right_time"))
    return StepFrame(pairs.select(key.alias(KEY), _value(node), time.alias(TIMESTAMP)))


def _length(length_ms: int) -> Column:
    return sql.expr(f"INTERVAL {length_ms / 1000:.3f} SECONDS")


def join_global(node: Joined, stream: StepFrame, table: StepFrame) -> StepFrame:
    """Join with a table that is read again for every micro-batch and sent to every task."""
    mine = key_by(stream, node.left_on, ON)
    other = table.df.select(
        column_of(node.right_on, {KEY: sql.col(KEY), VALUE: sql.col(VALUE)}).alias("_right_on"),
        sql.col(VALUE).alias(RIGHT),
    )
    left_df, other = _comparable(mine.df, ON, other, "_right_on", node)
    kind = "inner" if node.kind is JoinKind.INNER else "left"
    pairs = left_df.join(sql.broadcast(other), left_df[ON] == other["_right_on"], kind)
    names = [name for name in stream.df.columns if name != VALUE]
    return StepFrame(pairs.select(*names, _value(node)), stream.origins)


def join_table(
    node: Joined, stream: StepFrame, table: StepFrame, grace_ms: int | None
) -> StepFrame:
    """Join each record of the stream with the table's value of that moment."""
    mine = key_by(stream, node.left_on, ON).df
    if grace_ms is not None:
        mine = watermarked(mine, grace_ms)
    other = key_by(table, node.right_on, ON).df
    mine, other = _comparable(mine, ON, other, ON, node)
    rows = _side(
        mine, LEFT_SIDE, sql.unix_micros(TIMESTAMP), stream.type_of(KEY), None, table.type_of(VALUE)
    ).unionByName(
        _side(other, RIGHT_SIDE, sql.col(ORDER), stream.type_of(KEY), stream.type_of(VALUE), None)
    )
    rows = rows.filter(sql.col(ON).isNotNull() | (sql.col("_side") == LEFT_SIDE))
    operator = StreamTableJoin(alone(table.type_of(VALUE)), node.kind is not JoinKind.INNER)
    output = StructType(
        [
            StructField(KEY, stream.type_of(KEY)),
            StructField(VALUE, stream.type_of(VALUE)),
            StructField(RIGHT, table.type_of(VALUE)),
            StructField(TIMESTAMP, TimestampType()),
        ]
    )
    event_time = "" if grace_ms is None else TIMESTAMP
    joined = rows.groupBy(ON).transformWithState(
        operator,
        output,
        "Append",
        "None" if grace_ms is None else "EventTime",
        eventTimeColumnName=event_time,
    )
    return StepFrame(joined.select(sql.col(KEY), _value(node), sql.col(TIMESTAMP)))


def join_tables(node: Joined, left: StepFrame, right: StepFrame) -> StepFrame:
    """Return a table: the joined value of each key, or a deletion."""
    mine, other = _comparable(left.df, KEY, right.df, KEY, node)
    rows = _side(
        mine.withColumn(ON, sql.col(KEY)),
        LEFT_SIDE,
        sql.col(ORDER),
        left.type_of(KEY),
        None,
        right.type_of(VALUE),
    ).unionByName(
        _side(
            other.withColumn(ON, sql.col(KEY)),
            RIGHT_SIDE,
            sql.col(ORDER),
            left.type_of(KEY),
            left.type_of(VALUE),
            None,
            keep_time=True,
        )
    )
    operator = TableTableJoin(
        alone(left.type_of(VALUE)),
        alone(right.type_of(VALUE)),
        needs_left=node.kind is not JoinKind.OUTER,
        needs_right=node.kind is JoinKind.INNER,
    )
    output = StructType(
        [
            StructField(KEY, left.type_of(KEY)),
            StructField(VALUE, left.type_of(VALUE)),
            StructField(RIGHT, right.type_of(VALUE)),
            StructField(TIMESTAMP, TimestampType()),
            StructField("deleted", BooleanType()),
        ]
    )
    rows = rows.filter(sql.col(ON).isNotNull())
    joined = rows.groupBy(ON).transformWithState(operator, output, "Append", "None")
    value = sql.when(~sql.col("deleted"), _joined_value(node)).alias(VALUE)
    return StepFrame(joined.select(sql.col(KEY), value, sql.col(TIMESTAMP)))


def _side(
    df: DataFrame,
    side: int,
    order: Column,
    key: DataType,
    left: DataType | None,
    right: DataType | None,
    keep_time: bool = False,
) -> DataFrame:
    """Return one input of a keyed operator; None stands for the value of this side."""
    is_left = side == LEFT_SIDE
    # Changes of a table may be old, and must neither be late nor hold the watermark back.
    time = sql.col(TIMESTAMP) if is_left or keep_time else sql.lit(None).cast("timestamp")
    return df.select(
        sql.col(ON),
        sql.lit(side).alias("_side"),
        order.alias("_order"),
        sql.col(KEY).cast(key).alias(KEY) if is_left else sql.lit(None).cast(key).alias(KEY),
        (sql.col(VALUE) if left is None else sql.lit(None).cast(left)).alias(VALUE),
        (sql.col(VALUE) if right is None else sql.lit(None).cast(right)).alias(RIGHT),
        time.alias(TIMESTAMP),
    )


def _comparable(
    left: DataFrame, left_on: str, right: DataFrame, right_on: str, node: Joined
) -> tuple[DataFrame, DataFrame]:
    """Compare whole numbers with text keys as text; other types must be equal."""
    one, two = left.schema[left_on].dataType, right.schema[right_on].dataType
    if one == two:
        return left, right
    match one, two:
        case IntegralType(), IntegralType():
            return (
                left.withColumn(left_on, sql.col(left_on).cast("bigint")),
                right.withColumn(right_on, sql.col(right_on).cast("bigint")),
            )
        case IntegralType(), StringType():
            return left.withColumn(left_on, sql.col(left_on).cast("string")), right
        case StringType(), IntegralType():
            return left, right.withColumn(right_on, sql.col(right_on).cast("string"))
    raise TopologyError(
        f"{node.text()}: {one.simpleString()} is never equal to {two.simpleString()}; "
        "say key=... where the table or stream is read, or cast one side with select_key"
    )


def _joined_value(node: Joined) -> Column:
    return column_of(node.value, {VALUE: sql.col(VALUE), RIGHT: sql.col(RIGHT), KEY: sql.col(KEY)})


def _value(node: Joined) -> Column:
    return _joined_value(node).alias(VALUE)
