"""Loops over records and batches, and what happens at each of their steps.

A loop holds the work whose body runs. Its next step finishes it; a loop that is dropped gives it
back. CPython drops a loop as soon as it is left, by whichever way.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.client.consumer.aio_face import LoopFace
from penstock.client.consumer.asking import once_told
from penstock.client.consumer.core import Core
from penstock.client.consumer.desk import Fetched, Waiter
from penstock.client.consumer.hands import Course, Hands
from penstock.client.consumer.ledger import NO_TICKET, Work
from penstock.client.consumer.plan import Subscription
from penstock.client.consumer.reading import Records
from penstock.client.failures import ClientClosed
from penstock.client.records import K, Record, V
from penstock.client.serde import NotToldYet
from penstock.model import TopicPartition

T = TypeVar("T")

# With records at hand a step would never let others run: it does, this often.
TURN_S = 0.01


class Steps(Generic[K, V]):
    """The event loop's side of one consumer, which it does not hold."""

    def __init__(self, core: Core[K, V], face: LoopFace) -> None:
        self.core = core
        self.desk = core.desk
        self.face = face
        # What poll() and take() gave last, and to whom.
        self.hands: Hands[Hand[K, V]] = Hands(lambda: Hand(self), _course_of)
        self._opening: asyncio.Future[None] | None = None

    # -- opening and waiting

    async def open(self) -> None:
        """Begin to read, if that was not done yet; whoever comes meanwhile waits for the same."""
        self.core.check()
        self.face.bind()
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._begin())
            self._opening.add_done_callback(_seen)
        if not self._opening.done():
            await asyncio.shield(self._opening)
        self._opening.result()

    async def _begin(self) -> None:
        engine = self.core.engine
        engine.start()
        await asyncio.wrap_future(engine.opened)
        if self.core.first:
            await self.read_from(self.core.first, None)

    async def read_from(self, subscription: Subscription, timeout_s: float | None) -> None:
        core, limit = self.core, self.limit(timeout_s)
        starts = await self.wait(core.resolve(subscription.places, limit), limit, "offsets")
        await self.wait(core.read_from(subscription, starts), limit, "to subscribe")

    def limit(self, timeout_s: float | None) -> float:
        return self.core.plan.api_timeout_s if timeout_s is None else timeout_s

    async def wait(self, future: "Future[T]", limit_s: float, what: str) -> T:
        """What a future brings, in time or not at all."""
        wrapped = asyncio.wrap_future(future)
        await asyncio.wait([wrapped], timeout=limit_s)
        if not wrapped.done():
            wrapped.cancel()
            raise self.core.late(what, limit_s)
        return wrapped.result()

    # -- steps

    def hand(self) -> "Hand[K, V]":
        """Of the task that calls poll() or take()."""
        self.core.engine.check()
        return self.hands.of(asyncio.current_task())

    async def gather(
        self, ended: Work[Fetched] | None, count: int, within_s: float
    ) -> Work[Fetched]:
        """Up to so many, within a time from the first one on; waits for the first."""
        self._want(count)
        task = asyncio.current_task()
        if ended is not None:
            ended.over = True
        if self.desk.ledger.unread < count:
            if ended is not None:
                self.desk.finish(ended)
            if not self.core.engine.fetch_here(count, ended):
                await self.await_unread(1, None)
                await self.await_unread(count, within_s)
            ended = None
        while (work := self.desk.step(ended, count, task)) is None:
            ended = None  # somebody else was quicker
            await self.await_unread(1, None)
        return work

    async def take(
        self, ended: Work[Fetched] | None, count: int, within_s: float
    ) -> Work[Fetched] | None:
        """Up to so many, within a time from now on."""
        self._want(count)
        if ended is not None:
            self.desk.finish(ended)
        if not self.core.engine.fetch_here(count):
            await self.await_unread(count, within_s)
        return self.desk.step(None, count, asyncio.current_task())

    async def await_unread(self, count: int, timeout_s: float | None) -> None:
        """Wait until so many are unread, or a time is over. Raises what there is to tell."""
        loop = self.face.bind()
        arrived: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_set, arrived)

        waiter = Waiter(count, wake)
        if not self.desk.enlist(waiter):
            try:
                await asyncio.wait([arrived], timeout=timeout_s)
            finally:
                self.desk.leave(waiter)

    def _want(self, count: int) -> None:
        self.desk.wanted_max = max(self.desk.wanted_max, 2 * count)

    async def batch(self, work: Work[Fetched]) -> "Batch[K, V]":
        try:
            return Batch(self, work)
        except NotToldYet as missing:
            return await self.told(missing, work, partial(Batch, self, work))

    async def told(self, missing: NotToldYet, work: Work[Fetched], make: Callable[[], T]) -> T:
        """A deserializer has to ask first: on a thread, so that the loop goes on."""
        return await once_told(missing, self.core.reader, self.desk, work, make)

    async def tell(self, work: Work[Fetched]) -> None:
        """The work was taken from this body, which has ended late: it learns why."""
        assert work.failure is not None, "somebody has said why"
        self.desk.give_back(work)
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        struck = self.face.struck.pop(task, None)
        if struck is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # a cancellation that is still to come, comes here
            if task.uncancel() > struck.before:
                raise asyncio.CancelledError  # somebody else has cancelled it, too
        raise work.failure


class Hand(Generic[K, V]):
    """What somebody works on: finished by his next step."""

    __slots__ = ("_steps", "_task", "_turn_at", "begun", "work")

    def __init__(self, steps: Steps[K, V]) -> None:
        self._steps = steps
        self.work: Work[Fetched] | None = None
        self.begun = False
        # The task that made the last step: it is in the right loop.
        self._task: asyncio.Task[Any] | None = None
        self._turn_at = 0.0

    def is_fluent(self, task: "asyncio.Task[Any] | None") -> bool:
        """Whether nothing stands in the way of the next step; if not, `let_go` sees to it."""
        steps, work = self._steps, self.work
        return (
            task is self._task
            and time.monotonic() < self._turn_at
            and (work is None or work.failure is None)
            and not steps.core.engine.forked_off
            and not steps.desk.news
        )

    async def let_go(self) -> Work[Fetched] | None:
        """Before each step: the work that ends with it."""
        steps = self._steps
        work, self.work = self.work, None
        if not self.begun or steps.core.engine.forked_off:
            await steps.open()
            steps.core.check_subscribed()
            self.begun = True
        steps.face.bind()
        self._task = asyncio.current_task()
        if work is not None and work.failure is not None:
            await steps.tell(work)
        now = time.monotonic()
        if now >= self._turn_at:
            self._turn_at = now + TURN_S
            if work is None:
                await asyncio.sleep(0)
            else:
                await self._turn(work)
        if steps.desk.news:
            steps.core.reader.tell_commits()
        return work

    async def _turn(self, work: Work[Fetched]) -> None:
        """Let others run; the body has ended, so a cancellation here does not undo its work."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._steps.desk.finish(work)
            raise

    def hold(self, work: Work[Fetched]) -> None:
        if not self._steps.core.plan.manual_finish:
            self.work = work

    def finish(self) -> None:
        """What it holds is done; unless it was taken from it, and it has not heard of that yet."""
        work = self.work
        if work is not None and work.failure is None:
            self.work = None
            self._steps.desk.finish(work)

    def give_back(self) -> None:
        """What it holds is read again."""
        work, self.work = self.work, None
        if work is not None:
            self._steps.desk.give_back(work)

    def __del__(self) -> None:
        if self.work is not None:
            # No lock: it may be the garbage collector who calls.
            self.work.ended = True
            self._steps.desk.abandoned.append(self.work)

    async def take(self, count: int, within_s: float) -> "Batch[K, V]":
        """For poll() and take()."""
        ended = await self.let_go()
        work = await self._steps.take(ended, count, within_s)
        batch = await self._steps.batch(work or Work(NO_TICKET, [], None, 0.0))
        if work is not None:
            self.hold(work)
        return batch


class RecordLoop(Generic[K, V]):
    """`async for record in consumer`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_hand", "_steps")

    def __init__(self, steps: Steps[K, V], consumer: object) -> None:
        self._consumer = consumer  # kept: it must not be collected while it is read
        self._steps = steps
        self._hand = Hand(steps)

    def __aiter__(self) -> "RecordLoop[K, V]":
        return self

    async def __anext__(self) -> Record[K, V]:
        steps, hand = self._steps, self._hand
        begun = hand.begun
        task = asyncio.current_task()
        ended = hand.work if hand.is_fluent(task) else await hand.let_go()
        hand.work = None
        while True:
            try:
                while (work := steps.desk.step(ended, 1, task)) is None:
                    ended = None
                    if not steps.core.engine.fetch_here(1):
                        await steps.await_unread(1, None)
            except ClientClosed:
                if begun:
                    raise StopAsyncIteration from None
                raise
            try:
                record = steps.core.reader.first(work)
            except NotToldYet as missing:
                record = await steps.told(missing, work, partial(steps.core.reader.first, work))
            if record is not None:
                hand.hold(work)
                return record
            ended = work  # an interceptor has kept it to itself


class BatchLoop(Generic[K, V]):
    """`async for batch in consumer.batches()`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_hand", "_max", "_steps", "_within")

    def __init__(self, steps: Steps[K, V], consumer: object, count: int, within_s: float) -> None:
        self._consumer = consumer
        self._steps = steps
        self._hand = Hand(steps)
        self._max = count
        self._within = within_s

    def __aiter__(self) -> "BatchLoop[K, V]":
        return self

    async def __anext__(self) -> "Batch[K, V]":
        steps, hand = self._steps, self._hand
        begun = hand.begun
        task = asyncio.current_task()
        ended = hand.work if hand.is_fluent(task) else await hand.let_go()
        hand.work = None
        while True:
            try:
                work = await steps.gather(ended, self._max, self._within)
            except ClientClosed:
                if begun:
                    raise StopAsyncIteration from None
                raise
            batch = await steps.batch(work)
            if len(batch):
                hand.hold(work)
                return batch
            ended = work


class Batch(Records[K, V]):
    """Records that were read together, in order; there until the loop asks for the next batch."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps[K, V], work: Work[Fetched]) -> None:
        super().__init__(steps.core.reader, work)
        self._steps = steps

    async def commit(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """Commit it: its records count as finished."""
        core, limit = self._steps.core, self._steps.limit(timeout_s)
        wanted = core.to_commit(self)
        await self._steps.wait(core.commit(wanted, limit), limit, "the commit")
        core.reader.tell_commits()
        return core.outside(wanted)


def _course_of(task: "asyncio.Task[Any]") -> Course:
    if not task.done():
        return Course.GOES_ON
    failed = task.cancelled() or task.exception() is not None
    return Course.FAILED if failed else Course.ENDED


def _set(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)


def _seen(opening: "asyncio.Future[None]") -> None:
    """Whoever waits for it gets the error; if nobody does any more, nobody needs to hear of it."""
    if not opening.cancelled():
        opening.exception()
