"""One attempt at a record: it is read, tried if it may be, and the course hears how it went.

Whatever ends a handler ends its attempt, and what a deserializer or a guard raises ends their
record, also what is meant to end more (SystemExit, a cancellation of their own making): a lane that
waits for a record would wait for ever. Only KeyboardInterrupt goes on, for somebody at the keyboard
has meant the process.
"""

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from penstock.client.asking import when_told
from penstock.client.failures import DeserializationError, HandlerTimedOut, is_retriable
from penstock.client.records import Record
from penstock.retry.clock import Clock
from penstock.retry.course import Course, Entry, Verdict
from penstock.retry.lanes import Job
from penstock.retry.route import NoRetry, Route
from penstock.retry.trail import cause_of
from penstock.summed_log import SummedLog


async def handle(
    job: Job, clock: Clock, timeout_s: float, is_over: Callable[[], bool], lines: SummedLog
) -> None:
    """The record is decided afterwards, unless the job was withdrawn or everything is over."""
    route, course, entry = job.route, job.course, job.entry
    try:
        record = await _opened(route, entry)
        identity = route.identity(record)
    except KeyboardInterrupt:
        raise
    except BaseException as refusal:
        if isinstance(refusal, asyncio.CancelledError):
            if job.withdrawn or is_over():
                raise
            _stay()  # a guard has cancelled itself
        if is_retriable(refusal):  # a registry that is away, say: the record may be fine
            if course.begin(entry, clock.now_ms()) is Verdict.TRY:
                _failed(course, entry, refusal, clock.now_ms(), lines)
            return
        course.begin(entry, clock.now_ms(), refusal=refusal)
        dead = course.names.dead
        lines.log(logging.ERROR, dead, "%s goes to %s: %s", _place(entry), dead, refusal)
        return
    if course.begin(entry, clock.now_ms(), identity) is not Verdict.TRY:
        return
    try:
        async with asyncio.timeout(timeout_s) as limit:
            result: object = route.handler(record)
            if isawaitable(result):  # a plain function has done its work already
                result = await result
        writes = await when_told(lambda: route.outputs(result, entry))
    except KeyboardInterrupt:
        raise
    except TimeoutError as error:
        late = HandlerTimedOut(f"the handler took longer than handler.timeout.ms, {timeout_s:g} s")
        _failed(course, entry, late if limit.expired() else error, clock.now_ms(), lines)
    except asyncio.CancelledError as error:
        if job.withdrawn or is_over():
            raise
        _stay()  # the handler has cancelled itself
        _failed(course, entry, error, clock.now_ms(), lines)
    except BaseException as error:
        _failed(course, entry, error, clock.now_ms(), lines)
    else:
        course.succeeded(entry, clock.now_ms(), writes)


async def _opened(route: Route, entry: Entry) -> Record[Any, Any]:
    """What its deserializer has to ask first (a schema) is asked on a thread."""
    try:
        return await when_told(lambda: route.opened(entry))
    except DeserializationError:
        raise
    except Exception as error:  # nobody has answered
        raise route.unreadable(error, entry) from error


def _stay() -> None:
    """The task goes on as if nobody had cancelled it."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    while task.cancelling():
        task.uncancel()


def _failed(
    course: Course, entry: Entry, error: BaseException, now_ms: int, lines: SummedLog
) -> None:
    hopeless = isinstance(error, NoRetry)
    course.failed(entry, error, now_ms, hopeless=hopeless)
    lines.log(
        logging.WARNING,
        f"{entry.trail.topic} {type(error).__qualname__}",
        "attempt %d at %s failed and it goes to %s: %s",
        entry.trail.attempts + 1,
        _place(entry),
        entry.writes[0].topic,
        cause_of(error),
        exc_info=error,
    )


def _place(entry: Entry) -> str:
    trail = entry.trail
    return f"{trail.topic}-{trail.partition}@{trail.offset}"
