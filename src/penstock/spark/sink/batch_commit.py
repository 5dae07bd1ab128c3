"""The commit of a batch (rules 4, 6, 7 and 11): decision, then ends, then done.

The decision is written with the epoch of the driver that planned the batch. If another driver has
taken over since, the decision is rejected and nothing of the batch is committed. Only transactions
of the tasks' reports are committed; those of copied and failed tasks are aborted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.sink.admission import BatchAdmission, admit, check_repeated
from penstock.spark.sink.cluster import (
    End,
    EndTransactions,
    ListOpen,
    OpenSinkTransaction,
    SinkMachine,
    SinkRequest,
    SinkResult,
)
from penstock.spark.sink.decision_end import FinishedDecision, Finishing, Lost, OnLost, Storing
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


class BatchCommit(SinkMachine[BatchCommitted]):
    def __init__(
        self,
        rules: CommitRules,
        batch: BatchName,
        content: Content,
        reports: Sequence[TaskReport],
        now_ms: int,
    ) -> None:
        super().__init__()
        self._rules = rules
        self._batch = batch
        self._content = content
        self._reports = tuple(reports)
        self._now_ms = now_ms
        self._transactions = tuple(
            each.transaction for each in self._reports if each.transaction is not None
        )
        self._driver: Driver | None = None
        self._decision: Decision | None = None
        self._left: tuple[OpenSinkTransaction, ...] = ()

    def begin(self) -> SinkRequest[Any] | SinkResult[BatchCommitted]:
        if not self._reports:
            return SinkResult(BatchCommitted(0, 0))
        carried = self._one_plan()
        if self._was_decided(carried):
            return SinkResult(BatchCommitted(self._content.rows, 0, repeated=True))
        if not self._transactions:
            return SinkResult(BatchCommitted(0, 0))
        self._check_age(carried)
        self._driver = carried.driver
        # Before the decision: transactions that are open now cannot belong to a later driver.
        return self._ask(ListOpen(self._rules.sink_id), self._listed)

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

    def _listed(
        self, found: tuple[OpenSinkTransaction, ...]
    ) -> SinkRequest[Any] | SinkResult[BatchCommitted]:
        assert self._driver is not None
        named = {each.transactional_id for each in self._transactions}
        self._left = tuple(each for each in found if each.transactional_id not in named)
        self._decision = Decision(
            self._rules.sink_id,
            self._batch,
            self._content,
            self._driver.producer,
            DecisionStage.DECIDED,
            self._transactions,
        )
        return self._run(Storing(self._driver, self._decision), self._decided)

    def _decided(self, driver: Driver) -> SinkRequest[Any] | SinkResult[BatchCommitted]:
        self._driver = driver
        if not self._left:
            return self._finish()
        # Open transactions hold back every read_committed reader, and there may be no further
        # batch.
        ends = tuple(End(each.transactional_id, each.producer, False) for each in self._left)
        return self._ask(EndTransactions(ends), lambda _: self._finish())

    def _finish(self) -> SinkRequest[Any] | SinkResult[BatchCommitted]:
        assert self._driver is not None and self._decision is not None
        finishing = Finishing(self._driver, self._decision, self._rules.on_lost)
        return self._run(finishing, self._finished)

    def _finished(self, finished: FinishedDecision) -> SinkResult[BatchCommitted]:
        if finished.decision.stage is not DecisionStage.DONE:
            assert finished.lost is not None
            refusal = RowsLost if finished.must_stop else BatchToRewrite
            raise refusal(self._rules.sink_id, self._batch, *finished.lost)
        return SinkResult(
            BatchCommitted(
                self._content.rows,
                len(self._transactions),
                aborted=len(self._left),
                lost=finished.lost,
            )
        )
