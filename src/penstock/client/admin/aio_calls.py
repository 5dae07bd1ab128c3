"""Calls of a blocking client for asyncio: on one thread, one after the other, in order.

A cancelled task leaves the client usable: its call is cancelled, and the next one starts at once.
Closing cancels every call that is waiting or under way.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from penstock.client.cluster.limits import BrokenOff, CallLimit, ClientCall
from penstock.client.failures.kinds import ClientClosed
from penstock.client.runtime.call_thread import CallThread

P = ParamSpec("P")
R = TypeVar("R")

CLOSE_TIMEOUT_S = 5.0  # only the opening of a connection can take this long


class Calls:
    """The thread of one client. The first call starts the thread."""

    def __init__(self, limit: CallLimit, name: str) -> None:
        self._limit = limit
        self._closed = False
        self._thread = CallThread(name)

    async def do(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        self._limit.check_usable()
        if self._closed:
            raise ClientClosed
        call = ClientCall(self._limit.timeout_ms)

        def run() -> R:
            if self._closed:
                raise ClientClosed
            with self._limit.call(call):
                return work(*arguments, **named)

        future = self._thread.submit(run)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._limit.break_off(call)
            raise
        except BrokenOff:
            raise ClientClosed from None

    async def close(self, last: Callable[[], None]) -> None:
        """Cancel the call under way, drop the waiting calls, and run `last` on the thread."""
        if self._closed:
            return
        self._closed = True
        self._limit.break_off()
        ended = self._thread.submit(last)
        self._thread.end()
        await asyncio.wait([asyncio.wrap_future(ended)], timeout=CLOSE_TIMEOUT_S)
