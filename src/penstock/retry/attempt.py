"""One attempt at a record: deserialize, call the handler, report the result.

Every exception of a handler, a deserializer or a guard ends the attempt, also SystemExit and a
cancellation of its own making: otherwise a lane would wait for this record for ever. Only
KeyboardInterrupt is raised further, because Ctrl-C is meant for the process.
"""

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from penstock.client.failures import DeserializationError, HandlerTimedOut, is_retriable
from penstock.client.records import Record
from penstock.client.runtime.schema_wait import with_answers
from penstock.retry.clock import RetryClock
from penstock.retry.key_lanes import Job
from penstock.retry.partition_state import AdmittedRecord, NextAction, PartitionState
from penstock.retry.retry_headers import cause_of
from penstock.retry.route import NoRetry, TopicRoute
from penstock.summed_log import SummedLog


async def handle(
    job: Job, clock: RetryClock, timeout_s: float, is_over: Callable[[], bool], lines: SummedLog
) -> None:
    """Try the record and decide its outcome, unless the job or the session is cancelled."""
    route, partition_state, entry = job.route, job.partition_state, job.entry
    try:
        record = await _opened(route, entry)
        identity = route.identity(record)
    except KeyboardInterrupt:
        raise
    except BaseException as rejection:
        if isinstance(rejection, asyncio.CancelledError):
            if job.cancelled or is_over():
                raise
            _ignore_cancellation()  # a guard has cancelled itself
        if is_retriable(rejection):  # the schema registry may be unreachable, and the record valid
            if partition_state.begin(entry, clock.now_ms()) is NextAction.TRY:
                _failed(partition_state, entry, rejection, clock.now_ms(), lines)
            return
        partition_state.begin(entry, clock.now_ms(), rejection=rejection)
        dead = partition_state.names.dead
        lines.log(logging.ERROR, dead, "%s goes to %s: %s", _position_text(entry), dead, rejection)
        return
    if partition_state.begin(entry, clock.now_ms(), identity) is not NextAction.TRY:
        return
    try:
        async with asyncio.timeout(timeout_s) as limit:
            result: object = route.handler(record)
            if isawaitable(result):  # a plain function has done its work already
                result = await result
        writes = await with_answers(lambda: route.outputs(result, entry))
    except KeyboardInterrupt:
        raise
    except TimeoutError as error:
        late = HandlerTimedOut(f"the handler took longer than handler.timeout.ms, {timeout_s:g} s")
        _failed(partition_state, entry, late if limit.expired() else error, clock.now_ms(), lines)
    except asyncio.CancelledError as error:
        if job.cancelled or is_over():
            raise
        _ignore_cancellation()  # the handler has cancelled itself
        _failed(partition_state, entry, error, clock.now_ms(), lines)
    except BaseException as error:
        _failed(partition_state, entry, error, clock.now_ms(), lines)
    else:
        partition_state.succeeded(entry, clock.now_ms(), writes)


async def _opened(route: TopicRoute, entry: AdmittedRecord) -> Record[Any, Any]:
    """Deserialize the record; a schema that is not known yet is fetched on a thread."""
    try:
        return await with_answers(lambda: route.deserialized(entry))
    except DeserializationError:
        raise
    except Exception as error:  # the schema registry did not answer
        raise route.unreadable(error, entry) from error


def _ignore_cancellation() -> None:
    """Undo the cancellation of this task, so that the lane continues."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    while task.cancelling():
        task.uncancel()


def _failed(
    partition_state: PartitionState,
    entry: AdmittedRecord,
    error: BaseException,
    now_ms: int,
    lines: SummedLog,
) -> None:
    hopeless = isinstance(error, NoRetry)
    partition_state.failed(entry, error, now_ms, hopeless=hopeless)
    lines.log(
        logging.WARNING,
        f"{entry.trail.topic} {type(error).__qualname__}",
        "attempt %d at %s failed and it goes to %s: %s",
        entry.trail.attempts + 1,
        _position_text(entry),
        entry.writes[0].topic,
        cause_of(error),
        exc_info=error,
    )


def _position_text(entry: AdmittedRecord) -> str:
    trail = entry.trail
    return f"{trail.topic}-{trail.partition}@{trail.offset}"
