"""Offset commits: timed, before a revocation, and on request.

Commits are asynchronous: librdkafka reports to `on_commit` at a later poll, and revokes no
partition before. Inside rebalance callbacks, where no poll comes, a requested commit blocks. A
timed commit that failed is sent again.
"""

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.consumer.assignment.resolved_config import ResolvedConfig
from penstock.client.consumer.engine.shared_state import SharedState
from penstock.client.consumer.offsets.offset_tracker import PartitionKey
from penstock.client.failures import ClientClosed, ClientError, from_rdkafka, is_retriable
from penstock.errors import IllegalGeneration, RebalanceInProgress, StaleMemberEpoch

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import TopicPartition as RdkafkaPartition

log = logging.getLogger("penstock.client.consumer")

COMMIT_RETRY_S = 0.1
# After so long without an answer another timed commit may be sent.
ANSWER_PATIENCE_S = 60.0


class PollInterrupted(Exception):
    """Raised from librdkafka's callbacks to end poll() at once: the waiter for a commit may have
    more requests, and messages before and after a rebalance stay apart. An interrupted poll() loses
    no message; an interrupted consume() would."""


@dataclass(slots=True, eq=False)
class PendingCommit:
    """A commit in flight, or one that waits for its next attempt."""

    offsets: Mapping[PartitionKey, int]
    # The waiter, if any, and the deadline of further attempts.
    future: "Future[None] | None" = None
    until: float = 0.0
    sent_at: float | None = None
    again_at: float = 0.0
    failure: Exception | None = None


class OffsetCommitter:
    """The commits of one consumer; used by the owner of the poll."""

    def __init__(self, config: ResolvedConfig, shared: SharedState) -> None:
        self._config = config
        self._shared = shared
        self._next_at = time.monotonic() + config.commit_interval_s
        self._pending: list[PendingCommit] = []
        # The polling thread is inside poll().
        self.in_poll = False
        # The polling thread is inside a callback or a revocation: no answer can arrive.
        self.no_poll_comes = False

    @property
    def expects_answers(self) -> bool:
        return any(each.sent_at is not None for each in self._pending)

    def concerns(self, places: Collection[PartitionKey]) -> bool:
        """Return whether a commit of these partitions is in flight."""
        return any(place in pending.offsets for pending in self._pending for place in places)

    # -- timed commits

    def commit_if_due(self, rdkafka: "RdkafkaConsumer", now: float) -> None:
        """Send the due offsets when the interval is over."""
        self._send_again(rdkafka, now)
        if not self._config.auto_commit or now < self._next_at:
            return
        if any(now - (each.sent_at or now) < ANSWER_PATIENCE_S for each in self._pending):
            return  # two commits in flight could arrive in the wrong order
        self._next_at = now + self._config.commit_interval_s
        with self._shared.lock:
            self._shared.return_abandoned()
            offsets = self._shared.tracker.due()
        self._begin(rdkafka, PendingCommit(offsets))

    def _send_again(self, rdkafka: "RdkafkaConsumer", now: float) -> None:
        for pending in list(self._pending):
            if pending.sent_at is not None or now < pending.again_at:
                continue
            with self._shared.lock:
                owned = all(map(self._shared.tracker.owns, pending.offsets))
            if owned or not isinstance(pending.failure, _REBALANCING):
                self._send(rdkafka, pending)
            else:  # the new owner may have committed later offsets
                pending.until = now
                self._settle(pending, pending.failure)

    def commit_before_revoke(
        self, rdkafka: "RdkafkaConsumer", places: Collection[PartitionKey], until: float = 0.0
    ) -> None:
        """Send the due offsets of partitions that are about to be revoked; retry until a time."""
        if self._config.auto_commit:
            with self._shared.lock:
                self._shared.return_abandoned()
                due = self._shared.tracker.due()
            offsets = {place: due[place] for place in places if place in due}
            self._begin(rdkafka, PendingCommit(offsets, until=until))

    def drain_commits(
        self, rdkafka: "RdkafkaConsumer", until: float, *, requested: bool = False
    ) -> None:
        """Poll until all commits are answered, or only the requested ones. A rebalance may delay
        them."""
        while any(each.future is not None or not requested for each in self._pending):
            if (now := time.monotonic()) >= until:
                return
            self._send_again(rdkafka, now)
            self.in_poll = True
            try:
                rdkafka.poll(min(COMMIT_RETRY_S, until - now))
            except PollInterrupted:
                continue
            finally:
                self.in_poll = False

    # -- on request

    def request(
        self,
        rdkafka: "RdkafkaConsumer",
        offsets: Mapping[PartitionKey, int],
        timeout_s: float,
        future: "Future[None]",
    ) -> None:
        """Commit these offsets; the future has the group's answer."""
        if self.no_poll_comes:
            _answer(future, self._commit_now(rdkafka, offsets))
        else:
            self._begin(rdkafka, PendingCommit(offsets, future, time.monotonic() + timeout_s))

    def flush_requested_commits(self, rdkafka: "RdkafkaConsumer") -> None:
        """Answer all requested commits now, before a wait without polls: a body that is waited for
        may wait for its commit. Commits in flight are sent once more with the newest offsets."""
        asked = [each for each in self._pending if each.future is not None]
        if not asked:
            return
        newest: dict[PartitionKey, int] = {}
        for pending in asked:
            newest.update(pending.offsets)
            self._pending.remove(pending)
        failure = self._commit_now(rdkafka, newest)
        for pending in asked:
            assert pending.future is not None, "somebody waits for it"
            _answer(pending.future, failure)

    def _begin(self, rdkafka: "RdkafkaConsumer", pending: PendingCommit) -> None:
        if pending.offsets:
            self._pending.append(pending)
            self._send(rdkafka, pending)

    def _send(self, rdkafka: "RdkafkaConsumer", pending: PendingCommit) -> None:
        from confluent_kafka import KafkaException

        try:
            rdkafka.commit(offsets=rdkafka_partitions(pending.offsets), asynchronous=True)
            pending.sent_at = time.monotonic()
        except KafkaException as error:
            self._settle(pending, from_rdkafka(error, about=_NOT_COMMITTED))

    def _commit_now(
        self, rdkafka: "RdkafkaConsumer", offsets: Mapping[PartitionKey, int]
    ) -> Exception | None:
        """Commit and wait for the answer."""
        from confluent_kafka import KafkaException

        failure: Exception | None
        try:
            answer = rdkafka.commit(offsets=rdkafka_partitions(offsets), asynchronous=False)
            failure = self._failure(None, answer or [])
        except KafkaException as error:
            failure = from_rdkafka(error, about=_NOT_COMMITTED)
        if failure is None:
            self._record_committed(offsets)
        return failure

    # -- answers

    def on_commit(self, error: "RdkafkaError | None", places: "list[RdkafkaPartition]") -> None:
        """Handle librdkafka's answer, inside a poll."""
        offsets = {(each.topic, each.partition): each.offset for each in places}
        pending = next(
            (each for each in self._pending if each.sent_at and each.offsets == offsets), None
        )
        if pending is None:
            return
        failure = self._failure(error, places)
        if failure is None:
            self._record_committed(offsets)
        self._settle(pending, failure)
        self.interrupt_poll()

    def interrupt_poll(self) -> None:
        """End poll(); the last call of a callback."""
        if self.in_poll:
            raise PollInterrupted

    def _failure(
        self, error: "RdkafkaError | None", places: "list[RdkafkaPartition]"
    ) -> Exception | None:
        if error is not None:
            return from_rdkafka(error, about=_NOT_COMMITTED)
        for each in places:
            if each.error:
                place = self._config.without_namespace((each.topic, each.partition))
                return from_rdkafka(each.error, about=f"the offset of {place} was not committed")
        return None

    def _settle(self, pending: PendingCommit, failure: Exception | None) -> None:
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

    def _record_committed(self, offsets: Mapping[PartitionKey, int]) -> None:
        with self._shared.lock:
            self._shared.tracker.record_committed(offsets)
        if self._shared.keeps_committed_offsets:
            self._shared.committed_offsets.append(offsets)

    def end(self) -> None:
        """Fail all commits without an answer."""
        pending, self._pending = self._pending, []
        for each in pending:
            if each.future is not None:
                _answer(each.future, ClientClosed("the consumer was closed during the commit"))
            else:
                log.warning("finished offsets may not be committed: the consumer was closed first")


_NOT_COMMITTED = "offsets were not committed"
# The group is rebalancing; members that keep their partitions may commit soon.
_REBALANCING = (RebalanceInProgress, IllegalGeneration)


def _may_succeed(failure: Exception) -> bool:
    """Return whether a retry may succeed: a new epoch, generation or coordinator is on its way."""
    return isinstance(failure, (StaleMemberEpoch, *_REBALANCING)) or is_retriable(failure)


def _answer(future: "Future[None]", failure: Exception | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


def rdkafka_partitions(offsets: Mapping[PartitionKey, int]) -> "list[RdkafkaPartition]":
    """Return partitions with offsets as librdkafka's objects."""
    from confluent_kafka import TopicPartition as RdkafkaPartition

    return [RdkafkaPartition(topic, partition, at) for (topic, partition), at in offsets.items()]


def no_group_error() -> ClientError:
    return ClientError(
        "this consumer has no group to commit to",
        next_step="Say group=..., or keep the offsets yourself and seek",
    )
