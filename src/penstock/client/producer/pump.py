"""The asyncio side of a producer: when librdkafka is polled, and who is woken.

librdkafka is polled from the event loop itself, without waiting: by senders once in so many
records, and by a timer while anything is under way. A thread that polls would fight the loop for
the interpreter at each single report. The timer's pause grows with the time in which nothing was
reported, so that it adds at most an eighth to a delay that is there anyway; an idle producer is
polled a few times per second, for its log and its tokens.

It holds no reference to the Producer: one that is dropped without being closed can be found out.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Any

from penstock.client.asking import ask_apart
from penstock.client.calls import CallThread
from penstock.client.failures import ClientClosed, SerializationError, WrongLoop
from penstock.client.producer.awaitables import TURN, Delivery, Room, running_loop
from penstock.client.producer.backlog import Backlog
from penstock.client.producer.core import Core, Said
from penstock.client.producer.encoding import NOT_CHOSEN, Encoded, NotWrittenYet, Unwritten
from penstock.client.producer.hot_path import KEEP, HotPath
from penstock.client.producer.ledger import Page
from penstock.client.producer.receipts import report_to
from penstock.client.records import HeadersLike
from penstock.client.settings import SettingValue

SENDS_BETWEEN_POLLS = 1_000
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.001, 0.02
PAUSE_SHARE = 8  # a pause is this part of the time since something was reported
IDLE_SECONDS = 0.25
# Records that linger longer than this are hurried by a flush.
LINGER_MS_SHORT = 5.0
KICK_SECONDS = 0.001
ASK_AGAIN_SECONDS = 0.1


class Pump(Core):
    """A core with a loop."""

    in_loop = True

    def __init__(self, given: Mapping[str, SettingValue] | None, said: Said) -> None:
        super().__init__(given, said)
        self.thread = CallThread("penstock-producer")
        self.loop: asyncio.AbstractEventLoop | None = None
        # What post() returns while there is room: done, and awaited at no cost.
        self.ready: asyncio.Future[None]
        self.hot: HotPath | None = None
        self._hot_page = self.ledger.page
        self._left = 0
        self.backlog = Backlog(self.settings.buffer_memory_bytes, self.block_s)
        self._timer: asyncio.TimerHandle | None = None
        self._brisk = False
        self._reported_s = 0.0
        self._flushers: list[tuple[Page, asyncio.Future[None]]] = []
        self._asking: set[str] = set()
        self._asks_for_serializer = False
        self._goes_on = False
        self._questions: set[asyncio.Task[None]] = set()

    # -- life

    def open(self) -> HotPath:
        """Bound to the loop that runs, started, with a hot path."""
        self.bind()
        self.start()
        if self.hot is None:
            self.hot = HotPath(self, Delivery)
        return self.hot

    def bind(self) -> asyncio.AbstractEventLoop:
        """To the loop that runs, for good."""
        if self.loop is None:
            loop = asyncio._get_running_loop()
            if loop is None:
                raise WrongLoop("no event loop is running in this thread")
            self.loop = self.ledger.home = loop
            self.ready = loop.create_future()
            self.ready.set_result(None)
            return loop
        return running_loop(self.loop)

    def move(self) -> None:
        """To the loop that runs, if its own one has ended: so that it can be closed."""
        if self.loop is not None and self.loop.is_closed():
            self.loop = None
            self._timer = None
            self._brisk = False
            self._flushers.clear()
            self.bind()

    def fail_for_good(self, error: Exception) -> None:
        if self.fatal is None:
            self.fatal = error
        # Also called on the client's thread; the hot path's credit belongs to the loop.
        if self.loop is not None and asyncio._get_running_loop() is not self.loop:
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self.review)
        else:
            self.review()

    def _has_room(self) -> bool:
        return not self.backlog

    def _close_hot_path(self) -> None:
        self._account(0)

    # -- records, the slow way

    def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> Delivery:
        self.check()
        self.check_reports()
        self.open()
        encoded = self._encoded(topic, value, key, partition, headers, timestamp_ms)
        page = self.ledger.page
        delivery = Delivery(page, topic)
        report = report_to(delivery, self.ledger)
        if not self._taken(encoded, report, page):
            self._wait(encoded, report, delivery, page)
        self._count()
        return delivery

    def post(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> Awaitable[None]:
        self.check()
        self.open()
        encoded = self._encoded(topic, value, key, partition, headers, timestamp_ms)
        page = self.ledger.page
        room: Awaitable[None] = self.ready
        if not self._taken(encoded, self.ledger.posted, page):
            room = waiting = Room(page, encoded)
            self._wait(encoded, self.ledger.posted, waiting, page)
        breathed = self._count()
        # A poster that never has to wait must not keep the loop for himself.
        return TURN if breathed and room is self.ready else room

    def _encoded(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> Encoded | Unwritten:
        try:
            return self.encoder.encode(topic, value, key, partition, headers, timestamp_ms)
        except NotWrittenYet as late:
            return late.unwritten

    def _taken(self, encoded: Encoded | Unwritten, report: Any, page: Page) -> bool:
        """Whether librdkafka has it now."""
        if isinstance(encoded, Unwritten):
            return False
        if self.encoder.chooses and self.encoder.counts.stale(encoded.topic):
            self._ask(encoded.topic)
        if self.backlog or encoded.partition == NOT_CHOSEN:
            return False
        try:
            self.hand_over(encoded, report)
        except BufferError:
            return False
        if not self.quiet:
            page.sent += 1
        return True

    def _wait(self, encoded: Encoded | Unwritten, report: Any, sender: Any, page: Page) -> None:
        assert self.loop is not None, "a sender has a loop"
        self.backlog.add(encoded, report, sender, self.loop.time())
        page.sent += 1
        self.review()
        if isinstance(encoded, Unwritten):
            self._ask_for(encoded)

    def _count(self) -> bool:
        """One more record came the slow way; whether it was time to poll."""
        self._left -= 1
        exhausted = self.fluent and self.hot is not None and self.hot.exhausted
        if self._left > 0 and self._brisk and not exhausted:
            return False
        self.breathe()
        return True

    # -- polling

    def breathe(self) -> None:
        """So many records were sent since the last poll, or the first one after a rest."""
        self._left = SENDS_BETWEEN_POLLS
        if self._brisk:
            self.serve()
        else:
            self.hurry()
        self._account(SENDS_BETWEEN_POLLS if self.fluent else 0)

    def _account(self, granted: int) -> None:
        """Count what went the hot way, and say how much more may."""
        if self.hot is not None:
            spent = self.hot.grant(granted)
            if not self.quiet:
                self._hot_page.sent += spent
            self._hot_page = self.ledger.page

    @property
    def open_count(self) -> int:
        """Records (and batches) that are under way."""
        self._account(KEEP)
        return self.handle.length + len(self.backlog) if self.quiet else self.ledger.open_count

    def hurry(self) -> None:
        """Something is under way: poll soon, and often."""
        assert self.loop is not None, "who sends has a loop"
        if not self._brisk:
            self._brisk = True
            self._reported_s = self.loop.time()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(PAUSE_SECONDS_MIN, self._tick)

    def serve(self) -> None:
        """Poll once without waiting; wake, refill, tell."""
        if self._flushers and self.handle.linger_ms > LINGER_MS_SHORT:
            self.handle.wait(KICK_SECONDS, flushing=True)
        self.handle.poll()
        assert self.loop is not None, "who is polled has a loop"
        if self.backlog:
            now_s = self.loop.time()
            if self.backlog.refill(now_s, self.encoder.write, self._choose, self.hand_over):
                self._go_on_soon()
            else:
                topic, unwritten = self.backlog.undecided(), self.backlog.unwritten()
                if topic is not None:
                    self._ask(topic)
                if unwritten is not None:
                    self._ask_for(unwritten)
            self.review()
        self.ledger.wake()
        if self._flushers:
            self._release()

    def _go_on_soon(self) -> None:
        def go_on() -> None:
            self._goes_on = False
            if not self.handle.destroyed:
                self.serve()

        if not self._goes_on:
            assert self.loop is not None, "who is polled has a loop"
            self._goes_on = True
            self.loop.call_soon(go_on)

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
            self._brisk = False
            self._account(0)  # the next record goes the slow way, and wakes us
            pause = IDLE_SECONDS
        self._timer = self.loop.call_later(pause, self._tick)

    def rest(self) -> None:
        """No more polls by the loop, and no more questions."""
        for question in list(self._questions):
            question.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release_waiters(self) -> None:
        """librdkafka is gone: whoever still waits for a report would wait for ever."""
        for future in list(self.ledger.waiting):
            if not future.done():
                future.set_exception(ClientClosed("the producer was closed without a report"))

    # -- flushing

    async def settle(self, seconds: float) -> bool:
        """Wait until everything sent so far is delivered or has failed; False if time ran out."""
        self._account(0)
        page = self.ledger.turn()
        self.serve()
        if self._settled(page):
            return True
        assert self.loop is not None, "who waits has a loop"
        waiter = (page, self.loop.create_future())
        self._flushers.append(waiter)
        self.hurry()
        try:
            async with asyncio.timeout(seconds):
                await waiter[1]
        except TimeoutError:
            return False
        finally:
            if waiter in self._flushers:
                self._flushers.remove(waiter)
        return True

    def _settled(self, page: Page) -> bool:
        self._account(KEEP)
        if self.quiet and (self.handle.length or self.backlog):
            return False
        return self.ledger.settled_to(page)

    def _release(self) -> None:
        for waiter in list(self._flushers):
            page, future = waiter
            if future.done() or self._settled(page):
                self._flushers.remove(waiter)
                if not future.done():
                    future.set_result(None)

    # -- how many partitions a topic has, for partitioners of our own

    def _choose(self, encoded: Encoded) -> int:
        return self.encoder.choose(encoded.topic, encoded.key, encoded.value)

    def _ask(self, topic: str) -> None:
        if topic not in self._asking:
            assert self.loop is not None, "who sends has a loop"
            self._asking.add(topic)
            question = self.loop.create_task(self._answer(topic))
            self._questions.add(question)
            question.add_done_callback(self._questions.discard)

    async def _answer(self, topic: str) -> None:
        name = self.namespace.strip(topic) or topic
        try:
            await self.thread.run(lambda: self.partitions_of(name, self.block_s))
        except Exception as error:
            # Those that wait for the answer run into max.block.ms; until then it is asked again.
            self.backlog.trouble = str(error)
            if self.ledger.refusal is not None:  # asking again would not help
                self.backlog.give_up(error)
            assert self.loop is not None, "who asks has a loop"
            self.loop.call_later(ASK_AGAIN_SECONDS, self._asking.discard, topic)
        else:
            self._asking.discard(topic)
            if not self.handle.destroyed:
                self.serve()

    # -- what serializers have to know

    def _ask_for(self, unwritten: Unwritten) -> None:
        """One question at a time: that of the record which the others wait behind."""
        if not self._asks_for_serializer:
            assert self.loop is not None, "who sends has a loop"
            self._asks_for_serializer = True
            question = self.loop.create_task(self._answer_for(unwritten))
            self._questions.add(question)
            question.add_done_callback(self._questions.discard)

    async def told(self, unwritten: Unwritten) -> None:
        """Ask, on a thread; SerializationError if there is no answer."""
        try:
            await ask_apart(unwritten.ask)
        except Exception as error:
            raise SerializationError(error, topic=unwritten.topic) from error

    async def _answer_for(self, unwritten: Unwritten) -> None:
        try:
            await self.told(unwritten)
        except SerializationError as error:
            self.backlog.refuse(unwritten.about, error)
        finally:
            self._asks_for_serializer = False
        self.review()
        if not self.handle.destroyed:
            self.serve()
