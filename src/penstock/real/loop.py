"""The event loop: one thread, run to completion, a turn at a time.

A turn: wait for sockets, handle the ready ones, run due timers and calls from other threads, then
all calls of `after_turn`. A small loop over epoll measured equal to uvloop, and lets the end of a
turn be seen, which asyncio does not.
"""

import heapq
import itertools
import os
import select
import selectors
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from time import monotonic

from penstock.real.slow_calls import SLOW_SECONDS, SlowCalls
from penstock.world import LATE_BOUNDS_MS

TURN_WAIT_MS_MAX = 60_000
EVENTS_PER_TURN_MAX = 1_024
CANCELLED_TIMERS_MIN = 64  # fewer do not justify the clearing
SPIN_SECONDS = 50e-6  # polling time before the loop sleeps
READABLE = 1  # select.EPOLLIN, spelled so that other systems have it too
WRITABLE = 4  # select.EPOLLOUT


class LoopTimer:
    """A call due at a moment."""

    __slots__ = ("_loop", "call", "in_heap")

    def __init__(self, loop: "Loop", call: Callable[[], None]) -> None:
        self._loop = loop
        self.call: Callable[[], None] | None = call
        self.in_heap = True

    def cancel(self) -> None:
        if self.call is not None:
            self.call = None
            if self.in_heap:
                self._loop.timer_cancelled()


class Poller:
    """The ready descriptors: by epoll, or by the best selector of the system."""

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._selector = None if self._epoll else selectors.DefaultSelector()

    def register(self, fd: int, mask: int) -> None:
        if self._epoll:
            self._epoll.register(fd, mask)
        elif self._selector and mask:
            self._selector.register(fd, _to_selector(mask))

    def modify(self, fd: int, mask: int) -> None:
        if self._epoll:
            self._epoll.modify(fd, mask)
            return
        self.unregister(fd)
        self.register(fd, mask)

    def unregister(self, fd: int) -> None:
        try:
            if self._epoll:
                self._epoll.unregister(fd)
            elif self._selector:
                self._selector.unregister(fd)
        except (OSError, KeyError, ValueError):
            pass  # closed or never registered: not watched any more

    def poll(self, wait_ms: float) -> list[tuple[int, int]]:
        if self._epoll:
            return self._epoll.poll(wait_ms / 1000, EVENTS_PER_TURN_MAX)
        assert self._selector is not None
        ready = self._selector.select(wait_ms / 1000)
        return [(key.fd, _from_selector(mask)) for key, mask in ready]

    def close(self) -> None:
        if self._epoll:
            self._epoll.close()
        elif self._selector:
            self._selector.close()


def _to_selector(mask: int) -> int:
    wanted = selectors.EVENT_READ if mask & READABLE else 0
    return wanted | (selectors.EVENT_WRITE if mask & WRITABLE else 0)


def _from_selector(mask: int) -> int:
    ready = READABLE if mask & selectors.EVENT_READ else 0
    return ready | (WRITABLE if mask & selectors.EVENT_WRITE else 0)


class Loop:
    """The clock and the timers of a real node, and its turns."""

    def __init__(self) -> None:
        self.poller = Poller()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, LoopTimer]] = []
        self._cancelled = 0  # of the timers in the heap
        self._order = itertools.count()
        self._soon: deque[Callable[[], None]] = deque()
        self._after_turn: deque[Callable[[], None]] = deque()
        self._from_threads: deque[Callable[[], None]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._woken = False
        self._running = False
        self._spins = False
        self.turn_ended: Callable[[], None] = lambda: None
        self.turns = 0
        self.late_counts = [0] * (len(LATE_BOUNDS_MS) + 1)  # turns, by the lateness of a timer
        self.late_ms_total = 0.0
        self._slow_calls = SlowCalls()
        self._woke_s = self._turn_ended_s = monotonic()
        self.watch(self._wake_read, READABLE, self._drain_wake)

    # -- time

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def mono_ms(self) -> float:
        return monotonic() * 1000

    def at(self, mono_ms: float, call: Callable[[], None]) -> LoopTimer:
        timer = LoopTimer(self, call)
        heapq.heappush(self._timers, (mono_ms, next(self._order), timer))
        return timer

    def timer_cancelled(self) -> None:
        """Count a cancelled timer. Cancelled timers stay in the heap until they are due, or until
        they are the majority: then one pass removes them all, at a constant cost per timer."""
        self._cancelled += 1
        timers = self._timers
        if self._cancelled > CANCELLED_TIMERS_MIN and 2 * self._cancelled > len(timers):
            timers[:] = [entry for entry in timers if entry[2].call is not None]
            heapq.heapify(timers)
            self._cancelled = 0

    @property
    def timer_count(self) -> int:
        return len(self._timers)

    def soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def after_turn(self, call: Callable[[], None]) -> None:
        self._after_turn.append(call)

    # -- descriptors

    def watch(self, fd: int, mask: int, handler: Callable[[int], None]) -> None:
        self.handlers[fd] = handler
        self.poller.register(fd, mask)

    def unwatch(self, fd: int) -> None:
        self.handlers.pop(fd, None)
        self.poller.unregister(fd)

    # -- other threads

    def call_from_thread(self, call: Callable[[], None]) -> None:
        """Run `call` on the loop soon. Only this method may be called from other threads."""
        self._from_threads.append(call)
        if not self._woken:
            self._woken = True
            try:
                os.write(self._wake_write, b"\0")
            except (BlockingIOError, OSError):
                pass  # full: the loop wakes anyway; closed: the loop has ended

    def _drain_wake(self, _mask: int) -> None:
        # Read first: a byte written between the two steps would be swallowed with `_woken` still
        # true, and no thread would wake the loop again. A call added before the reset runs in this
        # turn.
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass
        self._woken = False

    # -- running

    def run(self) -> None:
        """Run turns until stopped."""
        self._running = True
        self._turn_ended_s = monotonic()
        while self._running:
            self.turn()

    def stop(self) -> None:
        self._running = False

    def turn(self) -> None:
        self.turns += 1
        handlers = self.handlers
        events = self._ready()
        # One look at the clock per call: the end of one is the beginning of the next.
        began_s = call_s = self._woke_s
        for fd, mask in events:
            handler = handlers.get(fd)
            if handler is not None:  # closed earlier in this turn
                handler(mask)
                now_s = monotonic()
                if now_s - call_s > SLOW_SECONDS:
                    self._slow_calls.ended(handler, now_s - call_s, now_s)
                call_s = now_s
        if self._timers:
            call_s = self._run_due_timers(call_s)
        for queue in (self._from_threads, self._soon):
            for _ in range(len(queue)):
                call_s = self._run(queue.popleft(), call_s)
        after_turn = self._after_turn
        while after_turn:
            call_s = self._run(after_turn.popleft(), call_s)
        self.turn_ended()
        self._turn_ended_s = call_s
        if call_s - began_s > SLOW_SECONDS:
            self._slow_calls.turn_ended(call_s - began_s, call_s)

    def _run(self, call: Callable[[], None], began_s: float) -> float:
        """Run a call, and log a slow one. Return the time of its end."""
        call()
        now_s = monotonic()
        if now_s - began_s > SLOW_SECONDS:
            self._slow_calls.ended(call, now_s - began_s, now_s)
        return now_s

    def _ready(self) -> list[tuple[int, int]]:
        """Return the next events. A single busy peer often asks again within microseconds: poll a
        few times before sleeping, since sleep and wake-up cost more."""
        wait_ms = self._wait_ms()
        if wait_ms <= 0 or not self._spins:
            events = self.poller.poll(wait_ms)
        else:
            poll = self.poller.poll
            until = time.perf_counter() + SPIN_SECONDS
            events = poll(0)
            while not events and time.perf_counter() < until:
                events = poll(0)
            if not events:
                events = poll(wait_ms)
        self._woke_s = monotonic()
        late_s = self._woke_s - self._turn_ended_s - wait_ms / 1000
        if late_s > SLOW_SECONDS:
            self._slow_calls.woke_late(late_s, self._woke_s)
        # With several busy peers sleeping pays: their requests share one turn.
        self._spins = len(events) == 1
        return events

    def _wait_ms(self) -> float:
        if self._soon or self._from_threads or self._after_turn:
            return 0
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
            self._cancelled -= 1
        if not self._timers:
            return TURN_WAIT_MS_MAX
        return min(max(0.0, self._timers[0][0] - self.mono_ms()), TURN_WAIT_MS_MAX)

    def _run_due_timers(self, began_s: float) -> float:
        """Run the timers due now; return the time of their end. A timer set by such a call runs in
        a later turn, even if due: a timer that sets itself again must not block the sockets."""
        now_ms = self.mono_ms()
        timers = self._timers
        late_ms = now_ms - timers[0][0]
        if late_ms < 0:
            return began_s
        self.late_counts[bisect_left(LATE_BOUNDS_MS, late_ms)] += 1
        self.late_ms_total += late_ms
        due = []
        while timers and timers[0][0] <= now_ms:
            timer = heapq.heappop(timers)[2]
            timer.in_heap = False
            if timer.call is None:
                self._cancelled -= 1
            else:
                due.append(timer)
        for timer in due:
            if timer.call is not None:
                began_s = self._run(timer.call, began_s)
        return began_s

    def close(self) -> None:
        self.poller.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._wake_write = -1  # a late call from a thread must not write into a reused descriptor
