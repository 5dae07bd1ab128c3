"""Runs the queries of an application: start, watch, stop.

If a query fails, the others are stopped and its error is raised. A restart continues from the
checkpoints: every input is counted once, and results are written once.
"""

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.foreach import write_batch
from penstock.spark.progress import await_committed
from penstock.spark.query_start import begin
from penstock.spark.session import session
from penstock.streams import registry
from penstock.streams.cluster_inputs import FORMAT, ClusterInputs
from penstock.streams.compilation.compiler import Compiler
from penstock.streams.durations import duration_ms
from penstock.streams.errors import QueryFailed, reason_of
from penstock.streams.java_output import carried_output
from penstock.streams.progress import QueryProgress, Terminal, metrics_text, progress_of
from penstock.streams.queries import Query, TopologyPlan
from penstock.streams.settings import StreamsSettings, state_directory
from penstock.streams.topics import prepare_topics
from penstock.streams.topology import Internal

WATCH_SECONDS = 1.0
WAIT_SECONDS_MIN = 0.01
# The sink's errors about a checkpoint that does not belong to its last batch.
NEEDS_RESET = ("knows nothing of it", "the checkpoint went back in time", "new.checkpoint=allow")

Show = Callable[[list[QueryProgress]], None]
Begin = Callable[[Query], StreamingQuery]


NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


@contextmanager
def ending(spark: SparkSession, query: Query) -> Iterator[None]:
    """Start a query in this block that ends after the present records.

    With timers by the wall clock Spark always sees a reason for one more batch without data, and
    would never end. A query takes the session's settings at its start.
    """
    if not query.by_the_wall:
        yield
        return
    before = spark.conf.get(NO_DATA_BATCHES)
    spark.conf.set(NO_DATA_BATCHES, "false")
    try:
        yield
    finally:
        spark.conf.set(NO_DATA_BATCHES, before or "true")


class RunningStreams:
    """A running application; leaving its `with` stops it."""

    def __init__(
        self,
        settings: StreamsSettings,
        levels: list[list[Query]],
        begin: Begin,
        spark: SparkSession,
    ) -> None:
        self._settings, self._begin, self._spark = settings, begin, spark
        self._lock = registry.Lock(settings.directory)
        self._waiting = levels  # of `once`: the reader of an internal topic comes after its writer
        self._queries: dict[str, StreamingQuery] = {}
        try:
            self._next_level()
        except BaseException:
            self.stop()
            raise

    @property
    def queries(self) -> dict[str, StreamingQuery]:
        """Return Spark's query objects, by the names that describe() shows."""
        return dict(self._queries)

    def progress(self) -> list[QueryProgress]:
        return [progress_of(name, query) for name, query in self._queries.items()]

    def metrics(self) -> str:
        return metrics_text(self._settings.application_id, self.progress())

    def wait(self, show: Show | None = None, seconds: float | None = None) -> bool:
        """Wait until all queries have ended (True), or the time has passed (False)."""
        chosen = show or (Terminal() if sys.stderr.isatty() else None)
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            active = [query for query in self._queries.values() if query.isActive]
            self._raise_failure()
            if not active and not self._waiting:
                self._await_committed()
                if chosen is not None:
                    chosen(self.progress())
                return True
            if not active:
                self._next_level()
                continue
            if deadline is not None and time.monotonic() >= deadline:
                return False
            if chosen is not None:
                chosen(self.progress())
            left = WATCH_SECONDS if deadline is None else deadline - time.monotonic()
            self._await(active[0], min(max(left, WAIT_SECONDS_MIN), WATCH_SECONDS))

    def process_all_available(self) -> None:
        """Wait until all records of this moment are processed; for tests and examples."""
        for query in self._queries.values():
            query.processAllAvailable()

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()
        self._await_committed()
        self._lock.release()

    def _await_committed(self) -> None:
        """Wait until the groups have the last batch too."""
        await_committed(self._spark, [str(each.runId) for each in self._queries.values()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.stop()

    def _next_level(self) -> None:
        for query in self._waiting.pop(0):
            self._start(query)

    def _start(self, query: Query) -> None:
        def start_once() -> StreamingQuery:
            started = self._queries[query.name] = self._begin(query)
            return started

        begin(start_once, name=query.name)

    def _await(self, query: StreamingQuery, seconds: float) -> None:
        try:
            query.awaitTermination(seconds)  # type: ignore[arg-type]  # Spark takes parts of seconds
        except Exception:  # Spark raises the cause, which is raised with the query's name below
            self._raise_failure()
            raise

    def _raise_failure(self) -> None:
        for name, query in self._queries.items():
            problem = query.exception()
            if problem is not None:
                reason = in_words_of(self._settings, reason_of(problem))
                raise QueryFailed(f"the query {name} stopped: {reason}") from problem


def in_words_of(settings: StreamsSettings, reason: str) -> str:
    """Return the sink's error with advice for an application: the user wrote no sink options."""
    if not any(each in reason for each in NEEDS_RESET):
        return reason
    place = ""
    if settings.state_dir != state_directory(None):
        place = f" --state-dir {shlex.quote(str(settings.state_dir))}"
    return (
        f"what {settings.application_id} has written before is not what {settings.directory} "
        "remembers (was it deleted, or an older copy of it put back?), and results would be there "
        "twice. Put the directory back that belongs to them; or, if results may be there twice, "
        f"`penstock streams reset {settings.application_id}{place} --execute` and start again"
    )


def start(
    settings: StreamsSettings,
    plan: TopologyPlan,
    *,
    once: bool = False,
    trigger: str | None = None,
    spark: SparkSession | None = None,
) -> RunningStreams:
    """Create missing topics, then start every query from its checkpoint."""
    if spark is None:
        with carried_output():
            spark = session(settings.application_id)
    chosen = spark
    every = None if trigger is None else f"{duration_ms(trigger, 'trigger', 0)} milliseconds"
    prepare_topics(settings, plan)
    registry.remember(settings, plan)
    groups = registry.groups_of(settings, plan)
    permissions = registry.Permissions(settings.directory)

    def begin_query(query: Query) -> StreamingQuery:
        inputs = ClusterInputs(chosen, settings, groups[query.name])
        compiler = Compiler(query, inputs, settings.bad_records, settings.application_id)
        df = compiler.output(settings.dead_letters)
        writer = df.writeStream.queryName(settings.name_of(query.name))
        writer = writer.option("checkpointLocation", str(settings.checkpoint(query.name)))
        writer = writer.outputMode("update" if query.updates else "append")
        if every is not None and not once:
            writer = writer.trigger(processingTime=every)
        writer = _sink(writer, query, settings, permissions.allows(query.name))
        if once:
            with ending(chosen, query):
                started = writer.trigger(availableNow=True).start()
        else:
            started = writer.start()
        permissions.used(query.name, started.id)
        begun.add(query.name)
        if len(begun) == len(plan.queries):
            permissions.all_started()
        return started

    begun: set[str] = set()
    levels = _levels(plan.queries) if once else [list(plan.queries)]
    return RunningStreams(settings, levels, begin_query, chosen)


def _sink(
    writer: DataStreamWriter, query: Query, settings: StreamsSettings, is_fresh: bool
) -> DataStreamWriter:
    """Append to the sink itself; write updates, which the sink rejects, batch by batch."""
    if not query.writes:
        return writer.format("noop")
    options = settings.client_options()
    if is_fresh:
        options["new.checkpoint"] = "allow"
    sink_id = settings.name_of(query.name)
    if not query.updates:
        return writer.format(FORMAT).options(**options, **{"sink.id": sink_id})

    def write(df: DataFrame, batch_id: int) -> None:
        write_batch(df, batch_id, sink_id=sink_id, options=options)

    return writer.foreachBatch(write)


def _levels(queries: Sequence[Query]) -> list[list[Query]]:
    """Return queries in levels: first those that wait for no other, then their readers."""
    done: list[list[Query]] = []
    left, written = list(queries), set[str]()
    while left:
        ready = [
            query
            for query in left
            if all(each.topic in written for each in query.inputs if isinstance(each, Internal))
        ]
        assert ready, "an internal topic is written by a query before its readers"
        done.append(ready)
        left = [query for query in left if query not in ready]
        written |= {topic for query in ready for topic in query.topics}
    return done
