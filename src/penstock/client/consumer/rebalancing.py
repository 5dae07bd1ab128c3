"""Partitions come and go: librdkafka's callbacks, inside a poll.

Whoever works on a record of a partition that goes has revoke.timeout.ms to end, and is cancelled
then; what is finished is committed; then the application is told, then the partition goes. While
all this waits, orders of the application are served, so that it may commit or seek meanwhile.
With `manual_finish` the application is told first: only it knows what it works on.

In a reader's fetch there is nobody to wait for (wheel.py); partitions that come are taken over by
the polling thread, before anybody fetches again.
"""

import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.client.consumer.committing import Committing
from penstock.client.consumer.desk import Desk, Fetched
from penstock.client.consumer.faces import Face
from penstock.client.consumer.ledger import Place, Work
from penstock.client.consumer.partitions import Partitions
from penstock.client.consumer.plan import PartitionsCallback, Plan
from penstock.client.failures import ClientError, PartitionsRevoked

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer
    from confluent_kafka import TopicPartition as RdkafkaPlace

log = logging.getLogger("penstock.client.consumer")


class Rebalancing:
    """Of one consumer."""

    def __init__(
        self,
        plan: Plan,
        desk: Desk,
        face: Face,
        partitions: Partitions,
        committing: Committing,
    ) -> None:
        self._plan = plan
        self._desk = desk
        self._face = face
        self._partitions = partitions
        self._committing = committing
        # Gone during the present poll, which may still bring messages of them.
        self.gone: list[Place] = []
        # It is a reader who fetches; and what has come meanwhile, and is not yet taken over.
        self.by_reader = False
        self.coming: list[Place] = []
        # All was parted with before librdkafka began to close.
        self.closing = False

    # -- librdkafka's callbacks

    def on_assign(self, rdkafka: "RdkafkaConsumer", given: "list[RdkafkaPlace]") -> None:
        if self.closing:
            return
        places = _places(given)
        with self._inside():
            if self.by_reader:
                self.coming = [*self.coming, *places] if self._plan.cooperative else places
                (rdkafka.incremental_assign if self._plan.cooperative else rdkafka.assign)([])
            else:
                self._take_over(places)

    def take_over(self) -> None:
        """What has come while a reader fetched."""
        places, self.coming = self.coming, []
        if places:
            with self._inside():
                self._take_over(places)

    def _take_over(self, places: Collection[Place]) -> None:
        self._partitions.take_over(dict.fromkeys(places), replacing=not self._plan.cooperative)
        self._tell(self._plan.callbacks.assigned, places, self._patience())

    def on_revoke(self, rdkafka: "RdkafkaConsumer", given: "list[RdkafkaPlace]") -> None:
        places = self._without_coming(_places(given))
        with self._inside():
            if not self.closing:
                self.gone += places
                with self._desk.lock:
                    waits = bool(self._at_work(places))
                if waits:
                    self._committing.insist(rdkafka)
                self.part_with(rdkafka, places, self._patience())
            self._partitions.let_go(places, incrementally=self._plan.cooperative)
        self._committing.end_rest()

    def on_lost(self, rdkafka: "RdkafkaConsumer", given: "list[RdkafkaPlace]") -> None:
        del rdkafka
        places = self._without_coming(_places(given))
        with self._inside():
            if not self.closing:
                self.gone += places
                self.lose(places)
            self._partitions.let_go(places, incrementally=self._plan.cooperative)
        self._committing.end_rest()

    def _without_coming(self, places: list[Place]) -> list[Place]:
        """What came in the same fetch was never taken over, and will not be."""
        before, self.coming = self.coming, [each for each in self.coming if each not in places]
        return [each for each in places if each not in before]

    def lose(self, places: Collection[Place]) -> None:
        """Others have them already, or nobody may commit any more: bodies end at once."""
        log.warning("partitions were lost: %s", self._names(places))
        with self._desk.lock:
            self._desk.ledger.drop_unread(places)
        self._strike(places)
        callbacks = self._plan.callbacks
        self._tell(callbacks.lost or callbacks.revoked, places, self._patience())

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """No poll comes while this thread is here."""
        before, self._committing.no_poll_comes = self._committing.no_poll_comes, True
        try:
            yield
        except BaseException as error:
            if self.by_reader:  # librdkafka goes on without us
                failure = ClientError(
                    "the consumer was interrupted while partitions came or went",
                    next_step="Close it and make another: nobody knows what is still its own",
                )
                failure.__cause__ = error
                self._desk.fail(failure, fatal=True)
            raise
        finally:
            self._committing.no_poll_comes = before

    # -- parting

    def part_with(
        self,
        rdkafka: "RdkafkaConsumer",
        places: Collection[Place],
        until: float,
        commit_until: float = 0.0,
    ) -> None:
        """All that comes before partitions go: bodies end, offsets are committed, callbacks run."""
        with self._desk.lock:
            self._desk.ledger.drop_unread(places)
        with self._inside():
            if self._plan.manual_finish:
                self._tell(self._plan.callbacks.revoked, places, until)
                self._committing.before_parting(rdkafka, places, commit_until)
            else:
                self._desk.wait_until(lambda: not self._at_work(places), until)
                self._strike(places)
                self._committing.before_parting(rdkafka, places, commit_until)
                self._tell(self._plan.callbacks.revoked, places, max(until, self._patience()))

    def _at_work(self, places: Collection[Place]) -> list[Work[Fetched]]:
        return [each for each in self._desk.ledger.touching(places) if self._face.is_working(each)]

    def _strike(self, places: Collection[Place]) -> None:
        """Take work on these from whoever has it."""
        if self._plan.manual_finish:
            return  # the callback was the time to end it
        with self._desk.lock:
            works = self._at_work(places)
            for work in works:
                place = next(each for each in work.firsts() if each in places)
                work.failure = PartitionsRevoked(
                    f"{self._plan.outside(place)} went to another member while its record at "
                    f"offset {work.firsts()[place]} was worked on; it is not committed"
                )
        for work in works:
            log.warning("%s", work.failure)
            self._face.strike(work)

    def _tell(
        self, callback: PartitionsCallback | None, places: Collection[Place], until: float
    ) -> None:
        if callback is None or not places:
            return
        try:
            future = self._face.call(callback, [self._plan.outside(place) for place in places])
        except RuntimeError as error:  # the event loop is closed
            log.warning("%r was not called: %s", callback, error)
            return
        future.add_done_callback(lambda _: self._desk.notify())
        if not self._desk.wait_until(future.done, until):
            log.warning("%r has not ended within revoke.timeout.ms; going on without it", callback)
            return
        error_or_none = None if future.cancelled() else future.exception()
        if isinstance(error_or_none, Exception) and not self._desk.stopping:
            self._desk.fail(error_or_none)
        elif error_or_none is not None:  # no step will tell
            log.error("%r failed during the close", callback, exc_info=error_or_none)

    def _patience(self) -> float:
        return time.monotonic() + self._plan.revoke_timeout_s

    def _names(self, places: Collection[Place]) -> str:
        return ", ".join(str(self._plan.outside(place)) for place in places)


def _places(given: "list[RdkafkaPlace]") -> list[Place]:
    return [(each.topic, each.partition) for each in given]
