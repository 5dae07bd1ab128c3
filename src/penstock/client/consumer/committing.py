"""Finished offsets on their way to the group: by the clock, before partitions go, and on request.

Commits are sent and not waited for: librdkafka reports to `answered` at a later poll, and does not
let partitions go before it has. Only inside its callbacks, where no poll can come, a commit on
request blocks. What fails by the clock is still unfinished business and is sent again.
"""

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.consumer.desk import Desk
from penstock.client.consumer.ledger import Place
from penstock.client.consumer.plan import Plan
from penstock.client.failures import ClientClosed, ClientError, from_rdkafka, is_retriable
from penstock.errors import IllegalGeneration, RebalanceInProgress, StaleMemberEpoch

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import TopicPartition as RdkafkaPlace

log = logging.getLogger("penstock.client.consumer")

COMMIT_RETRY_S = 0.1
# Nothing is heard of a commit by the clock for so long: another may be sent.
ANSWER_PATIENCE_S = 60.0


class PollOver(Exception):
    """Raised from librdkafka's callbacks while the polling thread rests in poll(), which then comes
    back at once: whoever waited for an answer may have more to ask for, and what comes after a
    rebalance is not mixed with what came before. A poll for one message has none when it is left
    so; one for many would lose them."""


@dataclass(slots=True, eq=False)
class Pending:
    """A commit under way, or one that waits to be sent again."""

    offsets: Mapping[Place, int]
    # Who waits for it, and until when it may be tried again; nobody does for one by the clock.
    future: "Future[None] | None" = None
    until: float = 0.0
    sent_at: float | None = None
    again_at: float = 0.0
    failure: Exception | None = None


class Committing:
    """Of one consumer; used by whoever has its wheel."""

    def __init__(self, plan: Plan, desk: Desk) -> None:
        self._plan = plan
        self._desk = desk
        self._next_at = time.monotonic() + plan.commit_interval_s
        self._pending: list[Pending] = []
        # The polling thread rests in poll().
        self.at_rest = False
        # The polling thread is in a callback of librdkafka's, or it parts with partitions: nothing
        # can be reported meanwhile.
        self.no_poll_comes = False

    @property
    def expects_answers(self) -> bool:
        return any(each.sent_at is not None for each in self._pending)

    def concerns(self, places: Collection[Place]) -> bool:
        """Whether a commit of these is under way."""
        return any(place in pending.offsets for pending in self._pending for place in places)

    # -- by the clock

    def keep_time(self, rdkafka: "RdkafkaConsumer", now: float) -> None:
        """Send what is due, if it is time."""
        self._send_again(rdkafka, now)
        if not self._plan.auto_commit or now < self._next_at:
            return
        if any(now - (each.sent_at or now) < ANSWER_PATIENCE_S for each in self._pending):
            return  # two under way could arrive in the wrong order
        self._next_at = now + self._plan.commit_interval_s
        with self._desk.lock:
            self._desk.settle()
            offsets = self._desk.ledger.due()
        self._begin(rdkafka, Pending(offsets))

    def _send_again(self, rdkafka: "RdkafkaConsumer", now: float) -> None:
        for pending in list(self._pending):
            if pending.sent_at is not None or now < pending.again_at:
                continue
            with self._desk.lock:
                owned = all(map(self._desk.ledger.owns, pending.offsets))
            if owned or not isinstance(pending.failure, _REBALANCING):
                self._send(rdkafka, pending)
            else:  # the new owner may have committed more
                pending.until = now
                self._settle(pending, pending.failure)

    def before_parting(
        self, rdkafka: "RdkafkaConsumer", places: Collection[Place], until: float = 0.0
    ) -> None:
        """Send what is due of partitions that are about to go; it may be tried until a time."""
        if self._plan.auto_commit:
            with self._desk.lock:
                self._desk.settle()
                due = self._desk.ledger.due()
            offsets = {place: due[place] for place in places if place in due}
            self._begin(rdkafka, Pending(offsets, until=until))

    def await_answers(
        self, rdkafka: "RdkafkaConsumer", until: float, *, requested: bool = False
    ) -> None:
        """At the end: see whether all was committed, or only what somebody waits for. A rebalance
        may be in the way, and pass."""
        while any(each.future is not None or not requested for each in self._pending):
            if (now := time.monotonic()) >= until:
                return
            self._send_again(rdkafka, now)
            self.at_rest = True
            try:
                rdkafka.poll(min(COMMIT_RETRY_S, until - now))
            except PollOver:
                continue
            finally:
                self.at_rest = False

    # -- on request

    def request(
        self,
        rdkafka: "RdkafkaConsumer",
        offsets: Mapping[Place, int],
        timeout_s: float,
        future: "Future[None]",
    ) -> None:
        """Commit these; the future brings the group's answer."""
        if self.no_poll_comes:
            _answer(future, self._commit_now(rdkafka, offsets))
        else:
            self._begin(rdkafka, Pending(offsets, future, time.monotonic() + timeout_s))

    def insist(self, rdkafka: "RdkafkaConsumer") -> None:
        """Before a wait in which no poll comes: who waits for a commit is answered now. He may be
        the one who is waited for. What is under way is sent once more, the newest of all."""
        asked = [each for each in self._pending if each.future is not None]
        if not asked:
            return
        newest: dict[Place, int] = {}
        for pending in asked:
            newest.update(pending.offsets)
            self._pending.remove(pending)
        failure = self._commit_now(rdkafka, newest)
        for pending in asked:
            assert pending.future is not None, "somebody waits for it"
            _answer(pending.future, failure)

    def _begin(self, rdkafka: "RdkafkaConsumer", pending: Pending) -> None:
        if pending.offsets:
            self._pending.append(pending)
            self._send(rdkafka, pending)

    def _send(self, rdkafka: "RdkafkaConsumer", pending: Pending) -> None:
        from confluent_kafka import KafkaException

        try:
            rdkafka.commit(offsets=rdkafka_places(pending.offsets), asynchronous=True)
            pending.sent_at = time.monotonic()
        except KafkaException as error:
            self._settle(pending, from_rdkafka(error, about=_NOT_COMMITTED))

    def _commit_now(
        self, rdkafka: "RdkafkaConsumer", offsets: Mapping[Place, int]
    ) -> Exception | None:
        """Send it and wait for the answer: blocks."""
        from confluent_kafka import KafkaException

        failure: Exception | None
        try:
            answer = rdkafka.commit(offsets=rdkafka_places(offsets), asynchronous=False)
            failure = self._failure(None, answer or [])
        except KafkaException as error:
            failure = from_rdkafka(error, about=_NOT_COMMITTED)
        if failure is None:
            self._note(offsets)
        return failure

    # -- answers

    def answered(self, error: "RdkafkaError | None", places: "list[RdkafkaPlace]") -> None:
        """librdkafka's callback, inside a poll."""
        offsets = {(each.topic, each.partition): each.offset for each in places}
        pending = next(
            (each for each in self._pending if each.sent_at and each.offsets == offsets), None
        )
        if pending is None:
            return
        failure = self._failure(error, places)
        if failure is None:
            self._note(offsets)
        self._settle(pending, failure)
        self.end_rest()

    def end_rest(self) -> None:
        """The last thing that a callback does."""
        if self.at_rest:
            raise PollOver

    def _failure(
        self, error: "RdkafkaError | None", places: "list[RdkafkaPlace]"
    ) -> Exception | None:
        if error is not None:
            return from_rdkafka(error, about=_NOT_COMMITTED)
        for each in places:
            if each.error:
                place = self._plan.outside((each.topic, each.partition))
                return from_rdkafka(each.error, about=f"the offset of {place} was not committed")
        return None

    def _settle(self, pending: Pending, failure: Exception | None) -> None:
        again_at = time.monotonic() + COMMIT_RETRY_S
        if failure is not None and again_at < pending.until and _may_succeed(failure):
            pending.sent_at, pending.again_at, pending.failure = None, again_at, failure
            return
        if pending in self._pending:
            self._pending.remove(pending)
        if pending.future is not None:
            _answer(pending.future, failure)
        elif failure is not None:
            log.warning("%s", failure)

    def _note(self, offsets: Mapping[Place, int]) -> None:
        with self._desk.lock:
            self._desk.ledger.note(offsets)
        if self._desk.wants_news:
            self._desk.news.append(offsets)

    def end(self) -> None:
        """Nothing will be answered any more."""
        pending, self._pending = self._pending, []
        for each in pending:
            if each.future is not None:
                _answer(each.future, ClientClosed("the consumer was closed during the commit"))
            else:
                log.warning("finished offsets may not be committed: the consumer was closed first")


_NOT_COMMITTED = "offsets were not committed"
# The group is between two generations; members that keep their partitions may commit soon.
_REBALANCING = (RebalanceInProgress, IllegalGeneration)


def _may_succeed(failure: Exception) -> bool:
    """Later: the member's new epoch or generation is on its way, or the coordinator is."""
    return isinstance(failure, (StaleMemberEpoch, *_REBALANCING)) or is_retriable(failure)


def _answer(future: "Future[None]", failure: Exception | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


def rdkafka_places(offsets: Mapping[Place, int]) -> "list[RdkafkaPlace]":
    """Partitions with offsets, in librdkafka's words."""
    from confluent_kafka import TopicPartition as RdkafkaPlace

    return [RdkafkaPlace(topic, partition, at) for (topic, partition), at in offsets.items()]


def without_group() -> ClientError:
    return ClientError(
        "this consumer has no group, so there is nobody to commit to",
        next_step="Say group=..., or keep the offsets yourself and seek",
    )
