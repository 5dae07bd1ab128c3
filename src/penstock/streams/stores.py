"""Stored state of the last committed batch, through Spark's state reader, for inspection alone.

Every call reads the state from its files; a running query is not disturbed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from penstock.streams.errors import StreamsError, TopologyError
from penstock.streams.queries import Query, TopologyPlan
from penstock.streams.topology import (
    Aggregated,
    Computed,
    Processed,
    Reduced,
    TopologyNode,
    is_stateful,
)

# The number of state columns of a function, in the order of the aggregation.
BUFFERS = {"count": 1, "sum": 1, "min": 1, "max": 1, "avg": 2}


@dataclass(frozen=True, slots=True)
class StoredValue:
    """The value of a key; with its window if it has one."""

    key: Any
    value: Any
    window_start: datetime | None = None
    window_end: datetime | None = None


class StateStore:
    """`app.store("counts").get(key)`."""

    def __init__(
        self, name: str, node: TopologyNode, checkpoint: Path, operator: int, spark: SparkSession
    ):
        self._name, self._node, self._spark = name, node, spark
        self._checkpoint, self._operator = checkpoint, operator

    def get(self, key: Any, state: str | None = None) -> Any:
        """Return the value of a key; None without one. A processor with several states names
        one."""
        if _is_windowed(self._node):
            raise StreamsError(f"{self._name} has windows: fetch(key) gives the values of each")
        found = [each.value for each in self._values(state, key)]
        slot = _slot(self._node, state)
        if slot is not None and slot.kind == "list":
            return found
        if slot is not None and slot.kind == "map":
            return dict(found)
        return found[0] if found else None

    def fetch(self, key: Any) -> list[StoredValue]:
        """Return the values of a key in all open windows, the oldest first."""
        found = list(self._values(None, key))
        return sorted(found, key=lambda each: each.window_start or datetime.min)

    def all(self, state: str | None = None) -> Iterator[StoredValue]:
        """Return all stored values."""
        return self._values(state, None)

    def __len__(self) -> int:
        return self._frame(None).count()

    def _frame(self, state: str | None) -> DataFrame:
        reader = self._spark.read.format("statestore").option("operatorId", self._operator)
        if isinstance(self._node, Reduced):
            reader = reader.option("stateVarName", "value")
        slot = _slot(self._node, state)
        if slot is not None:
            reader = reader.option("stateVarName", slot.name)
        return reader.load(str(self._checkpoint))

    def _values(self, state: str | None, key: Any) -> Iterator[StoredValue]:
        df = self._frame(state)
        if key is not None:
            wanted = sql.lit(key) if not isinstance(key, dict) else _structure(key)
            of = df.schema["key"].dataType
            assert isinstance(of, StructType), "the key of a state is a structure"
            df = df.filter(sql.col("key")[of.fieldNames()[0]] == wanted)
        for row in df.collect():
            yield self._stored(row)

    def _stored(self, row: Row) -> StoredValue:
        node = self._node
        if isinstance(node, Processed):
            return StoredValue(row["key"][0], _processed_value(row))
        if isinstance(node, Reduced):
            window = row["key"][1:3] if node.window is not None else (None, None)
            return StoredValue(row["key"][0], _plain(row["value"][0]), *window)
        assert isinstance(node, Aggregated), "stores are of these three"
        results = _results(node.computed, row["value"])
        value = results[0] if node.alone else dict(zip(_names(node.computed), results, strict=True))
        if node.window is None:
            return StoredValue(row["key"][0], value)
        window = next(each for each in [*row["key"], *row["value"]] if isinstance(each, Row))
        return StoredValue(row["key"][0], value, window[0], window[1])


def open_store(
    name: str, plan: TopologyPlan, checkpoint_of: Callable[[str], Path], spark: SparkSession
) -> StateStore:
    query, node = _find(name, plan)
    checkpoint = checkpoint_of(query.name)
    if not (checkpoint / "commits").exists():
        raise StreamsError(
            f"the store {name} is empty: its query {query.name} has not committed a batch yet"
        )
    metadata = spark.read.format("state-metadata").load(str(checkpoint))
    numbers = sorted({row["operatorId"] for row in metadata.select("operatorId").collect()})
    order = [each for each in query.nodes if is_stateful(each)]
    return StateStore(name, node, checkpoint, numbers[order.index(node)], spark)


def _find(name: str, plan: TopologyPlan) -> tuple[Query, TopologyNode]:
    for query in plan.queries:
        for node in query.nodes:
            if isinstance(node, Aggregated | Reduced | Processed) and node.store == name:
                if isinstance(node, Aggregated):
                    _refuse_unreadable(node)
                return query, node
    known = ", ".join(store for query in plan.queries for store in query.stores) or "none"
    raise TopologyError(f"there is no store {name}; there are: {known}. store= names one")


def _refuse_unreadable(node: Aggregated) -> None:
    for each in node.computed:
        if each.function not in BUFFERS:
            raise StreamsError(
                f"{each.function} keeps its state in a form of its own; stores can be looked at "
                f"for {', '.join(BUFFERS)}"
            )


def _is_windowed(node: TopologyNode) -> bool:
    return isinstance(node, Aggregated | Reduced) and node.window is not None


def _slot(node: TopologyNode, state: str | None) -> Any:
    if not isinstance(node, Processed):
        return None
    slots = {each.name: each for each in node.processor.slots()}
    if state is None and len(slots) == 1:
        return next(iter(slots.values()))
    if state not in slots:
        raise StreamsError(f"which state? the processor has {', '.join(slots) or 'none'}")
    return slots[state]


def _names(computed: tuple[Computed, ...]) -> list[str]:
    return [each.name for each in computed]


def _results(computed: tuple[Computed, ...], buffers: Row) -> list[Any]:
    """Return the results of the functions from their buffers."""
    found: list[Any] = []
    values = [each for each in buffers if not isinstance(each, Row)]
    at = 0
    for each in computed:
        width = BUFFERS[each.function]
        mine = values[at : at + width]
        at += width
        found.append(_average(*mine) if each.function == "avg" else mine[0])
    return found


def _average(total: Any, count: int) -> Any:
    return total / count if count else None


def _processed_value(row: Row) -> Any:
    if "user_map_key" in row:
        return _lone(row["user_map_key"]), _lone(row["user_map_value"])
    return _lone(row["list_element"] if "list_element" in row else row["value"])


def _lone(value: Row) -> Any:
    """Return a stored state: the single column `value`, or else the whole structure."""
    return value[0] if len(value) == 1 and value.__fields__ == ["value"] else _plain(value)


def _plain(value: Any) -> Any:
    return value.asDict(recursive=True) if isinstance(value, Row) else value


def _structure(key: dict[str, Any]) -> Any:
    return sql.struct(*(sql.lit(each).alias(name) for name, each in key.items()))
