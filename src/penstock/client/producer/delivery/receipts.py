"""The receipt of a record in flight.

A receipt is librdkafka's callback itself: no future, closure or dictionary entry per record. The
receipt copies the numbers and drops the message: kept messages cost the garbage collector twice the
time of the whole record.
"""

from typing import Any

from penstock.client.producer.delivery.delivery_errors import FailedRecord
from penstock.client.producer.delivery.delivery_tracker import (
    NO_OFFSET,
    FlushWindow,
)
from penstock.client.records import Delivered


class Receipt(Delivered):
    """The receipt of one record, made on the hot path.

    While the record is in flight the offset is None, and partition and time are unset. The offset
    is set last, so a thread that sees it sees all.
    """

    __slots__ = ("_error", "_message", "_waiters", "_window")

    _error: Any  # librdkafka's, or our own exception
    _message: Any  # of a failed record that librdkafka had
    _waiters: list[Any] | None

    def __init__(self, window: FlushWindow, topic: str) -> None:
        self._window = window
        self.topic = topic
        self.offset = None  # type: ignore[assignment]
        self._error = None
        self._waiters = None

    def __call__(self, error: Any, message: Any) -> None:
        """Handle librdkafka's report, on the thread that polls."""
        window = self._window
        window.settled += 1
        if error is None:
            self.partition = message.partition()
            self.timestamp_ms = message.timestamp()[1]
            self.offset = message.offset()
        else:
            self._message = message
            self._error = error
            window.tracker.keep_unawaited(self)
            self.offset = NO_OFFSET
        # A new waiter looks at the offset once more, so either side sees the other.
        if self._waiters is not None:
            window.tracker.woken.append(self)

    def taken(self) -> None:
        """Do nothing: librdkafka has the record now."""

    def fail(self, error: Exception) -> None:
        """Fail a record that librdkafka did not take."""
        self(error, None)
        tracker = self._window.tracker
        if tracker.interceptors:
            tracker.acknowledged.append((error, None))

    def wake(self) -> None:
        """Do nothing: the poll that brought the report is over."""

    def done(self) -> bool:
        """Return whether the record is delivered or has failed."""
        return self.offset is not None

    def exception(self) -> Exception | None:
        """Return the failure; None for a delivered record or one in flight."""
        error: Any = self._error
        if error is None:
            return None
        tracker = self._window.tracker
        tracker.unawaited.pop(id(self), None)
        if not isinstance(error, Exception):
            self._error = error = tracker.failure(error, self._message)
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
