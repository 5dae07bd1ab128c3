"""librdkafka's consumer behind one polling thread.

One run of the thread: serve requests, commit if due, check bodies that take too long, fetch what
fits into the buffer; without messages, rest. While the application does not read, partitions are
paused and polling goes on, so that the group keeps the member. librdkafka's binding lets in one
thread at a time, for the time of a poll. So only the owner of the poll calls it
(poll_ownership.py), and no poll lasts long.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client.consumer.assignment.partitions import Partitions
from penstock.client.consumer.assignment.rebalance import Rebalancer
from penstock.client.consumer.assignment.resolved_config import ResolvedConfig, Subscription
from penstock.client.consumer.engine.app_adapter import AppAdapter
from penstock.client.consumer.engine.error_policy import (
    ErrorAction,
    PartitionWithoutOffset,
    action_for,
    fatal_cause,
)
from penstock.client.consumer.engine.poll_ownership import READER_PATIENCE_S
from penstock.client.consumer.engine.shared_state import Fetched, SharedState
from penstock.client.consumer.offsets.committing import OffsetCommitter, PollInterrupted
from penstock.client.consumer.offsets.offset_lookup import offsets_at
from penstock.client.consumer.offsets.offset_tracker import PartitionKey, place_of
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
from penstock.client.runtime.dedup_logger import DedupLogger
from penstock.client.runtime.forks import leave_alone, register
from penstock.client.runtime.protocol_probe import ProtocolProbe, no_listener

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import KafkaException

T = TypeVar("T")

log = logging.getLogger("penstock.client.consumer")

# The longest poll of librdkafka, and the longest rest between two polls.
REST_SECONDS = 0.05
# The same for BUSY_SECONDS after a request: more requests may follow.
REST_SECONDS_BUSY = 0.005
BUSY_SECONDS = 1.0
# The longest wait for a body that was told to end.
IDLE_SECONDS = 1.0
# The first time limit of a question to the brokers, which holds up polling.
FIRST_PATIENCE_S = 1.0
ASK_AGAIN_S = 0.1
# Partitions are paused after the buffer was full for so long.
ROOM_PATIENCE_S = 0.25
# The binding's limit.
CONSUME_MAX = 1_000_000
# An approximate bound on the bytes of unread messages.
UNREAD_BYTES_MAX = 64 * 1024 * 1024
SIZES_LOOKED_AT = 16
# The extra time of a cancelled body; after it polling stops until the body ends.
CANCEL_PATIENCE_S = 5.0
# The part of a close's time for the last commit and leaving the group.
CLOSE_MARGIN_S = 1.0


class ConsumerEngine:
    """The engine of one consumer, for both faces."""

    def __init__(self, config: ResolvedConfig, adapter: AppAdapter) -> None:
        self.config = config
        self.shared = SharedState(2 * config.poll_records_max, readers_poll=config.readers_poll)
        self.opened: Future[None] = Future()
        self.ended: Future[None] = Future()
        self.started = False
        self.forked_off = False
        self.committer = OffsetCommitter(config, self.shared)
        self._adapter = adapter
        self._closing_until = 0.0
        # Why brokers reject this client, until the next answer.
        self._refusal: Exception | None = None
        self._dedup_logger = DedupLogger(log)
        self._probe = ProtocolProbe(
            config.rdkafka, log, self._dedup_logger, self._on_wrong_protocol
        )
        self._average_bytes = 1
        self._error_of: Callable[[Fetched], object] = methodcaller("error")
        self._failed: type[KafkaException] = ()  # type: ignore[assignment]  # until it is opened
        # Whether the application or the group chooses the partitions.
        self._by_name = self._by_group = False
        # Made by the polling thread; other threads use them through requests.
        self.rdkafka: RdkafkaConsumer = None  # type: ignore[assignment]  # until it is opened
        self.partitions: Partitions = None  # type: ignore[assignment]
        self._rebalancer: Rebalancer = None  # type: ignore[assignment]

    # -- from other threads

    def start(self) -> None:
        """Start the polling thread; `opened` has the result."""
        self.check()
        assert not self.started, "an engine runs once"
        self.started = True
        register(self)
        threading.Thread(target=self._run, name="penstock-consumer", daemon=True).start()

    def check(self) -> None:
        """Raise in the child of a fork, which has neither the threads nor valid locks."""
        if self.forked_off:
            raise UsedAfterFork()

    def ask(
        self, question: "Callable[[RdkafkaConsumer, float], T]", timeout_s: float
    ) -> "Future[T]":
        """Ask the brokers. A question holds up polling, so its first limit is short and later ones
        are longer, with polls in between."""
        future: Future[T] = Future()
        until = time.monotonic() + timeout_s

        def attempt(patience_s: float, *, again: bool = True) -> None:
            if self._refusal is not None and again:
                raise self._refusal  # asking again does not help
            left_s = until - time.monotonic()
            try:
                answer = question(self.rdkafka, max(0.0, min(patience_s, left_s)))
            except Exception as error:
                if not is_retriable(error) or time.monotonic() + ASK_AGAIN_S > until:
                    raise
                self.check_listener()
                # Questions to a cluster that never answered stay short: they hold up a close.
                longer_s = 2 * patience_s if self._dedup_logger.knows_nodes else patience_s
                forward_failure(
                    self.shared.submit_later(ASK_AGAIN_S, lambda: attempt(longer_s)), future
                )
            else:
                self._refusal = None
                with contextlib.suppress(InvalidStateError):  # the caller waits no longer
                    future.set_result(answer)

        forward_failure(self.shared.submit(lambda: attempt(FIRST_PATIENCE_S, again=False)), future)
        return future

    def close(self, timeout_s: float) -> None:
        """Begin the end; `ended` comes with it. Bodies get most of the time."""
        if not self.shared.stopping:
            self._closing_until = time.monotonic() + timeout_s
            self.shared.stop()

    def abandon(self) -> None:
        """End a consumer that was never closed. Takes no lock: garbage collection may call it."""
        if self.started and not self.forked_off:
            self.shared.stopping = True

    def forked(self) -> None:
        self.forked_off = True
        if self.rdkafka is not None:
            leave_alone(self.rdkafka)

    # -- the thread

    def _run(self) -> None:
        self.shared.polling_thread = threading.get_ident()
        try:
            self._open()
        except BaseException as error:
            self.shared.stop()
            self._end()
            self.opened.set_exception(error)
            return
        self.opened.set_result(None)
        try:
            while not self.shared.stopping:
                if self._reader_polls:
                    self.shared.rest(READER_PATIENCE_S)
                with self.shared.ownership.lock:
                    self._run_once()
                self.shared.wake()
        except BaseException as error:
            log.exception("the consumer's polling failed; it is closed")
            failure = ClientError("the consumer's polling failed", next_step="See the log for why")
            failure.__cause__ = error
            self.shared.fail(failure, fatal=True)
        finally:
            with self.shared.ownership.lock:  # and no reader owns the poll after that
                self._close()

    def _open(self) -> None:
        from confluent_kafka import Consumer as RdkafkaConsumer
        from confluent_kafka import KafkaException, Message

        self._error_of = Message.error  # four times as fast as a call by name
        self._failed = KafkaException
        wanted: dict[str, Any] = dict(self.config.rdkafka)
        wanted.setdefault("error_cb", self._on_error)
        wanted["on_commit"] = self.committer.on_commit
        try:
            self.rdkafka = RdkafkaConsumer(wanted, logger=self._dedup_logger)
        except KafkaException as error:
            raise from_rdkafka(error, about="the consumer cannot be made") from error
        self.partitions = Partitions(self.config, self.shared, self.rdkafka, self.committer)
        self._rebalancer = Rebalancer(
            self.config, self.shared, self._adapter, self.partitions, self.committer
        )

    @property
    def _reader_polls(self) -> bool:
        """Return whether a reader polls often enough, so that the polling thread may rest."""
        needed = self.shared.is_awaited or self.committer.expects_answers
        return self.shared.ownership.has_reader and not needed

    def _run_once(self) -> None:
        self._rebalancer.assign_partitions()
        self.shared.serve_requests()
        if self.shared.fatal is not None:
            # Only the loss of the partitions is still to be reported.
            self.shared.rest(REST_SECONDS)
            with contextlib.suppress(self._failed):
                self.rdkafka.consume(1, 0)
            return
        now = time.monotonic()
        self.committer.commit_if_due(self.rdkafka, now)
        if self._is_body_stuck(now) or self._reader_polls:
            return
        self._fetch_and_enqueue(self._fetch)
        if self.shared.frozen:
            self.shared.unfreeze()

    def _fetch_and_enqueue(self, fetch: Callable[[], list[Fetched]]) -> bool:
        """Fetch and enqueue messages. Return whether some arrived."""
        self._rebalancer.revoked_in_poll.clear()
        self.shared.ownership.polled_at = time.monotonic()
        try:
            messages = fetch()
        except self._failed as error:
            failure = from_rdkafka(error)
            log.error("%s", failure)
            self.shared.fail(failure, fatal=bool(error.args[0].fatal()))
            return False
        if messages:
            self._on_messages(messages)
        return bool(messages)

    # -- from a reader's thread

    def poll_on_reader(self, count: int) -> bool:
        """Poll librdkafka on the reader's thread. Return whether `count` records are unread now; if
        not, the reader waits for the polling thread."""
        tracker = self.shared.tracker
        while (missing := count - tracker.unread) > 0:
            if not self._poll_on_reader(missing):
                return False
        return not self.shared.frozen

    def _poll_on_reader(self, missing: int) -> bool:
        shared, rebalancer = self.shared, self._rebalancer
        try:
            if shared.is_busy or not shared.ownership.take():
                return False
            room = min(max(missing, self.config.poll_records_max), self._room(), CONSUME_MAX)
            # Asked again: the polling thread may have changed the answer before this thread's turn.
            if shared.is_busy or self.partitions.held or rebalancer.assigned_by_reader or room <= 0:
                return False
            rebalancer.by_reader = True
            return self._fetch_and_enqueue(lambda: self.rdkafka.consume(room, 0))
        except BaseException as error:
            # A signal handler that raises makes librdkafka's binding drop the fetched messages. A
            # later commit would pass over them, so fetch again from the first unread offset.
            shared.submit(self.partitions.rewind)
            if isinstance(error, SystemError):  # the binding lost the handler's exception
                raise KeyboardInterrupt from error
            raise
        finally:
            rebalancer.by_reader = False
            shared.ownership.give_back()
            shared.wake()

    def subscribe(
        self, subscription: Subscription, starts: Mapping[PartitionKey, int | None]
    ) -> None:
        """Replace the subscription, on the polling thread. Named partitions are given up first; the
        group's partitions are revoked by librdkafka."""
        from confluent_kafka import KafkaException

        rebalancer = self._rebalancer
        if subscription.places and self._by_group:
            raise ClientError(
                "the group decides what this consumer reads",
                next_step="unsubscribe() before you assign()",
            )
        if self._by_name:
            places = self.shared.places
            until = time.monotonic() + self.config.revoke_timeout_s
            rebalancer.revoke(self.rdkafka, places, until)
            self.partitions.unassign(places, incrementally=False)
            self._by_name = False
        try:
            if subscription.places:
                self.partitions.assign_partitions(starts, replacing=True)
                self._by_name = True
            elif subscription:
                self.rdkafka.subscribe(
                    list(subscription.topics) or [str(subscription.pattern)],
                    on_assign=rebalancer.on_assign,
                    on_revoke=rebalancer.on_revoke,
                    on_lost=rebalancer.on_lost,
                )
                self._by_group = True
            else:
                self.rdkafka.unsubscribe()
                self._by_group = False
        except KafkaException as error:
            said = f"to the pattern {subscription.pattern!r} " if subscription.pattern else ""
            raise from_rdkafka(error, about=f"the subscription {said}was not taken") from error

    # -- fetching

    def _fetch(self) -> list[Fetched]:
        room = self._room()
        if self.partitions.held:
            if room * 2 < self.shared.unread_max:
                room = 1
            else:
                self.partitions.release()
        if room <= 0:
            return self._wait_for_room()
        return self._consume(room) or self._rest()

    def _room(self) -> int:
        self._bound()
        return self.shared.unread_max - self.shared.tracker.unread

    def _bound(self) -> None:
        """Bound the buffer by the wanted number of messages and by their bytes."""
        affordable = max(1, UNREAD_BYTES_MAX // self._average_bytes)
        self.shared.unread_max = min(self.shared.wanted_max, affordable)

    def _consume(self, room: int) -> list[Fetched]:
        """Fetch no more at once than a reader takes at once: large fetches start the garbage
        collector."""
        return self.rdkafka.consume(min(room, self.shared.wanted_max // 2, CONSUME_MAX), 0)

    def _wait_for_room(self) -> list[Fetched]:
        """Wait until half of the buffer is free, and fetch. If nothing is free in time, pause the
        partitions."""
        self.shared.wants_room = True
        until = time.monotonic() + ROOM_PATIENCE_S
        half = self.shared.unread_max // 2
        tracker = self.shared.tracker
        made = self.shared.wait_until(lambda: tracker.unread <= half, until, stop_early=True)
        self.shared.wants_room = False
        if not made and not self.shared.stopping:
            room = self._room()
            if room > 0:
                return self._consume(room)
            self.partitions.hold()
        return []

    def _rest(self) -> list[Fetched]:
        """Wait for a message if a reader waits or a commit is in flight; else for a request."""
        self.partitions.catch_up()
        if not (self.shared.is_awaited or self.committer.expects_answers):
            self.shared.rest(REST_SECONDS)
            return []
        if self.shared.stopping:
            return []
        busy = time.monotonic() - self.shared.requested_at < BUSY_SECONDS
        self.committer.in_poll = True
        try:
            message = self.rdkafka.poll(REST_SECONDS_BUSY if busy else REST_SECONDS)
        except PollInterrupted:
            return []
        finally:
            self.committer.in_poll = False
        return [] if message is None else [message]

    # -- fetched messages

    def _on_messages(self, messages: list[Fetched]) -> None:
        revoked_in_poll = self._rebalancer.revoked_in_poll
        if revoked_in_poll:  # one poll may bring messages from before a rebalance
            messages = [message for message in messages if place_of(message) not in revoked_in_poll]
        ends: dict[PartitionKey, int] = {}
        if any(map(self._error_of, messages)):
            messages = self._without_errors(messages, ends)
        if messages:
            self._refusal, self._probe.has_worked = None, True
            sample = messages[:: max(1, len(messages) // SIZES_LOOKED_AT)]
            self._average_bytes = max(1, sum(map(len, sample)) // len(sample))
            self._bound()
            self.shared.enqueue(messages, self.partitions.ends(messages, ends))
        elif ends:
            self.partitions.reached(ends)
        if revoked_in_poll:
            self._restart_reassigned(revoked_in_poll)

    def _restart_reassigned(self, revoked_in_poll: list[PartitionKey]) -> None:
        """Restart partitions revoked and assigned within one poll: their old and new messages look
        alike, so all were dropped."""
        with self.shared.lock:
            back = [place for place in revoked_in_poll if self.shared.tracker.owns(place)]
        if back:
            self.partitions.restart(dict.fromkeys(back))

    def _without_errors(
        self, messages: list[Fetched], ends: dict[PartitionKey, int]
    ) -> list[Fetched]:
        """Return the messages without errors; add reached partition ends to `ends`."""
        missing: dict[PartitionKey, RdkafkaError] = {}
        for message in messages:
            error = message.error()
            if error is None:
                continue
            match action_for(error, has_group=self.config.group is not None):
                case ErrorAction.END_REACHED:
                    ends[place_of(message)] = message.offset()
                case ErrorAction.NO_OFFSET:
                    missing[place_of(message)] = error
                case ErrorAction.RAISED:
                    failure = from_rdkafka(fatal_cause(error))
                    self.shared.fail(failure, fatal=is_fatal(failure))
                case ErrorAction.LOGGED:
                    log.warning("%s", from_rdkafka(error))
                case ErrorAction.NOTHING:
                    pass
        if missing:
            self._reset_offsets(missing)
        return [message for message in messages if message.error() is None]

    def _reset_offsets(self, reports: "Mapping[PartitionKey, RdkafkaError]") -> None:
        """Handle partitions without a valid offset, which librdkafka stops reading.

        With auto.offset.reset=none the application gets an error; with by_duration the partition
        starts at the first offset of that time.
        """
        match self.config.offset_reset:
            case ("by_duration", int(duration_ms)):
                moment_ms = max(0, int(time.time() * 1000) - duration_ms)
                moments = dict.fromkeys(reports, moment_ms)
                self.ask(
                    lambda rdkafka, left_s: offsets_at(rdkafka, moments, left_s),
                    self.config.api_timeout_s,
                ).add_done_callback(self._start_at)
            case _:
                for place, error in reports.items():
                    outside = self.config.without_namespace(place)
                    self.shared.fail(PartitionWithoutOffset(outside, error.str()))

    def _start_at(self, answer: "Future[dict[PartitionKey, int]]") -> None:
        """Start partitions at the offsets of an answer."""
        error = None if answer.cancelled() else answer.exception()
        if isinstance(error, Exception):
            log.warning("the offset lookup of auto.offset.reset=by_duration failed: %s", error)
            self.shared.fail(error)
        elif not answer.cancelled():
            self.shared.submit(lambda: self._move_owned(answer.result()))

    def _move_owned(self, offsets: Mapping[PartitionKey, int]) -> None:
        with self.shared.lock:
            owned = {at: each for at, each in offsets.items() if self.shared.tracker.owns(at)}
        self.partitions.move(owned, moved=False)

    def _on_error(self, error: "RdkafkaError") -> None:
        """Handle librdkafka's connection errors, on the thread that polls."""
        if is_refusal(error):
            self._refusal = from_rdkafka(error)
            self.shared.fail(self._refusal)
        else:  # librdkafka logs it as well
            log.debug("%s", error.str())
            self._probe.heard(error)

    @property
    def unreachable(self) -> str:
        """Return a sentence about the last failed connection; empty once the cluster has
        answered."""
        return "" if self._probe.has_worked else self._dedup_logger.unreachable

    def check_listener(self) -> None:
        """Raise AllBrokersDown if no broker has ever answered, and all bootstrap addresses refuse
        connections. Blocks for the network."""
        if self.unreachable and not self._dedup_logger.knows_nodes:
            absent = no_listener(str(self.config.rdkafka.get("bootstrap.servers", "")))
            if absent is not None:
                raise absent

    def first_wait_s(self, limit_s: float) -> float:
        """Return how long a call waits until it looks for a listener."""
        return limit_s if self._probe.has_worked else min(limit_s, FIRST_PATIENCE_S)

    def _on_wrong_protocol(self, wrong: WrongProtocol) -> None:
        self._refusal = wrong
        self.shared.fail(wrong)

    # -- bodies that take too long

    def _is_body_stuck(self, now: float) -> bool:
        """Return whether polling must stop: a cancelled body has not ended. The group removes the
        member after max.poll.interval.ms, and other members go on with its partitions."""
        if self.config.manual_finish:
            return False
        limit_s = self.config.handler_timeout_s
        with self.shared.lock:
            self.shared.return_abandoned()
            late = self.shared.tracker.started_before(now - limit_s)
            cancelled = [work for work in late if work.failure is None]
            for work in cancelled:
                place, offset = next(iter(work.firsts().items()))
                work.failure = HandlerTimedOut(
                    f"the body took longer than handler.timeout.ms ({limit_s * 1000:.0f}) for the "
                    f"record of {self.config.without_namespace(place)} at offset {offset}; "
                    "it is not committed"
                )
        for work in cancelled:
            log.warning("%s", work.failure)
            self._adapter.cancel(work)
        stuck = [work for work in late if now - work.since > limit_s + CANCEL_PATIENCE_S]
        if not stuck:
            return False
        # Until the next poll the partitions may belong to another member.
        self.shared.frozen = True
        tracker = self.shared.tracker
        self.shared.wait_until(
            lambda: not any(map(tracker.holds, stuck)), now + IDLE_SECONDS, stop_early=True
        )
        return True

    # -- the end

    def _close(self) -> None:
        if not self._closing_until:  # never closed, or failed
            self._closing_until = time.monotonic() + CLOSE_MARGIN_S
        try:
            self._rebalancer.assign_partitions()
            until = min(
                time.monotonic() + self.config.revoke_timeout_s,
                max(time.monotonic(), self._closing_until - CLOSE_MARGIN_S),
            )
            if self.shared.fatal is None:
                # A body may wait for the answer, and `revoke` for the body.
                self.committer.drain_commits(self.rdkafka, until, requested=True)
            with self.shared.lock:
                self.shared.return_abandoned()
                places = self.shared.tracker.places
            if places and self.shared.fatal is not None:
                self._rebalancer.lose(places)
            elif places:
                self._rebalancer.revoke(self.rdkafka, places, until, self._closing_until)
        except BaseException:
            log.exception("the consumer closed without revoking its partitions in order")
        self._rebalancer.closing = True
        try:
            self.committer.drain_commits(self.rdkafka, self._closing_until)
            self.rdkafka.close()
        except BaseException as error:
            log.warning("librdkafka's consumer did not close in order: %s", error)
        self._end()

    def _end(self) -> None:
        self._probe.end()
        self.committer.end()
        self.shared.reject_requests()
        self.ended.set_result(None)


def forward_failure(order: "Future[None]", future: "Future[Any]") -> None:
    """Pass the failure of a request on to the future of its answer."""

    def refused(done: "Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            with contextlib.suppress(InvalidStateError):  # already done
                future.set_exception(error)

    order.add_done_callback(refused)
