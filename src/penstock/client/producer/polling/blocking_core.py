"""The blocking side of a producer: waiters poll, and a background thread polls when no other does.

Senders poll once in so many records, waiters while they wait. The daemon thread serves reports,
logs and tokens of an idle producer, and does not keep a dropped producer alive.
"""

import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping

from penstock.client.failures import BufferExhausted, TimedOut
from penstock.client.producer.delivery.delivery_tracker import DeliveryCallback
from penstock.client.producer.delivery.receipts import Receipt
from penstock.client.producer.options import ProducerArguments
from penstock.client.producer.sending.core import ProducerCore
from penstock.client.producer.sending.encoding import NOT_CHOSEN, EncodedRecord, SentRecord
from penstock.client.producer.sending.handle import RdkafkaProducerHandle
from penstock.client.records import Delivered
from penstock.client.settings import SettingValue

log = logging.getLogger("penstock.client.producer")

SENDS_BETWEEN_POLLS = 1_000
WAIT_SECONDS = 0.1
BACKGROUND_POLL_SECONDS = 0.1


class Delivery(Receipt):
    """A record in flight: `result()` returns the offset, or raises the failure."""

    __slots__ = ()

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Wait for the report; raise TimedOut after the limit. Without one the wait ends after
        delivery.timeout.ms."""
        if not self.done():
            core: BlockingProducerCore = self._window.tracker.home
            limit = core.settle_s if timeout_s is None else timeout_s
            if not core.wait_until(self.done, limit):
                raise TimedOut(f"the record is still under way after {limit:g} s")
        return self._settled()


class BlockingProducerCore(ProducerCore):
    """A producer core whose callers wait themselves."""

    def __init__(self, given: Mapping[str, SettingValue] | None, said: ProducerArguments) -> None:
        super().__init__(given, said)
        self.sending = threading.RLock()
        self.credit = SENDS_BETWEEN_POLLS
        self.tracker.home = self
        self._served_s = 0.0

    def begin(self) -> RdkafkaProducerHandle:
        """Start once, with the background thread."""
        if not self.started:
            with self.sending:
                if not self.started:
                    self.start()
                    self._served_s = time.monotonic()
                    threading.Thread(
                        target=_poll_in_background,
                        args=(weakref.ref(self),),
                        name="penstock-keeper",
                        daemon=True,
                    ).start()
        return self.handle

    @property
    def open_count(self) -> int:
        """Return the number of records and batches in flight."""
        return self.handle.length if self.reports_errors_only else self.tracker.open_count

    def _close_hot_path(self) -> None:
        """Do nothing: each call looks at `hot_path_open`."""

    def drop_waiting(self, error: Exception) -> None:
        """Do nothing: callers themselves wait for room."""

    # -- polling

    def poll_if_due(self) -> None:
        self.credit = SENDS_BETWEEN_POLLS
        self.serve()

    def serve(self) -> None:
        self._served_s = time.monotonic()
        self.handle.poll()
        self.tracker.wake()

    def poll_if_idle(self) -> None:
        """Poll if no other thread has for a while."""
        if time.monotonic() - self._served_s >= BACKGROUND_POLL_SECONDS:
            self.serve()

    def wait_until(
        self, done: Callable[[], bool], timeout_s: float, *, flushing: bool = False
    ) -> bool:
        """Poll until a condition holds; return False after the time."""
        until = time.monotonic() + timeout_s
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._served_s = time.monotonic()
            self.handle.wait(min(left, WAIT_SECONDS), flushing=flushing, unless=done)
            self.tracker.wake()
        return True

    def settle(self, timeout_s: float) -> bool:
        """Wait until all records sent so far are delivered or have failed."""
        with self.sending:
            window = self.tracker.begin_window()

        def settled() -> bool:
            if self.reports_errors_only and self.handle.length:
                return False
            with self.sending:
                return self.tracker.settled_to(window) or self._settle_lost()

        self.serve()
        return self.wait_until(settled, timeout_s, flushing=True)

    def _settle_lost(self) -> bool:
        """Settle all records if librdkafka has none left; return whether that is so.

        Ctrl-C may end a delivery report before it counts, or a send after its record was handed
        over: then the counts never meet.
        """
        handle, tracker = self.handle, self.tracker
        if handle.length or not handle.polling.acquire(blocking=False):
            return False
        try:
            if handle.length or not all(each.left for each in tracker.batches):
                return False
            lost = tracker.settle_lost()
        finally:
            handle.polling.release()
        if lost:
            log.info("an interruption has cost the delivery reports of %d records", lost)
        return True

    # -- records

    def send(self, *said: *SentRecord) -> Delivery:
        encoded = self.encoder.encode(*said)
        with self.sending:
            encoded = self._chosen(encoded)
            window = self.tracker.window
            delivery = Delivery(window, said[0])
            self._retry(encoded, self.tracker.watched(delivery))
            window.sent += 1
        return delivery

    def post(self, *said: *SentRecord) -> None:
        encoded = self.encoder.encode(*said)
        with self.sending:
            encoded = self._chosen(encoded)
            self._retry(encoded, self.tracker.posted)
            if not self.reports_errors_only:
                self.tracker.window.sent += 1

    def _chosen(self, encoded: EncodedRecord) -> EncodedRecord:
        """Return the record with its partition; ask for the partition count if unknown."""
        self.learn_partitions(encoded.topic)
        if encoded.partition != NOT_CHOSEN:
            return encoded
        chosen = self.encoder.choose(encoded.topic, encoded.key, encoded.value)
        return encoded._replace(partition=chosen)

    def learn_partitions(self, full: str, limit_s: float = math.inf) -> None:
        if self.encoder.chooses and self.encoder.counts.stale(full):
            self.partitions_of(self.namespace.strip(full) or full, min(self.block_s, limit_s))

    def _retry(self, encoded: EncodedRecord, report: DeliveryCallback) -> None:
        """Hand over a record, waiting for room; raise BufferExhausted after max.block.ms."""

        def taken() -> bool:
            try:
                self.hand_over(encoded, report)
            except BufferError:
                return False
            return True

        if not self.with_room(taken):
            raise BufferExhausted(
                f"there was no room for a record for {encoded.topic} within max.block.ms "
                f"({self.settings.max_block_ms} ms)"
            )
        self.credit -= 1
        if self.credit < 0:
            self.poll_if_due()

    def with_room(self, taken: Callable[[], bool], limit_s: float = math.inf) -> bool:
        """Retry until a call succeeds, at most for max.block.ms; serve reports meanwhile."""
        until = time.monotonic() + min(self.block_s, limit_s)
        while not taken():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._served_s = time.monotonic()
            self.handle.wait(min(left, WAIT_SECONDS))
            self.tracker.wake()
        return True


def _poll_in_background(core: "weakref.ref[BlockingProducerCore]") -> None:
    pause = threading.Event()
    while True:
        pause.wait(BACKGROUND_POLL_SECONDS)
        kept = core()
        if kept is None or kept.closing or kept.handle.destroyed:
            return
        kept.poll_if_idle()
        del kept
