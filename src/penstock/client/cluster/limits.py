"""How long a whole call may take, with all its requests and retries, and how it is broken off.

Each request waits no longer than what is left of its call. Another thread may break off the call
that is under way: the socket it waits on is shut down, so that it ends at once and the next call
begins on new connections. A call of a client that is closed, or of another process, is refused.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from penstock.client.failures.kinds import ClientClosed, TimedOut, UsedAfterFork
from penstock.client.transport.sockets import Link

P = ParamSpec("P")
R = TypeVar("R")


class BrokenOff(Exception):
    """Nobody waits for the call any more."""


class Call:
    """One call, from the moment that it is made."""

    __slots__ = ("_begun", "_timeout_ms", "broken_off")

    def __init__(self, timeout_ms: float) -> None:
        self._begun = time.monotonic()
        self._timeout_ms = timeout_ms
        self.broken_off = False

    def left_ms(self) -> float:
        return self._timeout_ms - (time.monotonic() - self._begun) * 1000

    def too_late(self) -> TimedOut:
        return TimedOut(f"the call took longer than its {self._timeout_ms:,.0f} ms")


class CallLimit:
    """Of one client, which does one call at a time."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._process = os.getpid()
        self._closed = False
        self._call: Call | None = None
        self._waits_on: Link | None = None
        self._lock = Lock()

    def close(self) -> None:
        self._closed = True

    def check_usable(self) -> None:
        if self._process != os.getpid():
            raise UsedAfterFork
        if self._closed:
            raise ClientClosed

    @contextmanager
    def call(self, call: Call | None = None) -> Iterator[None]:
        """What happens inside belongs to one call; one inside of another belongs to that."""
        self.check_usable()
        if self._call is not None:
            yield
            return
        with self._lock:
            self._call = call or Call(self.timeout_ms)
        try:
            yield
        finally:
            with self._lock:
                self._call = None

    @contextmanager
    def within(self, timeout_s: float) -> Iterator[None]:
        """All calls inside together get so much time."""
        with self.call(Call(timeout_s * 1000)):
            yield

    def left_ms(self, wanted_ms: int) -> int:
        """How long the next step may wait: what it wants, or what is left. TimedOut if nothing."""
        call = self._call
        if call is None:
            return wanted_ms
        if call.broken_off:
            raise BrokenOff
        left_ms = math.ceil(call.left_ms())
        if left_ms <= 0:
            raise call.too_late()
        return min(wanted_ms, left_ms)

    @contextmanager
    def waiting(self, link: Link) -> Iterator[None]:
        """A call that is broken off inside wakes up; what it waited on is of no further use."""
        call = self._call
        with self._lock:
            if call is not None and call.broken_off:
                raise BrokenOff
            self._waits_on = link
        try:
            yield
        except Exception as problem:
            if call is not None and call.broken_off:
                raise BrokenOff from problem
            if call is not None and call.left_ms() <= 0:
                raise call.too_late() from problem
            raise
        finally:
            with self._lock:
                self._waits_on = None

    def break_off(self, call: Call | None = None) -> None:
        """From any thread: this call, or the one under way. One that has ended stays as it was."""
        with self._lock:
            broken = call or self._call
            if broken is None:
                return
            broken.broken_off = True
            if self._call is broken and self._waits_on is not None:
                self._waits_on.wake()


class _Limited(Protocol):
    @property
    def limit(self) -> CallLimit: ...


S = TypeVar("S", bound=_Limited)


def limited(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method is one call: all its requests and retries share one limit of time."""

    @wraps(method)
    def within_limit(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.limit.call():
            return method(self, *arguments, **named)

    return within_limit
