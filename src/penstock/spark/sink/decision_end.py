"""Decision, then end, then done (rules 4 and 7): the steps that planning and commit share."""

from enum import StrEnum
from typing import Any, NamedTuple

from penstock.spark.sink.cluster import (
    AppendDecision,
    End,
    Ended,
    EndTransactions,
    Gone,
    SinkMachine,
    SinkRequest,
    SinkResult,
)
from penstock.spark.sink.decisions import (
    Decision,
    DecisionStage,
    Driver,
    WrittenTransaction,
)
from penstock.spark.sink.identity import driver_id
from penstock.spark.sink.refusals import DriverReplaced


class OnLost(StrEnum):
    """The reaction to lost rows of a decided batch."""

    STOP = "stop"
    REWRITE = "rewrite"
    SKIP = "skip"


class Storing(SinkMachine[Driver]):
    """Stores one decision in a transaction of the driver; the result is the driver afterwards.

    Only the driver that planned last has a valid epoch, so a stored decision proves that no other
    had taken over before. If another has taken over, that driver reads whether the decision counts.
    """

    def __init__(self, driver: Driver, decision: Decision) -> None:
        super().__init__()
        self._driver = driver
        self._decision = decision

    def begin(self) -> SinkRequest[Any]:
        return self._ask(AppendDecision(self._driver, self._decision), self._appended)

    def _appended(self, refused: Gone | None) -> SinkRequest[Any]:
        if refused is not None:
            raise self._replaced(refused)
        name = driver_id(self._decision.sink_id)
        return self._ask(EndTransactions((End(name, self._driver.producer, True),)), self._stored)

    def _stored(self, answers: tuple[Ended | Gone, ...]) -> SinkResult[Driver]:
        (answer,) = answers
        if isinstance(answer, Gone):
            raise self._replaced(answer)
        return SinkResult(self._driver.after(answer.producer))

    def _replaced(self, refused: Gone) -> DriverReplaced:
        return DriverReplaced(self._decision.sink_id, self._decision.batch, refused.reason)


class Lost(NamedTuple):
    """The lost transactions of a decided batch, and the reason of the first loss."""

    transactions: tuple[WrittenTransaction, ...]
    reason: str

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.transactions)


class FinishedDecision(NamedTuple):
    """The outcome. With losses and `on.lost=stop` the decision is still unfinished, and the caller
    stops."""

    driver: Driver
    decision: Decision
    lost: Lost | None = None

    @property
    def must_stop(self) -> bool:
        return self.decision.stage is DecisionStage.DECIDED


class Finishing(SinkMachine[FinishedDecision]):
    """Commits the transactions of a decision, then marks it as done.

    Each end is repeated in the version of the decision, so that an earlier end is recognised. The
    ids of an unfinished decision are never used again: a missing transaction is lost, unless
    another driver has finished the decision. So the outcome is stored in any case, and only the
    current driver can report lost rows.
    """

    def __init__(self, driver: Driver, decision: Decision, on_lost: OnLost) -> None:
        super().__init__()
        assert decision.stage is DecisionStage.DECIDED, "what is done is not done again"
        self._driver = driver
        self._decision = decision
        self._on_lost = on_lost

    def begin(self) -> SinkRequest[Any]:
        ends = tuple(
            End(each.transactional_id, each.producer, True) for each in self._decision.transactions
        )
        return self._ask(EndTransactions(ends), self._ended)

    def _ended(
        self, answers: tuple[Ended | Gone, ...]
    ) -> SinkRequest[Any] | SinkResult[FinishedDecision]:
        decision = self._decision
        gone = [
            (transaction, answer.reason)
            for transaction, answer in zip(decision.transactions, answers, strict=True)
            if isinstance(answer, Gone)
        ]
        if not gone:
            return self._store(decision.ended(DecisionStage.DONE), None)
        lost = Lost(tuple(transaction for transaction, _ in gone), gone[0][1])
        if self._on_lost is OnLost.STOP:
            return self._store(decision, lost)
        stage = DecisionStage.REWRITE if self._on_lost is OnLost.REWRITE else DecisionStage.DONE
        return self._store(decision.ended(stage, lost.rows), lost)

    def _store(
        self, became: Decision, lost: Lost | None
    ) -> SinkRequest[Any] | SinkResult[FinishedDecision]:
        return self._run(
            Storing(self._driver, became),
            lambda driver: SinkResult(FinishedDecision(driver, became, lost)),
        )
