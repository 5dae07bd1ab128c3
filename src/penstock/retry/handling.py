"""One attempt at a record: it is read, tried if it may be, and the course hears how it went."""

import asyncio
import logging

from penstock.client.failures import HandlerTimedOut
from penstock.retry.clock import Clock
from penstock.retry.course import Course, Entry, Verdict
from penstock.retry.lanes import Job
from penstock.retry.route import NoRetry

log = logging.getLogger("penstock.retry")


async def handle(job: Job, clock: Clock, timeout_s: float) -> None:
    """The record is decided afterwards, unless the job is cancelled."""
    route, course, entry = job.route, job.course, job.entry
    try:
        record = route.opened(entry)
        identity = route.identity(record)
    except Exception as refusal:
        course.begin(entry, clock.now_ms(), refusal=refusal)
        log.error("%s goes to %s: %s", _place(entry), course.names.dead, refusal)
        return
    if course.begin(entry, clock.now_ms(), identity) is not Verdict.TRY:
        return
    try:
        async with asyncio.timeout(timeout_s) as limit:
            result = await route.handler(record)
        writes = route.outputs(result, entry)
    except TimeoutError as error:
        late = HandlerTimedOut(f"the handler took longer than handler.timeout.ms, {timeout_s:g} s")
        _failed(course, entry, late if limit.expired() else error, clock.now_ms())
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        if task.cancelling():
            raise
        _failed(course, entry, error, clock.now_ms())  # the handler has cancelled itself
    except Exception as error:
        _failed(course, entry, error, clock.now_ms())
    else:
        course.succeeded(entry, clock.now_ms(), writes)


def _failed(course: Course, entry: Entry, error: BaseException, now_ms: int) -> None:
    hopeless = isinstance(error, NoRetry)
    course.failed(entry, error, now_ms, hopeless=hopeless)
    log.warning(
        "attempt %d at %s failed and it goes to %s: %s: %s",
        entry.trail.attempts + 1,
        _place(entry),
        entry.writes[0].topic,
        type(error).__qualname__,
        error,
        exc_info=error,
    )


def _place(entry: Entry) -> str:
    trail = entry.trail
    return f"{trail.topic}-{trail.partition}@{trail.offset}"
