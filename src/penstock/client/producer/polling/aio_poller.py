"""The asyncio side of a producer: polls of librdkafka, and waiters.

The event loop itself polls, without waiting: senders once in so many records, a timer while records
are in flight. A polling thread would compete with the loop for the interpreter at each report. The
timer's pause grows with the time without reports, so that it adds at most an eighth to a delay. An
idle producer polls a few times per second, for logs and tokens.

The core holds no reference to the Producer, so that a dropped Producer is found.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from penstock.client.failures import ClientClosed, SerializationError, WrongLoop
from penstock.client.producer.delivery.delivery_tracker import FlushWindow
from penstock.client.producer.options import ProducerArguments
from penstock.client.producer.polling.futures import (
    LOOP_YIELD,
    Delivery,
    QueueRoom,
    running_loop,
    set_done,
)
from penstock.client.producer.sending.backlog import SendBacklog
from penstock.client.producer.sending.core import ProducerCore
from penstock.client.producer.sending.encoding import (
    NOT_CHOSEN,
    EncodedRecord,
    NotSerializedYet,
    SentRecord,
    UnserializedRecord,
)
from penstock.client.producer.sending.hot_path import KEEP, HotPath
from penstock.client.runtime.schema_wait import ask_on_thread
from penstock.client.settings import SettingValue

SENDS_BETWEEN_POLLS = 1_000
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.001, 0.02
PAUSE_SHARE = 8  # a pause is this part of the time since the last report
IDLE_SECONDS = 0.25
# A flush hurries records that linger longer than this.
LINGER_MS_SHORT = 5.0
KICK_SECONDS = 0.001
ASK_AGAIN_SECONDS = 0.1


class AioProducerCore(ProducerCore):
    """A producer core with an event loop."""

    in_loop = True

    def __init__(self, given: Mapping[str, SettingValue] | None, said: ProducerArguments) -> None:
        super().__init__(given, said)
        self.loop: asyncio.AbstractEventLoop | None = None
        # The result of post() while there is room: awaited at no cost.
        self.ready: asyncio.Future[None]
        self.hot: HotPath | None = None
        self._hot_window = self.tracker.window
        self._left = 0
        self.backlog = SendBacklog(self.settings.buffer_memory_bytes, self.block_s)
        self._timer: asyncio.TimerHandle | None = None
        self._polls_often = False
        self._reported_s = 0.0
        self._flushers: list[tuple[FlushWindow, asyncio.Future[None]]] = []
        self._asking: set[str] = set()
        self._asks_for_serializer = False
        self._goes_on = False
        self._questions: set[asyncio.Task[None]] = set()

    # -- opening

    def open(self) -> HotPath:
        """Bind to the running loop, start, and return the hot path."""
        self.bind()
        self.start()
        if self.hot is None:
            self.hot = HotPath(self, Delivery)
        return self.hot

    def bind(self) -> asyncio.AbstractEventLoop:
        """Bind to the running loop."""
        if self.loop is None:
            loop = asyncio._get_running_loop()
            if loop is None:
                raise WrongLoop("no event loop is running in this thread")
            self.loop = self.tracker.home = loop
            self.ready = loop.create_future()
            self.ready.set_result(None)
            return loop
        return running_loop(self.loop)

    @property
    def _home(self) -> asyncio.AbstractEventLoop:
        """Return the event loop that this producer is bound to since its first use."""
        assert self.loop is not None, "a producer in use is bound to a loop"
        return self.loop

    def move(self) -> None:
        """Bind to the running loop if the old loop has ended: for close()."""
        if self.loop is not None and self.loop.is_closed():
            self.loop = None
            self._timer = None
            self._polls_often = False
            self._flushers.clear()
            self.bind()

    def fail_permanently(self, error: Exception) -> None:
        if self.fatal is None:
            self.fatal = error
        # Also called on the client's thread; the loop owns the hot path's credit.
        if self.loop is not None and asyncio._get_running_loop() is not self.loop:
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self.review)
        else:
            self.review()

    def _has_room(self) -> bool:
        return not self.backlog

    def _close_hot_path(self) -> None:
        self._account(0)

    def drop_waiting(self, error: Exception) -> None:
        self.backlog.give_up(error)

    # -- records, the slow path

    def send(self, *said: *SentRecord) -> Delivery:
        self.check()
        self.check_reports()
        self.open()
        encoded = self._encoded(*said)
        window = self.tracker.window
        delivery = Delivery(window, said[0])
        report = self.tracker.watched(delivery)
        if not self._taken(encoded, report, window):
            self._wait(encoded, report, delivery, window)
        self._count()
        return delivery

    def post(self, *said: *SentRecord) -> Awaitable[None]:
        self.check()
        self.open()
        encoded = self._encoded(*said)
        window = self.tracker.window
        room: Awaitable[None] = self.ready
        if not self._taken(encoded, self.tracker.posted, window):
            room = waiting = QueueRoom(window, encoded)
            self._wait(encoded, self.tracker.posted, waiting, window)
        breathed = self._count()
        # A poster that never waits must yield to the loop sometimes.
        return LOOP_YIELD if breathed and room is self.ready else room

    def _encoded(self, *said: *SentRecord) -> EncodedRecord | UnserializedRecord:
        try:
            return self.encoder.encode(*said)
        except NotSerializedYet as late:
            return late.unwritten

    def _taken(
        self, encoded: EncodedRecord | UnserializedRecord, report: Any, window: FlushWindow
    ) -> bool:
        """Return whether librdkafka has taken the record."""
        if isinstance(encoded, UnserializedRecord):
            return False
        if self.encoder.chooses and self.encoder.counts.stale(encoded.topic):
            self._ask(encoded.topic)
        if self.backlog or encoded.partition == NOT_CHOSEN:
            return False
        try:
            self.hand_over(encoded, report)
        except BufferError:
            return False
        if not self.reports_errors_only:
            window.sent += 1
        return True

    def _wait(
        self,
        encoded: EncodedRecord | UnserializedRecord,
        report: Any,
        sender: Any,
        window: FlushWindow,
    ) -> None:
        self.backlog.add(encoded, report, sender, self._home.time())
        window.sent += 1
        self.review()
        if isinstance(encoded, UnserializedRecord):
            self._ask_for(encoded)

    def _count(self) -> bool:
        """Count a record of the slow path. Return whether it polled."""
        self._left -= 1
        exhausted = self.hot_path_open and self.hot is not None and self.hot.exhausted
        if self._left > 0 and self._polls_often and not exhausted:
            return False
        self.poll_if_due()
        return True

    # -- polling

    def poll_if_due(self) -> None:
        """Poll after so many records, or start polling after a rest."""
        self._left = SENDS_BETWEEN_POLLS
        if self._polls_often:
            self.serve()
        else:
            self.schedule_poll()
        self._account(SENDS_BETWEEN_POLLS if self.hot_path_open else 0)

    def _account(self, granted: int) -> None:
        """Count the records of the hot path, and grant more."""
        if self.hot is not None:
            spent = self.hot.grant(granted)
            if not self.reports_errors_only:
                self._hot_window.sent += spent
            self._hot_window = self.tracker.window

    @property
    def open_count(self) -> int:
        """Return the number of records and batches in flight."""
        self._account(KEEP)
        return (
            self.handle.length + len(self.backlog)
            if self.reports_errors_only
            else self.tracker.open_count
        )

    def schedule_poll(self) -> None:
        """Poll soon and often: records are in flight."""
        if not self._polls_often:
            self._polls_often = True
            self._reported_s = self._home.time()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._home.call_later(PAUSE_SECONDS_MIN, self._tick)

    def serve(self) -> None:
        """Poll once without waiting; then refill from the backlog and wake waiters."""
        if self._flushers and self.handle.linger_ms > LINGER_MS_SHORT:
            self.handle.wait(KICK_SECONDS, flushing=True)
        self.handle.poll()
        if self.backlog:
            now_s = self._home.time()
            if self.backlog.refill(now_s, self.encoder.write, self._choose, self.hand_over):
                self._go_on_soon()
            else:
                topic, unwritten = self.backlog.undecided(), self.backlog.unwritten()
                if topic is not None:
                    self._ask(topic)
                if unwritten is not None:
                    self._ask_for(unwritten)
            self.review()
        self.tracker.wake()
        if self._flushers:
            self._release()

    def _go_on_soon(self) -> None:
        def go_on() -> None:
            self._goes_on = False
            if not self.handle.destroyed:
                self.serve()

        if not self._goes_on:
            self._goes_on = True
            self._home.call_soon(go_on)

    def _tick(self) -> None:
        self._timer = None
        if self.handle.destroyed or self.loop is None:
            return
        before = self.open_count
        self.serve()
        now, after = self.loop.time(), self.open_count
        if before != after:
            self._reported_s = now
        if after or self._flushers:
            share = (now - self._reported_s) / PAUSE_SHARE
            pause = min(max(share, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
        else:
            self._polls_often = False
            self._account(0)  # the next record takes the slow path and restarts polling
            pause = IDLE_SECONDS
        self._timer = self.loop.call_later(pause, self._tick)

    def stop_polling(self) -> None:
        """Stop the timer and the questions."""
        for question in list(self._questions):
            question.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release_waiters(self) -> None:
        """Fail all waiters: librdkafka is gone and reports no more."""
        for future in list(self.tracker.waiting):
            if not future.done():
                future.set_exception(ClientClosed("the producer was closed without a report"))

    # -- flushing

    async def settle(self, seconds: float) -> bool:
        """Wait until all records sent so far are settled; return False after the time."""
        self._account(0)
        window = self.tracker.begin_window()
        self.serve()
        if self._settled(window):
            return True
        waiter = (window, self._home.create_future())
        self._flushers.append(waiter)
        self.schedule_poll()
        try:
            async with asyncio.timeout(seconds):
                await waiter[1]
        except TimeoutError:
            return False
        finally:
            if waiter in self._flushers:
                self._flushers.remove(waiter)
        return True

    def _settled(self, window: FlushWindow) -> bool:
        self._account(KEEP)
        if self.reports_errors_only and (self.handle.length or self.backlog):
            return False
        return self.tracker.settled_to(window)

    def _release(self) -> None:
        for waiter in list(self._flushers):
            window, future = waiter
            if future.done() or self._settled(window):
                self._flushers.remove(waiter)
                set_done(future)

    def _start(self, answer: Coroutine[Any, Any, None]) -> None:
        """Start a question; `stop_polling` cancels it."""
        question = self._home.create_task(answer)
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)

    # -- partition counts, for Python partitioners

    def _choose(self, encoded: EncodedRecord) -> int:
        return self.encoder.choose(encoded.topic, encoded.key, encoded.value)

    def _ask(self, topic: str) -> None:
        if topic not in self._asking:
            self._asking.add(topic)
            self._start(self._answer(topic))

    async def _answer(self, topic: str) -> None:
        name = self.namespace.strip(topic) or topic
        try:
            await self.thread.run(lambda: self.partitions_of(name, self.block_s))
        except Exception as error:
            # Waiting records fail after max.block.ms; until then the question is repeated.
            self.backlog.trouble = str(error)
            if self.tracker.refusal is not None:  # asking again does not help
                self.backlog.give_up(error)
            self._home.call_later(ASK_AGAIN_SECONDS, self._asking.discard, topic)
        else:
            self._asking.discard(topic)
            if not self.handle.destroyed:
                self.serve()

    # -- schemas

    def _ask_for(self, unwritten: UnserializedRecord) -> None:
        """Ask one question at a time: that of the first waiting record."""
        if not self._asks_for_serializer:
            self._asks_for_serializer = True
            self._start(self._answer_for(unwritten))

    async def ask_serializer(self, unwritten: UnserializedRecord) -> None:
        """Ask on a thread; raise SerializationError without an answer."""
        try:
            await ask_on_thread(unwritten.ask)
        except Exception as error:
            raise SerializationError(error, topic=unwritten.topic) from error

    async def _answer_for(self, unwritten: UnserializedRecord) -> None:
        try:
            await self.ask_serializer(unwritten)
        except SerializationError as error:
            self.backlog.refuse(unwritten.about, error)
        finally:
            self._asks_for_serializer = False
        self.review()
        if not self.handle.destroyed:
            self.serve()
