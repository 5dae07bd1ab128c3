"""One thread per client, for what blocks inside librdkafka.

Calls run one after the other. The thread is a daemon: a call that does not return keeps neither the
program nor its caller, who waits with a limit of his own.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class CallThread:
    """Begins with the first call."""

    def __init__(self, name: str) -> None:
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

    async def finish(self, call: Callable[[], T]) -> T:
        """As `run`, but a cancellation waits for the call's end: what was begun is finished.

        Only for calls that have a limit of their own.
        """
        future = asyncio.wrap_future(self.submit(call))
        cancelled = False
        while True:
            try:
                result = await asyncio.shield(future)
            except asyncio.CancelledError:
                if future.cancelled():
                    raise
                cancelled = True
                continue
            except BaseException:
                if cancelled:
                    raise asyncio.CancelledError from future.exception()
                raise
            if cancelled:
                raise asyncio.CancelledError
            return result

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
