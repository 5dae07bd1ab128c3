"""A topology as a plain description: frozen nodes that name their parents.

This module knows nothing of Spark's frames: `compilation/` turns nodes into them. Two nodes are
never equal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.streams.expressions import Expression, Fields, text_of
from penstock.streams.windows import Hopping, Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from penstock.streams.column_serde import ColumnSerde
    from penstock.streams.processors import Processor


Make = Callable[[Any], Any]


class RecordShape(NamedTuple):
    """The fields that lambdas may name; None if there are none, or none are known yet.

    The makers give Python's functions objects of the declared dataclass. Without one they get named
    tuples.
    """

    key: Fields
    value: Fields
    make_key: Make | None = None
    make_value: Make | None = None


class Role(StrEnum):
    STREAM = "stream"
    TABLE = "table"
    GLOBAL_TABLE = "global table"


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"


class Partners(StrEnum):
    """The two sides of a join."""

    STREAMS = "stream-stream"
    STREAM_TABLE = "stream-table"
    STREAM_GLOBAL = "stream-global table"
    TABLES = "table-table"


class TimeMode(StrEnum):
    """The clock of a processor's timers; the words are Spark's."""

    NONE = "None"
    EVENT = "EventTime"
    WALL = "ProcessingTime"


@dataclass(frozen=True, slots=True, eq=False)
class TopologyNode:
    """One step; `name` is unique in its application."""

    name: str
    parents: tuple["TopologyNode", ...]
    shape: RecordShape

    def text(self) -> str:
        """Return the step in a few words."""
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class SourceNode(TopologyNode):
    """A topic that is read."""

    topic: str
    role: Role
    key: "ColumnSerde"
    value: "ColumnSerde"
    timestamp: str | None  # the field of the value that has the event time
    headers: bool
    start: str  # earliest or latest, where there is no checkpoint yet

    def text(self) -> str:
        return f"{self.role} {self.topic}  (key {self.key}, value {self.value})"


@dataclass(frozen=True, slots=True, eq=False)
class DataFrameNode(TopologyNode):
    """A given DataFrame, with columns key, value and timestamp."""

    frame: "DataFrame"

    def text(self) -> str:
        return "DataFrame"


@dataclass(frozen=True, slots=True, eq=False)
class Internal(TopologyNode):
    """A topic between two queries of the application: the first writes it, the second reads it."""

    topic: str
    role: Role

    def text(self) -> str:
        return f"through {self.topic}"


@dataclass(frozen=True, slots=True, eq=False)
class MapValues(TopologyNode):
    expression: Expression
    is_table: bool  # then a deleted key stays deleted, for any expression

    def text(self) -> str:
        return f"map_values {text_of(self.expression)}"


@dataclass(frozen=True, slots=True, eq=False)
class SelectKey(TopologyNode):
    expression: Expression

    def text(self) -> str:
        return f"select_key {text_of(self.expression)}"


@dataclass(frozen=True, slots=True, eq=False)
class Filter(TopologyNode):
    condition: Expression
    is_table: bool  # then a value that does not pass is deleted

    def text(self) -> str:
        return f"filter {text_of(self.condition)}"


@dataclass(frozen=True, slots=True, eq=False)
class PythonMap(TopologyNode):
    """Python for every record: map, flat_map, peek. None keeps a type."""

    verb: str
    function: Callable[..., Any]
    key_type: "DataType | None"
    value_type: "DataType | None"

    def text(self) -> str:
        return f"{self.verb} {getattr(self.function, '__name__', 'function')}  (Python per record)"


@dataclass(frozen=True, slots=True, eq=False)
class Transformed(TopologyNode):
    """A function from DataFrame to DataFrame: columns key, value and timestamp in and out."""

    function: Callable[["DataFrame"], "DataFrame"]

    def text(self) -> str:
        return f"transform {getattr(self.function, '__name__', 'function')}"


@dataclass(frozen=True, slots=True, eq=False)
class Merge(TopologyNode):
    def text(self) -> str:
        return "merge"


@dataclass(frozen=True, slots=True, eq=False)
class Repartition(TopologyNode):
    partitions: int

    def text(self) -> str:
        return f"repartition by key into {self.partitions}"


class Computed(NamedTuple):
    """One column of an aggregation."""

    name: str
    function: str
    of: Expression | None

    def __str__(self) -> str:
        of = "" if self.of is None else text_of(self.of)
        return f"{self.name} = {self.function}({of})"


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated(TopologyNode):
    """An aggregation per key, and per window if there is one."""

    window: Window | None
    computed: tuple[Computed, ...]
    alone: bool  # the value is the one column itself
    updates: bool  # every change is emitted, not only the end of a window
    store: str | None

    def text(self) -> str:
        window = "" if self.window is None else f" per {self.window}"
        how = "every change" if self.updates else "final results"
        inside = ", ".join(str(each) for each in self.computed)
        return f"aggregate {inside}{window}  ({how}{_store_text(self.store)})"


@dataclass(frozen=True, slots=True, eq=False)
class Reduced(TopologyNode):
    """The values of a key (and window) folded into one by a Python function."""

    window: Hopping | None
    function: Callable[[Any, Any], Any]
    updates: bool
    store: str | None

    def text(self) -> str:
        window = "" if self.window is None else f" per {self.window}"
        how = "every change" if self.updates else "final results"
        return f"reduce{window}  (Python per record, {how}{_store_text(self.store)})"


@dataclass(frozen=True, slots=True, eq=False)
class Joined(TopologyNode):
    """`left_on` and `right_on` are over each side's own key and value."""

    partners: Partners
    kind: JoinKind
    left_on: Expression
    right_on: Expression
    value: Expression  # over `value` (the left one) and `right`
    before_ms: int
    after_ms: int
    grace_ms: int | None

    def text(self) -> str:
        on = f"{text_of(self.left_on)} = {text_of(self.right_on)}"
        return f"{self.kind} join {self.partners} on {on}"


@dataclass(frozen=True, slots=True, eq=False)
class Deduplicated(TopologyNode):
    on: Expression
    window: Hopping

    def text(self) -> str:
        return f"deduplicate by {text_of(self.on)} per {self.window}"


@dataclass(frozen=True, slots=True, eq=False)
class Processed(TopologyNode):
    processor: "Processor[Any, Any, Any]"
    key_type: "DataType | None"
    value_type: "DataType"
    time_mode: TimeMode
    store: str | None

    def text(self) -> str:
        return (
            f"process {type(self.processor).__name__}  (Python per record{_store_text(self.store)})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SinkNode(TopologyNode):
    """A topic that is written; None leaves the serde to the type."""

    topic: str
    key: "ColumnSerde | None"
    value: "ColumnSerde | None"

    def text(self) -> str:
        return f"to {self.topic}"


STATEFUL = (Aggregated, Reduced, Deduplicated, Processed)
# A row after expressions alone, so that branches need no second read.
BY_EXPRESSION = (MapValues, SelectKey, Filter)


def _store_text(store: str | None) -> str:
    return "" if store is None else f", store {store}"


def is_stateful(node: TopologyNode) -> bool:
    if isinstance(node, Joined):
        return node.partners is not Partners.STREAM_GLOBAL
    return isinstance(node, STATEFUL)


def upstream(node: TopologyNode) -> Iterator[TopologyNode]:
    """Return a node and its ancestors within one query, parents first, each once."""
    seen: dict[int, TopologyNode] = {}

    def visit(each: TopologyNode) -> None:
        if id(each) in seen:
            return
        if not isinstance(each, Internal):  # another query begins behind it
            for parent in each.parents:
                visit(parent)
        seen[id(each)] = each

    visit(node)
    return iter(seen.values())


def emits_updates(node: TopologyNode) -> bool:
    """Return whether the query that ends here runs in update mode."""
    return any(isinstance(each, Aggregated | Reduced) and each.updates for each in upstream(node))


def has_state(node: TopologyNode) -> bool:
    return any(is_stateful(each) for each in upstream(node))


def grace_of(node: TopologyNode) -> int | None:
    """Return how late records may come; None if event time does not matter."""
    match node:
        case Aggregated() | Reduced() if node.window is not None:
            return node.window.grace_ms
        case Deduplicated():
            return node.window.grace_ms
        case Joined():
            return node.grace_ms
        case Processed() if node.time_mode is TimeMode.EVENT:
            return 0
        case _:
            return None
