"""Parallel work that keeps the order of keys: a key always goes to the same lane.

A lane runs one job after the other, in the order of arrival. Records without a key go by their
partition. Each job has its own task, so that a job can be cancelled alone.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from zlib import crc32

from penstock.retry.partition_state import AdmittedRecord, PartitionState
from penstock.retry.route import TopicRoute
from penstock.retry.task_group import HANDLER_TASK, RetryTaskGroup


@dataclass(slots=True, eq=False)
class Job:
    """One admitted record, and the task that handles it."""

    route: TopicRoute
    partition_state: PartitionState
    entry: AdmittedRecord
    task: asyncio.Task[None] | None = None
    # The partition was revoked, so the result is not needed.
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()


class KeyLanes:
    """The lanes of one route."""

    def __init__(
        self, count: int, work: Callable[[Job], Awaitable[None]], tasks: RetryTaskGroup
    ) -> None:
        self._lanes: list[deque[Job]] = [deque() for _ in range(count)]
        self._running: list[Job | None] = [None] * count
        self._work = work
        self._tasks = tasks

    def put(self, job: Job) -> None:
        key, partition = job.entry.key, job.partition_state.partition
        at = (partition if key is None else crc32(key)) % len(self._lanes)
        self._lanes[at].append(job)
        if self._running[at] is None:
            self._next(at)

    @property
    def running(self) -> int:
        return sum(each is not None for each in self._running)

    def _next(self, at: int) -> None:
        lane = self._lanes[at]
        while lane and (lane[0].cancelled or lane[0].entry.dropped):
            lane.popleft()
        if not lane or self._tasks.ended:
            self._running[at] = None
            return
        job = self._running[at] = lane.popleft()
        job.task = self._tasks.start(self._run(job, at), HANDLER_TASK)

    async def _run(self, job: Job, at: int) -> None:
        try:
            if not job.entry.dropped:
                await self._work(job)
        except asyncio.CancelledError:
            if not job.cancelled:
                raise
        self._next(at)
