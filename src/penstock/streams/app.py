"""Streams: an application, its topology, and its operations."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from penstock.streams.builder import Builder
from penstock.streams.column_serde import ColumnSerde
from penstock.streams.compilation.compiler import Compiler
from penstock.streams.compilation.frames import KEY, TIMESTAMP, VALUE
from penstock.streams.compilation.sources import BadRecords
from penstock.streams.errors import TopologyError
from penstock.streams.json_text import JsonSerde
from penstock.streams.queries import Query, TopologyPlan
from penstock.streams.schemas import field_names
from penstock.streams.serdes import BytesSerde, StringSerde, checked
from penstock.streams.settings import (
    BOOTSTRAP,
    StreamsSettings,
    bad_records_policy,
    check_application_id,
    state_directory,
)
from penstock.streams.stream import Stream
from penstock.streams.tables import GlobalTable, Table
from penstock.streams.topology import (
    DataFrameNode,
    RecordShape,
    Role,
    SourceNode,
    TopologyNode,
    grace_of,
    upstream,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.streams.progress import QueryProgress
    from penstock.streams.runner import RunningStreams
    from penstock.streams.stores import StateStore
    from penstock.streams.test_driver import TopologyTestDriver

STARTS = ("earliest", "latest")


class Streams:
    """An application: `Streams("revenue", bootstrap="localhost:9092")`, then stream(), table(),
    run().

    `bad_records` is dead_letter, skip or fail; `properties` are client properties of Kafka's names.
    """

    def __init__(
        self,
        application_id: str,
        bootstrap: str = BOOTSTRAP,
        *,
        state_dir: str | os.PathLike[str] | None = None,
        replication_factor: int = -1,
        client_id: str | None = None,
        bad_records: str = BadRecords.DEAD_LETTER.value,
        dead_letters: str | None = None,
        start: str = "earliest",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        check_application_id(application_id)
        self.settings = StreamsSettings(
            application_id=application_id,
            bootstrap=bootstrap,
            state_dir=state_directory(state_dir),
            replication_factor=replication_factor,
            client_id=client_id or application_id,
            bad_records=bad_records_policy(bad_records),
            dead_letters=dead_letters or f"{application_id}-dead-letters",
            start=_start(start),
            properties=dict(properties or {}),
        )
        self._builder = Builder(application_id, self._dataframe_of)
        self._sources: dict[str, SourceNode] = {}

    # -- where records come from

    def stream(
        self,
        topic: str,
        *,
        key: ColumnSerde | None = None,
        value: ColumnSerde | None = None,
        timestamp: str | None = None,
        headers: bool = False,
        start: str | None = None,
    ) -> Stream:
        """Return a topic as a stream. By default keys are text and values bytes.

        `timestamp` names the field of the value with the event time; without it, the event time is
        that of the record. With `headers`, records keep their headers up to the first step with
        state.
        """
        node = self._source(topic, Role.STREAM, key, value, timestamp, headers, start)
        return Stream(self._builder, node)

    def table(
        self, topic: str, *, key: ColumnSerde | None = None, value: ColumnSerde | None = None
    ) -> Table:
        """Return a topic as a table: the last value of each key; a record without a value deletes
        it."""
        return Table(self._builder, self._source(topic, Role.TABLE, key, value, None, False, None))

    def global_table(
        self, topic: str, *, key: ColumnSerde | None = None, value: ColumnSerde | None = None
    ) -> GlobalTable:
        """Return a small topic as a table, read whole for every micro-batch; any field can be
        joined with its key."""
        node = self._source(topic, Role.GLOBAL_TABLE, key, value, None, False, None)
        return GlobalTable(self._builder, node)

    def from_dataframe(self, df: "DataFrame", name: str = "dataframe") -> Stream:
        """Return a streaming DataFrame as a stream: columns key, value, and timestamp if event time
        matters."""
        schema = df.schema
        missing = [each for each in (KEY, VALUE) if each not in schema.fieldNames()]
        if missing:
            raise TopologyError(
                f"the DataFrame has no column {', '.join(missing)}: a stream has {KEY}, {VALUE} "
                f"and {TIMESTAMP}"
            )
        shape = RecordShape(field_names(schema[KEY].dataType), field_names(schema[VALUE].dataType))
        return Stream(self._builder, DataFrameNode(self._builder.name(name), (), shape, df))

    def _source(
        self,
        topic: str,
        role: Role,
        key: ColumnSerde | None,
        value: ColumnSerde | None,
        timestamp: str | None,
        headers: bool,
        start: str | None,
    ) -> SourceNode:
        if not topic:
            raise TopologyError("a topic has a name")
        chosen_key = checked("key", key) or StringSerde()
        chosen_value = checked("value", value) or BytesSerde()
        shape = RecordShape(
            field_names(chosen_key.type),
            field_names(chosen_value.type),
            chosen_key.make if isinstance(chosen_key, JsonSerde) else None,
            chosen_value.make if isinstance(chosen_value, JsonSerde) else None,
        )
        if timestamp is not None and timestamp not in (shape.value or ()):
            raise TopologyError(f"timestamp is {timestamp!r}, and the value has no such field")
        name = f"{topic}" if topic not in self._sources else self._builder.name(topic)
        beginning = _start(start or self.settings.start)
        node = SourceNode(
            name, (), shape, topic, role, chosen_key, chosen_value, timestamp, headers, beginning
        )
        self._sources[name] = node
        return node

    # -- what it becomes

    def plan(self) -> TopologyPlan:
        """Return the queries of the topology."""
        builder = self._builder
        if not builder.sinks and not builder.ends:
            raise TopologyError("nothing is written: end a stream with to(...) or name a store")
        dead_letters = self.settings.bad_records is BadRecords.DEAD_LETTER
        return TopologyPlan(builder.sinks, builder.ends, dead_letters, self.grace_ms)

    @property
    def grace_ms(self) -> int:
        """Return the largest grace of all windows and joins of the application; 0 without any."""
        ends: list[TopologyNode] = [*self._builder.sinks, *self._builder.ends]
        found = [grace_of(each) for end in ends for each in _everything(end)]
        return max((each for each in found if each is not None), default=0)

    def describe(self) -> str:
        """Return the topology as text: its queries, their steps, and notes."""
        from penstock.streams.describe import describe

        return describe(self.settings, self.plan())

    def _dataframe_of(self, node: TopologyNode, spark: "SparkSession | None") -> "DataFrame":
        from penstock.spark.session import session
        from penstock.streams.cluster_inputs import ClusterInputs

        chosen = spark or session(self.settings.application_id)
        graces = [grace_of(each) for each in upstream(node)]
        needed = any(each is not None for each in graces)
        query = Query(
            "dataframe", (), tuple(upstream(node)), False, self.grace_ms if needed else None
        )
        inputs = ClusterInputs(chosen, self.settings, {})
        compiler = Compiler(query, inputs, BadRecords.SKIP, self.settings.application_id)
        return compiler.frame(node).only(KEY, VALUE, TIMESTAMP)

    # -- what can be done with it

    def run(
        self,
        *,
        once: bool = False,
        trigger: str | None = None,
        spark: "SparkSession | None" = None,
        show: "Callable[[list[QueryProgress]], None] | None" = None,
    ) -> None:
        """Run until interrupted; with `once`, until all present records are processed.

        A script may end with this call: `penstock streams` reads the topology without running it.
        """
        if is_loading():
            return
        running = self.start(once=once, trigger=trigger, spark=spark)
        with running:
            running.wait(show)

    def start(
        self,
        *,
        once: bool = False,
        trigger: str | None = None,
        spark: "SparkSession | None" = None,
    ) -> "RunningStreams":
        """Start the queries and return: `with app.start() as running: ...` stops them again."""
        from penstock.streams.runner import start

        return start(self.settings, self.plan(), once=once, trigger=trigger, spark=spark)

    def test(self, spark: "SparkSession | None" = None) -> "TopologyTestDriver":
        """Run the topology on given records, without a broker."""
        from penstock.streams.test_driver import TopologyTestDriver

        return TopologyTestDriver(self.settings, self.plan(), spark)

    def store(self, name: str, spark: "SparkSession | None" = None) -> "StateStore":
        """Return a named store as of the last committed batch, for inspection."""
        from penstock.spark.session import session
        from penstock.streams.stores import open_store

        plan = self.plan()
        chosen = spark or session(self.settings.application_id)
        return open_store(name, plan, self.settings.checkpoint, chosen)


def _start(word: str) -> str:
    if word not in STARTS:
        raise TopologyError(f"start is {word!r}; it takes {' or '.join(STARTS)}")
    return word


def _everything(node: TopologyNode) -> list[TopologyNode]:
    """Return a node and all its ancestors, across internal topics too."""
    found: dict[int, TopologyNode] = {}

    def visit(each: TopologyNode) -> None:
        if id(each) not in found:
            found[id(each)] = each
            for parent in each.parents:
                visit(parent)

    visit(node)
    return list(found.values())


_loading: ContextVar[bool] = ContextVar("penstock_streams_loading", default=False)


def is_loading() -> bool:
    return _loading.get()


@contextmanager
def loading() -> Iterator[None]:
    token = _loading.set(True)
    try:
        yield
    finally:
        _loading.reset(token)
