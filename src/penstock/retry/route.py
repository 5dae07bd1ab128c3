"""Settings of one topic: its handler, its deserializers, its retries and its output."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from penstock.client.failures import DeserializationError, SerializationError
from penstock.client.records import Headers, OutRecord, Record, headers_to_send
from penstock.client.serde.protocols import Deserializer, NotToldYet, Serializer
from penstock.errors import MessageTooLarge
from penstock.retry.ladder import Ladder, wait_ms_of
from penstock.retry.partition_state import AdmittedRecord, Write
from penstock.retry.settings import REQUEST_BYTES_MAX

CONCURRENCY_MAX = 1_000

# Gets a record as it was in the source, on every attempt.
Handler: TypeAlias = Callable[[Record[Any, Any]], Awaitable[object]]
# Returns the idempotency key of a record; None: the record is not guarded.
Identity: TypeAlias = Callable[[Record[Any, Any]], str | bytes | None]


class NoRetry(Exception):
    """Raised by a handler if another attempt would fail, too; the record is dead at once."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Handles records of one event once within a window, if they share a partition and, with
    concurrency, a key.

    `by` is the name of a header, or a function of the record. Idempotency keys are written beside
    the source, in the transaction of the offset. With `shared=False` only this process remembers
    the keys, until it ends or the partition moves.
    """

    by: str | Identity
    window: str | float | timedelta = "1d"
    shared: bool = True

    @property
    def window_ms(self) -> int:
        return wait_ms_of(self.window)

    def identity(self, record: Record[Any, Any]) -> bytes | None:
        said = record.header(self.by) if isinstance(self.by, str) else self.by(record)
        if isinstance(said, str):
            return said.encode()
        if said is None or isinstance(said, bytes):
            return said
        raise TypeError(f"an idempotency key is text or bytes, and {said!r} is neither")


class WithHeaders(NamedTuple):
    """A result whose records get these headers, behind their own."""

    result: object
    headers: Headers


@dataclass(frozen=True, slots=True)
class Output:
    """The topic for results, written in the transaction that commits the offset."""

    topic: str
    key: Serializer[Any]
    value: Serializer[Any]
    bytes_max: int = REQUEST_BYTES_MAX

    def writes(self, result: object, raw_key: bytes | None) -> list[Write]:
        """Return the records of a result. A value keeps the key of its source record; an OutRecord
        has its own. None and an empty list give no record; a list of OutRecords gives several."""
        more: Headers = ()
        if isinstance(result, WithHeaders):
            result, more = result
        if result is None:
            return []
        if isinstance(result, OutRecord):
            return [self._write(result, more)]
        if isinstance(result, list | tuple) and all(isinstance(e, OutRecord) for e in result):
            return [self._write(each, more) for each in result]
        _check_is_value(result)
        headers = list(more)
        value = self._serialized(self.value, result, headers, is_key=False)
        return [self._checked(Write(self.topic, raw_key, value, tuple(headers)))]

    def _write(self, out: OutRecord[Any, Any], more: Headers) -> Write:
        headers = [*headers_to_send(out.headers), *more]
        key = self._serialized(self.key, out.key, headers, is_key=True)
        value = self._serialized(self.value, out.value, headers, is_key=False)
        return self._checked(
            Write(self.topic, key, value, tuple(headers), out.partition, out.timestamp_ms)
        )

    def _checked(self, write: Write) -> Write:
        size = len(write.key or b"") + len(write.value or b"")
        size += sum(len(name) + len(value or b"") for name, value in write.headers)
        if size > self.bytes_max:
            raise MessageTooLarge(
                f"a result of {size:,} bytes for {self.topic} is larger than max.request.size "
                f"({self.bytes_max:,})"
            )
        return write

    def _serialized(
        self,
        serializer: Serializer[Any],
        said: object,
        headers: list[tuple[str, bytes | None]],
        *,
        is_key: bool,
    ) -> bytes | None:
        if said is None:
            return None
        try:
            data: object = serializer.serialize(self.topic, said, headers)
            if data is None or isinstance(data, bytes):
                return data
            raise TypeError(f"its serializer gives bytes, not {type(data).__name__}")
        except NotToldYet:
            raise
        except Exception as error:
            raise SerializationError(error, topic=self.topic, is_key=is_key) from error


def _check_is_value(result: object) -> None:
    """Raise TypeError for generators and for OutRecords mixed with other values."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(
            "a handler returned a generator, of which nothing has run; several results are a list "
            "of OutRecords"
        )
    if isinstance(result, list | tuple) and _has_out_record(result):
        raise TypeError(
            "a handler returned OutRecords beside other things, or nested; several results are one "
            "list of OutRecords"
        )


def _has_out_record(result: list[object] | tuple[object, ...]) -> bool:
    return any(
        isinstance(each, OutRecord)
        or (isinstance(each, list | tuple) and any(isinstance(e, OutRecord) for e in each))
        for each in result
    )


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The settings of one topic."""

    topic: str
    handler: Handler
    key: Deserializer[Any]
    value: Deserializer[Any]
    ladder: Ladder
    ordered: bool = False
    concurrency: int = 1
    guard: Guard | None = None
    output: Output | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency is from 1 to {CONCURRENCY_MAX}")

    @property
    def seen_window_ms(self) -> int | None:
        """Return the window of a guard whose keys are written."""
        return self.guard.window_ms if self.guard is not None and self.guard.shared else None

    def deserialized(self, entry: AdmittedRecord) -> Record[Any, Any]:
        """Return the record as it was in the source, deserialized, with its retry headers. Raise
        DeserializationError, or NotToldYet while a schema is not known."""
        raw, trail = entry.record, entry.trail
        return Record(
            trail.topic,
            trail.partition,
            trail.offset,
            self._read(self.key, raw.key, entry, is_key=True),
            self._read(self.value, raw.value, entry, is_key=False),
            raw.headers,
            trail.timestamp_ms,
        )

    def _read(
        self,
        deserializer: Deserializer[Any],
        data: bytes | None,
        entry: AdmittedRecord,
        *,
        is_key: bool,
    ) -> Any:
        if data is None:
            return None
        try:
            return deserializer.deserialize(entry.trail.topic, data, entry.record.headers)
        except (KeyboardInterrupt, NotToldYet):
            raise
        except BaseException as error:  # also SystemExit and cancellations
            raise self.unreadable(error, entry, is_key=is_key) from error

    def unreadable(
        self, error: BaseException, entry: AdmittedRecord, *, is_key: bool = False
    ) -> DeserializationError:
        trail = entry.trail
        return DeserializationError(
            error,
            topic=trail.topic,
            partition=trail.partition,
            offset=trail.offset,
            is_key=is_key,
        )

    def identity(self, record: Record[Any, Any]) -> bytes | None:
        return None if self.guard is None else self.guard.identity(record)

    def outputs(self, result: object, entry: AdmittedRecord) -> Sequence[Write]:
        return () if self.output is None else self.output.writes(result, entry.key)
