"""Threads for stateless work, in pools, so that one kind of work does not block another.

Each disk has a pool: a hanging disk blocks only its own threads. Work that keeps a processor busy
has another pool, smaller than the machine, and all other work a third. A thread starts when there
is work, so an unused pool costs nothing.
"""

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from penstock.real.loop import Loop

Done = Callable[[Any, BaseException | None], None]
Task = tuple[Callable[..., Any], tuple[Any, ...], Done]

THREADS_MAX_DEFAULT = 8
COMPUTING_SHARE = 2  # processors per thread: the loop needs one too


def _processors() -> int:
    return os.cpu_count() or 1


class Pool:
    """The threads of one kind of work."""

    def __init__(self, loop: Loop, limit: int) -> None:
        self._loop = loop
        self._limit = limit
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.tasks = 0  # running, or waiting for a thread

    @property
    def threads(self) -> int:
        return len(self._threads)

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Done) -> None:
        self.tasks += 1
        if self.tasks > len(self._threads) < self._limit:
            thread = threading.Thread(target=self._work, name="penstock-worker", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put((function, arguments, done))

    def use(self, limit: int) -> None:
        self._limit = limit
        while len(self._threads) > limit:
            self._threads.pop()  # any thread may end; they are equal
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, arguments, done = task
            result: Any = None
            failure: BaseException | None = None
            try:
                result = function(*arguments)
            except Exception as error:  # the caller handles all failures, on the loop
                failure = error
            self._loop.call_from_thread(lambda d=done, r=result, f=failure: self._finish(d, r, f))  # type: ignore[misc]

    def _finish(self, done: Done, result: Any, failure: BaseException | None) -> None:
        self.tasks -= 1
        done(result, failure)

    def close(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class ThreadWorkers:
    """All pools of a process; results return to the loop."""

    def __init__(self, loop: Loop, threads: int | None = None) -> None:
        """Make the pools. `threads` bounds the general pool and the pool of each disk. None means
        the number of processors plus two, at most 8."""
        self._loop = loop
        default = min(THREADS_MAX_DEFAULT, 2 + _processors())
        self._limit = self._limit_default = threads or default
        self._general = Pool(loop, self._limit)
        self._computing = Pool(loop, max(1, _processors() // COMPUTING_SHARE))
        self._disks: dict[str, Pool] = {}

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Done) -> None:
        self._general.run(function, arguments, done)

    def compute(self, function: Callable[..., Any], arguments: tuple[Any, ...], done: Done) -> None:
        self._computing.run(function, arguments, done)

    def of_disk(self, root: str) -> Pool:
        """Return the pool of this disk alone."""
        pool = self._disks.get(root)
        if pool is None:
            pool = self._disks[root] = Pool(self._loop, self._limit)
        return pool

    def use(self, threads: int | None) -> None:
        self._limit = threads or self._limit_default
        for pool in (self._general, *self._disks.values()):
            pool.use(self._limit)

    def _pools(self) -> list[Pool]:
        return [self._general, self._computing, *self._disks.values()]

    @property
    def tasks(self) -> int:
        """Return the number of works that run or wait for a thread."""
        return sum(pool.tasks for pool in self._pools())

    @property
    def threads(self) -> int:
        return sum(pool.threads for pool in self._pools())

    @property
    def idle(self) -> bool:
        return self.tasks == 0

    def close(self) -> None:
        for pool in self._pools():
            pool.close()
