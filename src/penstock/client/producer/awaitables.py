"""What the asyncio Producer gives to be awaited: a delivery, room for a post, a turn."""

import asyncio
from collections.abc import Generator
from typing import Any

from penstock.client.failures import WrongLoop
from penstock.client.producer.encoding import Encoded, Unwritten
from penstock.client.producer.ledger import Page
from penstock.client.producer.receipts import Receipt
from penstock.client.producer.undelivered import FailedRecord
from penstock.client.records import Delivered


def running_loop(expected: object) -> asyncio.AbstractEventLoop:
    """The loop that runs; WrongLoop if there is none or it is another one."""
    loop = asyncio._get_running_loop()
    if loop is None:
        raise WrongLoop("no event loop is running in this thread")
    if loop is not expected:
        raise WrongLoop("the producer was first used in another event loop")
    return loop


class Delivery(Receipt):
    """A record under way: awaiting it gives where it was written, or raises why it was not.

    What it gives is the delivery itself, done: an object less per record.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Delivered]:
        if self.offset is None:
            yield from self._wait()
        return self if self._error is None else self._settled()

    def _wait(self) -> Generator[Any, None, None]:
        ledger = self._page.ledger
        future = running_loop(ledger.home).create_future()
        ledger.waiting.add(future)
        if self._waiters is None:
            self._waiters = [future]
        else:
            self._waiters.append(future)
        if self.offset is None:
            yield from future.__await__()

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, None
        for future in waiters or ():
            if not future.done():
                future.set_result(None)

    def result(self) -> Delivered:
        """The result of a delivery that is done; asyncio.InvalidStateError if it is not."""
        if not self.done():
            raise asyncio.InvalidStateError("the record is under way: await its delivery")
        return self._settled()


class Room:
    """A posted record that waits for room: awaiting it ends when librdkafka has the record."""

    __slots__ = ("_encoded", "_error", "_page", "_settled", "_waiters")

    def __init__(self, page: Page, encoded: Encoded | Unwritten) -> None:
        self._page = page
        self._encoded = encoded
        self._settled = False
        self._error: Exception | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def taken(self) -> None:
        self._settled = True
        if self._page.ledger.quiet:  # nobody will say when it is delivered
            self._page.settled += 1
        self._wake()

    def fail(self, error: Exception) -> None:
        self._settled = True
        self._page.settled += 1
        ledger = self._page.ledger
        if ledger.watched:
            ledger.acknowledged.append((error, None))
        if self._waiters:
            self._error = error
        else:  # nobody waits: flush() raises it
            encoded = self._encoded
            name = ledger.namespace.strip(encoded.topic) or encoded.topic
            if isinstance(encoded, Unwritten):  # there are no bytes to show
                ledger.keep_post(FailedRecord(name, None, None, error))
            else:
                ledger.keep_post(FailedRecord(name, encoded.key, encoded.value, error))
        self._wake()

    def _wake(self) -> None:
        for future in self._waiters:
            if not future.done():
                future.set_result(None)

    def __await__(self) -> Generator[Any, None, None]:
        if not self._settled:
            future = running_loop(self._page.ledger.home).create_future()
            self._waiters.append(future)
            yield from future.__await__()
        if self._error is not None:
            raise self._error


class Turn:
    """Lets others have the loop for a turn."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield


TURN = Turn()
