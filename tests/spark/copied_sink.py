"""The sink with tasks that exist twice: its own writer, which runs its own task again.

Spark makes copies of slow tasks, but never on one machine. Here the copy is started in the worker:
before the task whose report counts, between its rows, after it; or in another process, which goes
on when the query is over. Pickled by value, since workers do not know where tests are.
"""

import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark.datasource import PenstockSource
from penstock.spark.options.sink import SinkOptions, read_sink_options
from penstock.spark.sink.task import TaskPlan
from penstock.spark.sink.writer import PenstockStreamWriter, TaskWritten

WAIT_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.02


class When(StrEnum):
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"
    LATE = "late"  # in a process of its own, when the file `go` is there
    LATE_COMMIT = "late commit"  # the same with the driver's part; its query fails
    RELEASE = "release"  # those two go on while this task is between its rows


@dataclass(frozen=True)
class Copies:
    """`told` is a folder with a file per copy: what became of it."""

    when: When
    told: str
    go: str
    late_copy: str  # the path of the program

    def start_late(self, action: str, *arguments: Any) -> None:
        place = Path(self.told) / uuid.uuid4().hex
        order = place.with_suffix(".order")
        told = place.with_suffix(".told")
        order.write_bytes(pickle.dumps((action, arguments, self.go, str(told))))
        subprocess.Popen(
            [sys.executable, self.late_copy, str(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def here(self, copy: Callable[[], TaskWritten]) -> None:
        report = copy().report
        place = Path(self.told) / f"{uuid.uuid4().hex}.told"
        place.write_text(type(report).__name__)

    def release(self) -> None:
        """All that are late, and wait until they are done."""
        Path(self.go).touch()
        folder, never = Path(self.told), threading.Event()
        for _ in range(int(WAIT_SECONDS_MAX / LOOK_SECONDS)):
            if len([*folder.glob("*.told")]) == len([*folder.glob("*.order")]):
                return
            never.wait(LOOK_SECONDS)
        raise TimeoutError("a copy does not end")


class CopyingWriter(PenstockStreamWriter):
    def __init__(self, options: SinkOptions, plan: TaskPlan | None, copies: Copies) -> None:
        super().__init__(options, plan)
        self._copies = copies

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        _, (options, plan) = super().__reduce__()
        return CopyingWriter, (options, plan, self._copies)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        rows = [batch.slice(each, 1) for batch in iterator for each in range(batch.num_rows)]
        copies = self._copies

        def task() -> TaskWritten:
            return PenstockStreamWriter.write(self, iter(rows))

        match copies.when:
            case When.BEFORE:
                copies.here(task)
                return task()
            case When.AFTER:
                reported = task()
                copies.here(task)
                return reported
            case When.DURING:
                return self._write_around(rows, lambda: copies.here(task))
            case When.RELEASE:
                return self._write_around(rows, copies.release)
            case When.LATE:
                reported = task()
                assert reported.report is not None
                batch = reported.report.batch
                copies.start_late("write", self._options, self._plan, batch, rows)
                return reported
            case When.LATE_COMMIT:
                return task()

    def _write_around(self, rows: list[pa.RecordBatch], copy: Callable[[], None]) -> TaskWritten:
        """The copy begins after the first row is written, and ends before the last one is."""

        def interrupted() -> Iterator[pa.RecordBatch]:
            for number, each in enumerate(rows):
                if number == 1:
                    copy()
                yield each

        return super().write(interrupted())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if self._copies.when is not When.LATE_COMMIT:
            super().commit(messages, batchId)
            return
        reports = [
            each.report for each in messages if isinstance(each, TaskWritten) and each.report
        ]
        self._copies.start_late("commit", self._options, self._sink_id, reports[0].batch, reports)
        raise InterruptedError("this driver does not go on")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if self._copies.when is not When.LATE_COMMIT:
            super().abort(messages, batchId)


def source_of(source_name: str, copies: Copies) -> type[DataSource]:
    class CopiedSource(PenstockSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def streamWriter(self, schema: StructType, overwrite: bool) -> CopyingWriter:  # noqa: ARG002
            return CopyingWriter(read_sink_options(self.options), None, copies)

    return CopiedSource
