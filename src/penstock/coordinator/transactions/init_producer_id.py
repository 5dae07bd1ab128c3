"""InitProducerId: gives a producer the right to write under a transactional id.

A producer without a previous identity takes the id over. An open transaction is aborted first, and
the answer is CONCURRENT_TRANSACTIONS until then. A producer with a previous identity continues if
no other has taken the id over since. With keep_prepared (KIP-939) the open transaction stays, and
the new owner may only end it.
"""

from dataclasses import replace

from penstock.coordinator.transactions.end_txn import EndTxnRequests
from penstock.coordinator.transactions.events import (
    InitProducer,
    NeedsProducerId,
    ProducerIdAndEpoch,
    ProducerTakenOver,
)
from penstock.coordinator.transactions.state import (
    NO_TIMEOUT_MS,
    TransactionMetadata,
    TransactionStore,
    TxnProducerIdentity,
    TxnStatus,
)
from penstock.coordinator.transactions.timers import timeout
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.effects import Outcome
from penstock.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class InitProducerIdRequests:
    def __init__(
        self, transactions: TransactionStore, settings: TransactionSettings, ends: EndTxnRequests
    ) -> None:
        self._transactions = transactions
        self._settings = settings
        self._ends = ends

    def begin(self, event: InitProducer, now_ms: int) -> Outcome:
        expected = _expected(event)
        timeout_ms = self._timeout_ms(event)
        known = self._transactions.find(event.transactional_id)
        if known is None:
            return self._new(event, timeout_ms, now_ms)
        if known.prepared:
            raise known.still_ending
        if expected is not None and not _may_be(expected, known):
            raise ProducerFenced(f"{event.transactional_id!r} has another producer by now")
        if known.status is not TxnStatus.ONGOING:
            return self._next(event, known, expected, timeout_ms, now_ms)
        if event.keep_prepared:
            return self._keep(event, known, now_ms)
        # No client gets the bumped epoch: the client asks again, and gets the one after it.
        aborting = ConcurrentTransactions(f"aborting what {known.transactional_id!r} left open")
        return self._ends.fence(known, now_ms, aborting)

    def _timeout_ms(self, event: InitProducer) -> int:
        if event.two_phase_commit and not self._settings.two_phase_commit:
            raise TransactionalIdAuthorizationFailed(
                "two-phase commit is off: transaction.two.phase.commit.enable=false"
            )
        if event.keep_prepared and event.producer_id != NO_PRODUCER_ID:
            raise InvalidRequest("a prepared transaction is kept by a new owner, not by its own")
        if event.two_phase_commit:
            return NO_TIMEOUT_MS
        if not 0 < event.timeout_ms <= self._settings.timeout_ms_max:
            raise InvalidTransactionTimeout(
                f"{event.timeout_ms} ms, transaction.max.timeout.ms is "
                f"{self._settings.timeout_ms_max}"
            )
        return event.timeout_ms

    def _new(self, event: InitProducer, timeout_ms: int, now_ms: int) -> Outcome:
        if event.new_producer_id is None:
            return Outcome(reply=NeedsProducerId())
        begun = TransactionMetadata(
            event.transactional_id,
            TxnProducerIdentity(event.new_producer_id, 0),
            timeout_ms,
            updated_ms=now_ms,
        )
        return _begun(begun)

    def _next(
        self,
        event: InitProducer,
        known: TransactionMetadata,
        expected: TxnProducerIdentity | None,
        timeout_ms: int,
        now_ms: int,
    ) -> Outcome:
        """Give the next epoch, or a new producer id when the epochs are used up. No transaction is
        open."""
        current, name = known.producer, known.transactional_id
        if expected is not None and self._transactions.is_repeated_bump(known, expected.epoch):
            return _begun(_emptied(known, current, timeout_ms, now_ms))
        if expected is not None and expected.epoch != current.epoch:
            raise ProducerFenced(
                f"{name!r} came with epoch {expected.epoch}, its producer has {current.epoch}"
            )
        if current.exhausted:
            if event.new_producer_id is None:
                return Outcome(reply=NeedsProducerId())
            given = TxnProducerIdentity(event.new_producer_id, 0)
        else:
            given = TxnProducerIdentity(current.producer_id, current.epoch + 1)
        if expected is None:
            self._transactions.forget_bump(name)
        else:
            self._transactions.note_bump(name, expected.epoch, given)
        moved = replace(known, previous_producer_id=current.producer_id)
        return _begun(_emptied(moved, given, timeout_ms, now_ms))

    def _keep(self, event: InitProducer, known: TransactionMetadata, now_ms: int) -> Outcome:
        """Give the open transaction to a new owner. Former owners are fenced: they can neither end
        it nor write in it."""
        client = known.client
        if client.exhausted:
            if event.new_producer_id is None:
                return Outcome(reply=NeedsProducerId())
            owner = TxnProducerIdentity(event.new_producer_id, 0)
        else:
            owner = TxnProducerIdentity(client.producer_id, client.epoch + 1)
        self._transactions.forget_bump(known.transactional_id)
        timeout_ms = NO_TIMEOUT_MS if event.two_phase_commit else known.timeout_ms
        kept = replace(known, next=owner, timeout_ms=timeout_ms, updated_ms=now_ms)
        return Outcome(
            records=[kept.record()],
            reply=ProducerIdAndEpoch(*owner, *known.producer),
            timers=[timeout(kept, now_ms)],
            sends=[ProducerTakenOver(*known.producer, tuple(sorted(known.partitions)))],
        )


def _expected(event: InitProducer) -> TxnProducerIdentity | None:
    if event.producer_id == NO_PRODUCER_ID and event.producer_epoch == NO_PRODUCER_EPOCH:
        return None
    if NO_PRODUCER_ID in (event.producer_id, event.producer_epoch):
        raise InvalidRequest("a producer id and its epoch belong together")
    return TxnProducerIdentity(event.producer_id, event.producer_epoch)


def _may_be(expected: TxnProducerIdentity, known: TransactionMetadata) -> bool:
    """Return whether the id is the current one, or the one before its epochs were used up. Only its
    owner may use a kept transaction."""
    if known.kept:
        return expected == known.client
    if expected.producer_id == known.producer.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and expected.exhausted


def _emptied(
    known: TransactionMetadata, given: TxnProducerIdentity, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    return TransactionMetadata(
        known.transactional_id,
        given,
        timeout_ms,
        updated_ms=now_ms,
        version=known.version,
        previous_producer_id=known.previous_producer_id,
    )


def _begun(transaction: TransactionMetadata) -> Outcome:
    return Outcome(records=[transaction.record()], reply=ProducerIdAndEpoch(*transaction.producer))
