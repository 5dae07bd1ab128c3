"""The blocking side of a producer: whoever waits polls, and a thread looks after the rest.

Senders poll once in so many records, waiters poll while they wait. A daemon thread polls only when
nobody has for a while, so that reports, logs and tokens are served without the caller's doing; it
holds no reference that would keep a dropped producer alive.
"""

import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.calls import CallThread
from penstock.client.failures import BufferExhausted, TimedOut
from penstock.client.producer.core import Core, Said
from penstock.client.producer.encoding import NOT_CHOSEN, Encoded
from penstock.client.producer.handle import Handle
from penstock.client.producer.ledger import Report
from penstock.client.producer.receipts import Receipt, report_to
from penstock.client.records import Delivered, HeadersLike
from penstock.client.settings import SettingValue

SENDS_BETWEEN_POLLS = 1_000
WAIT_SECONDS = 0.1
KEEPER_SECONDS = 0.1


class Delivery(Receipt):
    """A record under way: `result()` says where it was written, or raises why it was not."""

    __slots__ = ()

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Waits for the report; TimedOut if it does not come in time. Records end by themselves
        after delivery.timeout.ms, so without a limit this ends, too."""
        if not self.done():
            core: BlockingCore = self._page.ledger.home
            limit = core.settle_s if timeout_s is None else timeout_s
            if not core.wait_until(self.done, limit):
                raise TimedOut(f"the record is still under way after {limit:g} s")
        return self._settled()


class BlockingCore(Core):
    """A core whose callers wait themselves."""

    def __init__(self, given: Mapping[str, SettingValue] | None, said: Said) -> None:
        super().__init__(given, said)
        self.thread = CallThread("penstock-producer")
        self.sending = threading.RLock()
        self.credit = SENDS_BETWEEN_POLLS
        self.ledger.home = self
        self._served_s = 0.0

    def begin(self) -> Handle:
        """Start, if it is not, and have somebody look after it."""
        if not self.started:
            with self.sending:
                if not self.started:
                    self.start()
                    self._served_s = time.monotonic()
                    threading.Thread(
                        target=_keep, args=(weakref.ref(self),), name="penstock-keeper", daemon=True
                    ).start()
        return self.handle

    def wake(self) -> None:
        """A batch is complete: whoever waits for it sees it by himself."""

    @property
    def open_count(self) -> int:
        """Records (and batches) that are under way."""
        return self.handle.length if self.quiet else self.ledger.open_count

    # -- polling

    def breathe(self) -> None:
        self.credit = SENDS_BETWEEN_POLLS
        self.serve()

    def serve(self) -> None:
        self._served_s = time.monotonic()
        self.handle.poll()
        self.ledger.wake()

    def look_after(self) -> None:
        """Poll if nobody else did for a while."""
        if time.monotonic() - self._served_s >= KEEPER_SECONDS:
            self.serve()

    def wait_until(
        self, done: Callable[[], bool], timeout_s: float, *, flushing: bool = False
    ) -> bool:
        """Poll until it is so; False if the time ran out."""
        until = time.monotonic() + timeout_s
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._served_s = time.monotonic()
            self.handle.wait(min(left, WAIT_SECONDS), flushing=flushing, unless=done)
            self.ledger.wake()
        return True

    def settle(self, timeout_s: float) -> bool:
        """Wait until everything sent so far is delivered or has failed."""
        with self.sending:
            page = self.ledger.turn()

        def settled() -> bool:
            if self.quiet and self.handle.length:
                return False
            with self.sending:
                return self.ledger.settled_to(page)

        self.serve()
        return self.wait_until(settled, timeout_s, flushing=True)

    def destroy_within(self, timeout_s: float) -> bool:
        """Free librdkafka, on a thread that may be left behind if it does not end."""
        thread = threading.Thread(
            target=self.handle.destroy, name="penstock-producer-end", daemon=True
        )
        thread.start()
        thread.join(timeout_s)
        return not thread.is_alive()

    # -- records

    def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> Delivery:
        encoded = self.encoder.encode(topic, value, key, partition, headers, timestamp_ms)
        with self.sending:
            encoded = self._chosen(encoded)
            page = self.ledger.page
            delivery = Delivery(page, topic)
            self._insist(encoded, report_to(delivery, self.ledger))
            page.sent += 1
        return delivery

    def post(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> None:
        encoded = self.encoder.encode(topic, value, key, partition, headers, timestamp_ms)
        with self.sending:
            encoded = self._chosen(encoded)
            self._insist(encoded, self.ledger.posted)
            if not self.quiet:
                self.ledger.page.sent += 1

    def _chosen(self, encoded: Encoded) -> Encoded:
        """With its partition; the first time, the cluster is asked how many there are."""
        self.learn_partitions(encoded.topic)
        if encoded.partition != NOT_CHOSEN:
            return encoded
        chosen = self.encoder.choose(encoded.topic, encoded.key, encoded.value)
        return encoded._replace(partition=chosen)

    def learn_partitions(self, full: str, limit_s: float = math.inf) -> None:
        if self.encoder.chooses and self.encoder.counts.stale(full):
            self.partitions_of(self.namespace.strip(full) or full, min(self.block_s, limit_s))

    def _insist(self, encoded: Encoded, report: Report) -> None:
        """Until there is room; BufferExhausted after max.block.ms."""

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
            self.breathe()

    def with_room(self, taken: Callable[[], bool], limit_s: float = math.inf) -> bool:
        """Try until it succeeds, serving reports meanwhile, at most for max.block.ms."""
        until = time.monotonic() + min(self.block_s, limit_s)
        while not taken():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._served_s = time.monotonic()
            self.handle.wait(min(left, WAIT_SECONDS))
            self.ledger.wake()
        return True


def _keep(core: "weakref.ref[BlockingCore]") -> None:
    pause = threading.Event()
    while True:
        pause.wait(KEEPER_SECONDS)
        kept = core()
        if kept is None or kept.closing or kept.handle.destroyed:
            return
        kept.look_after()
        del kept
