"""The way of most records: bytes, to librdkafka, and nothing else.

Functions over shared cells instead of methods, because a method pays for each attribute it reads:
of the 0.14 us per record that this costs beside librdkafka's own 0.6, a method would make 0.4.
The credit is the only question: it is granted, so many records at a time, while nothing forbids
the hot path (a close, a fork, records that wait for room, no transaction), and taken back as soon
as something does. Without credit a record goes the slow way, which does the same in words
(a test compares them), polls, and grants anew.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.client.producer.encoding import LIBRARY_CHOOSES
from penstock.client.records import HeadersLike

if TYPE_CHECKING:
    from penstock.client.producer.awaitables import Delivery
    from penstock.client.producer.pump import Pump


KEEP = -1


class SendFunction(Protocol):
    def __call__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = None,
        timestamp_ms: int | None = None,
    ) -> "Delivery": ...


class PostFunction(Protocol):
    def __call__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = None,
        timestamp_ms: int | None = None,
    ) -> Awaitable[None]: ...


class Grant(Protocol):
    def __call__(self, records: int, /) -> int: ...


class Lane(NamedTuple):
    """The way to one function's credit."""

    # Grants so many records on the ledger's page, or leaves the credit as it is (KEEP); returns how
    # many were sent since the last time.
    grant: Grant
    credit: Callable[[], int]


class HotPath:
    """Its two ends, and their credit."""

    def __init__(self, core: "Pump", delivery_class: "type[Delivery]") -> None:
        self.send, self._sends = _send_lane(core, delivery_class)
        self.post, self._posts = _post_lane(core)

    def grant(self, records: int) -> int:
        """To both, each so many; returns how many went this way since the last time."""
        return self._sends.grant(records) + self._posts.grant(records)

    @property
    def exhausted(self) -> bool:
        """Whether one of the two has no credit left."""
        return not self._sends.credit() or not self._posts.credit()


def _send_lane(core: "Pump", delivery_class: "type[Delivery]") -> tuple[SendFunction, Lane]:
    credit = granted = 0
    ledger, names, produce = core.ledger, core.names, core.handle.produce
    page, new = ledger.page, object.__new__

    def send(
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = None,
        timestamp_ms: int | None = None,
    ) -> "Delivery":
        nonlocal credit
        if (
            credit > 0
            and value.__class__ is bytes
            and (key is None or key.__class__ is bytes)
            and partition is None
            and headers is None
            and timestamp_ms is None
        ):
            delivery = new(delivery_class)  # as its __init__ does
            delivery._page = page
            delivery.topic = topic
            delivery.offset = None  # type: ignore[assignment]
            delivery._error = None
            delivery._waiters = None
            try:
                full = topic if names is None else names[topic]
                produce(full, value, key, LIBRARY_CHOOSES, delivery)
            except BufferError:
                pass
            except Exception as error:
                raise core.refused(error, topic) from error
            else:
                credit -= 1
                return delivery
        return core.send(topic, value, key, partition, headers, timestamp_ms)

    def grant(records: int) -> int:
        nonlocal credit, granted, page
        spent = granted - credit
        if records != KEEP:
            # Where only failures are reported there are no deliveries; the slow way says so.
            credit = 0 if core.quiet else records
        granted = credit
        page = ledger.page
        return spent

    return send, Lane(grant, lambda: 1 if core.quiet else credit)


def _post_lane(core: "Pump") -> tuple[PostFunction, Lane]:
    credit = granted = 0
    ledger, names, produce = core.ledger, core.names, core.handle.produce
    posted, ready = ledger.posted, core.ready

    def post(
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: HeadersLike = None,
        timestamp_ms: int | None = None,
    ) -> Awaitable[None]:
        nonlocal credit
        if (
            credit > 0
            and value.__class__ is bytes
            and (key is None or key.__class__ is bytes)
            and partition is None
            and headers is None
            and timestamp_ms is None
        ):
            try:
                full = topic if names is None else names[topic]
                produce(full, value, key, LIBRARY_CHOOSES, posted)
            except BufferError:
                pass
            except Exception as error:
                raise core.refused(error, topic) from error
            else:
                credit -= 1
                return ready
        return core.post(topic, value, key, partition, headers, timestamp_ms)

    def grant(records: int) -> int:
        nonlocal credit, granted, posted
        spent = granted - credit
        if records != KEEP:
            credit = records
        granted = credit
        posted = ledger.posted
        return spent

    return post, Lane(grant, lambda: credit)
