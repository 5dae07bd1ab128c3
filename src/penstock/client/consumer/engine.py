"""librdkafka's consumer behind one polling thread, which never stops polling while it may.

A turn of the thread: do what was ordered, commit if it is time, look after bodies that take too
long, fetch what there is room for and lay it on the desk; with nothing to fetch, rest. When the
application does not read, partitions stand still and polling goes on, so that the group keeps the
member. librdkafka's binding lets one thread in at a time, for as long as a poll takes: so only
whoever has the wheel calls it, this thread or a reader for the time of one fetch (wheel.py), and it
never stays inside for long.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client.consumer.committing import Committing, PollOver
from penstock.client.consumer.desk import Desk, Fetched
from penstock.client.consumer.faces import Face
from penstock.client.consumer.ledger import Place, Work, place_of
from penstock.client.consumer.partitions import Partitions
from penstock.client.consumer.plan import Plan, Subscription
from penstock.client.consumer.rebalancing import Rebalancing
from penstock.client.consumer.resetting import Resetting
from penstock.client.consumer.troubles import Verdict, fatal_cause, judge
from penstock.client.consumer.wheel import READER_PATIENCE_S
from penstock.client.doubts import Doubts
from penstock.client.echo import Echo
from penstock.client.failures import (
    ClientError,
    HandlerTimedOut,
    UsedAfterFork,
    WrongProtocol,
    from_rdkafka,
    is_fatal,
    is_refusal,
    is_retriable,
)
from penstock.client.forks import leave_alone, register
from penstock.client.interrupts import raise_if_interrupted

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import KafkaException

T = TypeVar("T")

log = logging.getLogger("penstock.client.consumer")

# How long it may stay inside librdkafka, and how soon it looks there again.
REST_SECONDS = 0.05
# The same for a while after an order: more may come, and could not call it out of there.
REST_SECONDS_BUSY = 0.005
BUSY_SECONDS = 1.0
# How long it waits at a time for a body that was told to end.
IDLE_SECONDS = 1.0
# How long a question to the brokers may hold up the polling at first.
FIRST_PATIENCE_S = 1.0
ASK_AGAIN_S = 0.1
# So long nothing is read before partitions stand still; then polling goes on.
ROOM_PATIENCE_S = 0.25
# Of a reader's fetch, so many at a time.
PART_RECORDS = 250
# The binding takes no larger number.
CONSUME_MAX = 1_000_000
# Records that are fetched and not read take about so much at most.
UNREAD_BYTES_MAX = 64 * 1024 * 1024
SIZES_LOOKED_AT = 16
# A body that was told to end gets so much longer; then polling stops until it has.
STRIKE_PATIENCE_S = 5.0
# What is left of a close's time for the last commit and the good-bye, after bodies had theirs.
FAREWELL_S = 1.0


class Engine:
    """Of one consumer, asyncio's or the blocking one."""

    def __init__(self, plan: Plan, face: Face) -> None:
        self.plan = plan
        self.desk = Desk(2 * plan.poll_records_max, readers_fetch=plan.readers_fetch)
        self.opened: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.started = False
        self.forked_off = False
        self.committing = Committing(plan, self.desk)
        self._face = face
        self._closing_until = 0.0
        # Why brokers do not let it in, as far as nothing has come of them since.
        self._refusal: Exception | None = None
        self._echo = Echo(log)
        self._doubts = Doubts(plan.rdkafka, log, self._echo, self._not_understood)
        self._average_bytes = 1
        self._error_of: Callable[[Fetched], object] = methodcaller("error")
        self._failed: type[KafkaException] = ()  # type: ignore[assignment]  # until it is opened
        # Who decides what is read: the application names partitions, or the group gives them.
        self._by_name = self._by_group = False
        # Made by the polling thread; the others use them through orders and calls.
        self.rdkafka: RdkafkaConsumer = None  # type: ignore[assignment]  # until it is opened
        self.partitions: Partitions = None  # type: ignore[assignment]
        self._rebalancing: Rebalancing = None  # type: ignore[assignment]
        self._resetting: Resetting = None  # type: ignore[assignment]

    # -- from other threads

    def start(self) -> None:
        """Begin to open it; `opened` says how that went."""
        self.check()
        assert not self.started, "an engine runs once"
        self.started = True
        register(self)
        threading.Thread(target=self._run, name="penstock-consumer", daemon=True).start()

    def check(self) -> None:
        """Every use asks first: after a fork there are no threads, and locks are as they were."""
        if self.forked_off:
            raise UsedAfterFork()

    def ask(
        self, question: "Callable[[RdkafkaConsumer, float], T]", timeout_s: float
    ) -> "Future[T]":
        """Have something asked of the brokers. That holds up the polling, so it is tried for a
        short time first, and then for longer ones with polls in between."""
        future: Future[T] = Future()
        until = time.monotonic() + timeout_s

        def attempt(patience_s: float, *, again: bool = True) -> None:
            if self._refusal is not None and again:
                raise self._refusal  # asking again would not help
            left_s = until - time.monotonic()
            try:
                answer = question(self.rdkafka, max(0.0, min(patience_s, left_s)))
            except Exception as error:
                if not is_retriable(error) or time.monotonic() + ASK_AGAIN_S > until:
                    raise
                # A cluster that never answered gets no longer questions: they hold up a close.
                longer_s = 2 * patience_s if self._echo.knows_nodes else patience_s
                hand_on(self.desk.order_later(ASK_AGAIN_S, lambda: attempt(longer_s)), future)
            else:
                self._refusal = None
                with contextlib.suppress(InvalidStateError):  # who has asked, waits no longer
                    future.set_result(answer)

        hand_on(self.desk.order(lambda: attempt(FIRST_PATIENCE_S, again=False)), future)
        return future

    def close(self, timeout_s: float) -> None:
        """Begin the end; `ended` comes with it. Bodies get most of the time that is left."""
        if not self.desk.stopping:
            self._closing_until = time.monotonic() + timeout_s
            self.desk.stop()

    def abandon(self) -> None:
        """Nobody is left to close it. Takes no lock: it may be the garbage collector who calls."""
        if self.started and not self.forked_off:
            self.desk.stopping = True

    def forked(self) -> None:
        self.forked_off = True
        if self.rdkafka is not None:
            leave_alone(self.rdkafka)

    # -- the thread

    def _run(self) -> None:
        self.desk.polling_thread = threading.get_ident()
        try:
            self._open()
        except BaseException as error:
            self.desk.stop()
            self._last()
            self.opened.set_exception(error)
            return
        self.opened.set_result(None)
        try:
            while not self.desk.stopping:
                if self._reader_fetches:
                    self.desk.stand_by(READER_PATIENCE_S)
                with self.desk.wheel.lock:
                    self._turn()
                self.desk.wake()
        except BaseException as error:
            log.exception("the consumer's polling failed; it is closed")
            failure = ClientError("the consumer's polling failed", next_step="See the log for why")
            failure.__cause__ = error
            self.desk.fail(failure, fatal=True)
        finally:
            with self.desk.wheel.lock:  # and no reader gets it after that
                self._shut()

    def _open(self) -> None:
        from confluent_kafka import Consumer as RdkafkaConsumer
        from confluent_kafka import KafkaException, Message

        self._error_of = Message.error  # asked of every message: four times as quick as by name
        self._failed = KafkaException
        wanted: dict[str, Any] = dict(self.plan.rdkafka)
        wanted.setdefault("error_cb", self._reported)
        wanted["on_commit"] = self.committing.answered
        try:
            self.rdkafka = RdkafkaConsumer(wanted, logger=self._echo)
        except KafkaException as error:
            raise from_rdkafka(error, about="the consumer cannot be made") from error
        self.partitions = Partitions(self.plan, self.desk, self.rdkafka, self.committing)
        self._rebalancing = Rebalancing(
            self.plan, self.desk, self._face, self.partitions, self.committing
        )
        self._resetting = Resetting(self.plan, self.desk, self.ask, self.partitions)

    @property
    def _reader_fetches(self) -> bool:
        """Whether this thread has to fetch nothing: nobody waits, and a reader comes by himself."""
        needed = self.desk.is_awaited or self.committing.expects_answers
        return self.desk.wheel.has_reader and not needed

    def _turn(self) -> None:
        self._rebalancing.take_over()
        self.desk.serve_orders()
        if self.desk.fatal is not None:
            # Only the partitions' end is still to be heard of.
            self.desk.pause(REST_SECONDS)
            with contextlib.suppress(self._failed):
                self.rdkafka.consume(1, 0)
            return
        now = time.monotonic()
        self.committing.keep_time(self.rdkafka, now)
        if self._body_is_stuck(now) or self._reader_fetches:
            return
        self._bring(self._fetch())
        if self.desk.frozen:
            self.desk.thaw()

    def _bring(self, fetched: Iterable[list[Fetched]]) -> bool:
        """Fetch, and lay on the desk what came, part after part; whether something did."""
        self._rebalancing.gone.clear()
        self.desk.wheel.polled_at = time.monotonic()
        messages: list[Fetched] = []
        try:
            for part in fetched:
                messages += part
        except self._failed as error:
            failure = from_rdkafka(error)
            log.error("%s", failure)
            self.desk.fail(failure, fatal=bool(error.args[0].fatal()))
        if messages:
            self._arrived(messages)
        return bool(messages)

    # -- from a reader's thread

    def fetch_here(self, count: int, spent: Work[Fetched] | None = None) -> bool:
        """Fetch in the thread of the reader, as far as something is at hand; whether so many are
        unread now. If not, he waits for the polling thread. `spent` is finished, and over: its
        messages go as others come."""
        ledger = self.desk.ledger
        while (missing := count - ledger.unread) > 0:
            if not self._fetch_here(missing, spent):
                return False
        return not self.desk.frozen  # then there is nothing to have, whatever lies there

    def _fetch_here(self, missing: int, spent: Work[Fetched] | None) -> bool:
        desk, rebalancing = self.desk, self._rebalancing
        try:
            if desk.is_engaged or not desk.wheel.take():
                return False
            room = min(max(missing, self.plan.poll_records_max), self._room(), CONSUME_MAX)
            # The first once more: until the wheel was taken somebody else had it.
            if desk.is_engaged or self.partitions.held or rebalancing.coming or room <= 0:
                return False
            rebalancing.by_reader = True
            return self._bring(self._fetch_instead(spent, room))
        except BaseException as error:
            # A signal's, in the main thread: what librdkafka gave may be lost on the way here.
            desk.order(self.partitions.rewind)
            raise_if_interrupted(error)
            raise
        finally:
            rebalancing.by_reader = False
            desk.wheel.give_back()
            desk.wake()

    def _fetch_instead(self, spent: Work[Fetched] | None, room: int) -> Iterator[list[Fetched]]:
        """What there is room for, in parts, and for each as many of the spent ones go: whenever
        700 objects more have come than gone, the garbage collector looks at all young ones."""
        old = [] if spent is None else spent.messages
        part_max = PART_RECORDS if old else room
        while room > 0:
            wanted = min(part_max, room)
            part = self.rdkafka.consume(wanted, 0)
            yield part
            if len(part) < wanted:
                return
            del old[-wanted:]
            room -= wanted

    def subscribe(self, subscription: Subscription, starts: Mapping[Place, int | None]) -> None:
        """An order: read this from now on. Partitions that were named before go first; those that
        the group gave go when librdkafka says so."""
        from confluent_kafka import KafkaException

        rebalancing = self._rebalancing
        if subscription.places and self._by_group:
            raise ClientError(
                "the group decides what this consumer reads",
                next_step="unsubscribe() before you assign()",
            )
        if self._by_name:
            with self.desk.lock:
                places = self.desk.ledger.places
            until = time.monotonic() + self.plan.revoke_timeout_s
            rebalancing.part_with(self.rdkafka, places, until)
            self.partitions.let_go(places, incrementally=False)
            self._by_name = False
        try:
            if subscription.places:
                self.partitions.take_over(starts, replacing=True)
                self._by_name = True
            elif subscription:
                self.rdkafka.subscribe(
                    list(subscription.topics) or [str(subscription.pattern)],
                    on_assign=rebalancing.on_assign,
                    on_revoke=rebalancing.on_revoke,
                    on_lost=rebalancing.on_lost,
                )
                self._by_group = True
            else:
                self.rdkafka.unsubscribe()
                self._by_group = False
        except KafkaException as error:
            said = f"to the pattern {subscription.pattern!r} " if subscription.pattern else ""
            raise from_rdkafka(error, about=f"the subscription {said}was not taken") from error

    # -- fetching

    def _fetch(self) -> Iterator[list[Fetched]]:
        room = self._room()
        if self.partitions.held:
            if room * 2 < self.desk.unread_max:
                room = 1
            else:
                self.partitions.release()
        if room <= 0:
            yield self._wait_for_room()
            return
        found = self._consume(room)
        if found:
            yield found
        else:
            yield from self._rest(room)

    def _room(self) -> int:
        self._bound()
        return self.desk.unread_max - self.desk.ledger.unread

    def _bound(self) -> None:
        """As many as the application wants, unless they are large."""
        affordable = max(1, UNREAD_BYTES_MAX // self._average_bytes)
        self.desk.unread_max = min(self.desk.wanted_max, affordable)

    def _consume(self, room: int) -> list[Fetched]:
        """Not more at once than somebody takes at once: the garbage collector runs when 700 objects
        more have come than gone."""
        return self.rdkafka.consume(min(room, self.desk.wanted_max // 2, CONSUME_MAX), 0)

    def _wait_for_room(self) -> list[Fetched]:
        """Half of it, or whatever there is when the patience ends; with none stand still."""
        self.desk.wants_room = True
        until = time.monotonic() + ROOM_PATIENCE_S
        half = self.desk.unread_max // 2
        ledger = self.desk.ledger
        made = self.desk.wait_until(lambda: ledger.unread <= half, until, stop_early=True)
        self.desk.wants_room = False
        if not made and not self.desk.stopping:
            room = self._room()
            if room > 0:
                return self._consume(room)
            self.partitions.hold()
        return []

    def _rest(self, room: int) -> Iterator[list[Fetched]]:
        """Wait for a record, if somebody waits for one or librdkafka has something to report; else
        for somebody to want something. Not for long: the other may come meanwhile."""
        self.partitions.catch_up()
        if not (self.desk.is_awaited or self.committing.expects_answers):
            self.desk.pause(REST_SECONDS)
            return
        if self.desk.stopping:
            return
        busy = time.monotonic() - self.desk.ordered_at < BUSY_SECONDS
        self.committing.at_rest = True
        try:
            message = self.rdkafka.poll(REST_SECONDS_BUSY if busy else REST_SECONDS)
        except PollOver:
            return
        finally:
            self.committing.at_rest = False
        if message is not None:
            yield [message]
            if room > 1:
                yield self._consume(room - 1)

    # -- what came

    def _arrived(self, messages: list[Fetched]) -> None:
        gone = self._rebalancing.gone
        if gone:  # it may bring messages from before a rebalance that it served itself
            messages = [message for message in messages if place_of(message) not in gone]
        ends: dict[Place, int] = {}
        if any(map(self._error_of, messages)):
            messages = self._without_errors(messages, ends)
        if messages:
            self._refusal, self._doubts.has_worked = None, True
            sample = messages[:: max(1, len(messages) // SIZES_LOOKED_AT)]
            self._average_bytes = max(1, sum(map(len, sample)) // len(sample))
            self._bound()
            self.desk.lay_down(messages, self.partitions.ends(messages, ends))
        elif ends:
            self.partitions.reached(ends)
        if gone:
            self._begin_anew(gone)

    def _begin_anew(self, gone: list[Place]) -> None:
        """Partitions that went and came again in one poll: nobody could tell old messages of them
        from new ones, so all were dropped."""
        with self.desk.lock:
            back = [place for place in gone if self.desk.ledger.owns(place)]
        if back:
            self.partitions.restart(dict.fromkeys(back))

    def _without_errors(self, messages: list[Fetched], ends: dict[Place, int]) -> list[Fetched]:
        """The messages that are some; `ends` gets the offsets of ends that were reached."""
        missing: dict[Place, RdkafkaError] = {}
        for message in messages:
            error = message.error()
            if error is None:
                continue
            match judge(error, has_group=self.plan.group is not None):
                case Verdict.END_REACHED:
                    ends[place_of(message)] = message.offset()
                case Verdict.NO_OFFSET:
                    missing[place_of(message)] = error
                case Verdict.RAISED:
                    failure = from_rdkafka(fatal_cause(error))
                    self.desk.fail(failure, fatal=is_fatal(failure))
                case Verdict.LOGGED:
                    log.warning("%s", from_rdkafka(error))
                case Verdict.NOTHING:
                    pass
        if missing:
            self._resetting.missing(missing)
        return [message for message in messages if message.error() is None]

    def _reported(self, error: "RdkafkaError") -> None:
        """librdkafka's callback for what is about connections; on the polling thread."""
        if is_refusal(error):
            self._refusal = from_rdkafka(error)
            self.desk.fail(self._refusal)
        else:  # librdkafka logs it as well
            log.debug("%s", error.str())
            self._doubts.heard(error)

    @property
    def unreachable(self) -> str:
        """The last connection that could not be made; empty once the cluster has answered."""
        return "" if self._doubts.has_worked else self._echo.unreachable

    def _not_understood(self, wrong: WrongProtocol) -> None:
        self._refusal = wrong
        self.desk.fail(wrong)

    # -- bodies that take too long

    def _body_is_stuck(self, now: float) -> bool:
        """Whether polling has to stop: a body has not ended though it was told to. The group puts
        the member out after max.poll.interval.ms, and others go on with its partitions."""
        if self.plan.manual_finish:
            return False
        limit_s = self.plan.handler_timeout_s
        with self.desk.lock:
            self.desk.settle()
            late = self.desk.ledger.since_before(now - limit_s)
            struck = [work for work in late if work.failure is None]
            for work in struck:
                place, offset = next(iter(work.firsts().items()))
                work.failure = HandlerTimedOut(
                    f"the body took longer than handler.timeout.ms ({limit_s * 1000:.0f}) for the "
                    f"record of {self.plan.outside(place)} at offset {offset}; it is not committed"
                )
        for work in struck:
            log.warning("%s", work.failure)
            self._face.strike(work)
        stuck = [work for work in late if now - work.since > limit_s + STRIKE_PATIENCE_S]
        if not stuck:
            return False
        # Until it has polled again nobody knows whether the partitions are still there.
        self.desk.frozen = True
        ledger = self.desk.ledger
        self.desk.wait_until(
            lambda: not any(map(ledger.holds, stuck)), now + IDLE_SECONDS, stop_early=True
        )
        return True

    # -- the end

    def _shut(self) -> None:
        if not self._closing_until:  # it was forgotten, or has failed: nobody waits
            self._closing_until = time.monotonic() + FAREWELL_S
        try:
            self._rebalancing.take_over()
            until = min(
                time.monotonic() + self.plan.revoke_timeout_s,
                max(time.monotonic(), self._closing_until - FAREWELL_S),
            )
            if self.desk.fatal is None:
                # A body may wait for the answer, and part_with for the body.
                self.committing.await_answers(self.rdkafka, until, requested=True)
            with self.desk.lock:
                self.desk.settle()
                places = self.desk.ledger.places
            if places and self.desk.fatal is not None:
                self._rebalancing.lose(places)
            elif places:
                self._rebalancing.part_with(self.rdkafka, places, until, self._closing_until)
        except BaseException:
            log.exception("the consumer could not part with its partitions in order")
        self._rebalancing.closing = True
        try:
            self.committing.await_answers(self.rdkafka, self._closing_until)
            self.rdkafka.close()
        except BaseException as error:
            log.warning("the consumer did not close in order: %s", error)
        self._last()

    def _last(self) -> None:
        self._doubts.end()
        self.committing.end()
        self.desk.refuse_orders()
        self.ended.set_result(None)


def hand_on(order: "Future[None]", future: "Future[Any]") -> None:
    """Who waits for the outcome of an order hears of it when nobody carries the order out."""

    def refused(done: "Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            with contextlib.suppress(InvalidStateError):  # it is done, or nobody waits any longer
                future.set_exception(error)

    order.add_done_callback(refused)
