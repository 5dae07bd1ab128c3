"""The engine's access to the application: bodies in tasks, which it may cancel, or in threads.

An adapter holds no reference to the Consumer: the garbage collector must find a consumer that was
never closed although its thread still runs.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Collection, Coroutine
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from penstock.client.consumer.assignment.resolved_config import PartitionsCallback
from penstock.client.consumer.engine.shared_state import Fetched
from penstock.client.consumer.offsets.offset_tracker import InFlight
from penstock.client.failures import WrongLoop
from penstock.model import TopicPartition

log = logging.getLogger("penstock.client.consumer")


class AppAdapter(Protocol):
    """Called from the polling thread."""

    def is_working(self, work: InFlight[Fetched]) -> bool:
        """Return whether a loop body may still finish these records."""
        ...

    def cancel(self, work: InFlight[Fetched]) -> None:
        """End the body that has lost these records (`work.failure` is the reason), if possible."""
        ...

    def call(
        self, callback: PartitionsCallback, places: Collection[TopicPartition]
    ) -> "Future[None]":
        """Call an application's function where application code runs; the future ends with it."""
        ...


class CancelledBody(NamedTuple):
    """A task cancelled by the engine, the reason, and the number of other cancellations before."""

    failure: Exception
    before: int


class AioAdapter:
    """The adapter of the asyncio consumer, bound to the event loop of its first use."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        # Cancelled tasks that have not raised the reason yet.
        self.cancelled: dict[asyncio.Task[object], CancelledBody] = {}
        # The task inside close(): the engine does not wait for its body.
        self.closer: object = None
        self._callbacks: set[asyncio.Future[None]] = set()

    def bind(self) -> asyncio.AbstractEventLoop:
        """Bind to the running loop; raise WrongLoop if bound to another."""
        running = asyncio.get_running_loop()
        if self.loop is None:
            self.loop = running
        elif self.loop is not running:
            if not self.loop.is_closed():
                raise WrongLoop("the consumer belongs to another event loop")
            raise WrongLoop("the event loop of the consumer has ended")
        return running

    def caller(self) -> object:
        return asyncio.current_task()

    # -- for the polling thread

    def is_working(self, work: InFlight[Fetched]) -> bool:
        task = work.owner
        assert isinstance(task, asyncio.Task), "bodies here are tasks"
        return not work.ended and not task.done() and task is not self.closer

    def cancel(self, work: InFlight[Fetched]) -> None:
        assert self.loop is not None, "work was taken in a loop"
        try:
            self.loop.call_soon_threadsafe(self._cancel, work)
        except RuntimeError:
            log.debug("the event loop has ended, and its bodies with it")

    def call(
        self, callback: PartitionsCallback, places: Collection[TopicPartition]
    ) -> "Future[None]":
        future: Future[None] = Future()
        assert self.loop is not None, "what is read is read in a loop"
        self.loop.call_soon_threadsafe(self._begin, callback, places, future)
        return future

    # -- in the loop

    def _cancel(self, work: InFlight[Fetched]) -> None:
        task = work.owner
        assert isinstance(task, asyncio.Task) and work.failure is not None
        # The body may have ended since the decision.
        if not work.ended and not task.done():
            self.cancelled[task] = CancelledBody(work.failure, task.cancelling())
            task.cancel()

    def _begin(
        self,
        callback: PartitionsCallback,
        places: Collection[TopicPartition],
        future: "Future[None]",
    ) -> None:
        try:
            result = callback(places)
        except BaseException as error:
            future.set_exception(error)
            return
        if not isinstance(result, Awaitable):
            future.set_result(None)
            return
        running: asyncio.Future[None] = asyncio.ensure_future(result)
        self._callbacks.add(running)

        def ended(done: "asyncio.Future[None]") -> None:
            self._callbacks.discard(done)
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        running.add_done_callback(ended)


class ThreadAdapter:
    """The engine's access to bodies that run in threads."""

    def __init__(self) -> None:
        # The thread inside close(): the engine does not wait for its body.
        self.closer: object = None

    def caller(self) -> object:
        return threading.current_thread()

    def is_working(self, work: InFlight[Fetched]) -> bool:
        thread = work.owner
        assert isinstance(thread, threading.Thread), "bodies here are threads"
        return not work.ended and thread.is_alive() and thread is not self.closer

    def cancel(self, work: InFlight[Fetched]) -> None:
        """Do nothing: the next step raises the failure."""

    def call(
        self, callback: PartitionsCallback, places: Collection[TopicPartition]
    ) -> "Future[None]":
        """Call on the polling thread: the application's threads may be busy."""
        future: Future[None] = Future()
        try:
            result = callback(places)
            if isinstance(result, Awaitable):
                if isinstance(result, Coroutine):
                    result.close()
                raise TypeError(f"{callback!r} is a coroutine: that takes the asyncio Consumer")
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future
