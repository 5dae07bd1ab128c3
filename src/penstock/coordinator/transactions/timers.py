"""The timers of a transaction coordinator, and their events.

An expired timer is set again at once, and the work is a second event. If the log rejects its
record, the timer is running already.
"""

from dataclasses import dataclass

from penstock.coordinator.transactions.events import TransactionalIdEvent
from penstock.coordinator.transactions.state import (
    TransactionMetadata,
    TxnProducerIdentity,
    TxnStatus,
)
from penstock.effects import CancelTimer, SetTimer

EXPIRY = "expiry"
FORGETTING = "forgetting"


@dataclass(frozen=True, slots=True)
class TransactionTimedOut(TransactionalIdEvent):
    """The time of one transaction is up, if it is still the same one."""

    producer: TxnProducerIdentity
    started_ms: int


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    timed_out: TransactionTimedOut


@dataclass(frozen=True, slots=True)
class LookForExpired:
    """Some ids may not have been used for long."""


@dataclass(frozen=True, slots=True)
class ForgetExpired:
    """Look at the next ids of this look, and forget those: one batch of tombstones at most."""


def timeout_name(transactional_id: str) -> str:
    return f"timeout {transactional_id}"


def abort_name(transactional_id: str) -> str:
    return f"abort {transactional_id}"


def timeout(transaction: TransactionMetadata, now_ms: int) -> SetTimer | CancelTimer:
    """Return the timer of a transaction, or its cancellation unless the transaction is open with a
    time limit."""
    name = timeout_name(transaction.transactional_id)
    if transaction.status is not TxnStatus.ONGOING or transaction.has_no_timeout:
        return CancelTimer(name)
    # A clock that was set back must not give it more time than it asked for.
    lasted_ms = max(0, now_ms - transaction.started_ms)
    left_ms = max(0, transaction.timeout_ms - lasted_ms)
    return SetTimer(
        name,
        left_ms,
        TransactionTimedOut(
            transaction.transactional_id, transaction.producer, transaction.started_ms
        ),
    )
