"""Parallel work that keeps the order of keys: a key always goes to the same lane.

A lane does one job after the other, in the order in which they came. Records without a key go by
their partition. Each job runs in a task of its own, so that it can be cancelled alone.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from zlib import crc32

from penstock.retry.course import Course, Entry
from penstock.retry.crew import HANDLER_TASK, Crew
from penstock.retry.route import Route


class Job:
    """One admitted record, and the task that handles it."""

    __slots__ = ("course", "entry", "route", "task", "withdrawn")

    def __init__(self, route: Route, course: Course, entry: Entry) -> None:
        self.route = route
        self.course = course
        self.entry = entry
        self.task: asyncio.Task[None] | None = None
        # Nobody waits for it any more: its partition goes elsewhere.
        self.withdrawn = False

    def withdraw(self) -> None:
        self.withdrawn = True
        if self.task is not None:
            self.task.cancel()


class Lanes:
    """Of one route."""

    def __init__(self, count: int, work: Callable[[Job], Awaitable[None]], crew: Crew) -> None:
        self._lanes: list[deque[Job]] = [deque() for _ in range(count)]
        self._running: list[Job | None] = [None] * count
        self._work = work
        self._crew = crew

    def put(self, job: Job) -> None:
        key, partition = job.entry.key, job.course.partition
        at = (partition if key is None else crc32(key)) % len(self._lanes)
        self._lanes[at].append(job)
        if self._running[at] is None:
            self._next(at)

    @property
    def running(self) -> int:
        return sum(each is not None for each in self._running)

    def _next(self, at: int) -> None:
        lane = self._lanes[at]
        while lane and (lane[0].withdrawn or lane[0].entry.dropped):
            lane.popleft()
        if not lane or self._crew.ended:
            self._running[at] = None
            return
        job = self._running[at] = lane.popleft()
        job.task = self._crew.start(self._run(job, at), HANDLER_TASK)

    async def _run(self, job: Job, at: int) -> None:
        try:
            if not job.entry.dropped:
                await self._work(job)
        except asyncio.CancelledError:
            if not job.withdrawn:
                raise
        self._next(at)
