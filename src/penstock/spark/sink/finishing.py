"""Decision, then end, then done (rules 4 and 7): the steps that planning and commit share."""

from enum import StrEnum
from typing import Any, NamedTuple

from penstock.spark.sink.cluster import (
    AppendDecision,
    End,
    Ended,
    EndTransactions,
    Finished,
    Gone,
    Question,
    Steps,
)
from penstock.spark.sink.decisions import (
    Decision,
    Driver,
    Stage,
    WrittenTransaction,
)
from penstock.spark.sink.identity import driver_id
from penstock.spark.sink.refusals import DriverReplaced


class OnLost(StrEnum):
    """What to do about rows of a decided batch that are gone."""

    STOP = "stop"
    REWRITE = "rewrite"
    SKIP = "skip"


class Storing(Steps[Driver]):
    """One decision in one transaction of the driver; the driver as it is afterwards comes out.

    Only the driver that planned last has the epoch for it: that it is stored proves that nobody
    had taken over before. When the answer is that somebody has, whether the decision counts is for
    that other one to read.
    """

    def __init__(self, driver: Driver, decision: Decision) -> None:
        super().__init__()
        self._driver = driver
        self._decision = decision

    def begin(self) -> Question[Any]:
        return self._ask(AppendDecision(self._driver, self._decision), self._appended)

    def _appended(self, refused: Gone | None) -> Question[Any]:
        if refused is not None:
            raise self._replaced(refused)
        name = driver_id(self._decision.sink_id)
        return self._ask(EndTransactions((End(name, self._driver.producer, True),)), self._stored)

    def _stored(self, answers: tuple[Ended | Gone, ...]) -> Finished[Driver]:
        (answer,) = answers
        if isinstance(answer, Gone):
            raise self._replaced(answer)
        return Finished(self._driver.after(answer.producer))

    def _replaced(self, refused: Gone) -> DriverReplaced:
        return DriverReplaced(self._decision.sink_id, self._decision.batch, refused.reason)


class Lost(NamedTuple):
    """Transactions of a decided batch that are gone, and why the first of them is."""

    transactions: tuple[WrittenTransaction, ...]
    reason: str

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.transactions)


class FinishedDecision(NamedTuple):
    """With losses and `on.lost=stop` it is as unfinished as before, and the caller must stop."""

    driver: Driver
    decision: Decision
    lost: Lost | None = None

    @property
    def must_stop(self) -> bool:
        return self.decision.stage is Stage.DECIDED


class Finishing(Steps[FinishedDecision]):
    """Commits what a decision names, then marks it as done.

    Each end is repeated in the version of the decision, so that one that was done before is
    recognised. Nobody uses the ids of an unfinished decision again: a transaction that is not
    there is lost, unless another driver has finished the decision meanwhile. So what became of it
    is stored in any case, and only the driver that still is one gets to say that rows are lost.
    """

    def __init__(self, driver: Driver, decision: Decision, on_lost: OnLost) -> None:
        super().__init__()
        assert decision.stage is Stage.DECIDED, "what is done is not done again"
        self._driver = driver
        self._decision = decision
        self._on_lost = on_lost

    def begin(self) -> Question[Any]:
        ends = tuple(
            End(each.transactional_id, each.producer, True) for each in self._decision.transactions
        )
        return self._ask(EndTransactions(ends), self._ended)

    def _ended(
        self, answers: tuple[Ended | Gone, ...]
    ) -> Question[Any] | Finished[FinishedDecision]:
        decision = self._decision
        gone = [
            (transaction, answer.reason)
            for transaction, answer in zip(decision.transactions, answers, strict=True)
            if isinstance(answer, Gone)
        ]
        if not gone:
            return self._store(decision.ended(Stage.DONE), None)
        lost = Lost(tuple(transaction for transaction, _ in gone), gone[0][1])
        if self._on_lost is OnLost.STOP:
            return self._store(decision, lost)
        stage = Stage.REWRITE if self._on_lost is OnLost.REWRITE else Stage.DONE
        return self._store(decision.ended(stage, lost.rows), lost)

    def _store(
        self, became: Decision, lost: Lost | None
    ) -> Question[Any] | Finished[FinishedDecision]:
        return self._run(
            Storing(self._driver, became),
            lambda driver: Finished(FinishedDecision(driver, became, lost)),
        )
