"""Decision, then end, then done (rules 4 and 7): the steps that planning and commit share."""

from enum import StrEnum
from typing import NamedTuple

from penstock.spark.sink.cluster import End, Ended, Gone, SinkSteps, ask, ends_of
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


def store(driver: Driver, decision: Decision) -> SinkSteps[Driver]:
    """Store one decision in a transaction of the driver; return the driver afterwards.

    Only the driver that planned last has a valid epoch, so a stored decision proves that no other
    had taken over before. If another has taken over, that driver reads whether the decision counts.
    """
    name = driver_id(decision.sink_id)
    refused = yield from ask(lambda cluster: cluster.append_decision(name, driver, decision))
    if refused is None:
        end = End(name, driver.producer, True)
        (answer,) = yield from ask(lambda cluster: cluster.end((end,)))
        if isinstance(answer, Ended):
            return driver.after(answer.producer)
        refused = answer
    raise DriverReplaced(decision.sink_id, decision.batch, refused.reason)


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


class Finishing:
    """Commits the transactions of a decision, then marks it as done.

    Each end is repeated in the version of the decision, so that an earlier end is recognised. The
    ids of an unfinished decision are never used again: a missing transaction is lost, unless
    another driver has finished the decision. So the outcome is stored in any case, and only the
    current driver can report lost rows.
    """

    def __init__(self, driver: Driver, decision: Decision, on_lost: OnLost) -> None:
        assert decision.stage is DecisionStage.DECIDED, "what is done is not done again"
        self._driver = driver
        self._decision = decision
        self._on_lost = on_lost

    def run(self) -> SinkSteps[FinishedDecision]:
        ends = self._ends()
        became, lost = self._judge((yield from ask(lambda cluster: cluster.end(ends))))
        driver = yield from store(self._driver, became)
        return FinishedDecision(driver, became, lost)

    def _ends(self) -> tuple[End, ...]:
        return ends_of(self._decision.transactions, commit=True)

    def _judge(self, answers: tuple[Ended | Gone, ...]) -> tuple[Decision, Lost | None]:
        """Return the decision after its ends, and its losses."""
        decision = self._decision
        gone = [
            (transaction, answer.reason)
            for transaction, answer in zip(decision.transactions, answers, strict=True)
            if isinstance(answer, Gone)
        ]
        if not gone:
            return decision.ended(DecisionStage.DONE), None
        lost = Lost(tuple(transaction for transaction, _ in gone), gone[0][1])
        if self._on_lost is OnLost.STOP:
            return decision, lost
        stage = DecisionStage.REWRITE if self._on_lost is OnLost.REWRITE else DecisionStage.DONE
        return decision.ended(stage, lost.rows), lost
