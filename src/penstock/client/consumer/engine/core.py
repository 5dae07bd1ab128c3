"""The common inside of both consumers: configuration, engine, converter, transactions.

operations.py has the operations that wait for a broker or for the polling thread.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from penstock.client.consumer.assignment.resolved_config import (
    Callbacks,
    PlaceLike,
    resolve_config,
)
from penstock.client.consumer.engine.app_adapter import AppAdapter
from penstock.client.consumer.engine.engine import ConsumerEngine
from penstock.client.consumer.engine.message_conversion import MessageConverter, Records
from penstock.client.consumer.offsets.committing import no_group_error
from penstock.client.consumer.offsets.offset_tracker import InFlight, PartitionKey, last_offsets
from penstock.client.consumer.options import KNOWN, ConsumerOptions
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
from penstock.client.serde.protocols import Deserializer, DeserializerLike, unwaiting
from penstock.client.serde.serde_lookup import deserializer_of
from penstock.client.settings import SettingValue
from penstock.model import TopicPartition

T = TypeVar("T")

log = logging.getLogger("penstock.client.consumer")

CLOSE_SECONDS = 30.0
COMMIT_LOOK_S = 0.01
_ONE_LOOP = "Read with one loop per consumer where transactions commit its offsets"

# The argument of commit().
Committable = Record[Any, Any] | Records[Any, Any] | Mapping[TopicPartition, int] | None


class ConsumerCore(Generic[K, V]):
    """The part of one consumer that its asyncio and its blocking class share."""

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None,
        key: DeserializerLike[K] | None,
        value: DeserializerLike[V] | None,
        options: ConsumerOptions,
        adapter: AppAdapter,
        *,
        in_loop: bool = False,
    ) -> None:
        refuse_unknown("Consumer", options, KNOWN)
        self.config, read = resolve_config(
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
        self.first = self.config.subscription(
            options.get("topics"), options.get("pattern"), options.get("assign")
        )
        interceptors = interceptors_of(
            (*read.interceptors, *options.get("interceptors", ())), ConsumerInterceptor
        )
        self.engine = ConsumerEngine(self.config, adapter)
        self.shared = self.engine.shared
        self.shared.keeps_committed_offsets = bool(interceptors)
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
        self.converter: MessageConverter[K, V] = MessageConverter(
            self.config, self.shared, read_key, read_value, interceptors
        )
        self.closed = False
        self.reads = bool(self.first)
        # Per partition the open transaction that has taken its offsets.
        self._takers: WeakValueDictionary[PartitionKey, object] = WeakValueDictionary()
        self.name = str(read.rdkafka.get("bootstrap.servers", ""))

    def check(self) -> None:
        """Raise if the consumer is closed or forked."""
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

    def limit(self, timeout_s: float | None) -> float:
        return self.config.api_timeout_s if timeout_s is None else timeout_s

    def timed_out(self, what: str, limit_s: float) -> TimedOut:
        """Return the error of an unanswered question, with its cause as far as known."""
        cause = self.engine.unreachable
        return TimedOut(f"{what} took longer than {limit_s:g} s" + (f": {cause}" if cause else ""))

    @property
    def is_unclosed(self) -> bool:
        """Return whether the consumer was started in this process and never closed."""
        return not self.closed and self.engine.started and not self.engine.forked_off

    def end(self, consumer: object, timeout_s: float, *, in_time: bool) -> None:
        """Finish a close: log a late one, and close the interceptors."""
        if not in_time:
            log.warning(
                "%r has not closed within %g s and is left to itself: its group may wait for "
                "session.timeout.ms until others read on",
                consumer,
                timeout_s,
            )
        self.converter.notify_interceptors()
        self.converter.close()

    # -- where it stands

    def place(self, said: PlaceLike) -> PartitionKey:
        return self.config.place(said)

    def skip(self, error: DeserializationError) -> bool:
        place = self.place(error.place)
        with self.shared.lock:
            self.shared.return_abandoned()
            return self.shared.tracker.skip(place, error.offset)

    def finished(self) -> dict[PartitionKey, int]:
        self.engine.check()
        with self.shared.lock:
            self.shared.return_abandoned()
            return self.shared.tracker.finished()

    def known_position(self, place: PartitionKey) -> int | None:
        self.engine.check()
        with self.shared.lock:
            self.shared.return_abandoned()
            return self.shared.tracker.position(place)

    # -- commits

    def finish_of(self, caller: object) -> None:
        """Finish the caller's records in flight."""
        with self.shared.lock:
            self.shared.return_abandoned()  # a left loop holds none
            for work in self.shared.tracker.in_flight:
                if work.owner is caller and not work.one_by_one and work.failure is None:
                    self.shared.finish(work)

    def to_commit(self, said: Committable) -> dict[PartitionKey, int]:
        """Return the offsets to commit. Records and batches committed by name are finished."""
        if self.config.group is None:
            raise no_group_error()
        if said is None:
            return self.finished()
        if isinstance(said, Record):
            self.converter.finish(said)
            return {self.place(said): said.offset + 1}
        if isinstance(said, Records):
            self.shared.finish(said.work)
            return {at: each + 1 for at, each in last_offsets(said.work.messages).items()}
        return {self.place(at): offset for at, offset in said.items()}

    def leave_to_transactions(
        self,
        caller: object,
        taker: object,
        said: Mapping[TopicPartition, int] | None,
        of_records: bool,
    ) -> dict[PartitionKey, int]:
        """Stop timed commits and return the offsets that the caller's transaction takes. Raise if
        another member owns the caller's records, or if the caller's part is unclear."""
        if self.config.group is None:
            raise no_group_error()
        self.engine.check()
        offsets = None if said is None else {self.place(at): each for at, each in said.items()}
        with self.shared.lock:
            self.shared.return_abandoned()
            tracker = self.shared.tracker
            tracker.left_to_transactions = True
            self._check_kept(tracker.revoked_in_flight(caller), offsets or {}, of_records)
            if offsets is None:
                if tracker.is_with_others(caller):
                    raise ClientError(
                        "all records in flight belong to other callers, so the offsets of this "
                        "transaction are unknown",
                        next_step="Call it where the records are read, or name them: "
                        "send_offsets(consumer, batch); or consumer.finished_offsets()",
                    )
                offsets = tracker.finished(caller)
                if not tracker.covers(offsets, caller):
                    raise ClientError(
                        "the caller's records come after records that other callers have in "
                        "flight, and cannot be committed alone",
                        next_step=_ONE_LOOP,
                    )
            for place in offsets:
                if self._takers.get(place, taker) is not taker:
                    raise ClientError(
                        f"another transaction has taken offsets of "
                        f"{self.config.without_namespace(place)} and has not ended: either of the "
                        "two may end first",
                        next_step=_ONE_LOOP,
                    )
            self._takers.update(dict.fromkeys(offsets, taker))
            return offsets

    def _check_kept(
        self, parted: InFlight[Any] | None, named: Mapping[PartitionKey, int], of_records: bool
    ) -> None:
        """Raise if another member may have read these records. Call with the lock held. Bare
        offsets may repeat the group's own offset: that takes nothing back."""
        if parted is not None and parted.failure is not None:
            raise parted.failure
        tracker = self.shared.tracker
        more = 0 if of_records else 1
        lost = [place for place, offset in named.items() if tracker.is_stale(place, offset + more)]
        if parted is not None:
            lost += parted.firsts()
        if lost:
            place = self.config.without_namespace(lost[0])
            raise PartitionsRevoked(f"{place} went to another member while it was worked on")

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int]) -> None:
        committed = {self.place(at): offset for at, offset in offsets.items()}
        with self.shared.lock:
            self.shared.return_abandoned()
            for place in [each for each, its in self._takers.items() if its is taker]:
                del self._takers[place]
            self.shared.tracker.record_committed(committed)
            self.shared.tracker.finish_below(committed)
        self.shared.notify()

    def group_metadata(self) -> object:
        """Return librdkafka's group metadata, for transactions. Blocks while a poll runs."""
        if self.config.group is None:
            raise no_group_error()
        self.check()
        if not self.engine.opened.done():
            raise ClientError(
                "the consumer is not a member of its group yet",
                next_step="Read with it first",
            )
        self._await_commits()
        order = self.shared.submit(self.engine.rdkafka.consumer_group_metadata)
        return order.result(self.config.api_timeout_s)

    def _await_commits(self) -> None:
        """Wait for timed commits in flight: they must not arrive after the transaction's offsets.
        Inside a rebalance callback no poll could bring the answer, so do not wait."""
        limit_s = self.config.api_timeout_s
        until = time.monotonic() + limit_s
        committer, polling_thread = self.engine.committer, self.shared.polling_thread

        def is_awaited() -> bool:
            return committer.expects_answers and not committer.no_poll_comes

        while threading.get_ident() != polling_thread:
            if not self.shared.submit(is_awaited).result(limit_s):
                return
            if time.monotonic() > until:
                raise TimedOut("the group has not answered the commit before this transaction")
            time.sleep(COMMIT_LOOK_S)

    def without_namespace(self, offsets: Mapping[PartitionKey, T]) -> dict[TopicPartition, T]:
        return {self.config.without_namespace(place): offset for place, offset in offsets.items()}


def _topics(options: ConsumerOptions) -> list[str]:
    """Return the topics named in the options."""
    named = options.get("topics") or ()
    places = options.get("assign") or {}
    return [*named, *(topic for topic, _ in places)]
