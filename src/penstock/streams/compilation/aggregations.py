"""Steps with state: aggregations and windows in the JVM, reduce and process in Python."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructField, StructType, TimestampType

from penstock.streams.columns import column_of
from penstock.streams.compilation.frames import (
    KEY,
    TIMESTAMP,
    VALUE,
    WATERMARK,
    StepFrame,
    watermarked,
)
from penstock.streams.compilation.keyed import Reduce, UserProcessor, alone
from penstock.streams.compilation.steps import inputs_of
from penstock.streams.topology import (
    Aggregated,
    Computed,
    Deduplicated,
    Processed,
    Reduced,
    TimeMode,
)
from penstock.streams.windows import Hopping, Session, Window

START, END = "window_start", "window_end"


def _interval(length_ms: int) -> str:
    return f"{length_ms} milliseconds"


def window_column(window: Window) -> Column:
    if isinstance(window, Session):
        return sql.session_window(TIMESTAMP, _interval(window.gap_ms))
    return sql.window(TIMESTAMP, _interval(window.size_ms), _interval(window.advance_ms))


def aggregated(
    node: Aggregated, frame: StepFrame, grace_ms: int | None, keep_time: bool
) -> StepFrame:
    """Aggregate records with a key, as Kafka does. With `keep_time` a total has the time of its
    newest record, which is one more state to keep."""
    df = frame.df.filter(sql.col(KEY).isNotNull())
    inputs = inputs_of(frame)
    columns = [_computed(each, inputs) for each in node.computed]
    names = [each.name for each in node.computed]
    if node.window is None:
        if keep_time:
            columns.append(sql.max(TIMESTAMP).alias("_newest"))
        done = df.groupBy(KEY).agg(*columns)
        time = sql.col("_newest") if keep_time else sql.lit(None).cast("timestamp")
        value = sql.col(names[0]) if node.alone else sql.struct(*names)
        return StepFrame(done.select(sql.col(KEY), value.alias(VALUE), time.alias(TIMESTAMP)))
    assert grace_ms is not None, "a query with windows has a watermark"
    df = watermarked(df, grace_ms)
    done = df.groupBy(KEY, window_column(node.window).alias("_window")).agg(*columns)
    value = sql.struct(
        sql.col("_window.start").alias(START), sql.col("_window.end").alias(END), *names
    )
    # The time of a result is the last moment of its window, and keeps the watermark.
    when = (
        sql.window_time("_window") if isinstance(node.window, Hopping) else sql.col("_window.end")
    )
    return StepFrame(done.select(sql.col(KEY), value.alias(VALUE), when.alias(TIMESTAMP)))


def _computed(each: Computed, inputs: dict[str, Column]) -> Column:
    of = sql.lit(1) if each.of is None else column_of(each.of, inputs)
    result = getattr(sql, each.function)(of)
    assert isinstance(result, Column), "an aggregate function gives a column"
    return result.alias(each.name)


def deduplicated(node: Deduplicated, frame: StepFrame, grace_ms: int | None) -> StepFrame:
    """Keep one record of each key and window; within a batch, any of them may be the first."""
    assert grace_ms is not None, "a query with windows has a watermark"
    df = watermarked(frame.df, grace_ms)
    marked = df.withColumn("_on", column_of(node.on, inputs_of(frame))).withColumn(
        "_window", window_column(node.window).getField("end")
    )
    kept = marked.dropDuplicates(["_on", "_window"])
    return StepFrame(kept.drop("_on", "_window"))


def reduced(node: Reduced, frame: StepFrame, grace_ms: int | None) -> StepFrame:
    df = frame.df.filter(sql.col(KEY).isNotNull())
    value_type = frame.type_of(VALUE)
    output = StructType(
        [
            StructField(KEY, frame.type_of(KEY)),
            StructField(VALUE, value_type),
            StructField(START, TimestampType()),
            StructField(END, TimestampType()),
            StructField(TIMESTAMP, TimestampType()),
        ]
    )
    order = sql.unix_micros(TIMESTAMP).alias("_order")
    windowed = node.window is not None
    make = node.parents[0].shape.make_value
    final = windowed and not node.updates
    operator = Reduce(alone(value_type), node.function, make, final, windowed)
    if node.window is None:
        rows = df.select(KEY, VALUE, TIMESTAMP, order)
        done = rows.groupBy(KEY).transformWithState(operator, output, "Update", "None")
        return StepFrame(done.select(KEY, VALUE, TIMESTAMP))
    assert grace_ms is not None, "a query with windows has a watermark"
    spread = watermarked(df, grace_ms).withColumn("_window", window_column(node.window))
    # A record is late if its window is over, so the window's end is the event time.
    rows = spread.select(
        sql.col(KEY),
        sql.col(VALUE),
        sql.window_time("_window").alias(TIMESTAMP),
        sql.col("_window.start").cast("timestamp").alias(START),
        sql.col("_window.end").cast("timestamp").alias(END),
        order,
    )
    rows = _unmarked(rows, START, END)
    mode = "Update" if node.updates else "Append"
    done = rows.groupBy(KEY, START, END).transformWithState(
        operator, output, mode, "EventTime", eventTimeColumnName="" if node.updates else TIMESTAMP
    )
    value = sql.struct(START, END, sql.col(VALUE))
    return StepFrame(done.select(sql.col(KEY), value.alias(VALUE), sql.col(TIMESTAMP)))


def _unmarked(df: DataFrame, *names: str) -> DataFrame:
    """Remove Spark's mark of event time: a frame has one, and these columns derive from it."""
    for name in names:
        if WATERMARK in df.schema[name].metadata:
            df = df.withColumn(name, sql.timestamp_micros(sql.unix_micros(name)))
    return df


def processed(node: Processed, frame: StepFrame, grace_ms: int | None) -> StepFrame:
    df = frame.df.filter(sql.col(KEY).isNotNull())
    mode, event_time = node.time_mode, ""
    if mode is not TimeMode.WALL and grace_ms is not None:
        # A later step needs the watermark, which Spark passes on in this mode only.
        mode, event_time, df = TimeMode.EVENT, TIMESTAMP, watermarked(df, grace_ms)
    output = StructType(
        [
            StructField(KEY, node.key_type or frame.type_of(KEY)),
            StructField(VALUE, node.value_type),
            StructField(TIMESTAMP, TimestampType()),
        ]
    )
    rows = df.select(KEY, VALUE, TIMESTAMP, sql.unix_micros(TIMESTAMP).alias("_order"))
    done = rows.groupBy(KEY).transformWithState(
        UserProcessor(node.processor, node.parents[0].shape, frame.type_of(VALUE), node.value_type),
        output,
        "Append",
        mode.value,
        eventTimeColumnName=event_time,
    )
    return StepFrame(done)
