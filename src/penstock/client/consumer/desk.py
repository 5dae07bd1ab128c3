"""What the polling thread and the application share, behind one lock.

The polling thread lays records down and takes orders; the application takes records, reports work
as finished, and leaves orders. Whoever waits is woken by the other: the application by the function
it left, the polling thread by the condition. While somebody waits for records the polling thread
rests inside librdkafka instead, for a moment at a time.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.client.consumer.ledger import Ledger, Place, Work
from penstock.client.consumer.wheel import Wheel
from penstock.client.failures import ClientClosed

T = TypeVar("T")

# librdkafka's messages: typed where they are read.
Fetched = Any

# Whoever drops a loop cannot notify: the polling thread looks by itself.
LOOK_AGAIN_S = 0.05


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody who waits for so many unread records, or for an end or a failure."""

    count: int
    wake: Callable[[], None]


class Desk:
    """Of one consumer. `unread_max` bounds what is fetched and not read."""

    def __init__(self, unread_max: int, *, readers_fetch: bool = False) -> None:
        # One that lets its owner in again: a signal's handler may close the consumer, wherever the
        # thread was. It then waits for what that thread has begun, and in vain, but not for ever.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.ledger: Ledger[Fetched] = Ledger()
        self.wheel = Wheel()
        self._readers_fetch = readers_fetch
        # What the application asked for, and what its bytes allow of that.
        self.wanted_max = unread_max
        self.unread_max = unread_max
        # Set by the polling thread: it waits for room.
        self.wants_room = False
        # Nothing is handed out, whatever is there.
        self.frozen = False
        # The polling thread waits for a change; or it stands by, and only who needs it wakes it.
        self._waits = False
        self._stands_by = False
        self.stopping = False
        self.ended = False
        self.fatal: Exception | None = None
        self.polling_thread: int | None = None
        # Committed offsets that interceptors have not been told of, if there are any.
        self.wants_news = False
        self.news: deque[Mapping[Place, int]] = deque()
        # Work whose loop was left before its body had ended; whoever holds the lock gives it back.
        self.abandoned: deque[Work[Fetched]] = deque()
        # When somebody last wanted something of the polling thread.
        self.ordered_at = -math.inf
        self._failures: deque[Exception] = deque()
        self._waiters: list[Waiter] = []
        self._to_wake: list[Waiter] = []
        self._orders: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._later: list[tuple[float, Callable[[], Any], Future[Any]]] = []

    # -- the application's side

    def step(self, ended: Work[Fetched] | None, count: int, owner: object) -> Work[Fetched] | None:
        """Finish what a body has ended, and take the next; None if there is nothing. Raises what
        went wrong meanwhile; ClientClosed after the end."""
        with self.lock:
            if ended is not None:
                ended.ended = True
                self.ledger.finish(ended)
                self._rouse()
            if self.abandoned:
                self.settle()
            self._tell()
            if self.frozen:
                return None
            now = time.monotonic()
            if self._readers_fetch and not self.ledger.is_worked_on:
                self.wheel.reader_came_at = now
            work = self.ledger.take(count, owner, now)
            if self.wants_room and self.ledger.unread <= self.unread_max // 2:
                self._rouse()
            return work

    def enlist(self, waiter: Waiter) -> bool:
        """Whether there is enough; if not, the waiter will be woken. Raises as `step` does."""
        with self.lock:
            self.settle()
            self._tell()
            enough = self._is_enough(waiter)
            if not enough:
                self._waiters.append(waiter)
                self._call()
            return enough

    def leave(self, waiter: Waiter) -> None:
        """Wait no longer."""
        with self.lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def finish(self, work: Work[Fetched]) -> None:
        with self.lock:
            work.ended = True
            self.ledger.finish(work)
            self._rouse()

    def finish_one(self, record: object) -> bool:
        """With the lock held."""
        counts = self.ledger.finish_one(id(record))
        self._rouse()
        return counts

    def give_back(self, work: Work[Fetched], begin: int = 0) -> None:
        with self.lock:
            work.ended = work.ended or begin == 0
            self.ledger.give_back(work, begin)
            self._rouse()

    def take_back(self, owner: object) -> None:
        """He was interrupted, by a signal most likely: what no loop of his holds is read again."""
        with self.lock:
            self.ledger.take_back(owner)
            self._rouse()

    def order(self, call: Callable[[], T]) -> "Future[T]":
        """Have the polling thread do something; its own orders are done at once."""
        future: Future[T] = Future()
        if threading.get_ident() == self.polling_thread:
            _carry_out(call, future)
            return future
        with self.lock:
            if self.ended:
                future.set_exception(ClientClosed("the consumer is closed"))
            else:
                self.ordered_at = time.monotonic()
                self._orders.append((call, future))
                self._call()
        return future

    def order_later(self, delay_s: float, call: Callable[[], T]) -> "Future[T]":
        """Have the polling thread do something after a while."""
        future: Future[T] = Future()
        with self.lock:
            if self.ended:
                future.set_exception(ClientClosed("the consumer is closed"))
            else:
                self._later.append((time.monotonic() + delay_s, call, future))
        return future

    def stop(self) -> None:
        """Begin the end: no more steps. Orders are still done, for callbacks that need them."""
        with self.lock:
            self.stopping = True
            self._call()
            woken = self._all_waiters()
        _wake(woken)

    # -- the polling thread's side

    def lay_down(self, messages: list[Fetched], ends: Mapping[Place, int]) -> None:
        """Whoever waits for them is woken by `wake`."""
        with self.lock:
            self.ledger.add(messages, ends)
            if self._waiters:
                self._to_wake += self._satisfied()

    def wake(self) -> None:
        """Wake those whose records have come. Without the wheel: they want it next."""
        if self._to_wake:
            with self.lock:
                woken, self._to_wake = self._to_wake, []
            _wake(woken)

    def thaw(self) -> None:
        """Records are handed out again."""
        with self.lock:
            self.frozen = False
            woken = self._satisfied()
        _wake(woken)

    def fail(self, error: Exception, *, fatal: bool = False) -> None:
        """The next step raises this; a fatal one every step from now on."""
        with self.lock:
            if fatal:
                self.fatal = self.fatal or error
            else:
                self._failures.append(error)
            woken = self._all_waiters()
        _wake(woken)

    def serve_orders(self) -> None:
        """Do what was ordered so far."""
        while True:
            with self.lock:
                if self._later:
                    self._remember(time.monotonic())
                if not self._orders:
                    return
                call, future = self._orders.popleft()
            _carry_out(call, future)

    def refuse_orders(self) -> None:
        """At the end: nobody does them any more."""
        with self.lock:
            self._remember(math.inf)
            orders, self._orders = self._orders, deque()
            self.ended = True
            woken = self._all_waiters()
        for _, future in orders:
            if future.set_running_or_notify_cancel():
                future.set_exception(ClientClosed("the consumer is closed"))
        _wake(woken)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for records."""
        return bool(self._waiters)

    @property
    def is_engaged(self) -> bool:
        """Whether a fetch is not for readers, or there is more to do: the polling thread sees to
        it."""
        return bool(
            not self._readers_fetch
            or self._orders
            or self.ledger.is_worked_on
            or self.abandoned
            or self._failures
            or self.fatal is not None
            or self.frozen
            or self.stopping
        )

    def stand_by(self, seconds: float) -> None:
        """The polling thread keeps still, unless somebody needs it."""
        with self.lock:
            if not (self._orders or self._waiters or self.stopping):
                self._stands_by = True
                self.changed.wait(seconds)
                self._stands_by = False

    def pause(self, seconds: float) -> None:
        """The polling thread waits until somebody wants something of it."""
        with self.lock:
            if not (self._orders or self._waiters or self.stopping or self.abandoned):
                self._wait(seconds)

    def wait_until(
        self, holds: Callable[[], bool], until: float, *, stop_early: bool = False
    ) -> bool:
        """The polling thread waits for something, with the lock held while it looks; orders are
        served meanwhile. False if it did not come about in time."""
        while True:
            with self.lock:
                self.settle()
                if holds():
                    return True
                left = until - time.monotonic()
                if left <= 0 or (stop_early and self.stopping):
                    return False
                if not self._orders:
                    self._wait(min(left, LOOK_AGAIN_S))
            self.serve_orders()

    def notify(self) -> None:
        with self.lock:
            self._rouse()

    def _wait(self, seconds: float) -> None:
        self._waits = True
        self.changed.wait(seconds)
        self._waits = False

    # -- inside, with the lock held

    def _call(self) -> None:
        """The polling thread is needed, whatever it waits for."""
        if self._waits or self._stands_by:
            self.changed.notify_all()

    def _rouse(self) -> None:
        if self._waits:  # to notify nobody takes its time, too
            self.changed.notify_all()

    def _remember(self, now: float) -> None:
        """Orders for later whose time has come."""
        self._orders += [(call, future) for at, call, future in self._later if at <= now]
        self._later = [each for each in self._later if each[0] > now]

    def settle(self) -> None:
        """Give back what loops have left. Each is forgotten afterwards: a signal may come."""
        while self.abandoned:
            first = self.abandoned[0]
            self.ledger.give_back(first)
            if self.abandoned and self.abandoned[0] is first:  # or a signal's handler has done it
                self.abandoned.popleft()

    def _tell(self) -> None:
        """Raise what the application has to know."""
        if self.fatal is not None:
            raise self.fatal
        if self._failures:
            raise self._failures.popleft()
        if self.stopping:
            raise ClientClosed("the consumer is closed")

    def _is_enough(self, waiter: Waiter) -> bool:
        return not self.frozen and self.ledger.unread >= min(waiter.count, self.unread_max)

    def _satisfied(self) -> list[Waiter]:
        woken = [each for each in self._waiters if self._is_enough(each)]
        if woken:
            self._waiters = [each for each in self._waiters if each not in woken]
        return woken

    def _all_waiters(self) -> list[Waiter]:
        woken = [*self._waiters, *self._to_wake]
        self._waiters, self._to_wake = [], []
        return woken


def _wake(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.wake()


def _carry_out(call: Callable[[], Any], future: "Future[Any]") -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
