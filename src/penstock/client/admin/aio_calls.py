"""Calls of a blocking client for asyncio: on one thread, one after the other, in order.

A cancelled task leaves the client usable: its call is cancelled, and the next one starts at once.
Closing cancels every call that is waiting or under way.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from penstock.client.cluster.limits import BrokenOff, CallLimit, ClientCall
from penstock.client.failures.kinds import ClientClosed
from penstock.client.runtime.call_thread import CallThread

P = ParamSpec("P")
R = TypeVar("R")
B = TypeVar("B")

CLOSE_TIMEOUT_S = 5.0  # only the opening of a connection can take this long


class Calls:
    """The thread of one client. The first call starts the thread."""

    def __init__(self, limit: CallLimit, name: str) -> None:
        self._limit = limit
        self._closed = False
        self._thread = CallThread(name)

    async def do(self, work: Callable[[], R]) -> R:
        self._limit.check_usable()
        if self._closed:
            raise ClientClosed
        call = ClientCall(self._limit.timeout_ms)

        def run() -> R:
            if self._closed:
                raise ClientClosed
            with self._limit.call(call):
                return work()

        future = self._thread.submit(run)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._limit.break_off(call)
            raise
        except BrokenOff:
            raise ClientClosed from None

    async def close(self, last: Callable[[], None], timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Cancel the call under way, drop the waiting calls, and run `last` on the thread."""
        if self._closed:
            return
        self._closed = True
        self._limit.break_off()
        ended = self._thread.submit(last)
        self._thread.end()
        await asyncio.wait([asyncio.wrap_future(ended)], timeout=timeout_s)


class AioPart(Generic[B]):
    """Admin or a part of it for asyncio: calls of the blocking one."""

    def __init__(self, calls: Calls, blocking: B) -> None:
        self._calls = calls
        self._blocking = blocking


def awaited(
    method: Callable[Concatenate[B, P], R],
) -> Callable[Concatenate[AioPart[B], P], Coroutine[Any, Any, R]]:
    """Return a method of the blocking part as a coroutine function of the asyncio part."""

    @wraps(method)
    async def call(self: AioPart[B], /, *arguments: P.args, **named: P.kwargs) -> R:
        return await self._calls.do(lambda: method(self._blocking, *arguments, **named))

    return call
