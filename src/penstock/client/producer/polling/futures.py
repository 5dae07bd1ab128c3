"""Awaitables of the asyncio Producer: a delivery, room for a post, a yield to the loop."""

import asyncio
from collections.abc import Generator
from typing import Any

from penstock.client.failures import WrongLoop
from penstock.client.producer.delivery.delivery_errors import FailedRecord
from penstock.client.producer.delivery.delivery_tracker import FlushWindow
from penstock.client.producer.delivery.receipts import Receipt
from penstock.client.producer.sending.encoding import EncodedRecord, UnserializedRecord
from penstock.client.records import Delivered


def running_loop(expected: object) -> asyncio.AbstractEventLoop:
    """Return the running loop; raise WrongLoop if it is missing or another one."""
    loop = asyncio._get_running_loop()
    if loop is None:
        raise WrongLoop("no event loop is running in this thread")
    if loop is not expected:
        raise WrongLoop("the producer was first used in another event loop")
    return loop


def set_done(future: "asyncio.Future[None]") -> None:
    """Wake the waiter, unless it has left."""
    if not future.done():
        future.set_result(None)


class Delivery(Receipt):
    """A record in flight: awaiting it returns the offset, or raises the failure.

    The result is the delivery itself: one object less per record.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Delivered]:
        if self.offset is None:
            yield from self._wait()
        return self if self._error is None else self._settled()

    def _wait(self) -> Generator[Any, None, None]:
        tracker = self._window.tracker
        future = running_loop(tracker.home).create_future()
        tracker.waiting.add(future)
        if self._waiters is None:
            self._waiters = [future]
        else:
            self._waiters.append(future)
        if self.offset is None:
            yield from future.__await__()

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, None
        for future in waiters or ():
            set_done(future)

    def result(self) -> Delivered:
        """Return the result of a finished delivery; raise asyncio.InvalidStateError before."""
        if not self.done():
            raise asyncio.InvalidStateError("the record is under way: await its delivery")
        return self._settled()


class QueueRoom:
    """A posted record that waits for room; awaiting ends when librdkafka has the record."""

    __slots__ = ("_encoded", "_error", "_settled", "_waiters", "_window")

    def __init__(self, window: FlushWindow, encoded: EncodedRecord | UnserializedRecord) -> None:
        self._window = window
        self._encoded = encoded
        self._settled = False
        self._error: Exception | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def taken(self) -> None:
        self._settled = True
        if self._window.tracker.reports_errors_only:  # no report will come
            self._window.settled += 1
        self._wake()

    def fail(self, error: Exception) -> None:
        self._settled = True
        self._window.settled += 1
        tracker = self._window.tracker
        if tracker.interceptors:
            tracker.acknowledged.append((error, None))
        if self._waiters:
            self._error = error
        else:  # without a waiter flush() raises it
            encoded = self._encoded
            name = tracker.namespace.strip(encoded.topic) or encoded.topic
            if isinstance(encoded, UnserializedRecord):  # no bytes to show
                tracker.keep_post(FailedRecord(name, None, None, error))
            else:
                tracker.keep_post(FailedRecord(name, encoded.key, encoded.value, error))
        self._wake()

    def _wake(self) -> None:
        for future in self._waiters:
            set_done(future)

    def __await__(self) -> Generator[Any, None, None]:
        if not self._settled:
            future = running_loop(self._window.tracker.home).create_future()
            self._waiters.append(future)
            yield from future.__await__()
        if self._error is not None:
            raise self._error


class LoopYield:
    """Yields to the event loop once."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield


LOOP_YIELD = LoopYield()
