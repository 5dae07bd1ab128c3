"""A group of tasks that end together when one fails."""

import asyncio
import logging
from collections.abc import Coroutine
from time import monotonic
from typing import Any

log = logging.getLogger("penstock.retry")

# The name of tasks that run handlers. A handler that ignores cancellation is left running.
HANDLER_TASK = "penstock-handler"
CANCEL_S_MAX = 5.0
CANCEL_AGAIN_S = 0.2


class RetryTaskGroup:
    """Tasks with a future for their first failure; after end() no task starts."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended = False
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        assert not self.ended, "nothing begins after the end"
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)

    async def end(self) -> None:
        """Cancel all tasks and wait for these; for handlers at most CANCEL_S_MAX."""
        self.ended = True
        for task in list(self._tasks):
            task.cancel()
        until = monotonic() + CANCEL_S_MAX
        while self._tasks:
            await asyncio.wait(list(self._tasks), timeout=CANCEL_AGAIN_S)
            foreign = [each for each in self._tasks if each.get_name() == HANDLER_TASK]
            for task in foreign:
                task.cancel()
            if len(foreign) == len(self._tasks) and foreign and monotonic() > until:
                log.warning(
                    "%d handlers ignore their cancellation and are left running", len(foreign)
                )
                break
        if not self.failure.cancel() and not self.failure.cancelled():
            self.failure.exception()  # retrieved, so that asyncio does not log it again
