"""The sink as PySpark calls it.

Spark makes a writer for every batch and pickles it for the tasks. The batch is planned then, once,
since no other code runs on the driver before the tasks. Commit and abort of a stream run with a new
writer in another process, without the plan: the reports carry it. A batch job's commit gets the
pickled writer back.
"""

import logging
import pickle
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.taskcontext import TaskContext

from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.decisions import JOB, BatchName
from penstock.spark.sink.driver import commit_batch, plan_batch, settle
from penstock.spark.sink.identity import WORKER_TOKEN_BYTES, checked, job_sink_id, sink_id_of
from penstock.spark.sink.task import TaskPlan, TaskReport
from penstock.spark.sink.worker import write_at_least_once, write_part

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"

_log = logging.getLogger(__name__)


class BatchNotPlanned(pickle.PicklingError):
    """The batch does not start; the text gives the cause. Planning happens while Spark pickles the
    writer, and Spark takes any other exception for a fault of pickling."""


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """The message of a task to commit; without a report if it wrote at least once."""

    report: TaskReport | None


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query's micro-batches."""

    def __init__(self, options: SinkOptions, plan: TaskPlan | None = None) -> None:
        self._options = options
        self._plan = plan
        if options.transactional:
            self._sink_id = sink_id_of(options.sink_id, options.checkpoint_location, options.topic)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._plan is None and self._options.transactional:
            self._plan = _planned(lambda: plan_batch(self._options, self._sink_id, may_repeat=True))
        return PenstockStreamWriter, (self._options, self._plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return _write(self._options, self._plan, _stream_batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if not self._options.transactional:
            return
        reports = _reports(messages)
        query_id = reports[0].batch.query_id if reports else ""
        commit_batch(self._options, self._sink_id, BatchName(query_id, batchId), reports)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        del messages, batchId
        if self._options.transactional:
            settle(self._options, self._sink_id)


class PenstockBatchWriter(DataSourceArrowWriter):
    """The writer of a batch job, or of one write in a foreachBatch: all rows or none."""

    def __init__(self, options: SinkOptions, plan: TaskPlan | None = None) -> None:
        self._options = options
        self._plan = plan

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._plan is None and self._options.transactional:
            self._plan = _planned(self._make_plan)
        return PenstockBatchWriter, (self._options, self._plan)

    def _make_plan(self) -> TaskPlan:
        options = self._options
        if options.sink_id is not None:
            sink_id = checked(options.sink_id)
            if options.batch is None:
                print(f"penstock: this write has sink.id {sink_id}", file=sys.stderr)
            return plan_batch(options, sink_id, may_repeat=options.batch is not None)
        sink_id = job_sink_id(options.topic, secrets.token_hex(WORKER_TOKEN_BYTES))
        print(
            f"penstock: this write has sink.id {sink_id}; if it is killed, "
            f"`penstock txn recover {sink_id} --execute` ends what it leaves",
            file=sys.stderr,
        )
        return plan_batch(options, sink_id, may_repeat=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return _write(self._options, self._plan, self._batch, iterator)

    def _batch(self) -> BatchName:
        return self._options.batch or JOB

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._plan is not None:
            reports = _reports(messages)
            commit_batch(self._options, self._plan.sink_id, self._batch(), reports)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        del messages
        if self._plan is not None:
            settle(self._options, self._plan.sink_id)


def _planned(plan: Callable[[], TaskPlan]) -> TaskPlan:
    try:
        return plan()
    except Exception as problem:
        raise BatchNotPlanned(f"{type(problem).__name__}: {problem}") from problem


def _write(
    options: SinkOptions,
    plan: TaskPlan | None,
    batch: Callable[[], BatchName],
    rows: Iterator[pa.RecordBatch],
) -> TaskWritten:
    if not options.transactional:
        write_at_least_once(options, rows)
        return TaskWritten(None)
    assert plan is not None, "a writer is planned when it is pickled"
    return TaskWritten(write_part(options, plan, batch(), rows))


def _stream_batch() -> BatchName:
    context = TaskContext.get()
    assert context is not None, "rows are written in tasks"
    query_id = context.getLocalProperty(QUERY_ID_PROPERTY)
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY)
    if query_id is None or batch_id is None:
        raise RuntimeError(
            "Spark does not say which batch of which query this is; the exactly-once sink needs "
            "PySpark 4.1 or newer (delivery.guarantee=at-least-once does without)"
        )
    return BatchName(query_id, int(batch_id))


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    return [each.report for each in messages if isinstance(each, TaskWritten) and each.report]
