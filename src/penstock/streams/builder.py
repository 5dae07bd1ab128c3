"""The builder behind streams and tables: names of nodes, and the list of nodes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.streams.errors import TopologyError, with_place
from penstock.streams.expressions import (
    KEY,
    RIGHT,
    VALUE,
    Expression,
    ExpressionKind,
    Fields,
    as_value,
    f,
    fields_of,
    input_of,
    kind_of,
    name_of,
    trace,
)
from penstock.streams.topology import (
    Aggregated,
    Internal,
    Joined,
    JoinKind,
    Partners,
    Processed,
    RecordShape,
    Reduced,
    Role,
    SinkNode,
    TimeMode,
    TopologyNode,
    upstream,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Builder:
    """The topology of one application under construction."""

    def __init__(
        self,
        application_id: str,
        dataframe: "Callable[[TopologyNode, SparkSession | None], DataFrame]",
    ) -> None:
        self.application_id = application_id
        self.dataframe = dataframe
        self.sinks: list[SinkNode] = []
        self.stores: dict[str, TopologyNode] = {}
        self.ends: list[TopologyNode] = []  # nodes that must run although no sink follows
        self._count = 0
        self._internal: dict[int, Internal] = {}

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    def require_same(self, other: "Builder") -> None:
        if other is not self:
            raise TopologyError(
                f"{self.application_id} and {other.application_id} are two applications, each "
                "with queries of its own: read the other one's topic here with app.stream(...) "
                "or app.table(...)"
            )

    def keep_store(self, node: Aggregated | Reduced | Processed) -> None:
        if node.store is None:
            return
        if node.store in self.stores:
            raise TopologyError(f"there is a store {node.store} already")
        self.stores[node.store] = node
        self.ends.append(node)

    def before_state(self, node: TopologyNode) -> TopologyNode:
        """Return the parent of a step with state: the node, or an internal topic where a query must
        end.

        Spark does not follow the event time of rows beyond some steps.
        """
        if any(_loses_event_time(each) for each in upstream(node)):
            return self.internal(node, Role.STREAM)
        return node

    def internal(self, node: TopologyNode, role: Role) -> Internal:
        """Return the internal topic by which one query passes its rows to another."""
        if id(node) not in self._internal:
            kind = "changelog" if role is Role.TABLE else "repartition"
            topic = f"{self.application_id}-{node.name}-{kind}"
            self._internal[id(node)] = Internal(topic, (node,), node.shape, topic, role)
        return self._internal[id(node)]


class BuiltNode:
    """A node of a topology under construction, and its builder."""

    def __init__(self, builder: Builder, node: TopologyNode) -> None:
        self._builder, self._node = builder, node

    @property
    def node(self) -> TopologyNode:
        return self._node

    @property
    def builder(self) -> Builder:
        return self._builder


def _loses_event_time(node: TopologyNode) -> bool:
    match node:
        case Joined(partners=Partners.TABLES):
            return True
        case Joined(partners=Partners.STREAMS):
            return node.kind is JoinKind.OUTER
        case Processed():
            return node.time_mode is TimeMode.WALL
        case _:
            return False


On = str | Callable[..., Any]


def expression_of(on: On, shape: RecordShape, what: str) -> Expression:
    """Return the expression of a field of the value, or of a lambda."""
    if isinstance(on, str):
        return input_of(VALUE, shape.value)[on]
    if callable(on):
        return trace(on, shape.key, shape.value)
    raise TopologyError(f"{what} takes the name of a field or a lambda, not {on!r}")


def key_expression(shape: RecordShape) -> Expression:
    return input_of(KEY, shape.key)


def joined_value(
    left: Fields,
    right: Fields,
    on: str | None,
    joiner: Callable[..., Any] | None,
    is_outer: bool = False,
) -> Expression:
    """Return the joiner's result, or the fields of both sides; the field of `on` comes once."""
    mine, other = input_of(VALUE, left), input_of(RIGHT, right)
    if joiner is not None:
        return with_place(joiner, lambda: as_value(joiner(mine, other)))
    if left is None or right is None:
        raise TopologyError(
            "one of the values has no fields: say joiner=lambda left, right: {...} to name them"
        )
    fresh = [name for name in right if name != on]
    clash = [name for name in fresh if name in left]
    if clash:
        raise TopologyError(
            f"both sides have {', '.join(clash)}: say joiner=lambda left, right: {{...}}, or "
            "rename them with map_values"
        )
    fields = {**{name: mine[name] for name in left}, **{name: other[name] for name in fresh}}
    if is_outer and on is not None and on in right:
        fields[on] = f.coalesce(mine[on], other[on])  # either side may be missing
    return as_value(fields)


def shape_after(expression: Expression, before: RecordShape) -> Fields:
    """Return the fields of an expression's result, as far as they are known."""
    if kind_of(expression) is ExpressionKind.INPUT:
        return {KEY: before.key, VALUE: before.value}.get(name_of(expression))
    return fields_of(expression)
