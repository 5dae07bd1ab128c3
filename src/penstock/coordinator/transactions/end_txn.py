"""EndTxn: the decision, the markers for its partitions, and the completion.

The answer leaves when the decision is stored. With transactions v2 each end bumps the epoch. An
equal epoch then means the next transaction; one epoch less means a repetition of the last end.
Anything later cannot end what it does not know (KAFKA-17754).
"""

from penstock.coordinator.transactions.events import (
    EndTransaction,
    MarkersWritten,
    NeedsProducerId,
    ProducerIdAndEpoch,
)
from penstock.coordinator.transactions.state import (
    CLIENT_EPOCH_MAX,
    EPOCH_MAX,
    TransactionMetadata,
    TransactionStore,
    TxnProducerIdentity,
    TxnStatus,
)
from penstock.coordinator.transactions.timers import timeout
from penstock.effects import Outcome
from penstock.errors import (
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
)
from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

# The answer to a client that keeps its epoch: there is nothing to tell it.
UNCHANGED = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
COMPLETED = (TxnStatus.COMPLETE_COMMIT, TxnStatus.COMPLETE_ABORT)


class EndTxnRequests:
    def __init__(self, transactions: TransactionStore, coordinator_epoch: int) -> None:
        self._transactions = transactions
        self._coordinator_epoch = coordinator_epoch

    def end(self, event: EndTransaction, now_ms: int) -> Outcome:
        known = self._transactions.existing(event.transactional_id)
        if event.transactions_v2:
            return self._end_v2(event, known, now_ms)
        return self._end_v1(event, known, now_ms)

    def _end_v1(self, event: EndTransaction, known: TransactionMetadata, now_ms: int) -> Outcome:
        client = known.client
        if event.producer_id != client.producer_id:
            raise _another_id(known)
        if event.producer_epoch != client.epoch:
            raise _another_epoch(known, event.producer_epoch)
        if known.prepared:
            raise known.still_ending
        if known.status is TxnStatus.ONGOING:
            return self._decided(known.prepared_v1(_decision(event), now_ms), UNCHANGED, now_ms)
        if known.status is _completion(event):
            return Outcome(reply=UNCHANGED)
        raise _cannot_end(event, known)

    def _end_v2(self, event: EndTransaction, known: TransactionMetadata, now_ms: int) -> Outcome:
        asked = TxnProducerIdentity(event.producer_id, event.producer_epoch)
        if known.prepared:
            # Before anything else: the client may be known under its next id already.
            raise known.still_ending
        again = _is_repeated(asked, known)
        if asked.producer_id != known.client.producer_id and not again:
            raise _another_id(known)
        if again and known.status in COMPLETED:
            if known.status is not _completion(event):
                raise _cannot_end(event, known)
            return Outcome(reply=ProducerIdAndEpoch(*known.producer))
        if asked != known.client or asked.epoch > CLIENT_EPOCH_MAX:
            raise _another_epoch(known, event.producer_epoch)
        if known.status is not TxnStatus.ONGOING and event.committed:
            raise _cannot_end(event, known)
        if asked.exhausted and event.new_producer_id is None:
            return Outcome(reply=NeedsProducerId())
        rotated = event.new_producer_id if asked.exhausted else None
        decided = known.prepared_v2(_decision(event), now_ms, rotated)
        completed = decided.completed(now_ms)
        self._transactions.note_bump(known.transactional_id, asked.epoch, completed.producer)
        reply = ProducerIdAndEpoch(*completed.producer)
        if known.status is not TxnStatus.ONGOING:
            # A client may abort before it has written anything; no partition has to hear of it.
            return Outcome(records=[completed.record()], reply=reply)
        return self._decided(decided, reply, now_ms)

    def fence(self, known: TransactionMetadata, now_ms: int, reply: KafkaError | None) -> Outcome:
        """Abort an open transaction under an epoch that its producer does not have. The producer
        may get that epoch by asking before another producer takes the id over."""
        name, fenced = known.transactional_id, known.fenced(now_ms)
        given = fenced.completed(now_ms).producer
        if given.epoch <= CLIENT_EPOCH_MAX:
            self._transactions.note_bump(name, known.client.epoch, given)
        else:
            self._transactions.forget_bump(name)
        return self._decided(fenced, reply, now_ms)

    def _decided(
        self,
        decided: TransactionMetadata,
        reply: ProducerIdAndEpoch | KafkaError | None,
        now_ms: int,
    ) -> Outcome:
        return Outcome(
            records=[decided.record()],
            reply=reply,
            timers=[timeout(decided, now_ms)],
            sends=[decided.markers(self._coordinator_epoch)],
        )

    def complete(self, event: MarkersWritten, now_ms: int) -> Outcome:
        """Complete the transaction. Ignore late markers: those sent twice are reported twice."""
        known = self._transactions.find(event.transactional_id)
        reported = TxnProducerIdentity(event.producer_id, event.producer_epoch)
        if known is None or not known.prepared or known.producer != reported:
            return Outcome()
        return Outcome(records=[known.completed(now_ms).record()])

    def loaded(self, now_ms: int) -> Outcome:
        """Send decided ends again: the partitions that have the markers are unknown."""
        return Outcome(
            timers=[
                timeout(each, now_ms)
                for each in self._transactions
                if each.status is TxnStatus.ONGOING and not each.has_no_timeout
            ],
            sends=[
                each.markers(self._coordinator_epoch)
                for each in self._transactions
                if each.prepared
            ],
        )


def _decision(event: EndTransaction) -> TxnStatus:
    return TxnStatus.PREPARE_COMMIT if event.committed else TxnStatus.PREPARE_ABORT


def _completion(event: EndTransaction) -> TxnStatus:
    return TxnStatus.COMPLETE_COMMIT if event.committed else TxnStatus.COMPLETE_ABORT


def _is_repeated(asked: TxnProducerIdentity, known: TransactionMetadata) -> bool:
    """Return whether the client repeats an end whose answer was lost. Since that end its epoch grew
    by one, or its producer id is new with epoch 0. A producer fenced at the last epoch does not
    match."""
    client = known.client
    if client.producer_id == asked.producer_id:
        return client.epoch == asked.epoch + 1 and client.epoch < EPOCH_MAX
    return (
        asked == TxnProducerIdentity(known.previous_producer_id, CLIENT_EPOCH_MAX)
        and client.epoch == 0
    )


def _another_id(known: TransactionMetadata) -> KafkaError:
    return InvalidProducerIdMapping(f"{known.transactional_id!r} has another producer id")


def _another_epoch(known: TransactionMetadata, epoch: int) -> KafkaError:
    return ProducerFenced(
        f"{known.transactional_id!r} came with epoch {epoch}, its producer has {known.client.epoch}"
    )


def _cannot_end(event: EndTransaction, known: TransactionMetadata) -> KafkaError:
    wish = "commit" if event.committed else "abort"
    return InvalidTxnState(
        f"{known.transactional_id!r} is {known.status.title}: there is nothing to {wish}"
    )
