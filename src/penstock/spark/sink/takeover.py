"""A driver takes over a sink (rules 3, 5 and 9): the start of planning, abort and recovery.

Afterwards the sink is at rest: older drivers are fenced, the last decision is finished, and
transactions that no decision names are aborted. A decided batch is never aborted: its ends come
first.
"""

from dataclasses import dataclass
from typing import Any

from penstock.spark.sink.cluster import (
    End,
    Ended,
    EndTransactions,
    Gone,
    ListOpen,
    OpenSinkTransaction,
    ReadDecision,
    SinkMachine,
    SinkRequest,
    SinkResult,
    TakeOverSink,
)
from penstock.spark.sink.decision_end import FinishedDecision, Finishing, Lost, OnLost, Storing
from penstock.spark.sink.decisions import (
    Decision,
    DecisionStage,
    Driver,
    LastBatch,
    SinkProducer,
    nothing_decided,
)
from penstock.spark.sink.refusals import RowsLost


@dataclass(frozen=True, slots=True)
class TakenOverSink:
    driver: Driver
    last: LastBatch | None
    finished: bool  # an unfinished decision was found and finished
    aborted: tuple[OpenSinkTransaction, ...]
    lost: Lost | None = None


class SinkTakeover(SinkMachine[TakenOverSink]):
    def __init__(self, sink_id: str, on_lost: OnLost) -> None:
        super().__init__()
        self._sink_id = sink_id
        self._on_lost = on_lost
        self._driver: Driver | None = None
        self._decision: Decision | None = None
        self._finished: FinishedDecision | None = None

    def begin(self) -> SinkRequest[Any]:
        # First of all: from here on no older driver can decide.
        return self._ask(TakeOverSink(self._sink_id), self._taken_over)

    def _taken_over(self, producer: SinkProducer) -> SinkRequest[Any]:
        self._driver = Driver(producer)
        return self._ask(ReadDecision(self._sink_id), self._read)

    def _read(self, decision: Decision | None) -> SinkRequest[Any] | SinkResult[TakenOverSink]:
        assert self._driver is not None
        self._decision = decision
        if decision is None or decision.stage is not DecisionStage.DECIDED:
            return self._look()
        return self._run(Finishing(self._driver, decision, self._on_lost), self._is_finished)

    def _is_finished(self, finished: FinishedDecision) -> SinkRequest[Any]:
        self._finished = finished
        self._driver, self._decision = finished.driver, finished.decision
        return self._look()

    def _look(self) -> SinkRequest[Any]:
        return self._ask(ListOpen(self._sink_id), self._listed)

    def _listed(
        self, found: tuple[OpenSinkTransaction, ...]
    ) -> SinkRequest[Any] | SinkResult[TakenOverSink]:
        """Abort open transactions that no decision names.

        They could belong to tasks of a newer driver. If this driver can still store a record after
        it listed them, there is no newer one.
        """
        if not found:
            return self._settled(())
        assert self._driver is not None
        again = self._decision or nothing_decided(self._sink_id, self._driver.producer)
        return self._run(Storing(self._driver, again), lambda driver: self._abort(driver, found))

    def _abort(self, driver: Driver, found: tuple[OpenSinkTransaction, ...]) -> SinkRequest[Any]:
        """Abort these transactions. Each end is valid for the listed producer alone: by the time it
        arrives, the id may have begun a transaction that will be decided."""
        self._driver = driver
        ends = tuple(End(each.transactional_id, each.producer, False) for each in found)
        return self._ask(EndTransactions(ends), lambda answers: self._aborted(found, answers))

    def _aborted(
        self, found: tuple[OpenSinkTransaction, ...], answers: tuple[Ended | Gone, ...]
    ) -> SinkResult[TakenOverSink]:
        """Ignore missing transactions: another driver ended them."""
        pairs = zip(found, answers, strict=True)
        return self._settled(tuple(each for each, answer in pairs if isinstance(answer, Ended)))

    def _settled(self, aborted: tuple[OpenSinkTransaction, ...]) -> SinkResult[TakenOverSink]:
        assert self._driver is not None
        finished, decision = self._finished, self._decision
        if finished is not None and finished.must_stop:
            assert finished.lost is not None
            raise RowsLost(self._sink_id, finished.decision.batch, *finished.lost)
        last = decision.last_batch if decision else None
        lost = finished.lost if finished else None
        return SinkResult(TakenOverSink(self._driver, last, finished is not None, aborted, lost))
