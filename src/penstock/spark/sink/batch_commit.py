"""The commit of a batch (rules 4, 6, 7 and 11): decision, then ends, then done.

The decision is written with the epoch of the driver that planned the batch. If another driver has
taken over since, the decision is rejected and nothing of the batch is committed. Only transactions
of the tasks' reports are committed; those of copied and failed tasks are aborted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.spark.sink.admission import BatchAdmission, admit, check_repeated
from penstock.spark.sink.cluster import OpenSinkTransaction, SinkSteps, ask, ends_of
from penstock.spark.sink.decision_end import Finishing, Lost, OnLost, store
from penstock.spark.sink.decisions import (
    BatchName,
    Content,
    Decision,
    DecisionStage,
    Driver,
)
from penstock.spark.sink.refusals import (
    BatchToRewrite,
    MixedPlans,
    RowsLost,
    TransactionsTooOld,
)
from penstock.spark.sink.task import Carried, TaskReport


@dataclass(frozen=True, slots=True)
class CommitRules:
    sink_id: str
    on_lost: OnLost = OnLost.STOP
    new_checkpoint_allowed: bool = False


@dataclass(frozen=True, slots=True)
class BatchCommitted:
    rows: int
    transactions: int
    repeated: bool = False  # the batch had been committed before
    aborted: int = 0
    lost: Lost | None = None


class BatchCommit:
    finishing = Finishing

    def __init__(
        self,
        rules: CommitRules,
        batch: BatchName,
        content: Content,
        reports: Sequence[TaskReport],
        now_ms: int,
    ) -> None:
        self._rules = rules
        self._batch = batch
        self._content = content
        self._reports = tuple(reports)
        self._now_ms = now_ms
        self._transactions = tuple(
            each.transaction for each in self._reports if each.transaction is not None
        )

    def run(self) -> SinkSteps[BatchCommitted]:
        if not self._reports:
            return BatchCommitted(0, 0)
        carried = self._one_plan()
        if self._was_decided(carried):
            return BatchCommitted(self._content.rows, 0, repeated=True)
        if not self._transactions:
            return BatchCommitted(0, 0)
        self._check_age(carried)
        # Before the decision: transactions that are open now cannot belong to a later driver.
        found = yield from ask(lambda cluster: cluster.open_transactions(self._rules.sink_id))
        return (yield from self._commit(carried.driver, found))

    def _one_plan(self) -> Carried:
        carried = self._reports[0].carried
        if any((each.carried, each.batch) != (carried, self._batch) for each in self._reports):
            raise MixedPlans(self._rules.sink_id, self._batch)
        return carried

    def _was_decided(self, carried: Carried) -> bool:
        rules = self._rules
        admission = admit(
            rules.sink_id,
            carried.last,
            self._batch,
            new_checkpoint_allowed=rules.new_checkpoint_allowed,
        )
        if admission is BatchAdmission.NEW:
            return False
        assert carried.last is not None
        check_repeated(rules.sink_id, carried.last, self._batch, self._content)
        return True

    def _check_age(self, carried: Carried) -> None:
        """Leave half of the timeout for the ends.

        The age counts from the plan, by the driver's clock. By a worker's clock that is ahead, a
        transaction would look younger, and the cluster could abort a decided batch.
        """
        age_ms = self._now_ms - carried.planned_ms
        for each in self._transactions:
            if each.timeout_ms is not None and age_ms > each.timeout_ms // 2:
                raise TransactionsTooOld(self._rules.sink_id, self._batch, age_ms, each.timeout_ms)

    def _commit(
        self, driver: Driver, found: tuple[OpenSinkTransaction, ...]
    ) -> SinkSteps[BatchCommitted]:
        rules, transactions = self._rules, self._transactions
        named = {each.transactional_id for each in transactions}
        left = [each for each in found if each.transactional_id not in named]
        decided = DecisionStage.DECIDED
        decision = Decision(
            rules.sink_id, self._batch, self._content, driver.producer, decided, transactions
        )
        driver = yield from store(driver, decision)
        if left:
            # Open transactions hold back every read_committed reader, and there may be no further
            # batch.
            ends = ends_of(left, commit=False)
            yield from ask(lambda cluster: cluster.end(ends))
        finished = yield from self.finishing(driver, decision, rules.on_lost).run()
        if finished.decision.stage is not DecisionStage.DONE:
            assert finished.lost is not None
            refusal = RowsLost if finished.must_stop else BatchToRewrite
            raise refusal(rules.sink_id, self._batch, *finished.lost)
        return BatchCommitted(
            self._content.rows, len(transactions), aborted=len(left), lost=finished.lost
        )
