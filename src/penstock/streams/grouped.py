"""GroupedStream and WindowedStream: computations per key, and per window."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.streams.aggregates import Aggregate, count, refuse_other
from penstock.streams.builder import Builder, BuiltNode
from penstock.streams.errors import NotOffered, TopologyError
from penstock.streams.topology import (
    Aggregated,
    Computed,
    RecordShape,
    Reduced,
    Role,
    TopologyNode,
    emits_updates,
    has_state,
)
from penstock.streams.windows import Session, Window

if TYPE_CHECKING:
    from penstock.streams.stream import Stream
    from penstock.streams.tables import Table

WINDOW_FIELDS = ("window_start", "window_end")
EMIT = ("final", "updates")


class GroupedStream(BuiltNode):
    """Records by key, over all time: results are a table that changes with every record."""

    def windowed(self, window: Window) -> "WindowedStream":
        return WindowedStream(self._builder, self._node, window)

    def count(self, *, store: str | None = None) -> "Table":
        """Count records per key; the value is the number itself."""
        return self._table(
            aggregation(self._builder, self._fresh(), None, {"count": count()}, store, True, True)
        )

    def aggregate(self, *, store: str | None = None, **computed: Aggregate) -> "Table":
        """Compute several fields: aggregate(revenue=sum_("amount"), orders=count())."""
        return self._table(
            aggregation(self._builder, self._fresh(), None, computed, store, True, False)
        )

    def reduce(self, function: Callable[[Any, Any], Any], *, store: str | None = None) -> "Table":
        """Fold values into one of the same type, in Python: function(so_far, value)."""
        node = self._fresh()
        name = self._builder.name("reduce")
        reduced = Reduced(name, (node,), node.shape, None, function, True, store)
        self._builder.keep_store(reduced)
        return self._table(reduced)

    def _fresh(self) -> TopologyNode:
        """Return the node, or an internal topic: in update mode a query has one state."""
        if has_state(self._node):
            return self._builder.internal(self._node, Role.STREAM)
        return self._node

    def _table(self, node: TopologyNode) -> "Table":
        from penstock.streams.tables import Table

        return Table(self._builder, node)


class WindowedStream:
    """Records by key and window. A result comes once, when its window closes; emit="updates" gives
    every change instead."""

    def __init__(self, builder: Builder, node: TopologyNode, window: Window) -> None:
        self._builder, self._node, self._window = builder, node, window

    def count(self, *, store: str | None = None, emit: str = "final") -> "Stream":
        """Count records: fields window_start, window_end and count."""
        return self.aggregate(store=store, emit=emit, count=count())

    def aggregate(
        self, *, store: str | None = None, emit: str = "final", **computed: Aggregate
    ) -> "Stream":
        """Compute fields window_start, window_end, and one for each aggregate."""
        updates = self._updates(emit)
        return self._stream(
            aggregation(
                self._builder, self._fresh(updates), self._window, computed, store, updates, False
            )
        )

    def reduce(
        self, function: Callable[[Any, Any], Any], *, store: str | None = None, emit: str = "final"
    ) -> "Stream":
        """Fold values into fields window_start, window_end and value, in Python per record."""
        if isinstance(self._window, Session):
            raise NotOffered(
                "reduce has no session windows, since Spark merges sessions only for its own "
                "functions: aggregate(...) has them, and process(...) with a timer can do the rest"
            )
        updates = self._updates(emit)
        node = self._fresh(updates)
        shape = RecordShape(node.shape.key, (*WINDOW_FIELDS, "value"), node.shape.make_key)
        name = self._builder.name("reduce")
        reduced = Reduced(name, (node,), shape, self._window, function, updates, store)
        self._builder.keep_store(reduced)
        return self._stream(reduced)

    def _updates(self, emit: str) -> bool:
        if emit not in EMIT:
            raise TopologyError(f'emit is {emit!r}; it takes "final" or "updates"')
        if emit == "updates" and isinstance(self._window, Session):
            raise NotOffered(
                "session windows have final results only: Spark cannot take back a session that "
                "another one has swallowed"
            )
        return emit == "updates"

    def _fresh(self, updates: bool) -> TopologyNode:
        if updates and has_state(self._node):
            return self._builder.internal(self._node, Role.STREAM)
        return self._builder.before_state(self._node)

    def _stream(self, node: TopologyNode) -> "Stream":
        from penstock.streams.stream import Stream

        assert isinstance(node, Aggregated | Reduced), "one of the two"
        return Stream(self._builder, node)


def aggregation(
    builder: Builder,
    parent: TopologyNode,
    window: Window | None,
    computed: dict[str, Aggregate],
    store: str | None,
    updates: bool,
    alone: bool,
) -> Aggregated:
    if not computed:
        raise TopologyError(
            'aggregate computes at least one thing: aggregate(total=sum_("amount"))'
        )
    shape = parent.shape
    columns = []
    for name, given in computed.items():
        if window is not None and name in WINDOW_FIELDS:
            raise TopologyError(f"{name} is the window's own field")
        each = refuse_other(name, given)
        columns.append(Computed(name, each.function, each.traced(shape.key, shape.value)))
    names = tuple(computed)
    fields = None if alone else names if window is None else (*WINDOW_FIELDS, *names)
    after = RecordShape(shape.key, fields, shape.make_key)
    name = builder.name("aggregate")
    node = Aggregated(name, (parent,), after, window, tuple(columns), alone, updates, store)
    assert not emits_updates(parent), "refused where the stream was grouped"
    builder.keep_store(node)
    return node
