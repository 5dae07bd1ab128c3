"""Loops over records and batches in asyncio, and their steps.

A loop holds the records whose body runs. The next step finishes them; a dropped loop gives them
back. CPython drops a loop as soon as control leaves it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.client.consumer.engine.app_adapter import AioAdapter
from penstock.client.consumer.engine.core import ConsumerCore
from penstock.client.consumer.engine.message_conversion import Records
from penstock.client.consumer.engine.operations import ConsumerOperations, OperationSteps, Wait
from penstock.client.consumer.engine.shared_state import Fetched, Waiter
from penstock.client.consumer.loops.outstanding_polls import CallerState, OutstandingPolls, Taker
from penstock.client.consumer.offsets.offset_tracker import NO_TICKET, InFlight
from penstock.client.failures import ClientClosed
from penstock.client.records import K, Record, V
from penstock.client.runtime.schema_wait import QUESTIONS_MAX, ask_on_thread, too_many_questions
from penstock.client.serde.protocols import NotToldYet
from penstock.model import TopicPartition

T = TypeVar("T")

# With unread records a step never waits; other tasks run at least this often.
YIELD_AFTER_S = 0.01


class AioReader(Generic[K, V]):
    """The event loop's side of one consumer. Holds no reference to the Consumer."""

    def __init__(self, core: ConsumerCore[K, V], adapter: AioAdapter) -> None:
        self.core = core
        self.shared = core.shared
        self.adapter = adapter
        self.polls: OutstandingPolls[AioTaker[K, V]] = OutstandingPolls(
            lambda: AioTaker(self), _state_of
        )
        self.operations = ConsumerOperations(core, self.polls, adapter.caller)
        self._opening: asyncio.Future[None] | None = None

    # -- opening and waiting

    async def open(self) -> None:
        """Start the consumer once; concurrent callers wait for the same start."""
        self.core.check()
        self.adapter.bind()
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._begin())
            self._opening.add_done_callback(_retrieve_error)
        if not self._opening.done():
            await asyncio.shield(self._opening)
        self._opening.result()

    async def _begin(self) -> None:
        engine = self.core.engine
        engine.start()
        await asyncio.wrap_future(engine.opened)
        await self._drive(self.operations.read_first())

    async def run(self, operation: OperationSteps[T]) -> T:
        """Open the consumer and run an operation."""
        await self.open()
        return await self._drive(operation)

    async def _drive(self, operation: OperationSteps[T]) -> T:
        answer: object = None
        while True:
            try:
                wait = operation.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self._wait(wait)

    async def _wait(self, wait: Wait) -> object:
        """Return the result of a future; raise TimedOut after the limit."""
        wrapped = asyncio.wrap_future(wait.future)
        await asyncio.wait([wrapped], timeout=wait.limit_s)
        if not wrapped.done():
            wrapped.cancel()
            raise self.core.timed_out(wait.name, wait.limit_s)
        return wrapped.result()

    # -- steps

    def taker(self) -> "AioTaker[K, V]":
        """Return the taker of the task that calls poll() or take()."""
        self.core.engine.check()
        return self.polls.of(asyncio.current_task())

    async def gather(
        self, ended: InFlight[Fetched] | None, count: int, within_s: float
    ) -> InFlight[Fetched]:
        """Take up to `count` records, gathered within a time from the first one on."""
        self.shared.prefetch(count)
        task = asyncio.current_task()
        if self.shared.tracker.unread < count:
            if ended is not None:
                self.shared.finish(ended)
            if not self.core.engine.poll_on_reader(count):
                await self.await_unread(1, None)
                await self.await_unread(count, within_s)
            ended = None
        while (work := self.shared.step(ended, count, task)) is None:
            ended = None  # another task has taken them
            await self.await_unread(1, None)
        return work

    async def take(
        self,
        ended: InFlight[Fetched] | None,
        count: int,
        within_s: float,
        *,
        needs_listener: bool,
    ) -> InFlight[Fetched] | None:
        """Take up to `count` records that arrive within a time from now on. With `needs_listener`,
        raise AllBrokersDown where nothing listens."""
        self.shared.prefetch(count)
        if ended is not None:
            self.shared.finish(ended)
        engine = self.core.engine
        if not engine.poll_on_reader(count):
            first_s = engine.first_wait_s(within_s) if needs_listener else within_s
            await self.await_unread(count, first_s)
            if needs_listener and engine.unreachable and not self.shared.tracker.unread:
                await asyncio.to_thread(engine.check_listener)
            if first_s < within_s:
                await self.await_unread(count, within_s - first_s)
        return self.shared.step(None, count, asyncio.current_task())

    async def await_unread(self, count: int, timeout_s: float | None) -> None:
        """Wait for `count` unread records, at most for a time. Raise the consumer's failures."""
        loop = self.adapter.bind()
        arrived: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_set, arrived)

        waiter = Waiter(count, wake)
        if not self.shared.add_waiter(waiter):
            try:
                await asyncio.wait([arrived], timeout=timeout_s)
            finally:
                self.shared.remove_waiter(waiter)

    async def batch(self, work: InFlight[Fetched]) -> "Batch[K, V]":
        try:
            return Batch(self, work)
        except NotToldYet as missing:
            return await self.with_schemas(missing, work, partial(Batch, self, work))

    async def with_schemas(
        self, missing: NotToldYet, work: InFlight[Fetched], make: Callable[[], T]
    ) -> T:
        """Return make(), once a thread has fetched all schemas that it needs.

        A failed lookup becomes the failure of the first record that needs it. `make` gives back
        unreadable records; a cancellation gives back all.
        """
        converter = self.core.converter
        for asked in range(1, QUESTIONS_MAX + 1):
            try:
                await ask_on_thread(missing.ask)
            except Exception as error:
                converter.unanswered = error
            except BaseException:
                self.shared.give_back(work)
                raise
            if asked == QUESTIONS_MAX:
                converter.unanswered = too_many_questions()
            try:
                return make()
            except NotToldYet as further:
                missing = further
            finally:
                converter.unanswered = None
        raise AssertionError("without an answer nothing asks again")

    async def raise_failure(self, work: InFlight[Fetched]) -> None:
        """Raise why records were taken from a body that has ended late."""
        assert work.failure is not None, "records are taken away for a reason"
        self.shared.give_back(work)
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        cancelled = self.adapter.cancelled.pop(task, None)
        if cancelled is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # a cancellation under way arrives here
            if task.uncancel() > cancelled.before:
                raise asyncio.CancelledError  # the application has cancelled the task, too
        raise work.failure


class AioTaker(Taker, Generic[K, V]):
    """Holds the records in flight of one loop, or of one task that calls poll() or take()."""

    __slots__ = ("_reader", "_task", "_yield_at")

    def __init__(self, reader: AioReader[K, V]) -> None:
        super().__init__(reader.shared, manual_finish=reader.core.config.manual_finish)
        self._reader = reader
        # The task that made the last step: its event loop is the right one.
        self._task: asyncio.Task[Any] | None = None
        self._yield_at = 0.0

    def can_step_directly(self, task: "asyncio.Task[Any] | None") -> bool:
        """Return whether the next step needs no `end_previous`: the hot path."""
        reader, work = self._reader, self.work
        return (
            task is self._task
            and time.monotonic() < self._yield_at
            and (work is None or work.failure is None)
            and not reader.core.engine.forked_off
            and not reader.shared.committed_offsets
        )

    async def end_previous(self) -> InFlight[Fetched] | None:
        """Prepare a step. Return the records that the step finishes."""
        reader = self._reader
        work, self.work = self.work, None
        if not self.begun or reader.core.engine.forked_off:
            await reader.open()
            reader.core.check_subscribed()
            self.begun = True
        reader.adapter.bind()
        self._task = asyncio.current_task()
        if work is not None and work.failure is not None:
            await reader.raise_failure(work)
        now = time.monotonic()
        if now >= self._yield_at:
            self._yield_at = now + YIELD_AFTER_S
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if work is not None:  # the body has ended: the cancellation does not undo it
                    reader.shared.finish(work)
                raise
        if reader.shared.committed_offsets:
            reader.core.converter.notify_interceptors()
        return work

    async def take(
        self, count: int, within_s: float, *, needs_listener: bool = False
    ) -> "Batch[K, V]":
        """Take records for poll() and take()."""
        ended = await self.end_previous()
        work = await self._reader.take(ended, count, within_s, needs_listener=needs_listener)
        batch = await self._reader.batch(work or InFlight(NO_TICKET, [], None, 0.0))
        if work is not None:
            self.hold(work)
        return batch


class RecordLoop(Generic[K, V]):
    """`async for record in consumer`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_reader", "_taker")

    def __init__(self, reader: AioReader[K, V], consumer: object) -> None:
        self._consumer = consumer  # kept alive while it is read
        self._reader = reader
        self._taker = AioTaker(reader)

    def __aiter__(self) -> "RecordLoop[K, V]":
        return self

    async def __anext__(self) -> Record[K, V]:
        reader, taker = self._reader, self._taker
        begun = taker.begun
        task = asyncio.current_task()
        ended = taker.work if taker.can_step_directly(task) else await taker.end_previous()
        taker.work = None
        while True:
            try:
                while (work := reader.shared.step(ended, 1, task)) is None:
                    ended = None
                    if not reader.core.engine.poll_on_reader(1):
                        await reader.await_unread(1, None)
            except ClientClosed:
                if begun:
                    raise StopAsyncIteration from None
                raise
            try:
                record = reader.core.converter.first(work)
            except NotToldYet as missing:
                record = await reader.with_schemas(
                    missing, work, partial(reader.core.converter.first, work)
                )
            if record is not None:
                taker.hold(work)
                return record
            ended = work  # an interceptor has dropped the record


class BatchLoop(Generic[K, V]):
    """`async for batch in consumer.batches()`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_max", "_reader", "_taker", "_within")

    def __init__(
        self, reader: AioReader[K, V], consumer: object, count: int, within_s: float
    ) -> None:
        self._consumer = consumer
        self._reader = reader
        self._taker = AioTaker(reader)
        self._max = count
        self._within = within_s

    def __aiter__(self) -> "BatchLoop[K, V]":
        return self

    async def __anext__(self) -> "Batch[K, V]":
        reader, taker = self._reader, self._taker
        begun = taker.begun
        task = asyncio.current_task()
        ended = taker.work if taker.can_step_directly(task) else await taker.end_previous()
        taker.work = None
        while True:
            try:
                work = await reader.gather(ended, self._max, self._within)
            except ClientClosed:
                if begun:
                    raise StopAsyncIteration from None
                raise
            batch = await reader.batch(work)
            if len(batch):
                taker.hold(work)
                return batch
            ended = work


class Batch(Records[K, V]):
    """Records read together, in order."""

    __slots__ = ("_reader",)

    def __init__(self, reader: AioReader[K, V], work: InFlight[Fetched]) -> None:
        super().__init__(reader.core.converter, work)
        self._reader = reader

    async def commit(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """Commit the batch; its records count as finished."""
        reader = self._reader
        return await reader.run(reader.operations.commit(self, timeout_s=timeout_s))


def _state_of(task: "asyncio.Task[Any]") -> CallerState:
    if not task.done():
        return CallerState.GOES_ON
    failed = task.cancelled() or task.exception() is not None
    return CallerState.FAILED if failed else CallerState.ENDED


def _set(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)


def _retrieve_error(opening: "asyncio.Future[None]") -> None:
    """Silence asyncio's warning: every waiter gets the error, and without waiters it is moot."""
    if not opening.cancelled():
        opening.exception()
