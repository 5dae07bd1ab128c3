"""The queries of a topology.

Sinks without state that stand on the same sources are one query, whose rows have their topic. Every
other sink, and every named store without one, is a query of its own. If no stateless query meets
the bad records of a source, a query of their own reports them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.streams.compilation.outputs import Path
from penstock.streams.topology import (
    BY_EXPRESSION,
    Aggregated,
    DataFrameNode,
    Internal,
    Processed,
    PythonMap,
    Reduced,
    Role,
    SinkNode,
    SourceNode,
    TimeMode,
    TopologyNode,
    emits_updates,
    grace_of,
    has_state,
    is_stateful,
    upstream,
)

DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One streaming query, with its nodes and its end."""

    name: str
    paths: tuple[Path, ...]
    nodes: tuple[TopologyNode, ...]  # all nodes of the query, parents first
    updates: bool
    grace_ms: int | None  # None: event time does not matter
    stores: tuple[str, ...] = ()
    writes: bool = True  # False: the query exists for its store alone
    dead_letters_of: tuple[TopologyNode, ...] = ()
    dead_letters_elsewhere: frozenset[str] = frozenset()
    plan: "TopologyPlan | None" = field(default=None, repr=False)

    @property
    def calls_python(self) -> bool:
        return any(isinstance(each, PythonMap) for each in self.nodes)

    @property
    def uses_time_of_totals(self) -> bool:
        """Return whether a later step may read the time of a total."""
        return any(path.steps or isinstance(path.sink, Internal) for path in self.paths)

    @property
    def stateful(self) -> bool:
        return any(is_stateful(each) for each in self.nodes)

    @property
    def by_the_wall(self) -> bool:
        """Return whether a processor of the query follows the wall clock."""
        return any(
            isinstance(each, Processed) and each.time_mode is TimeMode.WALL for each in self.nodes
        )

    @property
    def inputs(self) -> list[SourceNode | Internal]:
        return [each for each in self.nodes if isinstance(each, SourceNode | Internal)]

    @property
    def topics(self) -> list[str]:
        """Return the topics that the query writes, each once."""
        return list(dict.fromkeys(path.sink.topic for path in self.paths))

    def writer_of(self, node: Internal) -> "Query":
        assert self.plan is not None, "a query belongs to a plan"
        return self.plan.writer_of(node)


class TopologyPlan:
    """All queries of an application; the writer of an internal topic comes before its readers."""

    def __init__(
        self,
        sinks: Sequence[SinkNode],
        ends: Sequence[TopologyNode],
        dead_letters: bool,
        grace_ms: int,
    ) -> None:
        self._grace_ms = grace_ms
        self.queries: list[Query] = []
        terminal: list[SinkNode | Internal] = [*_internals([*sinks, *ends]), *sinks]
        stateless: dict[tuple[str, ...], list[SinkNode | Internal]] = {}
        for sink in terminal:
            (end,) = sink.parents
            if not has_state(end):
                stateless.setdefault(_sources(end), []).append(sink)
        done: set[int] = set()
        for sink in terminal:
            if id(sink) in done:
                continue
            (end,) = sink.parents
            together = [sink] if has_state(end) else stateless[_sources(end)]
            done |= {id(each) for each in together}
            self._add(together)
        written = {id(each) for query in self.queries for each in query.nodes}
        for end in ends:
            if id(end) not in written:
                self._add_store(end)
        if dead_letters:
            self._add_dead_letters()

    def writer_of(self, node: Internal) -> Query:
        return next(
            query for query in self.queries if any(path.sink is node for path in query.paths)
        )

    def _add(self, sinks: Sequence[SinkNode | Internal]) -> None:
        first = sinks[0].topic
        name = first if len(sinks) == 1 else f"{first}+{len(sinks) - 1}"
        self._add_query(name, [_path(sink) for sink in sinks], writes=True)

    def _add_store(self, end: TopologyNode) -> None:
        sink = SinkNode(f"{end.name}-nothing", (end,), end.shape, "", None, None)
        name = next(iter(_stores(upstream(end))), end.name)
        self._add_query(name, [Path(end, (), sink)], writes=False)

    def _add_query(self, name: str, paths: Sequence[Path], writes: bool) -> None:
        ends = [path.sink.parents[0] for path in paths]
        nodes = _all_nodes(ends)
        self.queries.append(
            Query(
                name=self._unique(name),
                paths=tuple(paths),
                nodes=tuple(nodes),
                updates=any(emits_updates(end) for end in ends),
                grace_ms=self._grace(nodes),
                stores=_stores(nodes),
                writes=writes,
                plan=self,
            )
        )

    def _add_dead_letters(self) -> None:
        """Add a query for bad records of sources that no stateless query reads."""
        reported: set[str] = set()
        ends: dict[int, TopologyNode] = {}
        for query in self.queries:
            if not query.stateful:
                reported |= {each.name for each in query.nodes if can_be_bad(each)}
        for query in self.queries:
            if query.stateful:
                ends |= {id(each): each for each in _before_state(query)}
        kept: list[TopologyNode] = []
        covered = set(reported)
        # From the end: a step in Python carries the bad records of its sources along.
        for node in reversed(_all_nodes(list(ends.values()))):
            if can_be_bad(node) and node.name not in covered:
                kept.insert(0, node)
                covered |= {each.name for each in upstream(node) if can_be_bad(each)}
        if not kept:
            return
        self.queries.append(
            Query(
                name=DEAD_LETTERS,
                paths=(),
                nodes=tuple(_all_nodes(kept)),
                updates=False,
                grace_ms=None,
                dead_letters_of=tuple(kept),
                dead_letters_elsewhere=frozenset(reported),
                plan=self,
            )
        )

    def _grace(self, nodes: Sequence[TopologyNode]) -> int | None:
        """Return the application's grace: a query has one watermark, and so have its successors."""
        matters = any(grace_of(each) is not None for each in nodes)
        return self._grace_ms if matters else None

    def _unique(self, name: str) -> str:
        taken = {query.name for query in self.queries}
        found, number = name, 2
        while found in taken or found == DEAD_LETTERS:
            found, number = f"{name}-{number}", number + 1
        return found


def _before_state(query: Query) -> list[TopologyNode]:
    """Return the last nodes without state on every path to one with state."""
    found = {
        id(parent): parent
        for path in query.paths
        for node in upstream(path.sink.parents[0])
        if has_state(node) and not isinstance(node, Internal)
        for parent in node.parents
        if not has_state(parent)
    }
    return list(found.values())


def can_be_bad(node: TopologyNode) -> bool:
    """Return whether the node may find bad records."""
    if isinstance(node, SourceNode):
        if node.role is Role.GLOBAL_TABLE:
            return False
        return node.key.can_fail or node.value.can_fail or node.timestamp is not None
    return isinstance(node, PythonMap)


def _internals(ends: Sequence[TopologyNode]) -> list[Internal]:
    """Return the internal topics of these nodes, dependencies first."""
    found: dict[int, Internal] = {}

    def visit(node: TopologyNode) -> None:
        for parent in node.parents:
            visit(parent)
        if isinstance(node, Internal):
            found.setdefault(id(node), node)

    for end in ends:
        visit(end)
    return list(found.values())


def _all_nodes(ends: Sequence[TopologyNode]) -> list[TopologyNode]:
    found: dict[int, TopologyNode] = {}
    for end in ends:
        found |= {id(each): each for each in upstream(end)}
    return list(found.values())


def _sources(node: TopologyNode) -> tuple[str, ...]:
    kinds = (SourceNode, DataFrameNode, Internal)
    return tuple(sorted(each.name for each in upstream(node) if isinstance(each, kinds)))


def _stores(nodes: Iterable[TopologyNode]) -> tuple[str, ...]:
    named = (Aggregated, Reduced, Processed)
    return tuple(each.store for each in nodes if isinstance(each, named) and each.store)


def _path(sink: SinkNode | Internal) -> Path:
    steps: list[TopologyNode] = []
    (node,) = sink.parents
    while isinstance(node, BY_EXPRESSION):
        steps.insert(0, node)
        (node,) = node.parents
    return Path(node, tuple(steps), sink)
