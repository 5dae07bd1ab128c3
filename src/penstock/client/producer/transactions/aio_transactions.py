"""Transactions of the asyncio Producer: one at a time, on the client's thread, never half done.

A cancelled task still ends its transaction: the cancellation waits for a commit or abort in flight,
for the time of an interruption.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

from penstock.client.failures import TimedOut
from penstock.client.producer.polling.aio_poller import AioProducerCore
from penstock.client.producer.sending.core import MARGIN_SECONDS
from penstock.client.producer.transactions.transactions import (
    BlockSteps,
    Flush,
    OffsetsLike,
    OffsetSource,
    TransactionBlock,
    TransactionCalls,
)
from penstock.client.runtime.call_thread import CallStuck

log = logging.getLogger("penstock.client.producer")

T = TypeVar("T")


class AioTransactions:
    """The transactions of one producer."""

    def __init__(self, core: AioProducerCore) -> None:
        self.core = core
        self.calls = TransactionCalls(core)
        self.lock = asyncio.Lock()
        self.owner: asyncio.Task[object] | None = None

    async def send_offsets(
        self, consumer: OffsetSource, said: OffsetsLike | None, timeout_s: float | None
    ) -> None:
        calls, limit = self.calls, self.core.block_s if timeout_s is None else timeout_s
        if calls.has_offsets(consumer, said):
            member = await asyncio.to_thread(consumer.group_metadata)  # has a limit of its own
            taken = calls.offsets_to_send(consumer, said)
            left = threading.Event()
            await self.call(
                lambda: calls.send_offsets(taken, member, limit, left.is_set), limit, left.set
            )

    async def call(
        self, call: Callable[[], T], limit_s: float, on_cancel: Callable[[], object] | None = None
    ) -> T:
        """Run a call on the client's thread. A call that does not return ends the producer."""
        try:
            return await self.core.thread.finish(call, limit_s + MARGIN_SECONDS, on_cancel)
        except CallStuck:
            self.calls.lost()
            raise self.core.stuck_error(limit_s) from None

    async def drive(self, steps: BlockSteps, flush: Callable[[float], Awaitable[None]]) -> None:
        """Run the steps of a block."""
        failure: BaseException | None = None
        while True:
            try:
                step = steps.send(None) if failure is None else steps.throw(failure)
            except StopIteration:
                return
            failure = None
            try:
                if isinstance(step, Flush):
                    await flush(step.limit_s)
                else:
                    await self.call(*step, self.core.interrupt)
            except BaseException as error:
                failure = error


class Transaction(TransactionBlock):
    """An open transaction; made by `producer.transaction()`."""

    def __init__(
        self,
        transactions: AioTransactions,
        flush: Callable[[float], Awaitable[None]],
        timeout_s: float | None,
    ) -> None:
        super().__init__(transactions.core, transactions.calls, timeout_s)
        self._transactions = transactions
        self._flush_producer = flush  # keeps the producer alive

    async def __aenter__(self) -> Self:
        transactions, core, calls = self._transactions, self._transactions.core, self._calls
        task = asyncio.current_task()
        calls.check_begin(is_owner=transactions.owner is task)
        core.bind()
        try:
            async with asyncio.timeout(self._timeout_s):
                await transactions.lock.acquire()
        except TimeoutError:
            raise TimedOut(
                f"another transaction of this producer was open for {self._timeout_s:g} s"
            ) from None
        try:
            core.check_life()
            calls.withdrawn = False
            core.forget_interruption()
            await transactions.call(
                lambda: calls.begin(self._timeout_s), self._timeout_s, calls.withdraw
            )
        except asyncio.CancelledError:
            await self._withdraw()
            raise
        except BaseException:
            transactions.lock.release()
            raise
        transactions.owner = task
        core.set_in_transaction(True)
        return self

    async def _withdraw(self) -> None:
        """Abort a transaction that may have begun before the cancellation."""
        transactions = self._transactions
        limit_s = min(self._timeout_s, self._core.interrupt())
        try:
            await transactions.call(lambda: self._calls.abort_if_open(limit_s), limit_s)
        except Exception as error:
            log.warning("a transaction that was just begun was not aborted: %s", error)
        finally:
            transactions.lock.release()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            await self._transactions.drive(self.end(error), self._flush_producer)
        finally:
            self._core.set_in_transaction(False)
            self._transactions.owner = None
            self._transactions.lock.release()

    async def abort(self) -> None:
        """Abort now; the block may go on, without sending."""
        await self._transactions.drive(self.abort_now(), self._flush_producer)

    async def send_offsets(
        self, consumer: OffsetSource, offsets: OffsetsLike | None = None
    ) -> None:
        """Send offsets as Producer.send_offsets does."""
        await self._transactions.send_offsets(consumer, offsets, self._timeout_s)
