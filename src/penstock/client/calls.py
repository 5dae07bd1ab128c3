"""One thread per client, for what blocks: inside librdkafka, or on a socket.

Calls run one after the other. The thread is a daemon: a call that does not return keeps neither the
program nor its caller, who waits with a limit of his own.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class CallStuck(Exception):
    """A call has not come back long after its own limit: nor will any after it."""


class CallThread:
    """Begins with the first call."""

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
        """The call's result. Whoever is cancelled while he waits leaves the call behind."""
        return await asyncio.wrap_future(self.submit(call))

    async def finish(
        self, call: Callable[[], T], limit_s: float, on_cancel: Callable[[], None] | None = None
    ) -> T:
        """As `run`, but a cancellation waits for the call's end: what was begun is finished.

        `on_cancel` tells the call that it may end early. The call has a limit of its own; CallStuck
        if this one passes first.
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

    def wait(self, call: Callable[[], T], limit_s: float) -> T:
        """For who may block: the call's result; CallStuck if it does not come in time."""
        future = self._submit_alive(call)
        try:
            return future.result(limit_s)
        except FutureTimeoutError:
            if future.done():
                raise  # it has raised that itself
            self.stuck = True
            raise CallStuck from None

    def _submit_alive(self, call: Callable[[], T]) -> "Future[T]":
        if self.stuck:
            raise CallStuck
        return self.submit(call)

    def end(self) -> None:
        """No more calls; those under way and those that wait are still made."""
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
        del item, call, future  # nothing may be kept alive while the thread waits
