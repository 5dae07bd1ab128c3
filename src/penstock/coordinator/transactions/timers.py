"""The timers of a transaction coordinator, and what they wake it with.

The work itself is a second event: a record that the log refuses takes nothing but its own event
with it, and the timer that asked for it is set again already.
"""

from dataclasses import dataclass

from penstock.coordinator.transactions.state import Identity, Status, Transaction
from penstock.effects import CancelTimer, SetTimer

EXPIRY = "expiry"
FORGETTING = "forgetting"


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The time of one transaction is up, if it is still the same one."""

    transactional_id: str
    producer: Identity
    started_ms: int


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    timed_out: TimedOut


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


def timeout(transaction: Transaction, now_ms: int) -> SetTimer | CancelTimer:
    """The timer of a transaction as it is now: none unless it is open and has a time limit."""
    name = timeout_name(transaction.transactional_id)
    if transaction.status is not Status.ONGOING or transaction.timeless:
        return CancelTimer(name)
    # A clock that was set back must not give it more time than it asked for.
    lasted_ms = max(0, now_ms - transaction.started_ms)
    left_ms = max(0, transaction.timeout_ms - lasted_ms)
    return SetTimer(
        name,
        left_ms,
        TimedOut(transaction.transactional_id, transaction.producer, transaction.started_ms),
    )
