"""State that the polling thread and the application share, behind one lock.

The polling thread enqueues messages and serves requests. The application takes messages, finishes
them and submits requests. Waiters of the application leave a function to wake them; the polling
thread waits on the condition. While a reader waits for records, the polling thread waits inside
librdkafka, a moment at a time.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.client.consumer.engine.poll_ownership import PollOwnership
from penstock.client.consumer.offsets.offset_tracker import InFlight, OffsetTracker, PartitionKey
from penstock.client.failures import ClientClosed

T = TypeVar("T")

# librdkafka's messages, typed where they are read.
Fetched = Any

# A dropped loop does not notify: the polling thread looks again after this time.
LOOK_AGAIN_S = 0.05


@dataclass(slots=True, eq=False)
class Waiter:
    """A reader that waits for `count` unread records, or for the end or a failure."""

    count: int
    wake: Callable[[], None]


class SharedState:
    """The shared state of one consumer. `unread_max` bounds the fetched and unread messages."""

    def __init__(self, unread_max: int, *, readers_poll: bool = False) -> None:
        # Reentrant: a signal handler may call close() on the thread that holds it.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.tracker: OffsetTracker[Fetched] = OffsetTracker()
        self.ownership = PollOwnership()
        self._readers_poll = readers_poll
        # The number of unread messages the application wants, and the number their bytes allow.
        self.wanted_max = unread_max
        self.unread_max = unread_max
        # The polling thread waits for room.
        self.wants_room = False
        # No messages are handed out until the next poll.
        self.frozen = False
        # The polling thread waits for any change, or rests until it is needed.
        self._waits = False
        self._rests = False
        self.stopping = False
        self.ended = False
        self.fatal: Exception | None = None
        self.polling_thread: int | None = None
        # Committed offsets of which interceptors have not heard, if there are interceptors.
        self.keeps_committed_offsets = False
        self.committed_offsets: deque[Mapping[PartitionKey, int]] = deque()
        # Messages of loops that were left; the next holder of the lock gives them back.
        self.abandoned: deque[InFlight[Fetched]] = deque()
        # When the last request came.
        self.requested_at = -math.inf
        self._failures: deque[Exception] = deque()
        self._waiters: list[Waiter] = []
        self._to_wake: list[Waiter] = []
        self._requests: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._later: list[tuple[float, Callable[[], Any], Future[Any]]] = []

    @property
    def places(self) -> list[PartitionKey]:
        """Return the assigned partitions."""
        with self.lock:
            return self.tracker.places

    # -- the application's side

    def step(
        self, ended: InFlight[Fetched] | None, count: int, owner: object
    ) -> InFlight[Fetched] | None:
        """Finish the ended messages and take the next; None if there are none. Raise failures, and
        ClientClosed after the end."""
        with self.lock:
            if ended is not None:
                ended.ended = True
                self.tracker.finish(ended)
                self._notify_change()
            if self.abandoned:
                self.return_abandoned()
            self._raise_failure()
            if self.frozen:
                return None
            now = time.monotonic()
            if self._readers_poll and not self.tracker.has_in_flight:
                self.ownership.reader_came_at = now
            work = self.tracker.take(count, owner, now)
            if self.wants_room and self.tracker.unread <= self.unread_max // 2:
                self._notify_change()
            return work

    def add_waiter(self, waiter: Waiter) -> bool:
        """Return whether enough messages are unread; if not, the waiter will be woken. Raise as
        `step`."""
        with self.lock:
            self.return_abandoned()
            self._raise_failure()
            enough = self._has_enough(waiter)
            if not enough:
                self._waiters.append(waiter)
                self._notify_needed()
            return enough

    def remove_waiter(self, waiter: Waiter) -> None:
        """Remove a waiter."""
        with self.lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def prefetch(self, count: int) -> None:
        """Let the buffer hold at least two steps of `count` records."""
        self.wanted_max = max(self.wanted_max, 2 * count)

    def finish(self, work: InFlight[Fetched]) -> None:
        with self.lock:
            work.ended = True
            self.tracker.finish(work)
            self._notify_change()

    def finish_one(self, record: object) -> bool:
        """Finish one record. Call with the lock held."""
        counts = self.tracker.finish_one(id(record))
        self._notify_change()
        return counts

    def give_back(self, work: InFlight[Fetched], begin: int = 0) -> None:
        with self.lock:
            work.ended = work.ended or begin == 0
            self.tracker.give_back(work, begin)
            self._notify_change()

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Run a call on the polling thread; at once if this is the polling thread."""
        future: Future[T] = Future()
        if threading.get_ident() == self.polling_thread:
            _run_request(call, future)
            return future
        with self.lock:
            if self.ended:
                future.set_exception(ClientClosed("the consumer is closed"))
            else:
                self.requested_at = time.monotonic()
                self._requests.append((call, future))
                self._notify_needed()
        return future

    def submit_later(self, delay_s: float, call: Callable[[], T]) -> "Future[T]":
        """Run a call on the polling thread after a delay."""
        future: Future[T] = Future()
        with self.lock:
            if self.ended:
                future.set_exception(ClientClosed("the consumer is closed"))
            else:
                self._later.append((time.monotonic() + delay_s, call, future))
        return future

    def stop(self) -> None:
        """Begin the end: no more steps. Requests are still served, for callbacks that need them."""
        with self.lock:
            self.stopping = True
            self._notify_needed()
            woken = self._all_waiters()
        _wake(woken)

    # -- the polling thread's side

    def enqueue(self, messages: list[Fetched], ends: Mapping[PartitionKey, int]) -> None:
        """Add fetched messages. `wake` wakes the readers that wait for them."""
        with self.lock:
            self.tracker.add(messages, ends)
            if self._waiters:
                self._to_wake += self._satisfied()

    def wake(self) -> None:
        """Wake readers whose messages came, after the poll: a woken reader wants to poll next."""
        if self._to_wake:
            with self.lock:
                woken, self._to_wake = self._to_wake, []
            _wake(woken)

    def unfreeze(self) -> None:
        """Hand out messages again."""
        with self.lock:
            self.frozen = False
            woken = self._satisfied()
        _wake(woken)

    def fail(self, error: Exception, *, fatal: bool = False) -> None:
        """Make the next step raise this error; a fatal one every step from now on."""
        with self.lock:
            if fatal:
                self.fatal = self.fatal or error
            else:
                self._failures.append(error)
            woken = self._all_waiters()
        _wake(woken)

    def serve_requests(self) -> None:
        """Serve the requests submitted so far."""
        while True:
            with self.lock:
                if self._later:
                    self._move_due_requests(time.monotonic())
                if not self._requests:
                    return
                call, future = self._requests.popleft()
            _run_request(call, future)

    def reject_requests(self) -> None:
        """Reject all requests, at the end."""
        with self.lock:
            self._move_due_requests(math.inf)
            orders, self._requests = self._requests, deque()
            self.ended = True
            woken = self._all_waiters()
        for _, future in orders:
            if future.set_running_or_notify_cancel():
                future.set_exception(ClientClosed("the consumer is closed"))
        _wake(woken)

    @property
    def is_awaited(self) -> bool:
        """Return whether a reader waits for records."""
        return bool(self._waiters)

    @property
    def is_busy(self) -> bool:
        """Return whether only the polling thread may poll."""
        return bool(
            not self._readers_poll
            or self._requests
            or self.tracker.has_in_flight
            or self.abandoned
            or self._failures
            or self.fatal is not None
            or self.frozen
            or self.stopping
        )

    def rest(self, seconds: float) -> None:
        """Wait, on the polling thread, until a request, a waiter or the end needs it."""
        with self.lock:
            if not (self._requests or self._waiters or self.stopping):
                self._rests = True
                self.changed.wait(seconds)
                self._rests = False

    def wait_until(
        self, holds: Callable[[], bool], until: float, *, stop_early: bool = False
    ) -> bool:
        """Wait, on the polling thread, until a condition holds; serve requests meanwhile. The lock
        is held during `holds`. Return False if the time is over."""
        while True:
            with self.lock:
                self.return_abandoned()
                if holds():
                    return True
                left = until - time.monotonic()
                if left <= 0 or (stop_early and self.stopping):
                    return False
                if not self._requests:
                    self._waits = True
                    self.changed.wait(min(left, LOOK_AGAIN_S))
                    self._waits = False
            self.serve_requests()

    def notify(self) -> None:
        with self.lock:
            self._notify_change()

    # -- inside, with the lock held

    def _notify_needed(self) -> None:
        """Wake the polling thread in any case."""
        if self._waits or self._rests:
            self.changed.notify_all()

    def _notify_change(self) -> None:
        if self._waits:  # a notify without waiters costs time, too
            self.changed.notify_all()

    def _move_due_requests(self, now: float) -> None:
        """Move delayed requests that are due to the queue."""
        self._requests += [(call, future) for at, call, future in self._later if at <= now]
        self._later = [each for each in self._later if each[0] > now]

    def return_abandoned(self) -> None:
        """Give back the work of loops that were left."""
        while self.abandoned:
            self.tracker.give_back(self.abandoned.popleft())

    def _raise_failure(self) -> None:
        """Raise the first failure that the application has not seen."""
        if self.fatal is not None:
            raise self.fatal
        if self._failures:
            raise self._failures.popleft()
        if self.stopping:
            raise ClientClosed("the consumer is closed")

    def _has_enough(self, waiter: Waiter) -> bool:
        return not self.frozen and self.tracker.unread >= min(waiter.count, self.unread_max)

    def _satisfied(self) -> list[Waiter]:
        woken = [each for each in self._waiters if self._has_enough(each)]
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


def _run_request(call: Callable[[], Any], future: "Future[Any]") -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
