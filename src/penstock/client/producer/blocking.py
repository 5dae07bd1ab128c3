"""The blocking Producer, of penstock.sync: the same names as the asyncio one, without await.

    with Producer(bootstrap="localhost:9092", value=Order) as producer:
        written = producer.send("orders", order, key=order.customer).result()
        producer.post("clicks", click)              # no result; errors are raised by flush()

send() and post() wait for room, at most max.block.ms. Several threads may use one Producer.
"""

import logging
import math
import time
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Generic, Self, Unpack, overload

from penstock.client.failures import BufferExhausted
from penstock.client.interceptors import close_all
from penstock.client.producer.delivery.delivery_errors import RecordsUndelivered
from penstock.client.producer.delivery.delivery_tracker import BatchDelivered, DeliveryCallback
from penstock.client.producer.options import ProducerOptions
from penstock.client.producer.polling.blocking_core import BlockingProducerCore, Delivery
from penstock.client.producer.sending.batches import BatchSender, pieces_of
from penstock.client.producer.sending.core import (
    CLOSE_SECONDS,
    DESTROY_SECONDS_MAX,
    PURGE_SECONDS_MAX,
    ProducerPartition,
)
from penstock.client.producer.sending.encoding import LIBRARY_CHOOSES
from penstock.client.producer.transactions.blocking_transactions import (
    BlockingTransactions,
    Transaction,
)
from penstock.client.producer.transactions.transactions import OffsetsLike, OffsetSource
from penstock.client.records import HeadersLike, OutRecord, SentKey, SentValue
from penstock.client.runtime.interruption import is_interruption
from penstock.client.serde.protocols import SerializerLike, SerializerOf
from penstock.client.settings import SettingValue

log = logging.getLogger("penstock.client.producer")


class Producer(Generic[SentKey, SentValue]):
    """Sends records. Settings are Kafka's own names: Producer({"linger.ms": 20}, bootstrap=...)."""

    @overload
    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: SerializerOf[SentKey] | None = None,
        value: SerializerOf[SentValue] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Producer[SentKey, Any]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: SerializerOf[SentKey] | None = None,
        value: str,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Producer[Any, SentValue]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: str,
        value: SerializerOf[SentValue] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Producer[Any, Any]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: str,
        value: str,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: SerializerLike[SentKey] | None = None,
        value: SerializerLike[SentValue] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._core = BlockingProducerCore(settings, {"key": key, "value": value, **options})
        self._transactions = BlockingTransactions(self._core)

    def __enter__(self) -> Self:
        self._usable(outside=True)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        interrupted = is_interruption(error)
        limit_s = self._core.interrupt() if interrupted else CLOSE_SECONDS
        try:
            self._close_once(limit_s, interrupted=interrupted)
        except Exception as second:
            if error is None:
                raise
            log.error("while the producer was closed: %s", second)
            error.add_note(f"While the producer was closed: {second}")

    # -- sending

    def send(
        self,
        topic: str,
        value: SentValue | None = None,
        key: SentKey | None = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Send a record, waiting for room; `result()` returns the offset, or raises the failure.

        The record waits for room for at most max.block.ms (BufferExhausted). Within
        delivery.timeout.ms from then on the record is delivered or has failed; `result(timeout_s)`
        may wait for less.
        """
        core = self._core
        usual = partition is None and headers is None and timestamp_ms is None
        if usual and core.hot_path_open and not core.reports_errors_only:
            with core.sending:
                delivery = Delivery(core.tracker.window, topic)
                if self._produce_bytes(topic, value, key, delivery):
                    return delivery
        self._usable().check_reports()
        return core.send(topic, value, key, partition, headers, timestamp_ms)

    def post(
        self,
        topic: str,
        value: SentValue | None = None,
        key: SentKey | None = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send a record without a result, waiting for room for at most max.block.ms
        (BufferExhausted).

        The record is delivered or fails within delivery.timeout.ms. Failures are raised together by
        the next flush(), by close(), or by the end of the transaction.
        """
        core = self._core
        usual = partition is None and headers is None and timestamp_ms is None
        if usual and core.hot_path_open:
            with core.sending:
                if self._produce_bytes(topic, value, key, core.tracker.posted):
                    return
        self._usable()
        core.post(topic, value, key, partition, headers, timestamp_ms)

    def _produce_bytes(
        self, topic: str, value: object, key: object, report: DeliveryCallback
    ) -> bool:
        """Hand bytes to librdkafka unchanged: the hot path. Return whether librdkafka took them."""
        if type(value) is not bytes or (key is not None and type(key) is not bytes):
            return False
        core, names = self._core, self._core.names
        full = topic if names is None else names[topic]
        try:
            core.handle.produce(full, value, key, LIBRARY_CHOOSES, report)
        except BufferError:
            return False
        except Exception as error:
            raise core.refused(error, topic) from error
        if not core.reports_errors_only:
            core.tracker.window.sent += 1
        core.credit -= 1
        if core.credit < 0:
            core.poll_if_due()
        return True

    def send_batch(
        self,
        topic: str,
        records: Iterable[
            SentValue
            | tuple[SentKey | None, SentValue | None]
            | OutRecord[SentKey, SentValue]
            | None
        ],
        *,
        partition: int | None = None,
        timeout_s: float | None = None,
    ) -> BatchDelivered:
        """Send many records: values, pairs of key and value, or OutRecords.

        Return when all are delivered. Otherwise raise BatchFailed, with the error of each record
        that was not delivered. Each record waits at most max.block.ms for room, and then has
        delivery.timeout.ms to be delivered or fail.

        Raise TimedOut if the batch takes longer than `timeout_s`. Records in flight stay in flight
        then, and the next flush() or close() raises their failures.
        """
        core = self._usable()
        core.check_reports()
        limit_s = math.inf if timeout_s is None else timeout_s
        until = time.monotonic() + limit_s
        core.learn_partitions(core.namespace.add_topic(topic), limit_s)
        with core.sending:
            pieces = pieces_of(topic, records, partition, core.encoder)
            sending = BatchSender(core, topic, pieces, partition, lambda: None)
        try:
            while not sending.over and (left := until - time.monotonic()) > 0:
                if not core.with_room(sending.step, left) and left > core.block_s:
                    sending.give_up(
                        BufferExhausted("there was no room for a batch within max.block.ms")
                    )
                core.serve()
            if sending.over:
                sending.all_handed()
                left = min(core.settle_s, max(0.0, until - time.monotonic()))
                if core.wait_until(lambda: sending.report.complete, left):
                    return sending.result()
        except RecordsUndelivered:
            raise
        except BaseException:
            sending.leave()
            raise
        raise sending.leave(core.settle_s if timeout_s is None else timeout_s)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent so far is delivered or has failed.

        Raises RecordsUndelivered for posts that failed, TimedOut if it takes longer.
        """
        core = self._usable(outside=True)
        limit = core.settle_s if timeout_s is None else timeout_s
        core.check_settled(core.settle(limit), limit)

    def partitions_of(
        self, topic: str, *, timeout_s: float | None = None
    ) -> list[ProducerPartition]:
        """Ask the cluster for the topic's partitions and return them."""
        core = self._usable(outside=True)
        return core.partitions_of(topic, core.block_s if timeout_s is None else timeout_s)

    # -- transactions

    def transaction(self, *, timeout_s: float | None = None) -> Transaction:
        """Return a transaction for `with`: its end commits, an exception aborts.

        One transaction is open at a time: a second, of another thread, waits for the first. The
        time limits each step: waiting and beginning, then ending. The default is max.block.ms.
        """
        return Transaction(self._transactions, self.flush, timeout_s)

    def send_offsets(
        self,
        consumer: OffsetSource,
        offsets: OffsetsLike | None = None,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Commit a consumer's progress with the open transaction.

        Without `offsets`, commit those of finished records and of the record or batch whose body
        calls this, in its own thread; else those of a record, a batch, or offsets. Committed
        records do not come again. The consumer stops its timed commits.
        """
        self._usable()
        self._transactions.send_offsets(consumer, offsets, timeout_s)

    # -- opening and closing

    def _usable(self, *, outside: bool = False) -> BlockingProducerCore:
        core = self._core
        if outside:
            core.check_life()
        else:
            core.check()
        core.begin()
        return core

    def close(self, timeout_s: float = CLOSE_SECONDS) -> None:
        """Flush, then drop records that are not delivered within the time. Never hangs.

        Raise RecordsUndelivered for failed posts and for failed deliveries that were not read.
        """
        self._close_once(timeout_s, interrupted=False)

    def _close_once(self, timeout_s: float, *, interrupted: bool) -> None:
        core = self._core
        if core.is_forked or core.closing:
            return
        core.stop()
        if not core.started:
            return
        try:
            self._settle_all(timeout_s, interrupted=interrupted)
        except KeyboardInterrupt:
            core.log_interrupted_close()
            raise
        try:
            core.end().result(0 if core.thread.stuck else DESTROY_SECONDS_MAX)
        except FutureTimeoutError:
            log.warning("librdkafka does not end; its threads are left behind")
        core.tracker.wake()
        close_all(core.interceptors)
        undelivered = core.undelivered(unawaited=True)
        if undelivered is not None:
            raise undelivered

    def _settle_all(self, timeout_s: float, *, interrupted: bool) -> None:
        """Flush; then drop the records left."""
        core = self._core
        until = time.monotonic() + timeout_s
        if core.is_busy and core.is_unreachable(timeout_s, interrupted=interrupted):
            until = 0.0
        left_s = max(0.0, until - time.monotonic())
        self._transactions.drive(self._transactions.calls.give_up(left_s), self.flush)
        if not core.settle(max(0.0, until - time.monotonic())):
            core.finds_no_listener()
            core.handle.purge()
            core.settle(PURGE_SECONDS_MAX)

    def __del__(self, warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.abandon(self, warn)

    def __repr__(self) -> str:
        return f"<Producer {self._core.address}>"
