"""Transactions of the asyncio Producer: one at a time, on the client's thread, never half done.

A cancelled task still ends its transaction: the cancellation waits for a commit or abort in flight,
within its time.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

from penstock.client.failures import ClientClosed, ClientError, TimedOut
from penstock.client.producer.polling.aio_poller import AioProducerCore
from penstock.client.producer.sending.core import MARGIN_SECONDS
from penstock.client.producer.transactions.transactions import (
    CommitFlush,
    OffsetsLike,
    OffsetSource,
    TransactionCalls,
)
from penstock.client.runtime.call_thread import CallStuck

log = logging.getLogger("penstock.client.producer")

T = TypeVar("T")


class AioFlusher(Protocol):
    """The producer, kept alive by its transaction."""

    async def flush(self, timeout_s: float | None = None) -> None: ...


class AioTransactions:
    """The transactions of one producer."""

    def __init__(self, core: AioProducerCore) -> None:
        self.core = core
        self.calls = TransactionCalls(core)
        self.lock = asyncio.Lock()
        self.owner: asyncio.Task[object] | None = None

    def make(self, producer: AioFlusher, timeout_s: float | None) -> "Transaction":
        return Transaction(self, producer, self.core.block_s if timeout_s is None else timeout_s)

    async def send_offsets(
        self, consumer: OffsetSource, said: OffsetsLike | None, timeout_s: float | None
    ) -> None:
        core = self.core
        self.calls.check_open()
        if not self.calls.offsets_to_send(consumer, said).offsets:
            return
        limit = core.block_s if timeout_s is None else timeout_s
        member = await asyncio.to_thread(consumer.group_metadata)  # has a limit of its own
        taken = self.calls.offsets_to_send(consumer, said)
        await self.call(lambda: self.calls.send_offsets(taken, member, limit), limit)

    async def call(
        self, call: Callable[[], T], limit_s: float, on_cancel: Callable[[], None] | None = None
    ) -> T:
        """Run a call on the client's thread. A call that does not return ends the producer."""
        try:
            return await self.core.thread.finish(call, limit_s + MARGIN_SECONDS, on_cancel)
        except CallStuck:
            self.calls.lost()
            raise self.core.stuck_error(limit_s) from None

    async def give_up(self, timeout_s: float) -> None:
        """Abort the open transaction of a producer that closes."""
        if self.core.in_transaction:
            self.core.set_in_transaction(False)
            try:
                await self.call(lambda: self.calls.abort(timeout_s), timeout_s)
            except Exception as error:
                log.warning("the open transaction was not aborted: %s", error)
            self.core.serve()


class Transaction:
    """An open transaction; made by `producer.transaction()`."""

    def __init__(
        self, transactions: AioTransactions, producer: AioFlusher, timeout_s: float
    ) -> None:
        self._transactions = transactions
        self._producer = producer
        self._timeout_s = timeout_s
        self._ended = False
        # From then on only the commit's result tells the outcome.
        self.commit_begun = False

    async def __aenter__(self) -> Self:
        transactions, core = self._transactions, self._transactions.core
        task = asyncio.current_task()
        transactions.calls.check_begin(is_owner=transactions.owner is task)
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
            transactions.calls.withdrawn = False
            await transactions.call(
                lambda: transactions.calls.begin(self._timeout_s),
                self._timeout_s,
                transactions.calls.withdraw,
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
        try:
            await transactions.call(
                lambda: transactions.calls.abort_if_open(self._timeout_s), self._timeout_s
            )
        except Exception as error:
            log.warning("a transaction that was just begun was not aborted: %s", error)
        finally:
            transactions.lock.release()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._ended:
                return
            if not self._transactions.core.in_transaction:
                if error is None:
                    raise ClientClosed("the producer was closed, and its transaction aborted")
            elif error is None:
                await self._commit()
            else:
                await self._abort_after(error)
        finally:
            self._transactions.core.set_in_transaction(False)
            self._transactions.owner = None
            self._transactions.lock.release()

    async def abort(self) -> None:
        """Abort now; the block may go on, without sending."""
        if not self._ended:
            self._ended = True
            await self._abort()

    async def send_offsets(
        self, consumer: OffsetSource, offsets: OffsetsLike | None = None
    ) -> None:
        """Send offsets as Producer.send_offsets does."""
        await self._transactions.send_offsets(consumer, offsets, self._timeout_s)

    async def _commit(self) -> None:
        """Flush, then commit; abort if a record failed or the time is over."""
        transactions = self._transactions
        try:
            await self._flush()
            failed = transactions.core.undelivered(unawaited=True)
            if failed is not None:  # librdkafka does not say which record
                raise failed
        except BaseException as error:
            await self._abort_after(error)
            raise
        transactions.core.set_in_transaction(False)
        self.commit_begun = True
        await transactions.call(lambda: transactions.calls.commit(self._timeout_s), self._timeout_s)
        transactions.core.serve()

    async def _flush(self) -> None:
        limit = CommitFlush(self._transactions.core, self._timeout_s)
        while True:
            try:
                return await self._producer.flush(limit.next_s())
            except TimedOut as late:
                limit.check(late)
                left_s = limit.left_s
                await self._transactions.call(
                    partial(self._transactions.calls.check_state, left_s), left_s
                )

    async def _abort_after(self, error: BaseException) -> None:
        try:
            await self._abort()
        except Exception as second:
            error.add_note(f"The transaction could not be aborted: {second}")

    async def _abort(self) -> None:
        transactions = self._transactions
        transactions.core.set_in_transaction(False)
        core = transactions.core
        core.backlog.give_up(ClientError("the transaction was aborted"))
        await transactions.call(lambda: transactions.calls.abort(self._timeout_s), self._timeout_s)
        core.serve()
        # Records of an aborted transaction are not missing.
        core.undelivered(unawaited=True)
