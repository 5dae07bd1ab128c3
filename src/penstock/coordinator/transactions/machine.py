"""One partition of __transaction_state: its transactional ids and their transactions.

A machine on the common runtime. Each kind of work has a file of its own; this one knows which.
Its records are all there is: nobody waits here but for a commit, since whoever comes while a
transaction is ending is told to ask again.
"""

from typing import Any

from penstock.coordinator.records import Record
from penstock.coordinator.transactions import events, timers
from penstock.coordinator.transactions.adding import AddWork
from penstock.coordinator.transactions.beginning import BeginWork
from penstock.coordinator.transactions.describe import DescribeWork
from penstock.coordinator.transactions.ending import EndWork
from penstock.coordinator.transactions.expiry import ExpiryWork
from penstock.coordinator.transactions.settings import TransactionSettings
from penstock.coordinator.transactions.state import Transactions
from penstock.effects import Failure, Outcome


class TransactionCoordinator:
    """A machine (see machine.protocols)."""

    def __init__(self, settings: TransactionSettings, coordinator_epoch: int) -> None:
        self.transactions = Transactions()
        self._ends = EndWork(self.transactions, coordinator_epoch)
        self._begins = BeginWork(self.transactions, settings, self._ends)
        self._adds = AddWork(self.transactions)
        self._expiry = ExpiryWork(self.transactions, settings, self._ends)
        self._describes = DescribeWork(self.transactions)

    # Events

    def handle(self, event: Any, now_ms: int) -> Outcome:
        match event:
            case events.AddPartitions():
                return self._adds.add(event, now_ms)
            case events.VerifyPartitions():
                return self._adds.verify(event)
            case events.EndTransaction():
                return self._ends.end(event, now_ms)
            case events.MarkersWritten():
                return self._ends.complete(event, now_ms)
            case events.InitProducer():
                return self._begins.begin(event, now_ms)
            case events.Describe():
                return self._describes.describe(event)
            case events.ListIds():
                return self._describes.list_ids(event, now_ms)
            case timers.TimedOut():
                return self._expiry.timed_out(event)
            case timers.AbortTimedOut():
                return self._expiry.abort(event, now_ms)
            case timers.LookForExpired():
                return self._expiry.look_for_expired()
            case timers.ForgetExpired():
                return self._expiry.forget_expired(now_ms)
            case _:
                raise AssertionError(f"nobody handles {event}")

    def recover(self, event: Any, problem: Exception, now_ms: int) -> Outcome:  # noqa: ARG002
        about = event.timed_out if isinstance(event, timers.AbortTimedOut) else event
        name = getattr(about, "transactional_id", None)
        subject = type(event).__name__
        if name is not None:
            self.transactions.taken_over(name)  # the one thing that no record holds
            subject = f"transactional id {name!r}, {subject}"
        failure = Failure(subject, problem, "Its state is what the log says; ask again.")
        return Outcome(timers=self._expiry.recover(event), failures=[failure])

    # Records

    def replay(self, record: Record) -> None:
        self.transactions.replay(record)

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        pass

    def set_aside(self, record: Record, problem: Exception) -> Failure:
        name: str = getattr(record.key, "transactional_id", "")
        self.transactions.set_aside(name, problem)
        next_step = "It is not served: use another transactional.id."
        return Failure(f"transactional id {name!r}, set aside", problem, next_step)

    def loaded(self, now_ms: int) -> Outcome:
        told, looked = self._ends.loaded(now_ms), self._expiry.loaded()
        return Outcome(timers=[*told.timers, *looked.timers], sends=told.sends)
