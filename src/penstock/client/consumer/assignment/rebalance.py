"""Rebalances: librdkafka's callbacks, inside a poll.

A body with a record of a revoked partition has revoke.timeout.ms to end, and is cancelled then.
Finished offsets are committed, then the application's callback runs, then the partition is
unassigned. Requests are served meanwhile, so that the application may commit or seek. With
`manual_finish` the callback runs first: only the application knows its unfinished work.

A reader's poll blocks for no callback (poll_ownership.py). The polling thread assigns new
partitions before the next fetch.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.client.consumer.assignment.partitions import Partitions
from penstock.client.consumer.assignment.resolved_config import PartitionsCallback, ResolvedConfig
from penstock.client.consumer.engine.app_adapter import AppAdapter
from penstock.client.consumer.engine.shared_state import Fetched, SharedState
from penstock.client.consumer.offsets.committing import OffsetCommitter
from penstock.client.consumer.offsets.offset_tracker import InFlight, PartitionKey
from penstock.client.failures import PartitionsRevoked

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer
    from confluent_kafka import TopicPartition as RdkafkaPartition

log = logging.getLogger("penstock.client.consumer")


class Rebalancer:
    """The rebalances of one consumer."""

    def __init__(
        self,
        config: ResolvedConfig,
        shared: SharedState,
        adapter: AppAdapter,
        partitions: Partitions,
        committer: OffsetCommitter,
    ) -> None:
        self._config = config
        self._shared = shared
        self._adapter = adapter
        self._partitions = partitions
        self._committer = committer
        # Revoked during the present poll, which may still bring messages of them.
        self.revoked_in_poll: list[PartitionKey] = []
        # Whether a reader polls, and the partitions assigned meanwhile.
        self.by_reader = False
        self.assigned_by_reader: list[PartitionKey] = []
        # All partitions were revoked before librdkafka began to close.
        self.closing = False

    # -- librdkafka's callbacks

    def on_assign(self, rdkafka: "RdkafkaConsumer", given: "list[RdkafkaPartition]") -> None:
        if self.closing:
            return
        places = _places(given)
        with self._inside():
            if self.by_reader:
                self.assigned_by_reader = (
                    [*self.assigned_by_reader, *places] if self._config.cooperative else places
                )
                (rdkafka.incremental_assign if self._config.cooperative else rdkafka.assign)([])
            else:
                self._assign_partitions(places)

    def assign_partitions(self) -> None:
        """Assign the partitions that came during a reader's poll."""
        places, self.assigned_by_reader = self.assigned_by_reader, []
        if places:
            with self._inside():
                self._assign_partitions(places)

    def _assign_partitions(self, places: Collection[PartitionKey]) -> None:
        self._partitions.assign_partitions(
            dict.fromkeys(places), replacing=not self._config.cooperative
        )
        self._run_callback(self._config.callbacks.assigned, places, self._revoke_deadline())

    def on_revoke(self, rdkafka: "RdkafkaConsumer", given: "list[RdkafkaPartition]") -> None:
        def revoke(places: list[PartitionKey]) -> None:
            with self._shared.lock:
                waits = bool(self._at_work(places))
            if waits:
                self._committer.flush_requested_commits(rdkafka)
            self.revoke(rdkafka, places, self._revoke_deadline())

        self._unassign(given, revoke)

    def on_lost(self, rdkafka: "RdkafkaConsumer", given: "list[RdkafkaPartition]") -> None:
        del rdkafka
        self._unassign(given, self.lose)

    def _unassign(
        self, given: "list[RdkafkaPartition]", end: Callable[[list[PartitionKey]], None]
    ) -> None:
        places = self._drop_unassigned(_places(given))
        with self._inside():
            if not self.closing:
                self.revoked_in_poll += places
                end(places)
            self._partitions.unassign(places, incrementally=self._config.cooperative)
        self._committer.interrupt_poll()

    def _drop_unassigned(self, places: list[PartitionKey]) -> list[PartitionKey]:
        """Drop partitions assigned and revoked within one poll."""
        before, self.assigned_by_reader = (
            self.assigned_by_reader,
            [each for each in self.assigned_by_reader if each not in places],
        )
        return [each for each in places if each not in before]

    def lose(self, places: Collection[PartitionKey]) -> None:
        """Cancel bodies at once: other members own these partitions, or commits are impossible."""
        names = ", ".join(str(self._config.without_namespace(place)) for place in places)
        log.warning("partitions were lost: %s", names)
        with self._shared.lock:
            self._shared.tracker.drop_unread(places)
        self._cancel_bodies(places)
        callbacks = self._config.callbacks
        self._run_callback(callbacks.lost or callbacks.revoked, places, self._revoke_deadline())

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Mark that no poll comes while this thread is here."""
        before, self._committer.no_poll_comes = self._committer.no_poll_comes, True
        try:
            yield
        finally:
            self._committer.no_poll_comes = before

    # -- revocation

    def revoke(
        self,
        rdkafka: "RdkafkaConsumer",
        places: Collection[PartitionKey],
        until: float,
        commit_until: float = 0.0,
    ) -> None:
        """Wait for bodies, commit finished offsets, and run the callback."""
        with self._shared.lock:
            self._shared.tracker.drop_unread(places)
        with self._inside():
            if self._config.manual_finish:
                self._run_callback(self._config.callbacks.revoked, places, until)
                self._committer.commit_before_revoke(rdkafka, places, commit_until)
            else:
                self._shared.wait_until(lambda: not self._at_work(places), until)
                self._cancel_bodies(places)
                self._committer.commit_before_revoke(rdkafka, places, commit_until)
                self._run_callback(
                    self._config.callbacks.revoked, places, max(until, self._revoke_deadline())
                )

    def _at_work(self, places: Collection[PartitionKey]) -> list[InFlight[Fetched]]:
        return [
            each
            for each in self._shared.tracker.in_flight_of(places)
            if self._adapter.is_working(each)
        ]

    def _cancel_bodies(self, places: Collection[PartitionKey]) -> None:
        """Cancel the bodies with records of these partitions."""
        if self._config.manual_finish:
            return  # the callback was the time to finish
        with self._shared.lock:
            works = self._at_work(places)
            for work in works:
                place = next(each for each in work.firsts() if each in places)
                work.failure = PartitionsRevoked(
                    f"{self._config.without_namespace(place)} went to another member while its "
                    f"record at offset {work.firsts()[place]} was worked on; it is not committed"
                )
        for work in works:
            log.warning("%s", work.failure)
            self._adapter.cancel(work)

    def _run_callback(
        self, callback: PartitionsCallback | None, places: Collection[PartitionKey], until: float
    ) -> None:
        if callback is None or not places:
            return
        try:
            future = self._adapter.call(
                callback, [self._config.without_namespace(place) for place in places]
            )
        except RuntimeError as error:  # the event loop is closed
            log.warning("%r was not called: %s", callback, error)
            return
        future.add_done_callback(lambda _: self._shared.notify())
        if not self._shared.wait_until(future.done, until):
            log.warning("%r has not ended within revoke.timeout.ms; going on without it", callback)
            return
        error_or_none = None if future.cancelled() else future.exception()
        if isinstance(error_or_none, Exception) and not self._shared.stopping:
            self._shared.fail(error_or_none)
        elif error_or_none is not None:  # no step will raise it
            log.error("%r failed during the close", callback, exc_info=error_or_none)

    def _revoke_deadline(self) -> float:
        return time.monotonic() + self._config.revoke_timeout_s


def _places(given: "list[RdkafkaPartition]") -> list[PartitionKey]:
    return [(each.topic, each.partition) for each in given]
