"""What a sender holds while his record is under way.

A receipt is itself what librdkafka calls when the record is delivered or given up: no future, no
closure, no dictionary entry per record. It takes numbers out of librdkafka's message and lets go of
it: kept messages are what the garbage collector then walks over (measured: twice the cost of the
whole record).
"""

from typing import Any

from penstock.client.producer.ledger import NO_OFFSET, Ledger, Page, Report
from penstock.client.producer.undelivered import FailedRecord
from penstock.client.records import Delivered


class Receipt(Delivered):
    """Of one record. Made on the hot path, once per record: slots, and no more than needed.

    While the record is under way the offset is None, and partition and time are not there yet. The
    offset is set last, so whoever sees it sees them all.
    """

    __slots__ = ("_error", "_message", "_page", "_waiters")

    _error: Any  # librdkafka's, or our own exception
    _message: Any  # of a record that failed, where librdkafka had it
    _waiters: list[Any] | None

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self.topic = topic
        self.offset = None  # type: ignore[assignment]
        self._error = None
        self._waiters = None

    def __call__(self, error: Any, message: Any) -> None:
        """librdkafka's report; on the thread that polls."""
        page = self._page
        page.settled += 1
        if error is None:
            self.partition = message.partition()
            self.timestamp_ms = message.timestamp()[1]
            self.offset = message.offset()
        else:
            self._message = message
            self._error = error
            page.ledger.keep_unasked(self)
            self.offset = NO_OFFSET
        # Whoever begins to wait looks at the offset once more, so one of the two sees the other.
        if self._waiters is not None:
            page.ledger.woken.append(self)

    def taken(self) -> None:
        """librdkafka has the record now, after it waited for room."""

    def fail(self, error: Exception) -> None:
        """The record failed before librdkafka took it."""
        self(error, None)
        ledger = self._page.ledger
        if ledger.watched:
            ledger.acknowledged.append((error, None))

    def wake(self) -> None:
        """The poll that brought the report is over."""

    def done(self) -> bool:
        """Whether the record is delivered, or has failed."""
        return self.offset is not None

    def exception(self) -> Exception | None:
        """Why the record failed; None if it was delivered, or is under way."""
        error: Any = self._error
        if error is None:
            return None
        ledger = self._page.ledger
        ledger.unasked.pop(id(self), None)
        if not isinstance(error, Exception):
            self._error = error = ledger.failure(error, self._message)
        found: Exception = error
        return found

    def _settled(self) -> Delivered:
        error = self.exception()
        if error is not None:
            raise error
        return self

    def failed_record(self) -> FailedRecord:
        error = self.exception()
        assert error is not None, "only failures are asked for"
        message = self._message
        if message is None:
            return FailedRecord(self.topic, None, None, error)
        return FailedRecord(self.topic, message.key(), message.value(), error)

    def __repr__(self) -> str:
        if not self.done():
            return f"<{type(self).__name__} to {self.topic}, under way>"
        if self._error is not None:
            return f"<{type(self).__name__} to {self.topic}, failed: {self.exception()}>"
        return super().__repr__()


class Watch:
    """A receipt whose report the interceptors hear of, too."""

    __slots__ = ("_ledger", "_receipt")

    def __init__(self, receipt: Receipt, ledger: Ledger) -> None:
        self._receipt = receipt
        self._ledger = ledger

    def __call__(self, error: Any, message: Any) -> None:
        self._receipt(error, message)
        self._ledger.acknowledged.append((error, message))


def report_to(receipt: Receipt, ledger: Ledger) -> Report:
    """What librdkafka calls for this receipt."""
    return Watch(receipt, ledger) if ledger.watched else receipt
