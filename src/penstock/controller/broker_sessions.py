"""Sessions of brokers with the active controller: times of last contact, in memory only.

A plain object of the shell; the times are monotonic milliseconds. The shell calls

- `begin` when its controller becomes active,
- `contact` when a heartbeat arrives, before the heartbeat waits behind other events,
- `stale` when the time of `next_check_ms` has come, and then submits the event to the controller.

The controller fences the broker, unless there was a contact meanwhile (LiveFacts.has_session).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.controller.image import BrokerImage

SESSIONS_MAX = 10_000  # contacts under further ids and epochs are not noted
CHECKS_PER_TIMEOUT = 8  # of a session that has ended while its broker is not fenced yet
AWAITED_SHARE = 0.5  # of a session: a live broker is heard by a new controller within that


@dataclass(frozen=True, slots=True)
class FenceStaleBroker:
    """An event of the controller: the session of this incarnation has ended. The reply tells
    whether the broker was fenced for it."""

    broker_id: int
    broker_epoch: int


class BrokerSessions:
    """Last contacts of broker incarnations, the oldest first."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._contacts: dict[tuple[int, int], float] = {}  # by broker id and epoch
        self._heard: set[tuple[int, int]] = set()  # those in contact with this controller

    def begin(self, brokers: Iterable[BrokerImage], mono_ms: float) -> None:
        """Forget all contacts, and give each broker that is not fenced a full session to be heard.

        Until then such a broker may be gone, so its next start waits for a part of that only
        (`is_awaited`).
        """
        self._heard.clear()
        self._contacts = {
            (broker.broker_id, broker.epoch): mono_ms for broker in brokers if not broker.fenced
        }

    def contact(self, broker_id: int, broker_epoch: int, mono_ms: float) -> None:
        """Note the arrival of a heartbeat."""
        key = (broker_id, broker_epoch)
        if self._contacts.pop(key, None) is None and len(self._contacts) >= SESSIONS_MAX:
            return
        self._contacts[key] = mono_ms
        self._heard.add(key)

    def has_session(self, broker_id: int, broker_epoch: int, mono_ms: float) -> bool:
        """Return whether this incarnation was in contact within the session timeout."""
        key = (broker_id, broker_epoch)
        contact = self._contacts.get(key)
        return contact is not None and key in self._heard and mono_ms < contact + self._timeout_ms

    def is_awaited(self, broker_id: int, broker_epoch: int, mono_ms: float) -> bool:
        """Return whether this incarnation may live, and has had no time to be heard yet."""
        key = (broker_id, broker_epoch)
        begin_ms = self._contacts.get(key)
        if begin_ms is None or key in self._heard:
            return False
        return mono_ms < begin_ms + self._timeout_ms * AWAITED_SHARE

    def stale(self, brokers: Mapping[int, BrokerImage], mono_ms: float) -> FenceStaleBroker | None:
        """Return the broker with the oldest ended session, None if all sessions run.

        `brokers` are those of the committed image. The same broker is returned until it is fenced
        there: each fencing shows its effect before the next one. Ended sessions of brokers that are
        fenced or registered again are forgotten. A broker that is not fenced and has no session,
        because its unfencing took long, gets one.
        """
        for broker in brokers.values():
            if not broker.fenced:
                self._contacts.setdefault((broker.broker_id, broker.epoch), mono_ms)
        while self._contacts:
            (broker_id, epoch), contact = next(iter(self._contacts.items()))
            if mono_ms < contact + self._timeout_ms:
                return None
            known = brokers.get(broker_id)
            if known is not None and known.epoch == epoch and not known.fenced:
                return FenceStaleBroker(broker_id, epoch)
            del self._contacts[broker_id, epoch]
            self._heard.discard((broker_id, epoch))
        return None

    def next_check_ms(self, mono_ms: float) -> float:
        """Return the time of the next call of `stale`: the first end of a session. While a fencing
        waits for its commit, that is an eighth of the timeout away."""
        end = next(iter(self._contacts.values()), mono_ms) + self._timeout_ms
        return end if end > mono_ms else mono_ms + self._timeout_ms / CHECKS_PER_TIMEOUT
