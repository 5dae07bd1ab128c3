"""A life of a sink: queries that die and come again, tasks that outlive them, a bad network.

A seed decides everything. After the storm comes the calm: what is still running ends, what is still
under way arrives, the query is started until it has read its input or has stopped for good, and
what it may have left is recovered. Then `judge` compares input and output.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from sink_broker import Broker
from sink_network import Killed, ModelCluster
from sink_spark import (
    OUTPUT_PARTITIONS,
    Checkpoint,
    Protocols,
    QueryRun,
    Row,
    TaskRun,
    Worker,
)

from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.spark.sink.cluster import drive
from penstock.spark.sink.decision_end import OnLost
from penstock.spark.sink.refusals import (
    CheckpointWentBack,
    NewCheckpoint,
    RowsLost,
    SinkRefusal,
    SinkStopped,
)

TURNS = 260
ROWS = 12
TIMEOUT_MS = 10_000
LIVES_MAX = 60
NESTED_MAX = 2
CALM_STEPS_MAX = 20_000

Actor = QueryRun | TaskRun


@dataclass(frozen=True)
class Weather:
    """How likely each misfortune is, per request or turn."""

    kill_driver: float = 0.02
    kill_task: float = 0.03
    lose: float = 0.05
    late: float = 0.5
    copy_task: float = 0.1
    second_driver: float = 0.02
    clock_jump: float = 0.02
    restore: float = 0.0
    delete: float = 0.0
    copy_checkpoint: float = 0.0


FINE = Weather(0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Climate:
    """What kind of cluster and of query it is."""

    end_version: int = 5
    two_phase_commit: bool = True
    by_digest: bool = False
    writes: int = 1
    transactional: bool = True
    weather: Weather = field(default_factory=Weather)

    @property
    def stops(self) -> tuple[type[SinkStopped], ...]:
        """Why a query may stop for good here."""
        reasons: list[type[SinkStopped]] = []
        if not self.two_phase_commit:
            reasons.append(RowsLost)
        if self.weather.restore or self.weather.copy_checkpoint:
            reasons.append(CheckpointWentBack)
        if self.weather.delete:
            reasons.append(NewCheckpoint)
        return tuple(reasons)


class Violation(AssertionError):
    """The output is not what was promised."""


class World:
    def __init__(self, seed: int, climate: Climate, protocols: Protocols | None = None) -> None:
        self.chance = Random(seed)
        self.climate = climate
        self.weather = climate.weather
        self.protocols = protocols or Protocols()
        self.broker = Broker(end_version=climate.end_version)
        self.timeout_ms = None if climate.two_phase_commit else TIMEOUT_MS
        self.by_digest = climate.by_digest
        self.writes = climate.writes
        self.transactional = climate.transactional
        self.source_end = 2
        self.checkpoint = Checkpoint("query-0")
        self.snapshot = self.checkpoint.copy()
        self.queries: list[QueryRun] = []
        self.tasks: list[TaskRun] = []
        self.workers: list[Worker] = []
        self.acknowledged: list[Row] = []
        self.late: list[Callable[[], object]] = []
        self.stopped: SinkStopped | None = None
        self.seen: Counter[str] = Counter()
        self.trace: list[str] = []
        self._acting: list[object] = []

    # ---- as the surroundings of a process

    def before_request(self, process: str) -> None:
        if len(self._acting) <= NESTED_MAX and self.weather is not FINE:
            while self.chance.random() < 0.3:
                self.turn()
        elif self.broker.ending:
            self.broker.write_markers(self.chance.choice(self.broker.ending))
        self._maybe_kill(process)

    def after_request(self, process: str) -> None:
        self._maybe_kill(process)

    def _maybe_kill(self, process: str) -> None:
        likely = self.weather.kill_driver if process == "driver" else self.weather.kill_task
        if self.chance.random() < likely / 2:
            self.note(f"{process} killed")
            raise Killed

    def loses_request(self) -> bool:
        return self.chance.random() < self.weather.lose

    def loses_answer(self) -> bool:
        return self.chance.random() < self.weather.lose

    def comes_late(self) -> bool:
        return self.chance.random() < self.weather.late

    def deliver_later(self, request: Callable[[], object]) -> None:
        self.late.append(request)

    # ---- as Spark's cluster

    def worker(self) -> Worker:
        free = [each for each in self.workers if each.alive and not each.busy]
        if free and self.chance.random() < 0.8:
            return self.chance.choice(free)
        worker = Worker(f"{len(self.workers):016x}")
        self.workers.append(worker)
        return worker

    def copies_task(self) -> bool:
        return self.chance.random() < self.weather.copy_task

    # ---- one thing happens

    def turn(self) -> None:
        self.broker.now_ms += self.chance.randint(0, 60)
        if self.chance.random() < self.weather.clock_jump:
            self.broker.now_ms += self.chance.randint(1_000, 8_000)
        self.broker.abort_timed_out()
        what = self.chance.random()
        if what < 0.15 and self.broker.ending:
            self.broker.write_markers(self.chance.choice(self.broker.ending))
        elif what < 0.25 and self.late:
            self._deliver(self.late.pop(self.chance.randrange(len(self.late))))
        else:
            self._act()

    def _deliver(self, request: Callable[[], object]) -> None:
        self.note("late request")
        try:
            request()
        except KafkaError:
            self.note("late request refused")

    def _act(self) -> None:
        actors = self.actors()
        if actors:
            self._step(self.chance.choice(actors))

    def actors(self) -> list[Actor]:
        """Who could act: it is alive, and not in the middle of something."""
        everybody: list[Actor] = [*self.queries, *self.tasks]
        return [each for each in everybody if not each.over and each not in self._acting]

    def _step(self, actor: Actor) -> None:
        self._acting.append(actor)
        actor.step()
        self._acting.pop()
        if isinstance(actor, QueryRun) and actor.over:
            self._ended(actor)

    def _ended(self, query: QueryRun) -> None:
        error = query.error
        self.note(f"query over: {type(error).__name__}")
        if not isinstance(error, SinkStopped) or query.checkpoint is not self.checkpoint:
            return
        if isinstance(error, CheckpointWentBack) and query.outdated:
            return  # it is an old driver that stops, not the query
        self.stopped = error

    def note(self, what: str) -> None:
        self.seen[what] += 1
        self.trace.append(f"{self.broker.now_ms} {what}")

    # ---- a life

    def run(self) -> None:
        for number in range(TURNS):
            self.source_end = min(ROWS, 2 + number * ROWS // TURNS * 2)
            if self.stopped is not None:
                break
            self._keep_running()
            self.turn()
        self.calm()

    def _keep_running(self) -> None:
        alive = [each for each in self.queries if not each.over]
        weather, chance = self.weather, self.chance
        if chance.random() < 0.02:
            self.snapshot = self.checkpoint.copy()
        if alive:
            if len(alive) == 1 and chance.random() < weather.second_driver:
                self.note("second driver")
                self._start(self.checkpoint)
            elif len(alive) == 1 and chance.random() < weather.copy_checkpoint:
                self.note("copied checkpoint")
                self._start(self.checkpoint.copy())
            return
        if chance.random() < weather.restore:
            self.note("restored checkpoint")
            self.checkpoint = self.snapshot.copy()
        elif chance.random() < weather.delete:
            self.note("deleted checkpoint")
            self.checkpoint = Checkpoint(f"query-{len(self.queries)}")
        self._start(self.checkpoint)

    def _start(self, checkpoint: Checkpoint) -> QueryRun:
        query = QueryRun(self, checkpoint)
        self.queries.append(query)
        return query

    def calm(self) -> None:
        self.weather = FINE
        self.source_end = ROWS
        self._run_out()
        for _ in range(LIVES_MAX):
            if self.stopped is not None:
                break
            query = self._start(self.checkpoint)
            self._run_out()
            if query.error is None:
                break
        else:
            raise Violation(f"the query comes to no end: {self.queries[-1].error!r}")
        self.recover()
        self._run_out()

    def _run_out(self) -> None:
        """Everybody goes on to the end, and everything that is under way arrives."""
        for _ in range(CALM_STEPS_MAX):
            actors = self.actors()
            if self.broker.ending:
                self.broker.write_markers(self.broker.ending[0])
            elif self.late:
                self._deliver(self.late.pop(0))
            elif actors:
                self._step(self.chance.choice(actors))
            else:
                return
        raise Violation("the calm comes to no end")

    def run_alone(self, query: QueryRun) -> None:
        """This query and its tasks, while all others stand still."""
        others = [each for each in self.actors() if each is not query]
        for _ in range(CALM_STEPS_MAX):
            if self.broker.ending:
                self.broker.write_markers(self.broker.ending[0])
            elif query.over:
                return
            else:
                mine = [each for each in self.actors() if each not in others]
                self._step(self.chance.choice(mine))
        raise Violation("a query comes to no end")

    def recover(self) -> None:
        """As `penstock txn recover` does it."""
        if self.transactional:
            for sink_id in self.protocols.sink_ids(self.writes):
                try:
                    machine = self.protocols.settling(sink_id, OnLost.STOP)
                    drive(machine.run(), ModelCluster(self, "driver"))
                except SinkRefusal as refusal:
                    self.note(f"recover: {type(refusal).__name__}")

    # ---- the verdict

    def output(self) -> Counter[Row]:
        places = [TopicPartition("output", each) for each in range(OUTPUT_PARTITIONS)]
        return Counter(row for place in places for row in self.broker.committed(place))  # type: ignore[misc]

    def judge(self) -> None:
        output = self.output()
        twice = sorted(row for row, count in output.items() if count > 1)
        if twice:
            raise Violation(f"rows are there more than once: {twice}")
        missing = sorted(row for row in set(self.acknowledged) if row not in output)
        if missing:
            raise Violation(f"rows of acknowledged batches are missing: {missing}")
        if self.stopped is None:
            expected = {(write, row) for write in range(self.writes) for row in range(ROWS)}
            if set(output) != expected:
                raise Violation(f"rows are missing: {sorted(expected - set(output))}")
        elif not isinstance(self.stopped, self.climate.stops):
            raise Violation(f"the query stopped without need: {self.stopped}")
        if self.broker.open():
            raise Violation(f"still open: {[name for name, _ in self.broker.open()]}")
        for place, entries in self.broker.logs.items():
            if self.broker.last_stable(place) != len(entries):
                raise Violation(f"{place} is held back at {self.broker.last_stable(place)}")


def live(seed: int, climate: Climate, protocols: Protocols | None = None) -> World:
    """One life, judged."""
    world = World(seed, climate, protocols)
    world.run()
    world.judge()
    return world
