"""Transactions of the asyncio Producer: one at a time, on the client's thread, never half done.

What was begun is ended even if the task is cancelled meanwhile: a commit or abort under way is
waited for, within its time, before the cancellation goes on.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

from penstock.client.calls import CallStuck
from penstock.client.failures import ClientClosed, ClientError, TimedOut
from penstock.client.producer.core import MARGIN_SECONDS
from penstock.client.producer.pump import Pump
from penstock.client.producer.transactions import (
    CommitFlush,
    OffsetsLike,
    OffsetSource,
    TransactionCalls,
)

log = logging.getLogger("penstock.client.producer")

T = TypeVar("T")


class Starter(Protocol):
    """The producer, which has to live for as long as its transaction does."""

    async def flush(self, timeout_s: float | None = None) -> None: ...


class Transactions:
    """Of one producer."""

    def __init__(self, core: Pump) -> None:
        self.core = core
        self.calls = TransactionCalls(core)
        self.turn = asyncio.Lock()
        self.owner: asyncio.Task[object] | None = None

    def make(self, producer: Starter, timeout_s: float | None) -> "Transaction":
        return Transaction(self, producer, self.core.block_s if timeout_s is None else timeout_s)

    async def send_offsets(
        self, consumer: OffsetSource, said: OffsetsLike | None, timeout_s: float | None
    ) -> None:
        core = self.core
        if not core.in_transaction:
            raise ClientError(
                "offsets are sent inside a transaction",
                next_step="Set transactional.id, and say `async with producer.transaction():`",
            )
        if not self.calls.offsets_to_send(consumer, said).offsets:
            return
        limit = core.block_s if timeout_s is None else timeout_s
        member = await asyncio.to_thread(consumer.group_metadata)  # it has a limit of its own
        taken = self.calls.offsets_to_send(consumer, said)
        await self.call(lambda: self.calls.send_offsets(taken, member, limit), limit)

    async def call(
        self, call: Callable[[], T], limit_s: float, on_cancel: Callable[[], None] | None = None
    ) -> T:
        """On the client's thread. A call that does not come back is the end of the producer."""
        try:
            return await self.core.thread.finish(call, limit_s + MARGIN_SECONDS, on_cancel)
        except CallStuck:
            self.calls.lost()
            raise self.core.given_up(limit_s) from None

    async def give_up(self, timeout_s: float) -> None:
        """The producer is being closed: what is open is aborted."""
        if self.core.in_transaction:
            self.leave()
            try:
                await self.call(lambda: self.calls.abort(timeout_s), timeout_s)
            except Exception as error:
                log.warning("the open transaction was not aborted: %s", error)
            self.core.serve()

    def enter(self) -> None:
        self.core.in_transaction = True
        self.core.review()

    def leave(self) -> None:
        self.core.in_transaction = False
        self.core.review()


class Transaction:
    """An open transaction; made by `producer.transaction()`."""

    def __init__(self, transactions: Transactions, producer: Starter, timeout_s: float) -> None:
        self._all = transactions
        self._producer = producer
        self._timeout_s = timeout_s
        self._ended = False
        # From then on only the commit's own end tells whether it is done.
        self.commit_begun = False

    async def __aenter__(self) -> Self:
        every, core = self._all, self._all.core
        core.check_life()
        if not core.transactional:
            raise ClientError(
                "the producer has no transactional.id", next_step="Give it one in its settings"
            )
        core.bind()
        task = asyncio.current_task()
        if every.owner is not None and every.owner is task:
            raise ClientError(
                "this task has a transaction open already",
                next_step="End it first: one is open at a time, and waiting would never end",
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                await every.turn.acquire()
        except TimeoutError:
            raise TimedOut(
                f"another transaction of this producer was open for {self._timeout_s:g} s"
            ) from None
        try:
            core.check_life()
            every.calls.withdrawn = False
            await every.call(
                lambda: every.calls.begin(self._timeout_s), self._timeout_s, every.calls.withdraw
            )
        except asyncio.CancelledError:
            await self._withdraw()
            raise
        except BaseException:
            every.turn.release()
            raise
        every.owner = task
        every.enter()
        return self

    async def _withdraw(self) -> None:
        """Cancelled while it began: it may be open now."""
        every = self._all
        try:
            await every.call(lambda: every.calls.abort_if_open(self._timeout_s), self._timeout_s)
        except Exception as error:
            log.warning("a transaction that was just begun was not aborted: %s", error)
        finally:
            every.turn.release()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._ended:
                return
            if not self._all.core.in_transaction:
                if error is None:
                    raise ClientClosed("the producer was closed, and its transaction aborted")
            elif error is None:
                await self._commit()
            else:
                await self._abort_after(error)
        finally:
            self._all.leave()
            self._all.owner = None
            self._all.turn.release()

    async def abort(self) -> None:
        """Abort now; the block may go on, without sending."""
        if not self._ended:
            self._ended = True
            await self._abort()

    async def send_offsets(
        self, consumer: OffsetSource, offsets: OffsetsLike | None = None
    ) -> None:
        """As the producer's."""
        await self._all.send_offsets(consumer, offsets, self._timeout_s)

    async def _commit(self) -> None:
        """Records first; if one of them failed, or the time is up, abort."""
        every = self._all
        try:
            await self._flush()
            failed = every.core.undelivered(unasked=True)
            if failed is not None:  # librdkafka would not say which, or does not even know of it
                raise failed
        except BaseException as error:
            await self._abort_after(error)
            raise
        every.leave()
        self.commit_begun = True
        await every.call(lambda: every.calls.commit(self._timeout_s), self._timeout_s)
        every.core.serve()

    async def _flush(self) -> None:
        limit = CommitFlush(self._all.core, self._timeout_s)
        while True:
            try:
                return await self._producer.flush(limit.next_s())
            except TimedOut as late:
                limit.check(late)
                left_s = limit.left_s
                await self._all.call(partial(self._all.calls.look, left_s), left_s)

    async def _abort_after(self, error: BaseException) -> None:
        try:
            await self._abort()
        except Exception as second:
            error.add_note(f"The transaction could not be aborted: {second}")

    async def _abort(self) -> None:
        every = self._all
        every.leave()
        core = every.core
        core.backlog.give_up(ClientError("the transaction was aborted"))
        await every.call(lambda: every.calls.abort(self._timeout_s), self._timeout_s)
        core.serve()
        # What was sent in it is not missing: nobody was to see it.
        core.undelivered(unasked=True)
