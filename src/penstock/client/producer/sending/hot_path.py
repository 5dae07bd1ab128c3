"""The hot path: bytes straight to librdkafka.

Functions over closure cells instead of methods, because a method pays for each attribute: of the
0.14 us per record beside librdkafka's own 0.6, a method would make 0.4. The credit is the only
check. Credit is granted for so many records, and withdrawn by a close, a fork, waiting records or a
missing transaction. Without credit a record takes the slow path, which does the same (a test
compares them), polls, and grants again.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.producer.sending.encoding import LIBRARY_CHOOSES
from penstock.client.records import HeadersLike

if TYPE_CHECKING:
    from penstock.client.producer.polling.aio_poller import AioProducerCore
    from penstock.client.producer.polling.futures import Delivery


KEEP = -1


class PathCredit(NamedTuple):
    """The access to one function's credit."""

    # Grants so many records of the tracker's window, or keeps the credit (KEEP); returns the
    # number sent since the last call.
    grant: Callable[[int], int]
    credit: Callable[[], int]


class HotPath:
    """The functions send and post of the hot path, and their credit."""

    def __init__(self, core: "AioProducerCore", delivery_class: "type[Delivery]") -> None:
        self.send, self._sends = _send_path(core, delivery_class)
        self.post, self._posts = _post_path(core)

    def grant(self, records: int) -> int:
        """Grant so many records to each function. Return the number sent since the last call."""
        return self._sends.grant(records) + self._posts.grant(records)

    @property
    def exhausted(self) -> bool:
        """Return whether `send` or `post` has no credit left."""
        return not self._sends.credit() or not self._posts.credit()


def _send_path(
    core: "AioProducerCore", delivery_class: "type[Delivery]"
) -> tuple["Callable[..., Delivery]", PathCredit]:
    credit = granted = 0
    tracker, names, produce = core.tracker, core.names, core.handle.produce
    window, new = tracker.window, object.__new__

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
            delivery = new(delivery_class)  # the same as Delivery.__init__
            delivery._window = window
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
        nonlocal credit, granted, window
        spent = granted - credit
        if records != KEEP:
            # With reports of failures only, deliveries are impossible; the slow path raises that.
            credit = 0 if core.reports_errors_only else records
        granted = credit
        window = tracker.window
        return spent

    return send, PathCredit(grant, lambda: 1 if core.reports_errors_only else credit)


def _post_path(core: "AioProducerCore") -> tuple[Callable[..., Awaitable[None]], PathCredit]:
    credit = granted = 0
    tracker, names, produce = core.tracker, core.names, core.handle.produce
    posted, ready = tracker.posted, core.ready

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
        posted = tracker.posted
        return spent

    return post, PathCredit(grant, lambda: credit)
