"""Interceptors: application code that sees records before sending and after reading.

Errors of an interceptor are logged and dropped, as in Kafka: they cost no record. Interceptors run
one after the other in the given order, on the thread that uses the client, never from inside
librdkafka; so they may use the client themselves.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from penstock.client.records import Delivered, Headers, K, Record, V
from penstock.client.runtime.python_paths import NotThere, load
from penstock.model import TopicPartition

log = logging.getLogger(__name__)


class InterceptorRefused(ValueError):
    """The argument is no interceptor; the text says what would be one."""


@dataclass(frozen=True, slots=True)
class Outgoing(Generic[K, V]):
    """A record to send, before key and value are bytes. Change it with `replace`."""

    topic: str
    value: V | None
    key: K | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Base class; override the methods needed."""

    def on_send(self, record: Outgoing[Any, Any]) -> Outgoing[Any, Any]:
        """Return the record to send instead, or the same."""
        return record

    def on_acknowledgement(self, delivered: Delivered | None, error: Exception | None) -> None:
        """Handle a delivered or failed record; one of the two is None."""

    def close(self) -> None:
        """Handle the close of the producer."""


class ConsumerInterceptor:
    """Base class; override the methods needed."""

    def on_consume(self, records: Sequence[Record[Any, Any]]) -> Sequence[Record[Any, Any]]:
        """Return the records for the application instead, or the same."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Handle committed offsets."""

    def close(self) -> None:
        """Handle the close of the consumer."""


class Closeable(Protocol):
    def close(self) -> None: ...


Kind = TypeVar("Kind", ProducerInterceptor, ConsumerInterceptor)


def interceptors_of(said: Iterable[object], kind: type[Kind]) -> tuple[Kind, ...]:
    """Return interceptors from objects, classes, or their names."""
    made = []
    for each in said:
        try:
            found = load(each) if isinstance(each, str) else each
        except NotThere as error:
            raise InterceptorRefused(
                f"no interceptor {each}: {error}. Java's classes cannot be loaded here"
            ) from error
        if isinstance(found, type):
            found = found()
        if not isinstance(found, kind):
            raise InterceptorRefused(
                f"{each!r} is no interceptor here: derive it from {kind.__module__}.{kind.__name__}"
            )
        made.append(found)
    return tuple(made)


def sent_through(
    interceptors: Sequence[ProducerInterceptor], record: Outgoing[Any, Any]
) -> Outgoing[Any, Any]:
    """Return the record after all interceptors."""
    for each in interceptors:
        try:
            seen = each.on_send(record)
            if not isinstance(seen, Outgoing):
                raise TypeError(f"on_send returned {seen!r} instead of a record")
            record = seen
        except Exception:
            log.exception("%s.on_send failed; the record goes on without it", type(each).__name__)
    return record


def acknowledge(
    interceptors: Sequence[ProducerInterceptor],
    delivered: Delivered | None,
    error: Exception | None,
) -> None:
    for each in interceptors:
        try:
            each.on_acknowledgement(delivered, error)
        except Exception:
            log.exception("%s.on_acknowledgement failed", type(each).__name__)


def consumed_through(
    interceptors: Sequence[ConsumerInterceptor], records: Sequence[Record[Any, Any]]
) -> Sequence[Record[Any, Any]]:
    """Return the records after all interceptors."""
    for each in interceptors:
        try:
            seen = each.on_consume(records)
            if not isinstance(seen, Sequence):
                raise TypeError(f"on_consume returned {seen!r} instead of records")
            records = seen
        except Exception:
            log.exception("%s.on_consume failed; the records go on", type(each).__name__)
    return records


def committed(
    interceptors: Sequence[ConsumerInterceptor], offsets: Mapping[TopicPartition, int]
) -> None:
    for each in interceptors:
        try:
            each.on_commit(offsets)
        except Exception:
            log.exception("%s.on_commit failed", type(each).__name__)


def close_all(interceptors: Iterable[Closeable]) -> None:
    for each in interceptors:
        try:
            each.close()
        except Exception:
            log.exception("%s.close failed", type(each).__name__)
