"""Stream: every record counts for itself.

Methods with a lambda record it once. Python runs per record only in map, flat_map, flat_map_values,
peek, process and reduce.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from penstock.streams.builder import (
    BuiltNode,
    On,
    expression_of,
    joined_value,
    key_expression,
    shape_after,
)
from penstock.streams.durations import duration_ms
from penstock.streams.errors import NotOffered, TopologyError
from penstock.streams.expressions import f, lit, trace, trace_condition
from penstock.streams.grouped import GroupedStream
from penstock.streams.processors import Processor
from penstock.streams.rows import maker_of
from penstock.streams.schemas import field_names, spark_type
from penstock.streams.topology import (
    Deduplicated,
    Filter,
    Joined,
    JoinKind,
    MapValues,
    Merge,
    Partners,
    Processed,
    PythonMap,
    RecordShape,
    Repartition,
    SelectKey,
    SinkNode,
    TimeMode,
    TopologyNode,
    Transformed,
    emits_updates,
)
from penstock.streams.windows import Hopping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.streams.column_serde import ColumnSerde
    from penstock.streams.tables import GlobalTable, Table

KEPT: Any = None  # an unchanged type
TIMERS = {None: TimeMode.NONE, "event": TimeMode.EVENT, "wall": TimeMode.WALL}


class JoinOptions(TypedDict, total=False):
    """The options of a join.

    `on` is a field of this stream (and of the other stream); without it the keys are compared.
    `within` is the largest distance of two records; `before` and `after` set it per direction.
    """

    on: On | None
    within: str | int | None
    before: str | int | None
    after: str | int | None
    grace: str | int
    joiner: Callable[[Any, Any], Any] | None


class Stream(BuiltNode):
    """Records of a topic, or of a step."""

    def _next(self, node: TopologyNode) -> "Stream":
        return Stream(self._builder, node)

    def _name(self, kind: str) -> str:
        return self._builder.name(kind)

    # -- by expressions, in the JVM

    def filter(self, condition: Callable[..., Any]) -> "Stream":
        """Keep records that pass: filter(lambda o: o.amount > 0)."""
        shape = self._node.shape
        traced = trace_condition(condition, shape.key, shape.value)
        return self._next(Filter(self._name("filter"), (self._node,), shape, traced, False))

    def filter_not(self, condition: Callable[..., Any]) -> "Stream":
        """Drop records that pass; those with a null condition stay."""
        shape = self._node.shape
        traced = ~_coalesced(trace_condition(condition, shape.key, shape.value))
        return self._next(Filter(self._name("filter"), (self._node,), shape, traced, False))

    def map_values(self, function: Callable[..., Any]) -> "Stream":
        """Compute a new value of expressions: a dict of fields, or one expression.

        A record without a value is a deletion and stays one: a dict gives no fields to it.
        """
        shape = self._node.shape
        traced = trace(function, shape.key, shape.value)
        after = RecordShape(shape.key, shape_after(traced, shape), shape.make_key)
        return self._next(MapValues(self._name("map-values"), (self._node,), after, traced, False))

    def select_key(self, on: On) -> "Stream":
        """Set a new key: a field of the value by its name, or a lambda."""
        shape = self._node.shape
        traced = expression_of(on, shape, "select_key")
        after = RecordShape(shape_after(traced, shape), shape.value, None, shape.make_value)
        return self._next(SelectKey(self._name("select-key"), (self._node,), after, traced))

    def branch(self, *conditions: Callable[..., Any]) -> list["Stream"]:
        """Return a stream per condition, and one for the rest; a record takes the first that it
        meets."""
        if not conditions:
            raise TopologyError("branch takes at least one condition")
        shape = self._node.shape
        streams: list[Stream] = []
        rest = None
        for each in conditions:
            # A null condition is not met; such records belong to the rest.
            met = _coalesced(trace_condition(each, shape.key, shape.value))
            mine = met if rest is None else rest & met
            rest = ~met if rest is None else rest & ~met
            node = Filter(self._name("branch"), (self._node,), shape, mine, False)
            streams.append(self._next(node))
        assert rest is not None, "there is a condition"
        streams.append(self._next(Filter(self._name("branch"), (self._node,), shape, rest, False)))
        return streams

    def merge(self, *others: "Stream") -> "Stream":
        """Return all records of both; their types must be equal."""
        for other in others:
            self._builder.require_same(other.builder)
        nodes = (self._node, *(each.node for each in others))
        if any(emits_updates(node) for node in nodes):
            raise NotOffered(
                "updates cannot be merged: write them to a topic with to(...) and read that"
            )
        shape = self._node.shape
        if any(each.shape.make_value is not shape.make_value for each in nodes):
            shape = shape._replace(make_value=None)
        if any(each.shape.make_key is not shape.make_key for each in nodes):
            shape = shape._replace(make_key=None)
        for each in nodes:
            if None not in (shape.value, each.shape.value) and shape.value != each.shape.value:
                raise TopologyError(
                    f"merge needs equal values: {', '.join(shape.value or ())} here and "
                    f"{', '.join(each.shape.value or ())} there"
                )
        return self._next(Merge(self._name("merge"), nodes, shape))

    def repartition(self, partitions: int) -> "Stream":
        """Shuffle the records by key into this many partitions of Spark. No topic is written,
        unlike in Kafka Streams."""
        if partitions < 1:
            raise TopologyError("a stream has at least one partition")
        shape = self._node.shape
        node = Repartition(self._name("repartition"), (self._node,), shape, partitions)
        return self._next(node)

    # -- Python per record

    def map(
        self, function: Callable[[Any, Any], Any], *, key: Any = KEPT, value: Any = KEPT
    ) -> "Stream":
        """Call function(key, value) -> (key, value) in Python; `key` and `value` are the new
        types."""
        return self._python("map", function, key, value)

    def flat_map(
        self, function: Callable[[Any, Any], Iterable[Any]], *, key: Any = KEPT, value: Any = KEPT
    ) -> "Stream":
        """Call function(key, value) -> pairs of key and value, none or many."""
        return self._python("flat_map", function, key, value)

    def flat_map_values(
        self, function: Callable[[Any], Iterable[Any]], *, value: Any = KEPT
    ) -> "Stream":
        """Call function(value) -> values; the key stays."""
        return self._python("flat_map_values", function, KEPT, value)

    def peek(self, function: Callable[[Any, Any], Any]) -> "Stream":
        """Call function(key, value) on the workers; the record stays unchanged."""
        return self._python("peek", function, KEPT, KEPT)

    def _python(self, verb: str, function: Callable[..., Any], key: Any, value: Any) -> "Stream":
        if emits_updates(self._node):
            raise NotOffered(f"{verb} of updates is not offered: do it before the aggregation")
        shape = self._node.shape
        key_type = None if key is None else spark_type(key)
        value_type = None if value is None else spark_type(value)
        after = RecordShape(
            shape.key if key_type is None else field_names(key_type),
            shape.value if value_type is None else field_names(value_type),
            shape.make_key if key is None else maker_of(key),
            shape.make_value if value is None else maker_of(value),
        )
        name = self._name(verb.replace("_", "-"))
        parents = (self._node,)
        return self._next(PythonMap(name, parents, after, verb, function, key_type, value_type))

    def process(
        self,
        processor: Processor[Any, Any, Any],
        *,
        value: Any,
        timers: str | None = None,
        store: str | None = None,
    ) -> "Stream":
        """Run a processor with state and timers in Python; `value` is the type of its results.

        `timers` is "event" for event time, "wall" for the wall clock; a time to live follows the
        wall clock.
        """
        if timers not in TIMERS:
            raise TopologyError(f'timers is {timers!r}; it takes "event" or "wall"')
        self._refuse_updates("process")
        expires = any(slot.ttl_ms is not None for slot in processor.slots())
        if expires and timers == "event":
            raise NotOffered(
                "Spark counts a time to live by the clock on the wall, and a processor has one "
                'clock: take timers="wall", or drop ttl= and clear the state in on_timer'
            )
        time_mode = TimeMode.WALL if expires else TIMERS[timers]
        value_type = spark_type(value)
        node = Processed(
            self._name("process"),
            (self._builder.before_state(self._node),),
            RecordShape(
                self._node.shape.key,
                field_names(value_type),
                self._node.shape.make_key,
                maker_of(value),
            ),
            processor,
            None,
            value_type,
            time_mode,
            store,
        )
        self._builder.keep_store(node)
        return self._next(node)

    # -- joins

    def join(
        self, other: "Stream | Table | GlobalTable", **options: Unpack[JoinOptions]
    ) -> "Stream":
        """Join with a table by its key, or with a stream by key or `on`, within a time."""
        return self._join(JoinKind.INNER, other, **options)

    def left_join(
        self, other: "Stream | Table | GlobalTable", **options: Unpack[JoinOptions]
    ) -> "Stream":
        """Join as `join` does, and keep every record of this stream. Without a partner, the fields
        of the other side are null."""
        return self._join(JoinKind.LEFT, other, **options)

    def outer_join(
        self, other: "Stream | Table | GlobalTable", **options: Unpack[JoinOptions]
    ) -> "Stream":
        """Join as `join` does, and keep every record of both streams. Without a partner, the fields
        of the other side are null."""
        return self._join(JoinKind.OUTER, other, **options)

    def _join(
        self,
        kind: JoinKind,
        other: "Stream | Table | GlobalTable",
        *,
        on: On | None = None,
        within: str | int | None = None,
        before: str | int | None = None,
        after: str | int | None = None,
        grace: str | int = 0,
        joiner: Callable[[Any, Any], Any] | None = None,
    ) -> "Stream":
        self._refuse_updates("a join")
        self._builder.require_same(other.builder)
        timed = any(each is not None for each in (within, before, after))
        if isinstance(other, Stream):
            if not timed:
                raise TopologyError(
                    'two streams are joined within a time: say within="5 minutes". What has no end '
                    "is a table: app.table(...)"
                )
            other._refuse_updates("a join")
            partners, right = Partners.STREAMS, other.node
        else:
            if timed:
                raise TopologyError("a table has no time: within, before and after are for streams")
            if kind is JoinKind.OUTER:
                raise NotOffered("a stream and a table have no outer join: a table row is no event")
            partners, right = other.join_side()
        shape = self._node.shape
        left_on = key_expression(shape) if on is None else expression_of(on, shape, "on")
        right_on = key_expression(right.shape)
        if on is not None and partners is Partners.STREAMS:
            right_on = expression_of(on, right.shape, "on")
        name = on if isinstance(on, str) else None
        is_outer = kind is JoinKind.OUTER
        value = joined_value(shape.value, right.shape.value, name, joiner, is_outer)
        node = Joined(
            self._name("join"),
            (
                self._node
                if partners is Partners.STREAM_GLOBAL
                else self._builder.before_state(self._node),
                right,
            ),
            RecordShape(shape.key, shape_after(value, shape), shape.make_key),
            partners,
            kind,
            left_on,
            right_on,
            value,
            *_window_ms(within, before, after),
            duration_ms(grace, "grace", 0) if partners is Partners.STREAMS else None,
        )
        return self._next(node)

    # -- state

    def group_by(self, *on: On) -> GroupedStream:
        """Group by fields of the value, or lambdas; they become the key of the result."""
        self._refuse_updates("a second aggregation")
        if not on:
            raise TopologyError("group_by takes a field or a lambda; group_by_key takes the key")
        if len(on) == 1:
            return GroupedStream(self._builder, self.select_key(on[0]).node)
        shape = self._node.shape
        parts = {
            each if isinstance(each, str) else f"key_{at + 1}": expression_of(
                each, shape, "group_by"
            )
            for at, each in enumerate(on)
        }
        return GroupedStream(self._builder, self.select_key(lambda _: parts).node)

    def group_by_key(self) -> GroupedStream:
        self._refuse_updates("a second aggregation")
        return GroupedStream(self._builder, self._node)

    def deduplicate(self, on: On | None = None, *, window: Hopping) -> "Stream":
        """Keep one record per key, or per `on`, and tumbling window: the first that comes."""
        self._refuse_updates("deduplication")
        if not isinstance(window, Hopping) or window.size_ms != window.advance_ms:
            raise NotOffered('deduplication is per tumbling window: window=tumbling("1 hour")')
        shape = self._node.shape
        chosen = key_expression(shape) if on is None else expression_of(on, shape, "deduplicate")
        node = Deduplicated(
            self._name("deduplicate"),
            (self._builder.before_state(self._node),),
            shape,
            chosen,
            window,
        )
        return self._next(node)

    # -- out

    def to(
        self, topic: str, *, key: "ColumnSerde | None" = None, value: "ColumnSerde | None" = None
    ) -> None:
        """Write to a topic: bytes and text unchanged, other values as JSON, or by the given
        serdes."""
        if not topic:
            raise TopologyError("a topic has a name")
        from penstock.streams.serdes import checked

        key, value = checked("key", key), checked("value", value)
        sink = SinkNode(self._name("to"), (self._node,), self._node.shape, topic, key, value)
        self._builder.sinks.append(sink)

    def transform(self, function: Callable[["DataFrame"], "DataFrame"]) -> "Stream":
        """Apply any step of Spark: a DataFrame with key, value and timestamp in, and one out."""
        shape = RecordShape(None, None)
        return self._next(Transformed(self._name("transform"), (self._node,), shape, function))

    def dataframe(self, spark: "SparkSession | None" = None) -> "DataFrame":
        """Return the stream as a streaming DataFrame: key, value and timestamp, without bad
        records."""
        return self._builder.dataframe(self._node, spark)

    # -- inside

    def _refuse_updates(self, what: str) -> None:
        if emits_updates(self._node):
            raise NotOffered(
                f"{what} of updates is not offered: Spark would need to take back what a result "
                "has already counted. Take final results (the default of windows), or write the "
                "updates to a topic and read that as a table"
            )


def _coalesced(condition: Any) -> Any:
    return f.coalesce(condition, lit(False))


def _window_ms(
    within: str | int | None, before: str | int | None, after: str | int | None
) -> tuple[int, int]:
    both = 0 if within is None else duration_ms(within, "within", 0)
    return (
        both if before is None else duration_ms(before, "before", 0),
        both if after is None else duration_ms(after, "after", 0),
    )
