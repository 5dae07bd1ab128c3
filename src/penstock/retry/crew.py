"""Tasks that live and fail together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Crew:
    """The first failure is told; nobody begins anything once it has ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended = False
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert not self.ended, "nothing begins after the end"
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)

    async def end(self) -> None:
        """Cancel all that still runs, and wait for it."""
        self.ended = True
        while self._tasks:
            running = list(self._tasks)
            for task in running:
                task.cancel()
            await asyncio.wait(running)
        if not self.failure.cancel() and not self.failure.cancelled():
            self.failure.exception()  # whoever waited for it has it; nobody else needs to hear
