"""Compiles the description of a query to the DataFrame of its sink."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructField, StructType, TimestampType

from penstock.streams.compilation import aggregations, joins, steps
from penstock.streams.compilation.frames import KEY, TIMESTAMP, VALUE, StepFrame, told_by, union
from penstock.streams.compilation.outputs import Path, only_dead_letters, write_columns
from penstock.streams.compilation.sources import (
    BadRecords,
    Inputs,
    SourceRequirements,
    read_internal,
    read_stream,
    read_table_now,
)
from penstock.streams.errors import TopologyError
from penstock.streams.json_text import JsonSerde
from penstock.streams.queries import Query
from penstock.streams.serdes import serde_for
from penstock.streams.topology import (
    BY_EXPRESSION,
    Aggregated,
    DataFrameNode,
    Deduplicated,
    Internal,
    Joined,
    Merge,
    Partners,
    Processed,
    PythonMap,
    Reduced,
    Repartition,
    Role,
    SinkNode,
    SourceNode,
    TopologyNode,
    Transformed,
    has_state,
    is_stateful,
)


class Compiler:
    """The compiler of one query; a node is compiled once."""

    def __init__(self, query: Query, inputs: Inputs, policy: BadRecords, app: str) -> None:
        self._query, self._app = query, app
        # Bad records cannot pass an operator with state: a query of their own reports them.
        reports = policy is BadRecords.DEAD_LETTER and not query.stateful
        skips = policy is BadRecords.DEAD_LETTER and query.stateful
        self._policy = BadRecords.SKIP if skips else policy
        placed = query.calls_python and (reports or policy is BadRecords.FAIL)
        self._reading = SourceRequirements(inputs, self._policy, placed, query.grace_ms)
        self._frames: dict[int, StepFrame] = {}

    def output(self, dead_letters: str) -> DataFrame:
        """Return key, value, topic and perhaps headers."""
        query = self._query
        if query.dead_letters_of:
            frames: list[StepFrame] = []
            known: frozenset[str] = query.dead_letters_elsewhere
            for node in query.dead_letters_of:
                frame = self.frame(node).without_origins(known)
                if frame.origins:
                    frames.append(frame)
                known |= frame.origins
            return only_dead_letters(frames, dead_letters, self._app)
        return self._written(query.paths, dead_letters)

    def _written(self, paths: Sequence[Path], dead_letters: str) -> DataFrame:
        """Return the union of the outputs, with one frame per base of the paths. A bad record that
        several bases share is written with the first base only."""
        by_base: dict[int, list[Path]] = {}
        for path in paths:
            by_base.setdefault(id(path.base), []).append(path)
        done: DataFrame | None = None
        known: frozenset[str] = frozenset()
        for mine in by_base.values():
            frame = self.frame(mine[0].base).without_origins(known)
            known |= frame.origins
            if not frame.origins:
                frame = StepFrame(frame.df.drop("bad", "position"))
            df = write_columns(mine, frame, dead_letters, self._app)
            done = df if done is None else done.unionByName(df, allowMissingColumns=True)
        assert done is not None, "a query writes something"
        return done

    def frame(self, node: TopologyNode) -> StepFrame:
        if id(node) not in self._frames:
            with told_by(node):
                self._frames[id(node)] = self._compiled(node)
        return self._frames[id(node)]

    def _compiled(self, node: TopologyNode) -> StepFrame:
        parents = [] if isinstance(node, Internal) else [self.frame(each) for each in node.parents]
        if is_stateful(node):
            return self._stateful(node, [each.good() for each in parents])
        match node:
            case SourceNode():
                if node.role is Role.GLOBAL_TABLE:
                    return read_table_now(node, self._reading)
                return read_stream(node, self._reading)
            case DataFrameNode():
                return _given(node)
            case Internal():
                return self._internal(node)
            case PythonMap():
                # After a step with state there is no record to report: an error stops the query.
                after_state = has_state(node.parents[0])
                policy = BadRecords.FAIL if after_state else self._policy
                return steps.python_map(node, parents[0], policy)
            case Transformed():
                return steps.transformed(node, parents[0])
            case Merge():
                return union(parents)
            case Repartition():
                (parent,) = parents
                return StepFrame(parent.df.repartition(node.partitions, KEY), parent.origins)
            case Joined():
                return joins.join_global(node, *parents)
            case SinkNode():
                return parents[0]
        assert isinstance(node, BY_EXPRESSION), "every kind of node has its case"
        return steps.by_expression(node, parents[0])

    def _stateful(self, node: TopologyNode, parents: list[StepFrame]) -> StepFrame:
        grace_ms = self._query.grace_ms
        match node:
            case Aggregated():
                return aggregations.aggregated(
                    node, parents[0], grace_ms, self._query.uses_time_of_totals
                )
            case Reduced():
                return aggregations.reduced(node, parents[0], grace_ms)
            case Deduplicated():
                return aggregations.deduplicated(node, parents[0], grace_ms)
            case Processed():
                return aggregations.processed(node, parents[0], grace_ms)
            case Joined(partners=Partners.STREAM_TABLE):
                return joins.join_table(node, parents[0], parents[1], grace_ms)
            case Joined(partners=Partners.TABLES):
                return joins.join_tables(node, *parents)
            case Joined():
                assert grace_ms is not None, "two streams are joined within a time"
                return joins.join_streams(node, parents[0], parents[1], grace_ms)
        raise AssertionError(f"{node.name} has no state")

    def _internal(self, node: Internal) -> StepFrame:
        """Return an internal topic with the types of the query that writes it."""
        before = Compiler(
            self._query.writer_of(node), self._reading.inputs, self._policy, self._app
        )
        frame = before.frame(node.parents[0])
        key, value = frame.type_of(KEY), frame.type_of(VALUE)
        both = StructType([StructField(VALUE, value), StructField(TIMESTAMP, TimestampType())])
        return read_internal(node, serde_for(key), JsonSerde(both), self._reading, value)


def _given(node: DataFrameNode) -> StepFrame:
    df = node.frame
    missing = [name for name in (KEY, VALUE) if name not in df.columns]
    if missing:
        raise TopologyError(f"the DataFrame has no column {', '.join(missing)}")
    if TIMESTAMP not in df.columns:
        df = df.withColumn(TIMESTAMP, sql.current_timestamp())
    return StepFrame(df)
