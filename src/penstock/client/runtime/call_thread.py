"""One thread per client for blocking calls, of librdkafka or on a socket.

Calls run one after the other. The thread is a daemon: a call that does not return keeps neither the
program nor its caller, which waits with a limit.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from queue import SimpleQueue
from typing import Any, TypeVar

from penstock.client.runtime.interruption import is_interruption

SIGNAL_SECONDS_MAX = 0.25  # until a waiting caller notices Ctrl-C

T = TypeVar("T")


class CallStuck(Exception):
    """A call has not returned long after its own limit."""


class CallThread:
    """A thread that starts with the first call."""

    def __init__(self, name: str) -> None:
        self.stuck = False
        self._name = name
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = False

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        assert not self._ended, "this thread was told to end"
        if self._thread is None:
            self._thread = threading.Thread(
                target=_work, args=(self._calls,), name=self._name, daemon=True
            )
            self._thread.start()
        future: Future[T] = Future()
        self._calls.put((call, future))
        return future

    async def run(self, call: Callable[[], T]) -> T:
        """Return the call's result. A cancelled caller leaves the call behind."""
        return await asyncio.wrap_future(self.submit(call))

    async def finish(
        self, call: Callable[[], T], limit_s: float, on_cancel: Callable[[], object] | None = None
    ) -> T:
        """Return the call's result; a cancellation waits for the end of the call.

        `on_cancel` tells the call that it may end early. Raise CallStuck after the limit, which is
        longer than the call's own.
        """
        future = asyncio.wrap_future(self._submit_alive(call))
        until, cancelled = time.monotonic() + limit_s, False
        while not future.done() and (left := until - time.monotonic()) > 0:
            try:
                await asyncio.wait([future], timeout=left)
            except asyncio.CancelledError:
                cancelled = True
                if on_cancel is not None:
                    on_cancel()
        if not future.done():
            self.stuck = True
            failure: BaseException | None = CallStuck()
        else:
            failure = future.exception()
        if cancelled:
            raise asyncio.CancelledError from failure
        if failure is not None:
            raise failure
        return future.result()

    def wait(
        self, call: Callable[[], T], limit_s: float, on_interrupt: Callable[[], float] | None = None
    ) -> T:
        """Return the call's result, blocking; raise CallStuck after the limit.

        `on_interrupt` tells the call that the program was interrupted. The interruption is raised
        when the call has ended, or after the returned time.
        """
        future = self._submit_alive(call)
        until = time.monotonic() + limit_s
        try:
            while not future.done() and (left := until - time.monotonic()) > 0:
                # A signal just before a wait begins does not end it.
                wait_for_futures([future], min(left, SIGNAL_SECONDS_MAX))
        except BaseException as error:
            if on_interrupt is not None and is_interruption(error):
                wait_for_futures([future], on_interrupt())
            raise
        if not future.done():
            self.stuck = True
            raise CallStuck
        return future.result()

    def _submit_alive(self, call: Callable[[], T]) -> "Future[T]":
        if self.stuck:
            raise CallStuck
        return self.submit(call)

    def end(self) -> None:
        """Accept no more calls; finish those submitted."""
        if not self._ended:
            self._ended = True
            self._calls.put(None)


def _work(calls: "SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]") -> None:
    while (item := calls.get()) is not None:
        call, future = item
        if future.set_running_or_notify_cancel():
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        del item, call, future  # keep nothing alive while the thread waits
