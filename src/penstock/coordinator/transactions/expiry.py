"""Expiry: transactions beyond their timeout, and transactional ids out of use."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.coordinator.transactions.end_txn import EndTxnRequests
from penstock.coordinator.transactions.state import (
    TransactionMetadata,
    TransactionStore,
    TxnStatus,
    tombstone,
)
from penstock.coordinator.transactions.timers import (
    EXPIRY,
    FORGETTING,
    AbortTimedOut,
    ForgetExpired,
    LookForExpired,
    TransactionTimedOut,
    abort_name,
    timeout_name,
)
from penstock.coordinator.transactions.transaction_settings import TransactionSettings
from penstock.effects import Outcome, SetTimer

# One batch must stay well below the largest message, and one event below a few milliseconds.
FORGOTTEN_AT_ONCE_MAX = 200
LOOKED_AT_ONCE_MAX = 4_000


class TransactionExpiry:
    def __init__(
        self, transactions: TransactionStore, settings: TransactionSettings, ends: EndTxnRequests
    ) -> None:
        self._transactions = transactions
        self._settings = settings
        self._ends = ends
        # The ids that this pass has not reached. If the log rejects tombstones, the next pass
        # finds their ids.
        self._unseen: Iterator[str] = iter(())

    def loaded(self) -> Outcome:
        return Outcome(timers=[self._look_later()])

    def _look_later(self) -> SetTimer:
        return SetTimer(EXPIRY, self._settings.expiration_interval_ms, LookForExpired())

    def recover(self, event: Any) -> list[SetTimer]:
        """Return the timers that a failed event was to set, so that time goes on ending things."""
        match event:
            case TransactionTimedOut(transactional_id=name):
                after_ms = self._settings.abort_interval_ms
                return [SetTimer(timeout_name(name), after_ms, event)]
            case LookForExpired() | ForgetExpired():
                return [self._look_later()]
        return []

    # ---- transactions

    def timed_out(self, event: TransactionTimedOut) -> Outcome:
        """Ask for the abort, and again later in case the log rejects it."""
        if self._still_open(event) is None:
            return Outcome()
        name = event.transactional_id
        return Outcome(
            timers=[
                SetTimer(timeout_name(name), self._settings.abort_interval_ms, event),
                SetTimer(abort_name(name), 0, AbortTimedOut(event)),
            ]
        )

    def abort(self, event: AbortTimedOut, now_ms: int) -> Outcome:
        known = self._still_open(event.timed_out)
        return Outcome() if known is None else self._ends.fence(known, now_ms, None)

    def _still_open(self, event: TransactionTimedOut) -> TransactionMetadata | None:
        known = self._transactions.find(event.transactional_id)
        if (
            known is None
            or known.status is not TxnStatus.ONGOING
            or known.has_no_timeout
            or (known.producer, known.started_ms) != (event.producer, event.started_ms)
        ):
            return None
        return known

    # ---- ids

    def look_for_expired(self) -> Outcome:
        """Start one pass over the ids that exist now, a slice at a time."""
        self._unseen = iter(self._transactions.names())
        return Outcome(timers=[self._look_later(), SetTimer(FORGETTING, 0, ForgetExpired())])

    def forget_expired(self, now_ms: int) -> Outcome:
        latest_ms = now_ms - self._settings.id_expiration_ms
        expired: list[str] = []
        looked = 0
        for name in islice(self._unseen, LOOKED_AT_ONCE_MAX):
            looked += 1
            if self._is_expired(name, latest_ms):
                expired.append(name)
                if len(expired) == FORGOTTEN_AT_ONCE_MAX:
                    break
        more = looked == LOOKED_AT_ONCE_MAX or len(expired) == FORGOTTEN_AT_ONCE_MAX
        return Outcome(
            records=[tombstone(name) for name in expired],
            timers=[SetTimer(FORGETTING, 0, ForgetExpired())] if more else [],
        )

    def _is_expired(self, name: str, latest_ms: int) -> bool:
        """Return whether the id is idle and old enough. An open or prepared transaction never
        expires."""
        known = self._transactions.find(name)
        return known is not None and known.updated_ms <= latest_ms and known.expires
