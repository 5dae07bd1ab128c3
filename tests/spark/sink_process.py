"""A query in processes of its own: a driver, and a forked worker per task, which outlives it.

Spark without Spark: the same plan, tasks and commit, a checkpoint of files, and nothing between
them and SIGKILL. A life of it costs milliseconds.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.client.raw.outcomes import WriteFailure
from penstock.client.transport.connection import CannotReach
from penstock.errors import KafkaError
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink import driver
from penstock.spark.sink.client_cluster import ClientCluster
from penstock.spark.sink.cluster import End, Ended, Gone, OpenSinkTransaction
from penstock.spark.sink.decisions import BatchName, Decision, Driver, SinkProducer
from penstock.spark.sink.driver import commit_batch, plan_batch, settle
from penstock.spark.sink.refusals import RepeatBatch
from penstock.spark.sink.task import TaskPlan, TaskReport
from penstock.spark.sink.worker import write_part

TASKS = 2
ATTEMPTS_MAX = 4
ROWS_PER_BATCH = 6
ROWS_PER_ARROW_BATCH = 2

DESCRIPTORS_MAX = 256
FINISHED, FAILED = 0, 3

_starter = multiprocessing.get_context("forkserver")
# The server that forks does not know where tests are, but what they import it can load before.
_starter.set_forkserver_preload(
    [
        "penstock.spark.sink.driver",
        "penstock.spark.sink.worker",
        "penstock.bulk.encode_plain",
        "pyarrow.compute",
    ]
)


@dataclass(frozen=True)
class Job:
    """What a driver is started with; it dies at the n-th step if `dies_at` says so."""

    bootstrap: str
    topic: str
    folder: str
    rows: int
    dies_at: int = 0

    @property
    def options(self) -> SinkOptions:
        return SinkOptions(
            {"bootstrap.servers": self.bootstrap},
            topic=self.topic,
            sink_id=f"sink.{self.topic}",
            checkpoint_location=self.folder,
            request_timeout_ms=10_000,
            delivery_timeout_ms=20_000,
        )


def start(job: Job) -> BaseProcess:
    process = _starter.Process(target=_main, args=(job,))
    process.start()
    return process


def _main(job: Job) -> None:
    os.setpgid(0, 0)
    os.environ["PENSTOCK_BULK"] = "plain"  # every worker is new, and would load what is compiled
    if job.dies_at:
        vars(driver)["ClientCluster"] = _mortal(job.dies_at)
    try:
        Query(job).run()
    except (RepeatBatch, CannotReach, KafkaError, WriteFailure):
        os._exit(FAILED)
    os._exit(FINISHED)


def _mortal(dies_at: int) -> type[ClientCluster]:
    """Its process is killed before or after one of its questions, counted over its whole life."""
    left = dies_at

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    class Mortal(ClientCluster):
        def take_over(self, transactional_id: str) -> SinkProducer:
            count()
            given = super().take_over(transactional_id)
            count()
            return given

        def last_decision(self, sink_id: str) -> Decision | None:
            count()
            return super().last_decision(sink_id)

        def append_decision(
            self, transactional_id: str, driver: Driver, decision: Decision
        ) -> Gone | None:
            count()
            answer = super().append_decision(transactional_id, driver, decision)
            count()
            return answer

        def end(self, ends: Sequence[End]) -> tuple[Ended | Gone, ...]:
            answers: list[Ended | Gone] = []
            for each in ends:
                count()
                answers.extend(super().end([each]))
            count()
            return tuple(answers)

        def open_transactions(self, sink_id: str) -> tuple[OpenSinkTransaction, ...]:
            count()
            return super().open_transactions(sink_id)

    return Mortal


class Query:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._options = job.options
        self._folder = Path(job.folder)
        for name in ("offsets", "commits", "workers"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        batch_id = len(list((self._folder / "commits").iterdir()))
        while self._run_batch(batch_id):
            batch_id += 1

    def _run_batch(self, batch_id: int) -> bool:
        start = self._end_of(batch_id - 1) if batch_id else 0
        entry = self._folder / "offsets" / str(batch_id)
        if not entry.exists():
            if start >= self._job.rows:
                return False
            end = min(self._job.rows, start + ROWS_PER_BATCH)
            _write_file(entry, f"v1\n{{}}\n{end}")
        end = self._end_of(batch_id)
        options, batch = self._options, BatchName(self._job.topic, batch_id)
        assert options.sink_id is not None
        planned = plan_batch(options, options.sink_id, may_repeat=True)
        try:
            reports = [
                self._run_task(planned, batch, list(range(start + task, end, TASKS)))
                for task in range(TASKS)
            ]
            commit_batch(options, options.sink_id, batch, reports)
        except BaseException:
            settle(options, options.sink_id)
            raise
        _write_file(self._folder / "commits" / str(batch_id), "")
        return True

    def _end_of(self, batch_id: int) -> int:
        return int((self._folder / "offsets" / str(batch_id)).read_text().split("\n")[2])

    def _run_task(self, planned: TaskPlan, batch: BatchName, numbers: list[int]) -> TaskReport:
        for _ in range(ATTEMPTS_MAX):
            report = self._attempt(planned, batch, numbers)
            if report is not None:
                return report
        raise RepeatBatch("a task has failed too often")

    def _attempt(
        self, planned: TaskPlan, batch: BatchName, numbers: list[int]
    ) -> TaskReport | None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            # What shows that the driver has ended must not stay open in a worker that has not.
            os.closerange(3, writing)
            os.closerange(writing + 1, DESCRIPTORS_MAX)
            self._work(planned, batch, numbers, writing)
        os.close(writing)
        (self._folder / "workers" / str(child)).touch()
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
        (self._folder / "workers" / str(child)).unlink(missing_ok=True)
        return pickle.loads(told) if told else None

    def _work(self, planned: TaskPlan, batch: BatchName, numbers: list[int], pipe: int) -> None:
        """Never returns: this is the child."""
        try:
            texts = [str(each).encode() for each in numbers]
            table = pa.record_batch({"key": texts, "value": texts})
            parts = [
                table.slice(first, ROWS_PER_ARROW_BATCH)
                for first in range(0, len(texts), ROWS_PER_ARROW_BATCH)
            ]
            report = write_part(self._options, planned, batch, parts)
            os.write(pipe, pickle.dumps(report))
            os._exit(0)
        except BaseException:
            os._exit(1)


def _write_file(path: Path, text: str) -> None:
    """Whole or not at all."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    made.write_text(text)
    made.rename(path.parent / path.name)


def workers_of(job: Job) -> list[int]:
    """The processes that write for the query now."""
    folder = Path(job.folder) / "workers"
    return [int(each.name) for each in folder.iterdir()] if folder.exists() else []


def kill(process_id: int, how: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, how)


def kill_group(process: BaseProcess) -> None:
    assert process.pid is not None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait(process: BaseProcess, seconds: float) -> Any:
    """Its exit code; None while it runs on."""
    process.join(seconds)
    return process.exitcode


def pause(milliseconds: int) -> None:
    """Chance decides how long the query may go on: there is no event to wait for."""
    threading.Event().wait(milliseconds / 1000)
