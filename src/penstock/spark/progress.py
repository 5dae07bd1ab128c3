"""Commits the progress of streaming queries to the group that they name with `group.id`.

A listener on the driver commits after each batch. The reader itself would learn of a batch only
with the next one, and never of the last one. The group only shows the lag: a query starts from its
checkpoint, not from the group.
"""

import atexit
import json
import logging
import threading
import time
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import CannotReach
from penstock.errors import KafkaError
from penstock.spark.options.source import SourceOptions, read_source_options
from penstock.spark.output_modes import NAME, WRITE_BATCH, rejected_mode
from penstock.spark.source.positions import Position

COMMIT_TIMEOUT_MS = 10_000

logger = logging.getLogger("penstock.spark")

# Spark reports a batch, and the end, some time later: a program waits this long for a report.
TOLD_SECONDS_MAX = 10.0

# A session has one listener, however often it is requested.
_listeners: "weakref.WeakKeyDictionary[SparkSession, ProgressListener]" = (
    weakref.WeakKeyDictionary()
)


def commit_progress(spark: SparkSession) -> bool:
    """Commit the progress of every query of the session whose source has a group. Return whether
    the session is a new one."""
    if spark in _listeners:
        return False
    listener = _listeners[spark] = ProgressListener(spark)
    spark.streams.addListener(listener)
    atexit.register(listener.await_ended)
    return True


def await_committed(spark: SparkSession, runs: Iterable[str]) -> None:
    """Wait, for a bounded time, until the last progress of these ended runs is committed."""
    listener = _listeners.get(spark)
    if listener is not None:
        listener.await_runs(runs)


class ProgressListener(StreamingQueryListener):
    """A listener of Spark, called with one event at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = weakref.ref(spark)
        self._queries: dict[str, Any] = {}  # Java's object by run, which outlives the query
        self._admins: dict[str, Admin] = {}
        self._told = threading.Condition()

    def await_runs(self, runs: Iterable[str]) -> None:
        """Wait until Spark has reported the end of these runs; all other events came before."""
        wanted = set(runs)
        with self._told:
            self._told.wait_for(lambda: wanted.isdisjoint(self._queries), TOLD_SECONDS_MAX)

    def await_ended(self) -> None:
        """Wait at the end of the program for the last events of ended queries."""
        deadline = time.monotonic() + TOLD_SECONDS_MAX
        for run, query in list(self._queries.items()):
            try:
                active = query.isActive()
            except Exception:  # Java has ended, and no more events will come
                return
            if not active and time.monotonic() < deadline:
                self.await_runs([run])

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        spark = self._spark()
        query = spark.streams.get(str(event.id)) if spark is not None else None
        if query is not None:
            self._queries[str(event.runId)] = query._jsq
            _warn_of_mode(event, rejected_mode(query._jsq))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        run = str(event.progress.runId)
        if run not in self._queries:
            return
        try:
            sources = sources_of(self._queries[run])
        # Java's side may fail in any way; the query must not be affected
        except Exception as problem:
            logger.warning("the progress of query %s is not committed: %s", run, problem)
            with self._told:
                del self._queries[run]
                self._told.notify_all()
            return
        for told in event.progress.sources:
            options = sources.get(told.description)
            if options is not None and options.group_id and told.endOffset:
                self._commit(run, options, Position.from_json(json.loads(told.endOffset)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        run = str(event.runId)
        admin = self._admins.pop(run, None)
        if admin is not None:
            admin.close()
        with self._told:
            self._queries.pop(run, None)
            self._told.notify_all()

    def _commit(self, run: str, options: SourceOptions, position: Position) -> None:
        assert options.group_id is not None, "asked before"
        if run not in self._admins:
            self._admins[run] = options.connect(COMMIT_TIMEOUT_MS)
        problem = _problem_of_commit(self._admins[run], options.group_id, position)
        if problem is not None:
            logger.warning("progress is not committed to group %s: %s", options.group_id, problem)


def _warn_of_mode(event: QueryStartedEvent, mode: str | None) -> None:
    """Warn of a mode that a topic does not take. Spark waits for this before `start()` returns.

    A log line would not do: a program with an embedded node shows none by itself.
    """
    if mode is not None:
        said = f"query {event.name or event.id} cannot run in output mode {mode}: {WRITE_BATCH}"
        warnings.warn(said, stacklevel=1)


def _problem_of_commit(admin: Admin, group_id: str, position: Position) -> Exception | None:
    try:
        answers = admin.groups.commit(group_id, position.offsets)
    except (KafkaError, CannotReach, OSError) as problem:
        return problem
    return next((each for each in answers.values() if each is not None), None)


def sources_of(query: Any) -> dict[str, SourceOptions]:
    """Return the options of our sources in a running query, by their description in its progress.

    Read through Java's objects: a listener gets a description without the options.
    """
    leaves = query.streamingQuery().logicalPlan().collectLeaves()
    found: dict[str, SourceOptions] = {}
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if not leaf.getClass().getSimpleName().startswith("StreamingDataSourceV2"):
            continue
        if leaf.relation().table().name() != NAME:
            continue
        given = dict(leaf.relation().options().asCaseSensitiveMap())
        found[leaf.stream().toString()] = read_source_options(given, streaming=True)
    return found
