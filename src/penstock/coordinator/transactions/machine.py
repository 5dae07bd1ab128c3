"""One partition of __transaction_state: its transactional ids and their transactions.

A machine on the common runtime, which dispatches events to the files beside it. Its records are
its whole state: requests wait for a commit only. A request during the end of a transaction gets
CONCURRENT_TRANSACTIONS, and its client asks again.
"""

from typing import TypeAlias

from penstock.coordinator.records import CoordinatorRecord, UnreadableRecord
from penstock.coordinator.transactions import add_partitions, events, timers
from penstock.coordinator.transactions.end_txn import EndTxnRequests
from penstock.coordinator.transactions.expiry import TransactionExpiry
from penstock.coordinator.transactions.init_producer_id import InitProducerIdRequests
from penstock.coordinator.transactions.state import TransactionStore
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.effects import Failure, Outcome
from penstock.errors import TransactionalIdNotFound
from penstock.wire.primitives import Malformed
from penstock.wire.records.transaction import TransactionLogKey

TxnEvent: TypeAlias = (
    events.AddPartitions
    | events.VerifyPartitions
    | events.EndTransaction
    | events.MarkersWritten
    | events.InitProducer
    | events.DescribeTransaction
    | events.ListTransactionalIds
    | timers.TransactionTimedOut
    | timers.AbortTimedOut
    | timers.LookForExpired
    | timers.ForgetExpired
)
TxnOutcome: TypeAlias = Outcome[TxnEvent, CoordinatorRecord, object]


class TransactionCoordinator:
    """A Machine[TxnEvent, Record, object]."""

    def __init__(self, settings: TransactionSettings, coordinator_epoch: int) -> None:
        self.transactions = TransactionStore()
        self._ends = EndTxnRequests(self.transactions, coordinator_epoch)
        self._begins = InitProducerIdRequests(self.transactions, settings, self._ends)
        self._expiry = TransactionExpiry(self.transactions, settings, self._ends)

    # Events

    def handle(self, event: TxnEvent, now_ms: int) -> TxnOutcome:
        match event:
            case events.AddPartitions():
                return add_partitions.add(self.transactions, event, now_ms)
            case events.VerifyPartitions():
                return add_partitions.verify(self.transactions, event)
            case events.EndTransaction():
                return self._ends.end(event, now_ms)
            case events.MarkersWritten():
                return self._ends.complete(event, now_ms)
            case events.InitProducer():
                return self._begins.begin(event, now_ms)
            case events.DescribeTransaction():
                name = event.transactional_id
                return Outcome(reply=self.transactions.existing(name, TransactionalIdNotFound))
            case events.ListTransactionalIds():
                return Outcome(reply=self.transactions.listed(event, now_ms))
            case timers.TransactionTimedOut():
                return self._expiry.timed_out(event)
            case timers.AbortTimedOut():
                return self._expiry.abort(event, now_ms)
            case timers.LookForExpired():
                return self._expiry.look_for_expired()
            case timers.ForgetExpired():
                return self._expiry.forget_expired(now_ms)
            case _:
                raise AssertionError(f"no part handles {event}")

    def recover(self, event: TxnEvent, problem: Exception, now_ms: int) -> TxnOutcome:  # noqa: ARG002
        about = event.timed_out if isinstance(event, timers.AbortTimedOut) else event
        subject = type(event).__name__
        if isinstance(about, events.TransactionalIdEvent):
            name = about.transactional_id
            self.transactions.forget_bump(name)  # the one thing that no record holds
            subject = f"transactional id {name!r}, {subject}"
        failure = Failure(subject, problem, "Its state is what the log says; ask again.")
        return Outcome(timers=self._expiry.recover(event), failures=[failure])

    # Records

    def replay(self, record: CoordinatorRecord | UnreadableRecord) -> None:
        if isinstance(record, UnreadableRecord):
            raise Malformed(record.reason)
        self.transactions.replay(record)

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        pass

    def set_aside(
        self, record: CoordinatorRecord | UnreadableRecord, problem: Exception
    ) -> Failure:
        assert isinstance(record.key, TransactionLogKey), "replay takes no other key in"
        name = record.key.transactional_id
        self.transactions.set_aside(name, problem)
        next_step = "It is not served: use another transactional.id."
        return Failure(f"transactional id {name!r}, set aside", problem, next_step)

    def loaded(self, now_ms: int) -> TxnOutcome:
        resumed, looked = self._ends.loaded(now_ms), self._expiry.loaded()
        return Outcome(timers=[*resumed.timers, *looked.timers], sends=resumed.sends)
