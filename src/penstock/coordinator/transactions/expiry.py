"""What time ends: transactions beyond their timeout, and ids that nobody uses any more."""

from itertools import islice

from penstock.coordinator.transactions.ending import EndWork
from penstock.coordinator.transactions.settings import TransactionSettings
from penstock.coordinator.transactions.state import (
    Status,
    Transaction,
    Transactions,
    tombstone,
)
from penstock.coordinator.transactions.timers import (
    EXPIRY,
    FORGETTING,
    AbortTimedOut,
    ForgetExpired,
    LookForExpired,
    TimedOut,
    abort_name,
    timeout_name,
)
from penstock.effects import Outcome, SetTimer

# One batch must stay well below the largest message, and one event below a few milliseconds.
FORGOTTEN_AT_ONCE_MAX = 500


class ExpiryWork:
    def __init__(
        self, transactions: Transactions, settings: TransactionSettings, ends: EndWork
    ) -> None:
        self._transactions = transactions
        self._settings = settings
        self._ends = ends

    def loaded(self) -> Outcome:
        return Outcome(timers=[self._look_later()])

    def _look_later(self) -> SetTimer:
        return SetTimer(EXPIRY, self._settings.expiration_interval_ms, LookForExpired())

    # ---- transactions

    def timed_out(self, event: TimedOut) -> Outcome:
        """Ask for the abort, and again later in case the log refuses it."""
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

    def _still_open(self, event: TimedOut) -> Transaction | None:
        known = self._transactions.find(event.transactional_id)
        if (
            known is None
            or known.status is not Status.ONGOING
            or known.timeless
            or (known.producer, known.started_ms) != (event.producer, event.started_ms)
        ):
            return None
        return known

    # ---- ids

    def look_for_expired(self, now_ms: int) -> Outcome:
        timers = [self._look_later()]
        if self._expired(now_ms, 1):
            timers.append(SetTimer(FORGETTING, 0, ForgetExpired()))
        return Outcome(timers=timers)

    def forget_expired(self, now_ms: int) -> Outcome:
        expired = self._expired(now_ms, FORGOTTEN_AT_ONCE_MAX)
        more = len(expired) == FORGOTTEN_AT_ONCE_MAX
        return Outcome(
            records=[tombstone(name) for name in expired],
            timers=[SetTimer(FORGETTING, 0, ForgetExpired())] if more else [],
        )

    def _expired(self, now_ms: int, count: int) -> list[str]:
        """Nothing that is open or prepared is ever forgotten."""
        latest_ms = now_ms - self._settings.id_expiration_ms
        idle = (
            each.transactional_id
            for each in self._transactions
            if each.expires and each.updated_ms <= latest_ms
        )
        return list(islice(idle, count))
