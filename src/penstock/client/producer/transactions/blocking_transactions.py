"""Transactions of the blocking Producer: one at a time, on the client's thread."""

import threading
from collections.abc import Callable
from typing import Self, TypeVar

from penstock.client.failures import TimedOut
from penstock.client.producer.polling.blocking_core import BlockingProducerCore
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

T = TypeVar("T")


class BlockingTransactions:
    """The transactions of one producer."""

    def __init__(self, core: BlockingProducerCore) -> None:
        self.core = core
        self.calls = TransactionCalls(core)
        self.lock = threading.Lock()
        self.owner: int | None = None

    def send_offsets(
        self, consumer: OffsetSource, said: OffsetsLike | None, timeout_s: float | None
    ) -> None:
        calls, limit = self.calls, self.core.block_s if timeout_s is None else timeout_s
        if calls.has_offsets(consumer, said):
            member = consumer.group_metadata()  # has a limit of its own
            taken = calls.offsets_to_send(consumer, said)
            self.call(lambda: calls.send_offsets(taken, member, limit), limit)

    def call(
        self, call: Callable[[], T], limit_s: float, on_interrupt: Callable[[], float] | None = None
    ) -> T:
        """Run a call on the client's thread. A call that does not return ends the producer."""
        try:
            return self.core.thread.wait(call, limit_s + MARGIN_SECONDS, on_interrupt)
        except CallStuck:
            self.calls.lost()
            raise self.core.stuck_error(limit_s) from None

    def drive(self, steps: BlockSteps, flush: Callable[[float], None]) -> None:
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
                    flush(step.limit_s)
                else:
                    self.call(*step, self.core.interrupt)
            except BaseException as error:
                failure = error


class Transaction(TransactionBlock):
    """An open transaction; made by `producer.transaction()`."""

    def __init__(
        self,
        transactions: BlockingTransactions,
        flush: Callable[[float], None],
        timeout_s: float | None,
    ) -> None:
        super().__init__(transactions.core, transactions.calls, timeout_s)
        self._transactions = transactions
        self._flush_producer = flush  # keeps the producer alive

    def __enter__(self) -> Self:
        transactions, core, calls = self._transactions, self._transactions.core, self._calls
        calls.check_begin(is_owner=transactions.owner == threading.get_ident())
        if not transactions.lock.acquire(timeout=self._timeout_s):
            raise TimedOut(
                f"another transaction of this producer was open for {self._timeout_s:g} s"
            )
        try:
            core.check_life()
            core.forget_interruption()
            core.begin()
            transactions.call(lambda: calls.begin(self._timeout_s), self._timeout_s)
        except BaseException:
            transactions.lock.release()
            raise
        transactions.owner = threading.get_ident()
        core.set_in_transaction(True)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._transactions.drive(self.end(error), self._flush_producer)
        finally:
            self._core.set_in_transaction(False)
            self._transactions.owner = None
            self._transactions.lock.release()

    def abort(self) -> None:
        """Abort now; the block may go on, without sending."""
        self._transactions.drive(self.abort_now(), self._flush_producer)

    def send_offsets(self, consumer: OffsetSource, offsets: OffsetsLike | None = None) -> None:
        """Send offsets as Producer.send_offsets does."""
        self._transactions.send_offsets(consumer, offsets, self._timeout_s)
