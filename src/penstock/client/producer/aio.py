"""The asyncio Producer.

    async with Producer(bootstrap="localhost:9092", value=Order) as producer:
        written = await producer.send("orders", order, key=order.customer)
        await producer.post("clicks", click)        # no result; errors are raised by flush()
        await producer.send_batch("orders", orders)

Sending never blocks the loop. Awaiting the result of send() or post() waits for room; close()
flushes. A record whose serializer must ask a schema registry waits, and later records wait behind.
Errors are raised by the await.
"""

import asyncio
import logging
import time
import warnings
from collections.abc import Awaitable, Iterable, Mapping
from functools import partial
from typing import Any, Generic, Self, Unpack, overload

from penstock.client.failures import BufferExhausted, ClientClosed, TimedOut
from penstock.client.interceptors import close_all
from penstock.client.producer.delivery.delivery_tracker import BatchDelivered
from penstock.client.producer.options import ProducerOptions
from penstock.client.producer.polling.aio_poller import PAUSE_SECONDS_MIN, AioProducerCore
from penstock.client.producer.polling.futures import LOOP_YIELD, Delivery, set_done
from penstock.client.producer.sending.batches import BatchSender, SerializedBatch
from penstock.client.producer.sending.core import (
    CLOSE_SECONDS,
    DESTROY_SECONDS_MAX,
    PURGE_SECONDS_MAX,
    ProducerPartition,
)
from penstock.client.producer.sending.encoding import UnserializedRecord
from penstock.client.producer.transactions.aio_transactions import AioTransactions, Transaction
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
        self._core = AioProducerCore(settings, {"key": key, "value": value, **options})
        self._transactions = AioTransactions(self._core)
        self._closed: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        core = self._core
        core.check_life()
        core.bind()
        await core.thread.run(core.start)
        self._open()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        interrupted = is_interruption(error)
        limit_s = self._core.interrupt() if interrupted else CLOSE_SECONDS
        try:
            await self._close_once(limit_s, interrupted=interrupted)
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
        """Send a record. Awaiting the Delivery returns the offset, or raises the failure.

        The record waits for room for at most max.block.ms (BufferExhausted), then for at most
        delivery.timeout.ms. `asyncio.timeout` around the await ends only the wait.
        """
        self._open()  # from now on hot_path.py's function is in the place of this method
        return self._core.send(topic, value, key, partition, headers, timestamp_ms)

    def post(
        self,
        topic: str,
        value: SentValue | None = None,
        key: SentKey | None = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = None,
        timestamp_ms: int | None = None,
    ) -> Awaitable[None]:
        """Send a record without a result; awaiting waits for room, at most max.block.ms
        (BufferExhausted).

        The record is delivered or fails within delivery.timeout.ms. Failures are raised together by
        the next flush(), by close(), or by the end of the transaction.
        """
        self._open()
        return self._core.post(topic, value, key, partition, headers, timestamp_ms)

    async def send_batch(
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

        Raise TimedOut if the batch takes longer than `timeout_s`. After that, or if the call is
        cancelled, records in flight stay in flight. The next flush() or close() raises their
        failures.
        """
        core = self._usable()
        core.check_reports()
        loop = core.bind()
        until = None if timeout_s is None else loop.time() + timeout_s
        if core.encoder.chooses and core.encoder.counts.stale(core.namespace.add_topic(topic)):
            limit_s = core.block_s if timeout_s is None else min(core.block_s, timeout_s)
            await self.partitions_of(topic, timeout_s=limit_s)
        pieces = SerializedBatch(topic, records, partition, core.encoder)
        while (unwritten := pieces.make()) is not None:
            await self._ask_serializer(unwritten, until, timeout_s)
        reported: asyncio.Future[None] = loop.create_future()
        core.tracker.waiting.add(reported)
        wake = partial(set_done, reported)
        sending = BatchSender(core, topic, pieces.made, partition, wake)
        try:
            async with asyncio.timeout_at(until) as limit:
                await self._hand_over(sending, loop)
                sending.all_handed()
                core.schedule_poll()
                if not sending.report.complete:
                    await reported
        except BaseException as error:
            late = sending.leave(timeout_s)
            core.schedule_poll()
            if isinstance(error, TimeoutError) and limit.expired():
                raise late from None
            raise
        return sending.result()

    async def _ask_serializer(
        self, unwritten: UnserializedRecord, until: float | None, timeout_s: float | None
    ) -> None:
        """Ask for a batch's schema on a thread, before the first record is sent."""
        try:
            async with asyncio.timeout_at(until) as limit:
                await self._core.ask_serializer(unwritten)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimedOut(
                f"the serializer of a batch for {unwritten.topic} has asked, and heard nothing "
                f"within {timeout_s:g} s; nothing was sent",
                next_step="See whether the schema registry runs and answers",
            ) from None

    async def _hand_over(self, sending: BatchSender, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over step by step; without room wait, at most max.block.ms."""
        core = self._core
        until = loop.time() + core.block_s
        while not sending.over:
            # Earlier records that wait for room go first.
            if not core.backlog and sending.step():
                core.poll_if_due()
                await LOOP_YIELD
                until = loop.time() + core.block_s
                core.check()
            elif loop.time() >= until:
                sending.give_up(
                    BufferExhausted("there was no room for a batch within max.block.ms")
                )
            else:
                core.serve()
                await asyncio.sleep(PAUSE_SECONDS_MIN)

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent so far is delivered or has failed.

        Raises RecordsUndelivered for posts that failed, TimedOut if it takes longer.
        """
        core = self._usable(outside=True)
        limit = core.settle_s if timeout_s is None else timeout_s
        core.check_settled(await core.settle(limit), limit)

    async def partitions_of(
        self, topic: str, *, timeout_s: float | None = None
    ) -> list[ProducerPartition]:
        """Ask the cluster for the topic's partitions and return them."""
        core = self._usable(outside=True)
        limit = core.block_s if timeout_s is None else timeout_s
        return await core.thread.run(lambda: core.partitions_of(topic, limit))

    # -- transactions

    def transaction(self, *, timeout_s: float | None = None) -> Transaction:
        """Return a transaction for `async with`: its end commits, an exception aborts.

        One transaction is open at a time: a second waits for the first. The time limits each step:
        waiting and beginning, then ending. The default is max.block.ms.
        """
        return Transaction(self._transactions, self.flush, timeout_s)

    async def send_offsets(
        self,
        consumer: OffsetSource,
        offsets: OffsetsLike | None = None,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Commit a consumer's progress with the open transaction.

        Without `offsets`, commit those of finished records and of the record or batch whose body
        calls this, in its own task; else those of a record, a batch, or offsets. Committed records
        do not come again. The consumer stops its timed commits.
        """
        self._usable()
        await self._transactions.send_offsets(consumer, offsets, timeout_s)

    # -- opening and closing

    def _usable(self, *, outside: bool = False) -> AioProducerCore:
        """Return the core: started, bound to this loop, and open; `outside` of a transaction as
        well."""
        core = self._core
        if outside:
            core.check_life()
        else:
            core.check()
        self._open()
        return core

    def _open(self) -> None:
        """Open at the first use; functions of hot_path.py replace send and post from then on."""
        hot = self._core.open()
        self.send = hot.send  # type: ignore[method-assign]
        self.post = hot.post  # type: ignore[method-assign]

    async def close(self, timeout_s: float = CLOSE_SECONDS) -> None:
        """Flush, then drop records that are not delivered within the time. Never hangs.

        Raise RecordsUndelivered for failed posts and for failed deliveries that were not awaited.
        """
        await self._close_once(timeout_s, interrupted=False)

    async def _close_once(self, timeout_s: float, *, interrupted: bool) -> None:
        core = self._core
        if core.is_forked:
            return  # the parent process closes it
        if not core.started:
            core.stop()
            core.thread.end()
            return
        if self._closed is None:
            core.move()
            self._closed = core.bind().create_task(self._close(timeout_s, interrupted=interrupted))
        await asyncio.shield(self._closed)

    async def _close(self, timeout_s: float, *, interrupted: bool) -> None:
        try:
            await self._settle_all(timeout_s, interrupted=interrupted)
        except asyncio.CancelledError:
            self._core.log_interrupted_close()
            raise
        core = self._core
        core.stop_polling()
        try:
            async with asyncio.timeout(0 if core.thread.stuck else DESTROY_SECONDS_MAX):
                await asyncio.wrap_future(core.end())
        except TimeoutError:
            log.warning("librdkafka does not end; its threads are left behind")
        core.tracker.wake()
        core.release_waiters()
        close_all(core.interceptors)
        undelivered = core.undelivered(unawaited=True)
        if undelivered is not None:
            raise undelivered

    async def _settle_all(self, timeout_s: float, *, interrupted: bool) -> None:
        """Flush; then drop the records left."""
        core = self._core
        core.stop()
        until = time.monotonic() + timeout_s
        unreachable = partial(core.is_unreachable, timeout_s, interrupted=interrupted)
        if core.is_busy and await asyncio.to_thread(unreachable):
            until = 0.0
        left_s = max(0.0, until - time.monotonic())
        await self._transactions.drive(self._transactions.calls.give_up(left_s), self.flush)
        if not await core.settle(max(0.0, until - time.monotonic())):
            await asyncio.to_thread(core.finds_no_listener)
            core.backlog.give_up(
                core.fatal or ClientClosed("the producer was closed before there was room")
            )
            core.handle.purge()
            await core.settle(PURGE_SECONDS_MAX)

    def __del__(self, warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.abandon(self, warn)

    def __repr__(self) -> str:
        return f"<Producer {self._core.address}>"
