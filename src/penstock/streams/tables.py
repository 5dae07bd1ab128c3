"""Table: the last value of each key, with deletes. GlobalTable: the same, whole in every task."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.streams.builder import BuiltNode, joined_value, key_expression, shape_after
from penstock.streams.errors import NotOffered
from penstock.streams.expressions import trace, trace_condition
from penstock.streams.topology import (
    Filter,
    Joined,
    JoinKind,
    MapValues,
    Partners,
    RecordShape,
    Role,
    TopologyNode,
    emits_updates,
    has_state,
)

if TYPE_CHECKING:
    from penstock.streams.column_serde import ColumnSerde
    from penstock.streams.stream import Stream

FOREIGN_KEY = (
    "foreign-key joins of tables are not offered: a table is joined by its key. Join the stream "
    'behind it instead (app.stream(...).join(table, on="field")), or give the other topic that key'
)


class Table(BuiltNode):
    """A changelog: a record replaces the previous one of its key, and null deletes it."""

    def filter(self, condition: Callable[..., Any]) -> "Table":
        """Keep keys whose value passes; the others are deleted from the result."""
        shape = self._node.shape
        traced = trace_condition(condition, shape.key, shape.value)
        name = self._builder.name("filter")
        return Table(self._builder, Filter(name, (self._node,), shape, traced, True))

    def map_values(self, function: Callable[..., Any]) -> "Table":
        shape = self._node.shape
        traced = trace(function, shape.key, shape.value)
        after = RecordShape(shape.key, shape_after(traced, shape), shape.make_key)
        name = self._builder.name("map-values")
        return Table(self._builder, MapValues(name, (self._node,), after, traced, True))

    def join(
        self, other: "Table", *, joiner: Callable[[Any, Any], Any] | None = None, on: Any = None
    ) -> "Table":
        """Join keys that both tables have."""
        return self._join(JoinKind.INNER, other, joiner, on)

    def left_join(
        self, other: "Table", *, joiner: Callable[[Any, Any], Any] | None = None, on: Any = None
    ) -> "Table":
        """Join all keys of this table; nulls without a partner."""
        return self._join(JoinKind.LEFT, other, joiner, on)

    def outer_join(
        self, other: "Table", *, joiner: Callable[[Any, Any], Any] | None = None, on: Any = None
    ) -> "Table":
        """Join keys that either table has."""
        return self._join(JoinKind.OUTER, other, joiner, on)

    def _join(
        self, kind: JoinKind, other: "Table", joiner: Callable[[Any, Any], Any] | None, on: Any
    ) -> "Table":
        if on is not None:
            raise NotOffered(FOREIGN_KEY)
        if not isinstance(other, Table):
            raise NotOffered(
                "a table is joined with a table; a stream joins a table from its own side: "
                "stream.join(table), and a global table joins streams only"
            )
        self._builder.require_same(other.builder)
        _, left = self.join_side()
        _, right = other.join_side()
        value = joined_value(left.shape.value, right.shape.value, None, joiner)
        shape = RecordShape(left.shape.key, shape_after(value, left.shape), left.shape.make_key)
        node = Joined(
            self._builder.name("join"),
            (left, right),
            shape,
            Partners.TABLES,
            kind,
            key_expression(left.shape),
            key_expression(right.shape),
            value,
            0,
            0,
            None,
        )
        return Table(self._builder, node)

    def join_side(self) -> tuple[Partners, TopologyNode]:
        """Return this side of a join; computed values go through an internal topic: Spark joins no
        updates."""
        if has_state(self._node):
            return Partners.STREAM_TABLE, self._builder.internal(self._node, Role.TABLE)
        return Partners.STREAM_TABLE, self._node

    def group_by(self, *on: Any) -> NoReturn:  # noqa: ARG002
        raise NotOffered(
            "a table cannot be grouped anew: Spark takes nothing back from an aggregation. Group "
            "the stream of its changes (to_stream()) if every change is to count"
        )

    def to_stream(self) -> "Stream":
        """Return the changes as records; a deletion has no value."""
        from penstock.streams.stream import Stream

        return Stream(self._builder, self._node)

    def to(
        self, topic: str, *, key: "ColumnSerde | None" = None, value: "ColumnSerde | None" = None
    ) -> None:
        self.to_stream().to(topic, key=key, value=value)

    @property
    def updates(self) -> bool:
        return emits_updates(self._node)


class GlobalTable(BuiltNode):
    """All of a topic's last values, read again for every micro-batch and sent to every task."""

    def join_side(self) -> tuple[Partners, TopologyNode]:
        return Partners.STREAM_GLOBAL, self._node
