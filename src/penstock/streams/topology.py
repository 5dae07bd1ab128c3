"""A topology is a plain description: frozen nodes that name the nodes they stand on.

Nothing here knows Spark's frames: `compiling/` turns nodes into them. Two nodes are never equal.
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

    from penstock.streams.processing import Processor
    from penstock.streams.serde import Serde


Make = Callable[[Any], Any]


class Shape(NamedTuple):
    """The fields that lambdas may name; None where there are none, or none are known yet.

    The makers give Python's functions what was declared: objects of a dataclass for its rows.
    Without one they get named tuples.
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
    """What a join joins."""

    STREAMS = "stream-stream"
    STREAM_TABLE = "stream-table"
    STREAM_GLOBAL = "stream-global table"
    TABLES = "table-table"


class TimeMode(StrEnum):
    """Whose clock the timers of a processor follow; the words are Spark's."""

    NONE = "None"
    EVENT = "EventTime"
    WALL = "ProcessingTime"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One step; `name` is unique in its application."""

    name: str
    parents: tuple["Node", ...]
    shape: Shape

    def text(self) -> str:
        """What it does, in a few words."""
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class Source(Node):
    """A topic that is read."""

    topic: str
    role: Role
    key: "Serde"
    value: "Serde"
    timestamp: str | None  # the field of the value that has the event time
    headers: bool
    start: str  # earliest or latest, where there is no checkpoint yet

    def text(self) -> str:
        return f"{self.role} {self.topic}  (key {self.key}, value {self.value})"


@dataclass(frozen=True, slots=True, eq=False)
class Given(Node):
    """A DataFrame that came from outside, with columns key, value and timestamp."""

    frame: "DataFrame"

    def text(self) -> str:
        return "DataFrame"


@dataclass(frozen=True, slots=True, eq=False)
class Internal(Node):
    """A topic between two queries of the application: the first writes it, the second reads it."""

    topic: str
    role: Role

    def text(self) -> str:
        return f"through {self.topic}"


@dataclass(frozen=True, slots=True, eq=False)
class MapValues(Node):
    expression: Expression
    is_table: bool  # then a deleted key stays deleted, whatever the expression says

    def text(self) -> str:
        return f"map_values {text_of(self.expression)}"


@dataclass(frozen=True, slots=True, eq=False)
class SelectKey(Node):
    expression: Expression

    def text(self) -> str:
        return f"select_key {text_of(self.expression)}"


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Node):
    condition: Expression
    is_table: bool  # then what does not pass is deleted

    def text(self) -> str:
        return f"filter {text_of(self.condition)}"


@dataclass(frozen=True, slots=True, eq=False)
class PythonMap(Node):
    """Python for every record: map, flat_map, peek. None leaves a type as it was."""

    verb: str
    function: Callable[..., Any]
    key_type: "DataType | None"
    value_type: "DataType | None"

    def text(self) -> str:
        return f"{self.verb} {getattr(self.function, '__name__', 'function')}  (Python per record)"


@dataclass(frozen=True, slots=True, eq=False)
class Transformed(Node):
    """A function from DataFrame to DataFrame: columns key, value and timestamp in and out."""

    function: Callable[["DataFrame"], "DataFrame"]

    def text(self) -> str:
        return f"transform {getattr(self.function, '__name__', 'function')}"


@dataclass(frozen=True, slots=True, eq=False)
class Merge(Node):
    def text(self) -> str:
        return "merge"


@dataclass(frozen=True, slots=True, eq=False)
class Repartition(Node):
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
class Aggregated(Node):
    """Per key, and per window if there is one."""

    window: Window | None
    computed: tuple[Computed, ...]
    alone: bool  # the value is the one column itself
    updates: bool  # every change comes out, not only the end of a window
    store: str | None

    def text(self) -> str:
        window = "" if self.window is None else f" per {self.window}"
        how = "every change" if self.updates else "final results"
        inside = ", ".join(str(each) for each in self.computed)
        return f"aggregate {inside}{window}  ({how}{_store_text(self.store)})"


@dataclass(frozen=True, slots=True, eq=False)
class Reduced(Node):
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
class Joined(Node):
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
class Deduplicated(Node):
    on: Expression
    window: Hopping

    def text(self) -> str:
        return f"deduplicate by {text_of(self.on)} per {self.window}"


@dataclass(frozen=True, slots=True, eq=False)
class Processed(Node):
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
class Sink(Node):
    """A topic that is written; None leaves the serde to the type."""

    topic: str
    key: "Serde | None"
    value: "Serde | None"

    def text(self) -> str:
        return f"to {self.topic}"


STATEFUL = (Aggregated, Reduced, Deduplicated, Processed)
# What a row becomes by expressions alone, so that branches need no second read.
BY_EXPRESSION = (MapValues, SelectKey, Filter)


def _store_text(store: str | None) -> str:
    return "" if store is None else f", store {store}"


def is_stateful(node: Node) -> bool:
    if isinstance(node, Joined):
        return node.partners is not Partners.STREAM_GLOBAL
    return isinstance(node, STATEFUL)


def upstream(node: Node) -> Iterator[Node]:
    """A node and all that it stands on within one query, parents first, each once."""
    seen: dict[int, Node] = {}

    def visit(each: Node) -> None:
        if id(each) in seen:
            return
        if not isinstance(each, Internal):  # behind it another query begins
            for parent in each.parents:
                visit(parent)
        seen[id(each)] = each

    visit(node)
    return iter(seen.values())


def emits_updates(node: Node) -> bool:
    """Whether the query that ends here runs in update mode."""
    return any(isinstance(each, Aggregated | Reduced) and each.updates for each in upstream(node))


def has_state(node: Node) -> bool:
    return any(is_stateful(each) for each in upstream(node))


def grace_of(node: Node) -> int | None:
    """How late records may come to this one; None where event time does not matter."""
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
