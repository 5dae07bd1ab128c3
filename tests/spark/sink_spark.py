"""Spark as the sink meets it: batches, tasks, copies of tasks, workers that are used again.

A query repeats a batch that is not in its commit log with the range of its offset log. Whatever
fails ends the query; what its tasks still do is nobody's business, and they go on doing it.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import Protocol, TypeVar

from sink_network import Killed, ModelCluster, Surroundings, Unanswered, Unreachable

from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.spark.sink.batch_commit import BatchCommit, CommitRules
from penstock.spark.sink.cluster import End, SinkSteps
from penstock.spark.sink.decision_end import OnLost
from penstock.spark.sink.decisions import BatchName, Content, Driver, SinkProducer
from penstock.spark.sink.identity import worker_id
from penstock.spark.sink.refusals import SinkRefusal
from penstock.spark.sink.takeover import SinkTakeover, TakenOverSink
from penstock.spark.sink.task import Carried, Slots, TaskPart, TaskPlan, TaskReport

R = TypeVar("R")

OUTPUT_PARTITIONS = 3
TASKS = 2
ATTEMPTS_MAX = 4
FAILURES = (KafkaError, Unreachable, SinkRefusal)

Row = tuple[int, int]  # which of the query's writes, and which row of the input


@dataclass
class Checkpoint:
    """What a query keeps between its lives."""

    query_id: str
    offsets: list[tuple[int, int]] = field(default_factory=list)
    commits: int = 0

    def copy(self) -> "Checkpoint":
        return replace(self, offsets=list(self.offsets))


@dataclass
class Worker:
    """A Python process that runs one task after the other."""

    token: str
    slots: dict[str, Slots] = field(default_factory=dict)
    busy: bool = False
    alive: bool = True


@dataclass(frozen=True)
class Protocols:
    """The machines of the sink; a mutant has one of them changed."""

    settling: Callable[[str, OnLost], SinkTakeover] = SinkTakeover
    committing: Callable[..., BatchCommit] = BatchCommit
    aborting: Callable[[str, OnLost], SinkTakeover] = SinkTakeover
    slots: Callable[[], Slots] = Slots
    worker_id: Callable[[str, str, int, int], str] = lambda sink_id, worker, ordinal, _partition: (
        worker_id(sink_id, worker, ordinal)
    )
    plan: Callable[[TaskPlan], TaskPlan] = lambda plan: plan
    task: Callable[[TaskPlan, BatchName], TaskPart] = TaskPart
    sink_ids: Callable[[int], list[str]] = lambda count: [f"sink-{each}" for each in range(count)]


class SparkWorld(Surroundings, Protocol):
    chance: Random
    protocols: Protocols
    timeout_ms: int | None
    source_end: int
    tasks: "list[TaskRun]"
    acknowledged: list[Row]
    writes: int
    by_digest: bool
    transactional: bool

    def worker(self) -> Worker: ...

    def copies_task(self) -> bool: ...


class TaskRun:
    """One attempt of one task."""

    def __init__(
        self, world: SparkWorld, plan: TaskPlan, batch: BatchName, partition: int, rows: list[Row]
    ) -> None:
        self.world = world
        self.plan = plan
        self.batch = batch
        self.partition = partition
        self.rows = rows
        self.worker = world.worker()
        self.worker.busy = True
        self.report: TaskReport | None = None
        self.failed = False
        self._sequences: dict[TopicPartition, int] = {}
        self._running = self._run()

    @property
    def over(self) -> bool:
        return self.failed or self.report is not None

    def step(self) -> None:
        try:
            next(self._running)
        except StopIteration:
            self.worker.busy = False
        except FAILURES:
            self.failed = True
            self.worker.busy = False
        except Killed:
            self.kill()

    def kill(self) -> None:
        self.failed = True
        self.worker.alive = False

    def _run(self) -> Iterator[None]:
        world, plan = self.world, self.plan
        cluster = ModelCluster(world, "task")
        part = world.protocols.task(plan, self.batch)
        for row in self.rows:
            part.counted(1, _digest(row))
            if not part.writes:
                continue
            place = TopicPartition("output", row[1] % OUTPUT_PARTITIONS)
            if not world.transactional:
                cluster.append_plain(place, row)
                yield
                continue
            if part.transaction is None:
                self._open(cluster, part)
                yield
            try:
                self._write(cluster, part, place, row)
            except KafkaError:
                self._give_up(cluster, part)
                raise
            yield
        self.report = part.report()

    def _open(self, cluster: ModelCluster, part: TaskPart) -> None:
        world, plan = self.world, self.plan
        slots = self.worker.slots.setdefault(plan.sink_id, world.protocols.slots())
        while True:
            ordinal = slots.take(plan.carried.driver.producer)
            name = world.protocols.worker_id(
                plan.sink_id, self.worker.token, ordinal, self.partition
            )
            try:
                producer = cluster.init(name, world.timeout_ms, once=True)
            except Unanswered:
                slots.abandon(ordinal)
            else:
                part.opened(name, producer, world.broker.now_ms, world.timeout_ms)
                return

    def _write(
        self, cluster: ModelCluster, part: TaskPart, place: TopicPartition, row: Row
    ) -> None:
        assert part.transaction is not None
        sequence = self._sequences[place] = self._sequences.get(place, -1) + 1
        transaction = part.transaction
        cluster.produce(transaction.transactional_id, transaction.producer, place, row, sequence)
        part.wrote({place: 1})

    def _give_up(self, cluster: ModelCluster, part: TaskPart) -> None:
        assert part.transaction is not None
        cluster.end([End(part.transaction.transactional_id, part.transaction.producer, False)])


def _digest(row: Row) -> int:
    return int.from_bytes(sha256(repr(row).encode()).digest()[:16], "big")


class QueryRun:
    """One life of a streaming query: from its start to its failure or to the end of its input."""

    def __init__(
        self,
        world: SparkWorld,
        checkpoint: Checkpoint,
        *,
        on_lost: OnLost = OnLost.STOP,
        new_checkpoint_allowed: bool = False,
        batch_job: bool = False,
    ) -> None:
        self.world = world
        self.checkpoint = checkpoint
        self.on_lost = on_lost
        self.new_checkpoint_allowed = new_checkpoint_allowed
        self.batch_job = batch_job
        self.error: Exception | None = None
        self.over = False
        self.batch_id = 0
        self._running = self._run()

    @property
    def outdated(self) -> bool:
        """Whether another run of the query has done this one's batch meanwhile."""
        return self.batch_id < self.checkpoint.commits

    def step(self) -> None:
        try:
            next(self._running)
        except StopIteration:
            self.over = True
        except FAILURES as error:
            self.error = error
            self.over = True
        except Killed:
            self.over = True

    def _run(self) -> Iterator[None]:
        checkpoint, world = self.checkpoint, self.world
        while True:
            batch_id = self.batch_id = checkpoint.commits
            if batch_id == len(checkpoint.offsets):
                start = checkpoint.offsets[-1][1] if checkpoint.offsets else 0
                if start >= world.source_end:
                    return
                end = min(world.source_end, start + world.chance.randint(1, 6))
                checkpoint.offsets.append((start, end))
            span = checkpoint.offsets[batch_id]
            for number, sink_id in enumerate(world.protocols.sink_ids(world.writes)):
                yield from self._write(sink_id, batch_id, span, number)
            if checkpoint.commits != batch_id:
                raise Unreachable("another query uses the checkpoint")
            checkpoint.commits += 1
            yield

    def _write(
        self, sink_id: str, batch_id: int, span: tuple[int, int], number: int
    ) -> Iterator[None]:
        """Plan, tasks, commit; abort when one of the last two fails."""
        cluster = ModelCluster(self.world, "driver")
        if not self.world.transactional:
            plan = TaskPlan(sink_id, Carried(Driver(SinkProducer(-1, -1, 0)), None, 0))
        else:
            settling = self.world.protocols.settling(sink_id, self.on_lost)
            settled = yield from self._steps(settling.run(), cluster)
            plan = self._plan(sink_id, settled)
        batch = BatchName("" if self.batch_job else self.checkpoint.query_id, batch_id)
        try:
            reports = yield from self._tasks(plan, batch, span, number)
            if self.world.transactional:
                yield from self._commit(sink_id, batch, span, reports)
        except FAILURES as error:
            if self.world.transactional:
                yield from self._abort(sink_id, error)
            raise
        self.world.acknowledged.extend((number, row) for row in range(*span))

    def _abort(self, sink_id: str, error: Exception) -> Iterator[None]:
        """What abort itself runs into does not hide why the batch failed."""
        steps = self.world.protocols.aborting(sink_id, self.on_lost)
        try:
            yield from self._steps(steps.run(), ModelCluster(self.world, "driver"))
        except FAILURES:
            raise error from None

    def _steps(self, steps: SinkSteps[R], cluster: ModelCluster) -> Generator[None, None, R]:
        try:
            request = next(steps)
            while True:
                yield
                request = steps.send(request(cluster))
        except StopIteration as end:
            result: R = end.value
            return result

    def _plan(self, sink_id: str, settled: TakenOverSink) -> TaskPlan:
        world = self.world
        return world.protocols.plan(
            TaskPlan(
                sink_id,
                Carried(settled.driver, settled.last, world.broker.now_ms),
                self.new_checkpoint_allowed,
                world.by_digest,
            )
        )

    def _tasks(
        self, plan: TaskPlan, batch: BatchName, span: tuple[int, int], number: int
    ) -> Generator[None, None, list[TaskReport]]:
        rows: list[Row] = [(number, row) for row in range(*span)]
        parts = [rows[each::TASKS] for each in range(TASKS)]
        attempts = [[self._start(plan, batch, each, parts[each])] for each in range(TASKS)]
        while True:
            winners = [self._winner(each) for each in attempts]
            if all(winners):
                return [each.report for each in winners if each and each.report]
            for partition, (each, winner) in enumerate(zip(attempts, winners, strict=True)):
                if winner:
                    continue
                if all(task.failed for task in each):
                    if len(each) == ATTEMPTS_MAX:
                        raise Unreachable("a task has failed too often")
                    each.append(self._start(plan, batch, partition, parts[partition]))
                elif len(each) < ATTEMPTS_MAX and self.world.copies_task():
                    each.append(self._start(plan, batch, partition, parts[partition]))
            yield

    def _start(self, plan: TaskPlan, batch: BatchName, partition: int, rows: list[Row]) -> TaskRun:
        task = TaskRun(self.world, plan, batch, partition, rows)
        self.world.tasks.append(task)
        return task

    def _winner(self, attempts: list[TaskRun]) -> TaskRun | None:
        return next((each for each in attempts if each.report is not None), None)

    def _commit(
        self, sink_id: str, batch: BatchName, span: tuple[int, int], reports: list[TaskReport]
    ) -> Iterator[None]:
        world = self.world
        rows = sum(each.rows for each in reports)
        if world.by_digest:
            digest = sum(each.digest or 0 for each in reports) % 2**128
            content = Content(rows, digest=f"{digest:032x}")
        else:
            content = Content(rows, offsets=f"{span[0]}-{span[1]}")
        rules = CommitRules(sink_id, self.on_lost, self.new_checkpoint_allowed)
        machine = world.protocols.committing(rules, batch, content, reports, world.broker.now_ms)
        yield from self._steps(machine.run(), ModelCluster(world, "driver"))
