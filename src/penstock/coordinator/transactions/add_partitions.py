"""AddPartitionsToTxn and AddOffsetsToTxn: which partitions a transaction reaches into.

Before a partition is written to it is named here, so that the end of the transaction finds it.
"""

from penstock.coordinator.transactions.events import AddPartitions, VerifyPartitions
from penstock.coordinator.transactions.state import (
    CLIENT_EPOCH_MAX,
    VERSION_1,
    VERSION_2,
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
    ProducerFenced,
    TransactionAbortable,
)


def add(transactions: TransactionStore, event: AddPartitions, now_ms: int) -> Outcome:
    known = transactions.existing(event.transactional_id)
    if known.prepared:
        # Before anything else: the client may be known under its next id already.
        raise known.still_ending
    _check_producer(event, known)
    ongoing = known.status is TxnStatus.ONGOING
    if ongoing and known.partitions.issuperset(event.partitions):
        return Outcome()
    version = VERSION_2 if event.transactions_v2 else VERSION_1
    added = known.added(event.partitions, version, now_ms)
    timers = [] if ongoing else [timeout(added, now_ms)]
    return Outcome(records=[added.record()], timers=timers)


def verify(transactions: TransactionStore, event: VerifyPartitions) -> Outcome:
    """Return the error of each partition; None for a partition in the transaction."""
    known = transactions.existing(event.transactional_id)
    _check_producer(event, known)
    if known.prepared:
        raise known.still_ending
    absent = TransactionAbortable("the partition was not added to the transaction")
    return Outcome(
        reply={each: None if each in known.partitions else absent for each in event.partitions}
    )


def _check_producer(event: AddPartitions | VerifyPartitions, known: TransactionMetadata) -> None:
    """Raise if this producer may not write in the transaction."""
    asked, client = TxnProducerIdentity(event.producer_id, event.producer_epoch), known.client
    if asked.producer_id not in (known.producer.producer_id, client.producer_id):
        raise InvalidProducerIdMapping(
            f"{known.transactional_id!r} does not belong to producer {asked.producer_id}"
        )
    if asked != client or asked.epoch > CLIENT_EPOCH_MAX:
        raise ProducerFenced(
            f"{known.transactional_id!r} came with epoch {asked.epoch}, its producer has "
            f"{client.epoch}"
        )
    if known.kept:
        raise InvalidTxnState("a transaction that was kept can be ended, not gone on with")
