"""A driver takes over a sink (rules 3, 5 and 9): planning, abort and recovery begin alike.

After it the sink is at rest: older drivers are fenced, the last decision is finished, and what no
decision names is aborted. A batch that was decided is never aborted, since its ends come first.
"""

from dataclasses import dataclass
from typing import Any

from penstock.spark.sink.cluster import (
    End,
    Ended,
    EndTransactions,
    Finished,
    Gone,
    ListOpen,
    OpenTransaction,
    Question,
    ReadDecision,
    Steps,
    TakeOver,
)
from penstock.spark.sink.decisions import (
    Decision,
    Driver,
    LastBatch,
    Producer,
    Stage,
    nothing_decided,
)
from penstock.spark.sink.finishing import FinishedDecision, Finishing, Lost, OnLost, Storing
from penstock.spark.sink.refusals import RowsLost


@dataclass(frozen=True, slots=True)
class Settled:
    driver: Driver
    last: LastBatch | None
    finished: bool  # a decision was left unfinished, and is not any more
    aborted: tuple[OpenTransaction, ...]
    lost: Lost | None = None


class Settling(Steps[Settled]):
    def __init__(self, sink_id: str, on_lost: OnLost) -> None:
        super().__init__()
        self._sink_id = sink_id
        self._on_lost = on_lost
        self._driver: Driver | None = None
        self._decision: Decision | None = None
        self._finished: FinishedDecision | None = None

    def begin(self) -> Question[Any]:
        # First of all: from here on no older driver decides anything any more.
        return self._ask(TakeOver(self._sink_id), self._taken_over)

    def _taken_over(self, producer: Producer) -> Question[Any]:
        self._driver = Driver(producer)
        return self._ask(ReadDecision(self._sink_id), self._read)

    def _read(self, decision: Decision | None) -> Question[Any] | Finished[Settled]:
        assert self._driver is not None
        self._decision = decision
        if decision is None or decision.stage is not Stage.DECIDED:
            return self._look()
        return self._run(Finishing(self._driver, decision, self._on_lost), self._is_finished)

    def _is_finished(self, finished: FinishedDecision) -> Question[Any]:
        self._finished = finished
        self._driver, self._decision = finished.driver, finished.decision
        return self._look()

    def _look(self) -> Question[Any]:
        return self._ask(ListOpen(self._sink_id), self._listed)

    def _listed(self, found: tuple[OpenTransaction, ...]) -> Question[Any] | Finished[Settled]:
        """What was open is named by no decision, if it did not belong to a newer driver's tasks
        already: there is none if this one can still store something after it has looked."""
        if not found:
            return self._settled(())
        assert self._driver is not None
        again = self._decision or nothing_decided(self._sink_id, self._driver.producer)
        return self._run(Storing(self._driver, again), lambda driver: self._abort(driver, found))

    def _abort(self, driver: Driver, found: tuple[OpenTransaction, ...]) -> Question[Any]:
        """Each end counts for the producer that was seen and no other: by the time it arrives the
        id may have begun something that will be decided."""
        self._driver = driver
        ends = tuple(End(each.transactional_id, each.producer, False) for each in found)
        return self._ask(EndTransactions(ends), lambda answers: self._aborted(found, answers))

    def _aborted(
        self, found: tuple[OpenTransaction, ...], answers: tuple[Ended | Gone, ...]
    ) -> Finished[Settled]:
        """Whatever is gone was ended by somebody else."""
        pairs = zip(found, answers, strict=True)
        return self._settled(tuple(each for each, answer in pairs if isinstance(answer, Ended)))

    def _settled(self, aborted: tuple[OpenTransaction, ...]) -> Finished[Settled]:
        assert self._driver is not None
        finished, decision = self._finished, self._decision
        if finished is not None and finished.must_stop:
            assert finished.lost is not None
            raise RowsLost(self._sink_id, finished.decision.batch, *finished.lost)
        last = decision.last_batch if decision else None
        lost = finished.lost if finished else None
        return Finished(Settled(self._driver, last, finished is not None, aborted, lost))
