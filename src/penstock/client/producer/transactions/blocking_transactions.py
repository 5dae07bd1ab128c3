"""Transactions of the blocking Producer: one at a time, on the client's thread."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

from penstock.client.failures import ClientClosed, TimedOut
from penstock.client.producer.polling.blocking_core import BlockingProducerCore
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


class BlockingFlusher(Protocol):
    """The producer, kept alive by its transaction."""

    def flush(self, timeout_s: float | None = None) -> None: ...


class BlockingTransactions:
    """The transactions of one producer."""

    def __init__(self, core: BlockingProducerCore) -> None:
        self.core = core
        self.calls = TransactionCalls(core)
        self.lock = threading.Lock()
        self.owner: int | None = None

    def make(self, producer: BlockingFlusher, timeout_s: float | None) -> "Transaction":
        return Transaction(self, producer, self.core.block_s if timeout_s is None else timeout_s)

    def send_offsets(
        self, consumer: OffsetSource, said: OffsetsLike | None, timeout_s: float | None
    ) -> None:
        core = self.core
        self.calls.check_open()
        if not self.calls.offsets_to_send(consumer, said).offsets:
            return
        limit = core.block_s if timeout_s is None else timeout_s
        member = consumer.group_metadata()  # has a limit of its own
        taken = self.calls.offsets_to_send(consumer, said)
        self.call(lambda: self.calls.send_offsets(taken, member, limit), limit)

    def call(self, call: Callable[[], T], limit_s: float) -> T:
        """Run a call on the client's thread. A call that does not return ends the producer."""
        try:
            return self.core.thread.wait(call, limit_s + MARGIN_SECONDS)
        except CallStuck:
            self.calls.lost()
            raise self.core.stuck_error(limit_s) from None

    def give_up(self, timeout_s: float) -> None:
        """Abort the open transaction of a producer that closes."""
        if self.core.in_transaction:
            self.core.set_in_transaction(False)
            try:
                self.call(lambda: self.calls.abort(timeout_s), timeout_s)
            except Exception as error:
                log.warning("the open transaction was not aborted: %s", error)


class Transaction:
    """An open transaction; made by `producer.transaction()`."""

    def __init__(
        self, transactions: BlockingTransactions, producer: BlockingFlusher, timeout_s: float
    ) -> None:
        self._transactions = transactions
        self._producer = producer
        self._timeout_s = timeout_s
        self._ended = False
        # From then on only the commit's result tells the outcome.
        self.commit_begun = False

    def __enter__(self) -> Self:
        transactions, core = self._transactions, self._transactions.core
        is_owner = transactions.owner == threading.get_ident()
        transactions.calls.check_begin(is_owner=is_owner)
        if not transactions.lock.acquire(timeout=self._timeout_s):
            raise TimedOut(
                f"another transaction of this producer was open for {self._timeout_s:g} s"
            )
        try:
            core.check_life()
            core.begin()
            transactions.call(lambda: transactions.calls.begin(self._timeout_s), self._timeout_s)
        except BaseException:
            transactions.lock.release()
            raise
        transactions.owner = threading.get_ident()
        core.set_in_transaction(True)
        return self

    def __exit__(
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
                self._commit()
            else:
                self._abort_after(error)
        finally:
            self._transactions.core.set_in_transaction(False)
            self._transactions.owner = None
            self._transactions.lock.release()

    def abort(self) -> None:
        """Abort now; the block may go on, without sending."""
        if not self._ended:
            self._ended = True
            self._abort()

    def send_offsets(self, consumer: OffsetSource, offsets: OffsetsLike | None = None) -> None:
        """Send offsets as Producer.send_offsets does."""
        self._transactions.send_offsets(consumer, offsets, self._timeout_s)

    def _commit(self) -> None:
        """Flush, then commit; abort if a record failed or the time is over."""
        transactions = self._transactions
        try:
            self._flush()
            failed = transactions.core.undelivered(unawaited=True)
            if failed is not None:  # librdkafka does not say which record
                raise failed
        except BaseException as error:
            self._abort_after(error)
            raise
        transactions.core.set_in_transaction(False)
        self.commit_begun = True
        transactions.call(lambda: transactions.calls.commit(self._timeout_s), self._timeout_s)
        transactions.core.serve()

    def _flush(self) -> None:
        limit = CommitFlush(self._transactions.core, self._timeout_s)
        while True:
            try:
                return self._producer.flush(limit.next_s())
            except TimedOut as late:
                limit.check(late)
                left_s = limit.left_s
                self._transactions.call(
                    partial(self._transactions.calls.check_state, left_s), left_s
                )

    def _abort_after(self, error: BaseException) -> None:
        try:
            self._abort()
        except Exception as second:
            error.add_note(f"The transaction could not be aborted: {second}")

    def _abort(self) -> None:
        transactions = self._transactions
        transactions.core.set_in_transaction(False)
        transactions.call(lambda: transactions.calls.abort(self._timeout_s), self._timeout_s)
        transactions.core.serve()
        # Records of an aborted transaction are not missing.
        transactions.core.undelivered(unawaited=True)
