"""A few threads for work without state of its own: fsync, cold reads, unlinks, recompression."""

import queue
import threading
from collections.abc import Callable
from typing import Any

from penstock.real.loop import Loop

Task = tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any, BaseException | None], None]]


class ThreadWorkers:
    """Runs functions on daemon threads and brings their results back to the loop."""

    def __init__(self, loop: Loop, threads: int = 4) -> None:
        self._loop = loop
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._limit = self._limit_default = threads
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        self._busy += 1
        if self._busy > len(self._threads) < self._limit:
            thread = threading.Thread(target=self._work, name="penstock-worker", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put((function, arguments, done))

    def use(self, threads: int | None) -> None:
        self._limit = threads or self._limit_default
        while len(self._threads) > self._limit:
            self._threads.pop()  # whichever takes the word ends; they are all alike
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, arguments, done = task
            result: Any = None
            failure: BaseException | None = None
            try:
                result = function(*arguments)
            except Exception as error:  # whatever it was belongs to the caller, on the loop
                failure = error
            self._loop.call_from_thread(lambda d=done, r=result, f=failure: self._finish(d, r, f))  # type: ignore[misc]

    def _finish(
        self,
        done: Callable[[Any, BaseException | None], None],
        result: Any,
        failure: BaseException | None,
    ) -> None:
        self._busy -= 1
        done(result, failure)

    @property
    def tasks(self) -> int:
        """That run, or wait for a thread."""
        return self._busy

    @property
    def threads(self) -> int:
        return len(self._threads)

    @property
    def idle(self) -> bool:
        return self._busy == 0

    def close(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
