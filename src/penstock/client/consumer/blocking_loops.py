"""Loops over records and batches without asyncio, and what happens at each of their steps.

As aio_loops.py, with threads for tasks. A thread cannot be cancelled: a body that outlives
handler.timeout.ms, or revoke.timeout.ms once its partition is taken away, runs on; its record is
not committed, and the next step raises HandlerTimedOut or PartitionsRevoked.
"""

import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Generic, TypeVar

from penstock.client.consumer.core import Core
from penstock.client.consumer.desk import Fetched, Waiter
from penstock.client.consumer.hands import Course, Hands
from penstock.client.consumer.ledger import NO_TICKET, Work
from penstock.client.consumer.plan import PartitionsCallback, Subscription
from penstock.client.consumer.reading import Records
from penstock.client.failures import ClientClosed
from penstock.client.records import K, Record, V
from penstock.model import TopicPartition

T = TypeVar("T")

# How late Python may hear of a signal in a thread that waits for records.
HEAR_SIGNALS_S = 0.2

log = logging.getLogger("penstock.client.consumer")


class ThreadFace:
    """How the engine reaches bodies that run in threads."""

    def __init__(self) -> None:
        # Nobody waits for the body that itself waits for the close.
        self.closer: object = None

    def is_working(self, work: Work[Fetched]) -> bool:
        thread = work.owner
        assert isinstance(thread, threading.Thread), "bodies here are threads"
        return not work.ended and thread.is_alive() and thread is not self.closer

    def strike(self, work: Work[Fetched]) -> None:
        """Nothing to be done: the next step tells."""

    def call(
        self, callback: PartitionsCallback, places: Collection[TopicPartition]
    ) -> "Future[None]":
        """At once, on the polling thread: the application's own may be busy for long."""
        future: Future[None] = Future()
        try:
            result = callback(places)
            if isinstance(result, Awaitable):
                if isinstance(result, Coroutine):
                    result.close()
                raise TypeError(f"{callback!r} is a coroutine: that takes the asyncio Consumer")
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future


class Steps(Generic[K, V]):
    """The threads' side of one consumer, which it does not hold."""

    def __init__(self, core: Core[K, V], face: ThreadFace) -> None:
        self.core = core
        self.desk = core.desk
        self.face = face
        # What poll() and take() gave last, and to whom.
        self.hands: Hands[Hand[K, V]] = Hands(lambda: Hand(self), _course_of)
        self._opening = threading.Lock()
        self._opened = False

    # -- opening and waiting

    def open(self) -> None:
        """Begin to read, if that was not done yet."""
        self.core.check()
        if self._opened or threading.get_ident() == self.desk.polling_thread:
            return
        with self._opening:
            engine = self.core.engine
            if not engine.started:
                engine.start()
            engine.opened.result()
            if not self._opened and self.core.first:
                self.read_from(self.core.first, None)
            self._opened = True

    def read_from(self, subscription: Subscription, timeout_s: float | None) -> None:
        core, limit = self.core, self.limit(timeout_s)
        starts = self.wait(core.resolve(subscription.places, limit), limit, "offsets")
        self.wait(core.read_from(subscription, starts), limit, "to subscribe")

    def limit(self, timeout_s: float | None) -> float:
        return self.core.plan.api_timeout_s if timeout_s is None else timeout_s

    def wait(self, future: "Future[T]", limit_s: float, what: str) -> T:
        """What a future brings, in time or not at all."""
        wait_s = limit_s
        if threading.get_ident() == self.desk.polling_thread:  # a callback: nobody else serves it
            self.desk.wait_until(future.done, time.monotonic() + limit_s)
            wait_s = 0.0
        try:
            return future.result(wait_s)
        except FutureTimeoutError:
            if future.done() and not future.cancelled():
                raise  # it has brought that itself
            future.cancel()
            raise self.core.late(what, limit_s) from None

    # -- steps

    def hand(self) -> "Hand[K, V]":
        """Of the thread that calls poll() or take()."""
        self.core.engine.check()
        with self.desk.lock:
            return self.hands.of(threading.current_thread())

    def next(self, ended: Work[Fetched] | None) -> Work[Fetched]:
        """One message; waits for it."""
        thread = threading.current_thread()
        while (work := self.desk.step(ended, 1, thread)) is None:
            ended = None
            if not self.core.engine.fetch_here(1):
                self._await_unread(1, None)
        return work

    def gather(self, ended: Work[Fetched] | None, count: int, within_s: float) -> Work[Fetched]:
        """Up to so many, within a time from the first one on; waits for the first."""
        self._want(count)
        if ended is not None:
            ended.over = True
        if self.desk.ledger.unread < count:
            if ended is not None:
                self.desk.finish(ended)
            if not self.core.engine.fetch_here(count, ended):
                self._await_unread(1, None)
                self._await_unread(count, within_s)
            ended = None
        thread = threading.current_thread()
        while (work := self.desk.step(ended, count, thread)) is None:
            ended = None  # somebody else was quicker
            self._await_unread(1, None)
        return work

    def take(
        self, ended: Work[Fetched] | None, count: int, within_s: float
    ) -> Work[Fetched] | None:
        """Up to so many, within a time from now on."""
        self._want(count)
        if ended is not None:
            self.desk.finish(ended)
        if not self.core.engine.fetch_here(count):
            self._await_unread(count, within_s)
        return self.desk.step(None, count, threading.current_thread())

    def take_back(self) -> None:
        """An exception between two bodies, a signal's perhaps: what nobody holds is read again."""
        self.desk.take_back(threading.current_thread())

    def _await_unread(self, count: int, timeout_s: float | None) -> None:
        """Wait until so many are unread, or a time is over. Raises what there is to tell."""
        arrived = threading.Event()
        waiter = Waiter(count, arrived.set)
        if not self.desk.enlist(waiter):
            until = math.inf if timeout_s is None else time.monotonic() + timeout_s
            try:
                # A signal that comes just before a wait does not end it: Python hears of it after.
                while (left := until - time.monotonic()) > 0:
                    if arrived.wait(min(left, HEAR_SIGNALS_S)):
                        break
            finally:
                self.desk.leave(waiter)

    def _want(self, count: int) -> None:
        self.desk.wanted_max = max(self.desk.wanted_max, 2 * count)

    def close(self, timeout_s: float) -> bool:
        """Whether it has ended in time."""
        core = self.core
        self.face.closer = threading.current_thread()
        until = time.monotonic() + timeout_s
        core.engine.close(timeout_s)
        try:
            core.engine.ended.result(max(0.0, until - time.monotonic()))
        except FutureTimeoutError:
            return False
        return True


class Hand(Generic[K, V]):
    """What somebody works on: finished by his next step."""

    __slots__ = ("_steps", "_work", "begun")

    def __init__(self, steps: Steps[K, V]) -> None:
        self._steps = steps
        self._work: Work[Fetched] | None = None
        self.begun = False

    def let_go(self) -> Work[Fetched] | None:
        """Before each step: the work that ends with it."""
        steps = self._steps
        work, self._work = self._work, None
        if work is not None:
            work.held = False
        if not self.begun or steps.core.engine.forked_off:
            steps.open()
            steps.core.check_subscribed()
            self.begun = True
        if work is not None and work.failure is not None:
            steps.desk.give_back(work)
            raise work.failure
        if steps.desk.news:
            steps.core.reader.tell_commits()
        return work

    def hold(self, work: Work[Fetched]) -> None:
        work.held = True
        if not self._steps.core.plan.manual_finish:
            self._work = work

    def finish(self) -> None:
        """What it holds is done; unless it was taken from it, and it has not heard of that yet."""
        work = self._work
        if work is not None and work.failure is None:
            self._work = None
            self._steps.desk.finish(work)

    def give_back(self) -> None:
        """What it holds is read again."""
        work, self._work = self._work, None
        if work is not None:
            self._steps.desk.give_back(work)

    def __del__(self) -> None:
        if self._work is not None:
            # No lock: it may be the garbage collector who calls.
            self._work.ended = True
            self._steps.desk.abandoned.append(self._work)

    def take(self, count: int, within_s: float, make: "Callable[[Batch[K, V]], T]") -> T:
        """For poll() and take()."""
        try:
            ended = self.let_go()
            work = self._steps.take(ended, count, within_s)
            made = make(Batch(self._steps, work or Work(NO_TICKET, [], None, 0.0)))
            if work is not None:
                self.hold(work)  # the last: no signal may come between this and the caller
        except BaseException:
            self._steps.take_back()
            raise
        return made


class RecordLoop(Generic[K, V]):
    """`for record in consumer`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_hand", "_steps")

    def __init__(self, steps: Steps[K, V], consumer: object) -> None:
        self._consumer = consumer  # kept: it must not be collected while it is read
        self._steps = steps
        self._hand = Hand(steps)

    def __iter__(self) -> "RecordLoop[K, V]":
        return self

    def __next__(self) -> Record[K, V]:
        steps, hand = self._steps, self._hand
        begun = hand.begun
        try:
            ended = hand.let_go()
            while True:
                work = steps.next(ended)
                record = steps.core.reader.first(work)
                if record is not None:
                    hand.hold(work)
                    return record
                ended = work  # an interceptor has kept it to itself
        except ClientClosed:
            if begun:
                raise StopIteration from None
            raise
        except BaseException:
            steps.take_back()
            raise


class BatchLoop(Generic[K, V]):
    """`for batch in consumer.batches()`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_hand", "_max", "_steps", "_within")

    def __init__(self, steps: Steps[K, V], consumer: object, count: int, within_s: float) -> None:
        self._consumer = consumer
        self._steps = steps
        self._hand = Hand(steps)
        self._max = count
        self._within = within_s

    def __iter__(self) -> "BatchLoop[K, V]":
        return self

    def __next__(self) -> "Batch[K, V]":
        steps, hand = self._steps, self._hand
        begun = hand.begun
        try:
            ended = hand.let_go()
            while True:
                work = steps.gather(ended, self._max, self._within)
                batch = Batch(steps, work)
                if len(batch):
                    hand.hold(work)
                    return batch
                ended = work
        except ClientClosed:
            if begun:
                raise StopIteration from None
            raise
        except BaseException:
            steps.take_back()
            raise


class Batch(Records[K, V]):
    """Records that were read together, in order; there until the loop asks for the next batch."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Steps[K, V], work: Work[Fetched]) -> None:
        super().__init__(steps.core.reader, work)
        self._steps = steps

    def commit(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """Commit it: its records count as finished."""
        core, limit = self._steps.core, self._steps.limit(timeout_s)
        wanted = core.to_commit(self)
        self._steps.wait(core.commit(wanted, limit), limit, "the commit")
        core.reader.tell_commits()
        return core.outside(wanted)


def _course_of(thread: threading.Thread) -> Course:
    """How a thread has ended, nobody tells."""
    return Course.GOES_ON if thread.is_alive() else Course.FAILED
