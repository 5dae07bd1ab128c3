"""What both consumers are inside: a plan, an engine, a reader, and all they can be asked to do.

What takes a broker or the polling thread gives a future; asyncio's consumer awaits it, the blocking
one waits for it, both with a limit.
"""

import logging
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Generic
from weakref import WeakValueDictionary

from penstock.client.consumer.committing import without_group
from penstock.client.consumer.engine import Engine, hand_on
from penstock.client.consumer.faces import Face
from penstock.client.consumer.ledger import Place, Work, last_offsets
from penstock.client.consumer.options import KNOWN, ConsumerOptions
from penstock.client.consumer.places import (
    EARLIEST,
    LATEST,
    check,
    committed_offsets,
    first_offsets_after,
    milliseconds,
    offsets_at,
    resolve,
)
from penstock.client.consumer.plan import (
    Callbacks,
    PlaceLike,
    Position,
    Subscription,
    make_plan,
)
from penstock.client.consumer.reading import Reader, Records
from penstock.client.failures import (
    ClientClosed,
    ClientError,
    DeserializationError,
    PartitionsRevoked,
    TimedOut,
)
from penstock.client.interceptors import ConsumerInterceptor, interceptors_of
from penstock.client.keywords import refuse_unknown
from penstock.client.namespace import CLUSTER_TOPICS
from penstock.client.records import K, Record, V
from penstock.client.serde import Deserializer, DeserializerLike, deserializer_of, unwaiting
from penstock.client.settings import SettingValue
from penstock.model import TopicPartition

log = logging.getLogger("penstock.client.consumer")

CLOSE_SECONDS = 30.0
COMMIT_LOOK_S = 0.01

# What may be committed by hand.
Committable = Record[Any, Any] | Records[Any, Any] | Mapping[TopicPartition, int] | None


class Core(Generic[K, V]):
    """Of one consumer."""

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None,
        key: DeserializerLike[K] | None,
        value: DeserializerLike[V] | None,
        options: ConsumerOptions,
        face: Face,
        *,
        in_loop: bool = False,
    ) -> None:
        refuse_unknown("Consumer", options, KNOWN)
        self.plan, read = make_plan(
            settings,
            bootstrap=options.get("bootstrap"),
            group=options.get("group"),
            namespace=options.get("namespace"),
            manual_finish=options.get("manual_finish", False),
            callbacks=Callbacks(
                options.get("on_assigned"), options.get("on_revoked"), options.get("on_lost")
            ),
            hides_internal=CLUSTER_TOPICS.isdisjoint(_topics(options)),
        )
        for name, why in read.ignored:
            log.warning("%s has no effect: %s", name, why)
        self.first = self.plan.subscription(
            options.get("topics"), options.get("pattern"), options.get("assign")
        )
        interceptors = interceptors_of(
            (*read.interceptors, *options.get("interceptors", ())), ConsumerInterceptor
        )
        self.engine = Engine(self.plan, face)
        self.desk = self.engine.desk
        self.desk.wants_news = bool(interceptors)
        read_key: Deserializer[K] = deserializer_of(
            read.key_deserializer if key is None else key, is_key=True, properties=read.serde
        )
        read_value: Deserializer[V] = deserializer_of(
            read.value_deserializer if value is None else value,
            is_key=False,
            properties=read.serde,
        )
        if in_loop:
            read_key, read_value = unwaiting(read_key), unwaiting(read_value)
        self.reader: Reader[K, V] = Reader(self.plan, self.desk, read_key, read_value, interceptors)
        self.closed = False
        self.reads = bool(self.first)
        # Whose transaction has taken offsets of a partition, and has not ended.
        self._takers: WeakValueDictionary[Place, object] = WeakValueDictionary()
        self.name = str(read.rdkafka.get("bootstrap.servers", ""))

    def check(self) -> None:
        """Whether it may be used at all."""
        self.engine.check()
        if self.closed:
            raise ClientClosed("the consumer is closed")

    def check_subscribed(self) -> None:
        """Raise ClientError if nothing says which topics or partitions to read."""
        if not self.reads:
            raise ClientError(
                "the consumer has no topics to read",
                next_step="Name them: Consumer(topics=['orders'], ...), or call subscribe() or "
                "assign() first",
            )

    def late(self, what: str, limit_s: float) -> TimedOut:
        """Return the error of a question without an answer; with its cause, as far as known."""
        cause = self.engine.unreachable
        return TimedOut(f"{what} took longer than {limit_s:g} s" + (f": {cause}" if cause else ""))

    # -- what is read

    def resolve(
        self, wanted: Mapping[Place, Position | None], timeout_s: float
    ) -> "Future[dict[Place, int | None]]":
        """Positions as offsets; None, where a partition begins by itself, stays None if the group
        knows where, else it is what auto.offset.reset says."""
        plan = self.plan
        said = {place: position for place, position in wanted.items() if position is not None}
        if len(said) < len(wanted) and plan.group is None:
            for place in wanted:
                position = self._reset_position()
                if position is not None:
                    said.setdefault(place, position)
        unsaid: dict[Place, int | None] = dict.fromkeys(wanted)
        if not said:
            future: Future[dict[Place, int | None]] = Future()
            future.set_result(unsaid)
            return future
        return self.engine.ask(
            lambda rdkafka, left_s: {**unsaid, **resolve(rdkafka, said, left_s)}, timeout_s
        )

    def _reset_position(self) -> Position | None:
        match self.plan.offset_reset:
            case "earliest":
                return "start"
            case "latest":
                return "end"
            case ("by_duration", int(duration_ms)):
                from datetime import UTC, timedelta

                return datetime.now(UTC) - timedelta(milliseconds=duration_ms)
        return None

    def read_from(
        self, subscription: Subscription, starts: Mapping[Place, int | None]
    ) -> "Future[None]":
        """Read this instead of what was read before."""
        self.reads = bool(subscription)
        return self.desk.order(lambda: self.engine.subscribe(subscription, starts))

    # -- moving

    def place(self, said: PlaceLike) -> Place:
        return self.plan.place(said)

    def targets(self, to: Position, places: Collection[PlaceLike]) -> dict[Place, Position | None]:
        """The named partitions, or all that are assigned."""
        check(to)
        named = [self.place(each) for each in places] if places else self.places()
        return dict.fromkeys(named, to)

    def move(self, targets: Mapping[Place, int | None]) -> "Future[None]":
        offsets = {place: offset for place, offset in targets.items() if offset is not None}
        return self.desk.order(lambda: self.engine.partitions.move(offsets))

    def skip(self, error: DeserializationError) -> bool:
        place = self.place(error.place)
        with self.desk.lock:
            self.desk.settle()
            return self.desk.ledger.skip(place, error.offset)

    def pause(self, places: Collection[PlaceLike]) -> "Future[None]":
        named = [self.place(each) for each in places] if places else self.places()
        return self.desk.order(lambda: self.engine.partitions.pause(named))

    def resume(self, places: Collection[PlaceLike]) -> "Future[None]":
        named = [self.place(each) for each in places] if places else self.places()
        return self.desk.order(lambda: self.engine.partitions.resume(named))

    def paused(self) -> "Future[list[TopicPartition]]":
        return self.desk.order(
            lambda: [self.plan.outside(each) for each in self.engine.partitions.paused]
        )

    # -- where it stands

    def places(self) -> list[Place]:
        with self.desk.lock:
            return self.desk.ledger.places

    def finished(self) -> dict[Place, int]:
        self.engine.check()
        with self.desk.lock:
            self.desk.settle()
            return self.desk.ledger.finished()

    def known_position(self, place: Place) -> int | None:
        self.engine.check()
        with self.desk.lock:
            self.desk.settle()
            return self.desk.ledger.position(place)

    def ask_position(self, place: Place, timeout_s: float) -> "Future[int | None]":
        """Where a partition will begin of which nothing was read yet."""

        def ask(rdkafka: Any, left_s: float) -> int | None:
            if self.plan.group is not None:
                offset = committed_offsets(rdkafka, [place], left_s)[place]
                if offset is not None:
                    return offset
            position = self._reset_position()
            if position is None:
                return None
            return resolve(rdkafka, {place: position}, left_s)[place]

        return self.engine.ask(ask, timeout_s)

    def committed(
        self, places: Collection[PlaceLike], timeout_s: float
    ) -> "Future[dict[TopicPartition, int | None]]":
        if self.plan.group is None:
            raise without_group()
        named = [self.place(each) for each in places] if places else self.places()
        return self.engine.ask(
            lambda rdkafka, left_s: self._outside(committed_offsets(rdkafka, named, left_s)),
            timeout_s,
        )

    def ends(self, places: Collection[Place], timeout_s: float) -> "Future[dict[Place, int]]":
        asked = dict.fromkeys(places, LATEST)
        return self.engine.ask(
            lambda rdkafka, left_s: offsets_at(rdkafka, asked, left_s), timeout_s
        )

    def starts(self, places: Collection[Place], timeout_s: float) -> "Future[dict[Place, int]]":
        asked = dict.fromkeys(places, EARLIEST)
        return self.engine.ask(
            lambda rdkafka, left_s: offsets_at(rdkafka, asked, left_s), timeout_s
        )

    def offsets_for_times(
        self, moments: Mapping[TopicPartition, datetime | int], timeout_s: float
    ) -> "Future[dict[TopicPartition, int | None]]":
        asked = {
            self.place(place): milliseconds(at) if isinstance(at, datetime) else at
            for place, at in moments.items()
        }
        return self.engine.ask(
            lambda rdkafka, left_s: self._outside(first_offsets_after(rdkafka, asked, left_s)),
            timeout_s,
        )

    def lag(self, ends: Mapping[Place, int]) -> dict[TopicPartition, int]:
        """Records that are not read yet, of partitions whose position is known."""
        with self.desk.lock:
            self.desk.settle()
            stand = {place: self.desk.ledger.position(place) for place in ends}
        return {
            self.plan.outside(place): max(0, ends[place] - at)
            for place, at in stand.items()
            if at is not None
        }

    # -- commits

    def finish_of(self, caller: object) -> None:
        """What the caller has in hand is done, as he says by committing."""
        with self.desk.lock:
            self.desk.settle()  # what a loop has left is in nobody's hand
            for work in self.desk.ledger.in_hand:
                if work.owner is caller and not work.one_by_one and work.failure is None:
                    self.desk.finish(work)

    def to_commit(self, said: Committable) -> dict[Place, int]:
        """What was said, as offsets. What is committed by name counts as finished."""
        if self.plan.group is None:
            raise without_group()
        if said is None:
            return self.finished()
        if isinstance(said, Record):
            self.reader.finish(said)
            return {self.place(said): said.offset + 1}
        if isinstance(said, Records):
            said.check()
            self.desk.finish(said.work)
            return {at: each + 1 for at, each in last_offsets(said.work.messages).items()}
        return {self.place(at): offset for at, offset in said.items()}

    def commit(self, offsets: Mapping[Place, int], timeout_s: float) -> "Future[None]":
        future: Future[None] = Future()
        if not offsets:
            future.set_result(None)
            return future
        engine = self.engine
        order = self.desk.order(
            lambda: engine.committing.request(engine.rdkafka, offsets, timeout_s, future)
        )
        hand_on(order, future)
        return future

    def leave_to_transactions(
        self,
        caller: object,
        taker: object,
        said: Mapping[TopicPartition, int] | None,
        of_records: bool,
    ) -> dict[Place, int]:
        """Nothing is committed by the clock any more; what a transaction of the caller may take.
        Raises if what he has worked on is no more his, or if it cannot be told what is."""
        if self.plan.group is None:
            raise without_group()
        self.engine.check()
        offsets = None if said is None else {self.place(at): each for at, each in said.items()}
        with self.desk.lock:
            self.desk.settle()
            ledger = self.desk.ledger
            ledger.left_to_transactions = True
            self._check_kept(ledger.parted(caller), offsets or {}, of_records)
            if offsets is None:
                if ledger.is_with_others(caller):
                    raise _not_known()
                offsets = ledger.finished(caller)
                if not ledger.covers(offsets, caller):
                    raise _held_back()
            for place in offsets:
                if self._takers.get(place, taker) is not taker:
                    raise _taken_already(self.plan.outside(place))
            self._takers.update(dict.fromkeys(offsets, taker))
            return offsets

    def _check_kept(
        self, parted: Work[Any] | None, named: Mapping[Place, int], of_records: bool
    ) -> None:
        """With the lock held. What another member may have read must not be written twice. Offsets
        as such may say again what the group has: then nothing is taken back."""
        if parted is not None and parted.failure is not None:
            raise parted.failure
        ledger = self.desk.ledger
        more = 0 if of_records else 1
        lost = [place for place, offset in named.items() if ledger.is_stale(place, offset + more)]
        if parted is not None:
            lost += parted.firsts()
        if lost:
            place = self.plan.outside(lost[0])
            raise PartitionsRevoked(f"{place} went to another member while it was worked on")

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int]) -> None:
        committed = {self.place(at): offset for at, offset in offsets.items()}
        with self.desk.lock:
            self.desk.settle()
            for place in [each for each, its in self._takers.items() if its is taker]:
                del self._takers[place]
            self.desk.ledger.note(committed)
            self.desk.ledger.finish_below(committed)
        self.desk.notify()

    def group_metadata(self) -> object:
        """librdkafka's own; for transactions. Blocks for the moment that a poll may take."""
        if self.plan.group is None:
            raise without_group()
        self.check()
        if not self.engine.opened.done():
            raise ClientError(
                "the consumer is not a member of its group yet", next_step="Read with it first"
            )
        self._await_commits()
        order = self.desk.order(self.engine.rdkafka.consumer_group_metadata)
        return order.result(self.plan.api_timeout_s)

    def _await_commits(self) -> None:
        """A commit by the clock that is under way could arrive after the transaction's. While a
        callback runs there is no poll that would bring its answer."""
        limit_s = self.plan.api_timeout_s
        until = time.monotonic() + limit_s
        committing, polling_thread = self.engine.committing, self.desk.polling_thread

        def is_awaited() -> bool:
            return committing.expects_answers and not committing.no_poll_comes

        while threading.get_ident() != polling_thread:
            if not self.desk.order(is_awaited).result(limit_s):
                return
            if time.monotonic() > until:
                raise TimedOut("the group has not answered the commit before this transaction")
            time.sleep(COMMIT_LOOK_S)

    def outside(self, offsets: Mapping[Place, int]) -> dict[TopicPartition, int]:
        return {self.plan.outside(place): offset for place, offset in offsets.items()}

    def _outside(self, offsets: Mapping[Place, int | None]) -> dict[TopicPartition, int | None]:
        return {self.plan.outside(place): offset for place, offset in offsets.items()}


def _not_known() -> ClientError:
    return ClientError(
        "records are in the hands of others than the caller, so it is not known what this "
        "transaction is about",
        next_step="Call it where the records are read, or name them: send_offsets(consumer, batch);"
        " or consumer.finished_offsets()",
    )


def _held_back() -> ClientError:
    return ClientError(
        "what the caller has in hand comes after records that others still work on, so it cannot "
        "be committed alone",
        next_step="Read with one loop per consumer where transactions commit its offsets",
    )


def _taken_already(place: TopicPartition) -> ClientError:
    return ClientError(
        f"another transaction has taken offsets of {place} and has not ended: nobody knows which "
        "of the two ends first",
        next_step="Read with one loop per consumer where transactions commit its offsets",
    )


def _topics(options: ConsumerOptions) -> list[str]:
    """The topics that are named, as they were said."""
    named = options.get("topics") or ()
    places = options.get("assign") or {}
    return [*named, *(topic for topic, _ in places)]
