"""OpenTelemetry's context in headers: read from handled records, added to sent ones.

Without the package `opentelemetry` nothing happens. A retried record keeps its first trace.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock.client.interceptors import Outgoing, ProducerInterceptor
from penstock.client.records import Headers, Record
from penstock.retry.retry_headers import NoTrail, read_trail

try:
    from opentelemetry import propagate, trace
    from opentelemetry.trace import SpanKind
except ImportError:
    TRACES = False
else:
    TRACES = True


@contextmanager
def attempt_span(record: Record[Any, Any], group: str) -> Iterator[None]:
    """Open a span for one attempt, below the span of the sender."""
    if not TRACES:
        yield
        return
    # Headers of one name: the last one counts, as in Record.header.
    carrier = {name: value.decode("latin-1") for name, value in record.headers if value is not None}
    tracer = trace.get_tracer("penstock.worker")
    with tracer.start_as_current_span(
        f"process {record.topic}",
        context=propagate.extract(carrier),
        kind=SpanKind.CONSUMER,
        attributes={
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.destination.name": record.topic,
            "messaging.destination.partition.id": str(record.partition),
            "messaging.kafka.offset": record.offset,
            "messaging.consumer.group.name": group,
            "penstock.attempt": _attempt(record),
        },
    ):
        yield


def _attempt(record: Record[Any, Any]) -> int:
    try:
        return read_trail(record.headers).attempts + 1
    except NoTrail:
        return 1


def context_headers() -> Headers:
    """Return the headers of the current trace context."""
    if not TRACES:
        return ()
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return tuple((name, value.encode("latin-1")) for name, value in carrier.items())


class ContextInHeaders(ProducerInterceptor):
    """Adds the sender's trace context to each record that has none."""

    def on_send(self, record: Outgoing[Any, Any]) -> Outgoing[Any, Any]:
        named = {name for name, _ in record.headers}
        more = tuple(each for each in context_headers() if each[0] not in named)
        return replace(record, headers=(*record.headers, *more)) if more else record
