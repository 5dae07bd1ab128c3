"""A driver takes over a sink (rules 3, 5 and 9): the start of planning, abort and recovery.

Afterwards the sink is at rest: older drivers are fenced, the last decision is finished, and
transactions that no decision names are aborted. A decided batch is never aborted: its ends come
first.
"""

from dataclasses import dataclass

from penstock.spark.sink.cluster import Ended, OpenSinkTransaction, SinkSteps, ask, ends_of
from penstock.spark.sink.decision_end import FinishedDecision, Finishing, Lost, OnLost, store
from penstock.spark.sink.decisions import (
    Decision,
    DecisionStage,
    Driver,
    LastBatch,
    nothing_decided,
)
from penstock.spark.sink.identity import driver_id
from penstock.spark.sink.refusals import RowsLost

Open = tuple[OpenSinkTransaction, ...]


@dataclass(frozen=True, slots=True)
class TakenOverSink:
    driver: Driver
    last: LastBatch | None
    finished: bool  # an unfinished decision was found and finished
    aborted: Open
    lost: Lost | None = None


class SinkTakeover:
    finishing = Finishing

    def __init__(self, sink_id: str, on_lost: OnLost) -> None:
        self._sink_id = sink_id
        self._on_lost = on_lost

    def run(self) -> SinkSteps[TakenOverSink]:
        sink_id = self._sink_id
        # First of all: from here on no older driver can decide.
        producer = yield from ask(lambda cluster: cluster.take_over(driver_id(sink_id)))
        driver = Driver(producer)
        decision = yield from ask(lambda cluster: cluster.last_decision(sink_id))
        finished = yield from self._finish(driver, decision)
        if finished is not None:
            driver, decision = finished.driver, finished.decision
        found = yield from ask(lambda cluster: cluster.open_transactions(sink_id))
        aborted: Open = ()
        if found:
            driver = yield from self._prove_newest(driver, decision)
            aborted = yield from self._abort(found)
        if finished is not None and finished.must_stop:
            assert finished.lost is not None
            raise RowsLost(sink_id, finished.decision.batch, *finished.lost)
        last = decision.last_batch if decision else None
        lost = finished.lost if finished else None
        return TakenOverSink(driver, last, finished is not None, aborted, lost)

    def _finish(
        self, driver: Driver, decision: Decision | None
    ) -> SinkSteps[FinishedDecision | None]:
        if decision is None or decision.stage is not DecisionStage.DECIDED:
            return None
        return (yield from self.finishing(driver, decision, self._on_lost).run())

    def _prove_newest(self, driver: Driver, decision: Decision | None) -> SinkSteps[Driver]:
        """Store a record after the listing. Listed transactions could belong to tasks of a newer
        driver; a driver that can still store one is the newest."""
        again = decision or nothing_decided(self._sink_id, driver.producer)
        return (yield from store(driver, again))

    def _abort(self, found: Open) -> SinkSteps[Open]:
        """Abort open transactions that no decision names; return those that were not gone already.

        Each end is valid for the listed producer alone: by the time it arrives, the id may have
        begun a transaction that will be decided.
        """
        ends = ends_of(found, commit=False)
        answers = yield from ask(lambda cluster: cluster.end(ends))
        pairs = zip(found, answers, strict=True)
        return tuple(each for each, answer in pairs if isinstance(answer, Ended))
