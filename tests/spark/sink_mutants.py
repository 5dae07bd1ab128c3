"""The sink's protocol with one rule switched off at a time.

Each of these looks reasonable; each loses rows, doubles them or stops a query without need. A
simulation that does not notice proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sink_spark import Protocols
from sink_world import Climate, Weather

from penstock.spark.sink.admission import BatchAdmission, admit
from penstock.spark.sink.batch_commit import BatchCommit, BatchCommitted, CommitRules
from penstock.spark.sink.cluster import (
    End,
    Ended,
    Gone,
    OpenSinkTransaction,
    SinkSteps,
    ask,
    ends_of,
)
from penstock.spark.sink.decision_end import FinishedDecision, Finishing, Lost, store
from penstock.spark.sink.decisions import (
    END_VERSION_V2,
    BatchName,
    Content,
    Decision,
    DecisionStage,
    Driver,
    RowsAt,
    SinkProducer,
    WrittenTransaction,
)
from penstock.spark.sink.identity import driver_id
from penstock.spark.sink.refusals import RowsLost
from penstock.spark.sink.takeover import SinkTakeover
from penstock.spark.sink.task import Carried, Slots, TaskPlan, TaskReport


class SameSlot(Slots):
    """Rule 2: an id is taken again while the decision about it is open."""

    def take(self, driver: SinkProducer) -> int:  # noqa: ARG002
        return 0


class RepeatsInit(Slots):
    """Rule 2: after an InitProducerId without an answer it is sent again under the same id."""

    def __init__(self) -> None:
        super().__init__()
        self._again: int | None = None

    def take(self, driver: SinkProducer) -> int:
        again, self._again = self._again, None
        return super().take(driver) if again is None else again

    def abandon(self, ordinal: int) -> None:
        self._again = ordinal


class LeavesUnfinished(SinkTakeover):
    """Rule 3 when planning, rule 5 when aborting: the last decision is not finished first."""

    def _finish(
        self, driver: Driver, decision: Decision | None
    ) -> SinkSteps[FinishedDecision | None]:
        del driver, decision
        yield from ()
        return None


class AbortsNothing(SinkTakeover):
    """Rule 3: what no decision names stays open."""

    def _prove_newest(self, driver: Driver, decision: Decision | None) -> SinkSteps[Driver]:
        del decision
        yield from ()
        return driver

    def _abort(
        self, found: tuple[OpenSinkTransaction, ...]
    ) -> SinkSteps[tuple[OpenSinkTransaction, ...]]:
        del found
        yield from ()
        return ()


class AbortsUnproven(SinkTakeover):
    """Rule 3: an old driver that is slow takes a newer one's transactions for leftovers."""

    def _prove_newest(self, driver: Driver, decision: Decision | None) -> SinkSteps[Driver]:
        del decision
        yield from ()
        return driver


class DecidesAnyway(BatchCommit):
    """Rule 3: a driver takes over again at commit, instead of using the epoch of its plan."""

    def _commit(
        self, driver: Driver, found: tuple[OpenSinkTransaction, ...]
    ) -> SinkSteps[BatchCommitted]:
        del driver
        name = driver_id(self._rules.sink_id)
        mine = yield from ask(lambda cluster: cluster.take_over(name))
        return (yield from super()._commit(Driver(mine), found))


class DecidesNothing(BatchCommit):
    """Rule 4: the transactions are ended without a decision."""

    def _commit(
        self, driver: Driver, found: tuple[OpenSinkTransaction, ...]
    ) -> SinkSteps[BatchCommitted]:
        del driver, found
        ends = ends_of(self._transactions, commit=True)
        yield from ask(lambda cluster: cluster.end(ends))
        return BatchCommitted(self._content.rows, len(self._transactions))


class DoneFirst(Finishing):
    """Rule 4: the decision is marked as done before its transactions are ended."""

    def run(self) -> SinkSteps[FinishedDecision]:
        done = self._decision.ended(DecisionStage.DONE)
        driver = yield from store(self._driver, done)
        ends = self._ends()
        yield from ask(lambda cluster: cluster.end(ends))
        return FinishedDecision(driver, done)


class IgnoresLosses(Finishing):
    """Rule 7: whatever the answer is, it is taken for done."""

    def _judge(self, answers: tuple[Ended | Gone, ...]) -> tuple[Decision, Lost | None]:
        return super()._judge(tuple(Ended(SinkProducer(0, 0, 0)) for _ in answers))


class OtherVersion(Finishing):
    """Rule 7: ends are repeated in the version that this driver would use."""

    def _ends(self) -> tuple[End, ...]:
        other = END_VERSION_V2 + 4 - self._decision.driver.end_version
        return tuple(
            each._replace(producer=each.producer._replace(end_version=other))
            for each in super()._ends()
        )


class CriesTooEarly(Finishing):
    """Rule 7: rows are called lost by a driver that does not know that it was replaced."""

    def _judge(self, answers: tuple[Ended | Gone, ...]) -> tuple[Decision, Lost | None]:
        if any(isinstance(each, Gone) for each in answers):
            raise RowsLost("sink", self._decision.batch, self._decision.transactions, "?")
        return super()._judge(answers)


class FinishesWith:
    """Commit and settle with another way to finish."""

    def __init__(self, way: type[Finishing]) -> None:
        class Commit(BatchCommit):
            finishing = way

        class Settle(SinkTakeover):
            finishing = way

        self.commit, self.settle = Commit, Settle


class CommitsEverything(BatchCommit):
    """Rule 4: what is open and not named by a report is committed as well."""

    def _commit(
        self, driver: Driver, found: tuple[OpenSinkTransaction, ...]
    ) -> SinkSteps[BatchCommitted]:
        named = {each.transactional_id for each in self._transactions}
        self._transactions += tuple(
            WrittenTransaction(each.transactional_id, each.producer, (RowsAt("output", 0, 1),))
            for each in found
            if each.transactional_id not in named
        )
        return (yield from super()._commit(driver, found))


class SkipsById(BatchCommit):
    """Rule 6: a batch with the id of the last one is left out, whatever it contains."""

    def _was_decided(self, carried: Carried) -> bool:
        allowed = self._rules.new_checkpoint_allowed
        found = admit(
            self._rules.sink_id, carried.last, self._batch, new_checkpoint_allowed=allowed
        )
        return found is BatchAdmission.REPEATED


def allows_new_checkpoint(
    rules: CommitRules,
    batch: BatchName,
    content: Content,
    reports: Sequence[TaskReport],
    now_ms: int,
) -> BatchCommit:
    """Rule 6: a query id that the sink does not know is taken for a new query."""
    return BatchCommit(replace(rules, new_checkpoint_allowed=True), batch, content, reports, now_ms)


def forgets_sequence(plan: TaskPlan) -> TaskPlan:
    """Rule 4, transactions v1: commit begins at the sequence number that planning has used."""
    driver = Driver(plan.carried.driver.producer)
    return replace(plan, carried=replace(plan.carried, driver=driver))


def knows_no_last_batch(plan: TaskPlan) -> TaskPlan:
    """Rule 6: tasks and commit do not know what was decided last."""
    return replace(plan, carried=replace(plan.carried, last=None))


def allows_in_plan(plan: TaskPlan) -> TaskPlan:
    return replace(plan, new_checkpoint_allowed=True)


def id_by_partition(sink_id: str, worker: str, ordinal: int, partition: int) -> str:
    """Rule 2: the id belongs to the task's number, and copies of the task share it."""
    del worker, ordinal
    return f"{sink_id}.{0:016x}.{partition}"


@dataclass(frozen=True)
class Mutant:
    rule: str
    protocols: Protocols
    climate: Climate = field(default_factory=Climate)


STOCK = Climate(two_phase_commit=False, weather=Weather(clock_jump=0.1))
OLD = Climate(end_version=4)
RESTORED = Climate(weather=Weather(restore=0.5))
DELETED = Climate(weather=Weather(delete=0.5))


def _finishing(kind: type[Finishing]) -> Protocols:
    made = FinishesWith(kind)
    return Protocols(settling=made.settle, aborting=made.settle, committing=made.commit)


MUTANTS = {
    "ids by task number": Mutant("2", Protocols(worker_id=id_by_partition)),
    "ids used again at once": Mutant("2", Protocols(slots=SameSlot)),
    "InitProducerId sent twice": Mutant("2", Protocols(slots=RepeatsInit)),
    "commit takes over again": Mutant("3", Protocols(committing=DecidesAnyway)),
    "planning leaves a decision unfinished": Mutant("3", Protocols(settling=LeavesUnfinished)),
    "planning aborts nothing": Mutant(
        "3", Protocols(settling=AbortsNothing, aborting=AbortsNothing)
    ),
    "planning aborts without proof": Mutant(
        "3", Protocols(settling=AbortsUnproven, aborting=AbortsUnproven)
    ),
    "no decision": Mutant("4", Protocols(committing=DecidesNothing)),
    "done before the ends": Mutant("4", _finishing(DoneFirst)),
    "everything open is committed": Mutant("4", Protocols(committing=CommitsEverything)),
    "sequence numbers used twice": Mutant("4", Protocols(plan=forgets_sequence), OLD),
    "abort aborts what is decided": Mutant("5", Protocols(aborting=LeavesUnfinished)),
    "no batch is left out": Mutant("6", Protocols(plan=knows_no_last_batch)),
    "left out by id alone": Mutant("6", Protocols(committing=SkipsById), RESTORED),
    "a new query id is welcome": Mutant(
        "6", Protocols(plan=allows_in_plan, committing=allows_new_checkpoint), DELETED
    ),
    "losses are ignored": Mutant("7", _finishing(IgnoresLosses), STOCK),
    "repeated in another version": Mutant(
        "7", Protocols(settling=FinishesWith(OtherVersion).settle)
    ),
    "a fenced driver calls rows lost": Mutant("7", _finishing(CriesTooEarly)),
    "two writes with one sink id": Mutant(
        "8", Protocols(sink_ids=lambda count: ["sink-0"] * count), Climate(writes=2)
    ),
}
