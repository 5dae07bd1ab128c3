"""Loops over records and batches in threads, and their steps: aio_loops.py with threads for tasks.

A thread cannot be cancelled. A body that outlives handler.timeout.ms, or revoke.timeout.ms after a
revocation, runs on. Its record is not committed, and the next step raises HandlerTimedOut or
PartitionsRevoked.
"""

import logging
import threading
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Generic, TypeVar

from penstock.client.consumer.engine.app_adapter import ThreadAdapter
from penstock.client.consumer.engine.core import ConsumerCore
from penstock.client.consumer.engine.message_conversion import Records
from penstock.client.consumer.engine.operations import ConsumerOperations, OperationSteps, Wait
from penstock.client.consumer.engine.shared_state import Fetched, Waiter
from penstock.client.consumer.loops.outstanding_polls import CallerState, OutstandingPolls, Taker
from penstock.client.consumer.offsets.offset_tracker import NO_TICKET, InFlight
from penstock.client.failures import ClientClosed
from penstock.client.records import K, Record, V
from penstock.model import TopicPartition

T = TypeVar("T")

log = logging.getLogger("penstock.client.consumer")


class BlockingReader(Generic[K, V]):
    """The threads' side of one consumer. Holds no reference to the Consumer."""

    def __init__(self, core: ConsumerCore[K, V], adapter: ThreadAdapter) -> None:
        self.core = core
        self.shared = core.shared
        self.adapter = adapter
        self.polls: OutstandingPolls[BlockingTaker[K, V]] = OutstandingPolls(
            lambda: BlockingTaker(self), _state_of
        )
        self.operations = ConsumerOperations(core, self.polls, adapter.caller)
        self._opening = threading.Lock()
        self._opened = False

    # -- opening and waiting

    def open(self) -> None:
        """Start the consumer once."""
        self.core.check()
        if self._opened or threading.get_ident() == self.shared.polling_thread:
            return
        with self._opening:
            engine = self.core.engine
            if not engine.started:
                engine.start()
            engine.opened.result()
            if not self._opened:
                self._drive(self.operations.read_first())
            self._opened = True

    def run(self, operation: OperationSteps[T]) -> T:
        """Open the consumer and run an operation."""
        self.open()
        return self._drive(operation)

    def _drive(self, operation: OperationSteps[T]) -> T:
        answer: object = None
        while True:
            try:
                wait = operation.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self._wait(wait)

    def _wait(self, wait: Wait) -> object:
        """Return the result of a future; raise TimedOut after the limit."""
        future, wait_s = wait.future, wait.limit_s
        if threading.get_ident() == self.shared.polling_thread:  # a callback: serve requests here
            self.shared.wait_until(future.done, time.monotonic() + wait_s)
            wait_s = 0.0
        try:
            return future.result(wait_s)
        except FutureTimeoutError:
            if future.done() and not future.cancelled():
                raise  # the TimeoutError is the future's own result
            future.cancel()
            raise self.core.timed_out(wait.name, wait.limit_s) from None

    # -- steps

    def taker(self) -> "BlockingTaker[K, V]":
        """Return the taker of the thread that calls poll() or take()."""
        self.core.engine.check()
        with self.shared.lock:
            return self.polls.of(threading.current_thread())

    def next(self, ended: InFlight[Fetched] | None) -> InFlight[Fetched]:
        """Take one record; wait for it."""
        thread = threading.current_thread()
        while (work := self.shared.step(ended, 1, thread)) is None:
            ended = None
            if not self.core.engine.poll_on_reader(1):
                self._await_unread(1, None)
        return work

    def gather(
        self, ended: InFlight[Fetched] | None, count: int, within_s: float
    ) -> InFlight[Fetched]:
        """Take up to `count` records, gathered within a time from the first one on."""
        self.shared.prefetch(count)
        if self.shared.tracker.unread < count:
            if ended is not None:
                self.shared.finish(ended)
            if not self.core.engine.poll_on_reader(count):
                self._await_unread(1, None)
                self._await_unread(count, within_s)
            ended = None
        thread = threading.current_thread()
        while (work := self.shared.step(ended, count, thread)) is None:
            ended = None  # another thread has taken them
            self._await_unread(1, None)
        return work

    def take(
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
        engine, thread = self.core.engine, threading.current_thread()
        if not engine.poll_on_reader(count):
            first_s = engine.first_wait_s(within_s) if needs_listener else within_s
            self._await_unread(count, first_s)
            if needs_listener and not self.shared.tracker.unread:
                engine.check_listener()
            if first_s < within_s:
                self._await_unread(count, within_s - first_s)
        return self.shared.step(None, count, thread)

    def _await_unread(self, count: int, timeout_s: float | None) -> None:
        """Wait for `count` unread records, at most for a time. Raise the consumer's failures."""
        arrived = threading.Event()
        waiter = Waiter(count, arrived.set)
        if not self.shared.add_waiter(waiter):
            try:
                arrived.wait(timeout_s)
            finally:
                self.shared.remove_waiter(waiter)

    def close(self, timeout_s: float) -> bool:
        """Close the engine. Return whether it has ended in time."""
        core = self.core
        self.adapter.closer = threading.current_thread()
        until = time.monotonic() + timeout_s
        core.engine.close(timeout_s)
        try:
            core.engine.ended.result(max(0.0, until - time.monotonic()))
        except FutureTimeoutError:
            return False
        return True


class BlockingTaker(Taker, Generic[K, V]):
    """Holds the records in flight of one loop, or of one thread that calls poll() or take()."""

    __slots__ = ("_reader",)

    def __init__(self, reader: BlockingReader[K, V]) -> None:
        super().__init__(reader.shared, manual_finish=reader.core.config.manual_finish)
        self._reader = reader

    def end_previous(self) -> InFlight[Fetched] | None:
        """Prepare a step. Return the records that the step finishes."""
        reader = self._reader
        work, self.work = self.work, None
        if not self.begun or reader.core.engine.forked_off:
            reader.open()
            reader.core.check_subscribed()
            self.begun = True
        if work is not None and work.failure is not None:
            reader.shared.give_back(work)
            raise work.failure
        if reader.shared.committed_offsets:
            reader.core.converter.notify_interceptors()
        return work

    def take(
        self, count: int, within_s: float, *, needs_listener: bool = False
    ) -> "BlockingBatch[K, V]":
        """Take records for poll() and take()."""
        ended = self.end_previous()
        work = self._reader.take(ended, count, within_s, needs_listener=needs_listener)
        if work is not None:
            self.hold(work)
        return BlockingBatch(self._reader, work or InFlight(NO_TICKET, [], None, 0.0))


class BlockingRecordLoop(Generic[K, V]):
    """`for record in consumer`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_reader", "_taker")

    def __init__(self, reader: BlockingReader[K, V], consumer: object) -> None:
        self._consumer = consumer  # kept alive while it is read
        self._reader = reader
        self._taker = BlockingTaker(reader)

    def __iter__(self) -> "BlockingRecordLoop[K, V]":
        return self

    def __next__(self) -> Record[K, V]:
        reader, taker = self._reader, self._taker
        begun = taker.begun
        try:
            ended = taker.end_previous()
            while True:
                work = reader.next(ended)
                # Held before the conversion: an interrupted deserializer loses no record.
                taker.hold(work)
                record = reader.core.converter.first(work)
                if record is not None:
                    return record
                ended = work  # an interceptor has dropped the record
        except ClientClosed:
            if begun:
                raise StopIteration from None
            raise


class BlockingBatchLoop(Generic[K, V]):
    """`for batch in consumer.batches()`; ends when the consumer is closed."""

    __slots__ = ("_consumer", "_max", "_reader", "_taker", "_within")

    def __init__(
        self, reader: BlockingReader[K, V], consumer: object, count: int, within_s: float
    ) -> None:
        self._consumer = consumer
        self._reader = reader
        self._taker = BlockingTaker(reader)
        self._max = count
        self._within = within_s

    def __iter__(self) -> "BlockingBatchLoop[K, V]":
        return self

    def __next__(self) -> "BlockingBatch[K, V]":
        reader, taker = self._reader, self._taker
        begun = taker.begun
        try:
            ended = taker.end_previous()
            while True:
                work = reader.gather(ended, self._max, self._within)
                taker.hold(work)
                batch = BlockingBatch(reader, work)
                if len(batch):
                    return batch
                ended = work
        except ClientClosed:
            if begun:
                raise StopIteration from None
            raise


class BlockingBatch(Records[K, V]):
    """Records read together, in order."""

    __slots__ = ("_reader",)

    def __init__(self, reader: BlockingReader[K, V], work: InFlight[Fetched]) -> None:
        super().__init__(reader.core.converter, work)
        self._reader = reader

    def commit(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """Commit the batch; its records count as finished."""
        reader = self._reader
        return reader.run(reader.operations.commit(self, timeout_s=timeout_s))


def _state_of(thread: threading.Thread) -> CallerState:
    """Return FAILED for every ended thread: a thread keeps no result."""
    return CallerState.GOES_ON if thread.is_alive() else CallerState.FAILED
