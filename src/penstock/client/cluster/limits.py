"""The time limit of a whole call with all its requests and retries, and its cancellation.

Each request waits no longer than the rest of its call. Another thread may cancel the call under
way: the socket is shut down, the call ends at once, and the next call opens new connections. A call
of a closed client, or of a client of another process, raises.
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
from penstock.client.transport.sockets import TransportSocket

P = ParamSpec("P")
R = TypeVar("R")


class BrokenOff(Exception):
    """The caller has cancelled the call."""


class ClientCall:
    """One call, from its start."""

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
    """The time limit of one client, which runs one call at a time."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._process = os.getpid()
        self._closed = False
        self._call: ClientCall | None = None
        self._waits_on: TransportSocket | None = None
        self._lock = Lock()

    def close(self) -> None:
        self._closed = True

    def check_usable(self) -> None:
        if self._process != os.getpid():
            raise UsedAfterFork
        if self._closed:
            raise ClientClosed

    @contextmanager
    def call(self, call: ClientCall | None = None) -> Iterator[None]:
        """Run the block as one call; a nested call belongs to the outer one."""
        self.check_usable()
        if self._call is not None:
            yield
            return
        with self._lock:
            self._call = call or ClientCall(self.timeout_ms)
        try:
            yield
        finally:
            with self._lock:
                self._call = None

    @contextmanager
    def within(self, timeout_s: float) -> Iterator[None]:
        """Limit all calls of the block to one time together."""
        with self.call(ClientCall(timeout_s * 1000)):
            yield

    def left_ms(self, wanted_ms: int) -> int:
        """Return the time for the next wait: `wanted_ms`, or the rest of the call. Raise TimedOut
        at the end."""
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
    def waiting(self, link: TransportSocket) -> Iterator[None]:
        """Wait on a socket in the block; cancelling the call wakes it and makes the socket
        useless."""
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

    def break_off(self, call: ClientCall | None = None) -> None:
        """Cancel this call, or the one under way, from any thread. An ended call keeps its
        result."""
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
    """Make a method one call: its requests and retries share one time limit."""

    @wraps(method)
    def within_limit(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self.limit.call():
            return method(self, *arguments, **named)

    return within_limit
