"""Encoding of a caller's record for librdkafka.

A record passes the interceptors, then key and value become bytes, then the partition is chosen: an
explicit one, one of the Python partitioner, or none for librdkafka to choose. Records larger than
max.request.size are rejected here. In an event loop, a record whose serializer must ask a schema
registry waits unserialized.
"""

import copy
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from penstock.client.failures import SerializationError, from_rdkafka
from penstock.client.interceptors import Outgoing, ProducerInterceptor, sent_through
from penstock.client.namespace import Namespace
from penstock.client.partitioners import LibraryPartitioner, Partitioner, PartitionerRefused
from penstock.client.records import HeadersLike, headers_to_send
from penstock.client.serde.plain import AS_GIVEN
from penstock.client.serde.protocols import NotToldYet, Plain, Serializer
from penstock.errors import MessageTooLarge

LIBRARY_CHOOSES = -1
# The Python partitioner needs a partition count that is not known yet.
NOT_CHOSEN = -2
COUNTS_AGE_S_MAX = 300.0  # as metadata.max.age.ms
# The overhead of a record: about Kafka's upper estimate within a batch.
RECORD_OVERHEAD_BYTES = 100
HEADER_OVERHEAD_BYTES = 8
# The number of parts whose sizes are summed for an unserialized record.
PARTS_LOOKED_AT = 1_000
MESSAGE_SIZE_TOO_LARGE = 10


# Topic, value, key, partition, headers and time, as the application gives them.
SentRecord: TypeAlias = tuple[str, Any, Any, int | None, HeadersLike, int | None]


class EncodedRecord(NamedTuple):
    """A record for librdkafka. The topic has its namespace."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp_ms: int  # 0: now
    headers: list[tuple[str, bytes | None]] | None

    @property
    def size_bytes(self) -> int:
        """Return an upper estimate of the record's size in a batch."""
        size = RECORD_OVERHEAD_BYTES
        size += 0 if self.value is None else len(self.value)
        size += 0 if self.key is None else len(self.key)
        for name, value in self.headers or ():
            size += len(name) + HEADER_OVERHEAD_BYTES + (0 if value is None else len(value))
        return size


class UnserializedRecord(NamedTuple):
    """A record whose serializer has a question. The topic has its namespace."""

    topic: str
    record: Outgoing[Any, Any]
    ask: Callable[[], object]
    about: Hashable
    # estimated: its serializer has not run
    size_bytes: int


class NotSerializedYet(Exception):
    """The record's serializer needs an answer first."""

    def __init__(self, unwritten: UnserializedRecord) -> None:
        super().__init__(unwritten.topic)
        self.unwritten = unwritten


class PartitionCounts:
    """Known partition counts of topics."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float]] = {}

    def learn(self, topic: str, count: int) -> None:
        self._known[topic] = (count, time.monotonic())

    def get(self, topic: str) -> int | None:
        known = self._known.get(topic)
        return None if known is None else known[0]

    def stale(self, topic: str) -> bool:
        """Return whether to ask for the count, first or again."""
        known = self._known.get(topic)
        return known is None or time.monotonic() - known[1] > COUNTS_AGE_S_MAX


class RecordEncoder:
    """The encoder of one producer."""

    def __init__(
        self,
        key: Serializer[Any],
        value: Serializer[Any],
        partitioner: LibraryPartitioner | Partitioner,
        interceptors: Sequence[ProducerInterceptor],
        namespace: Namespace,
        request_bytes_max: int,
    ) -> None:
        self._key = key
        self._value = value
        self._own = None if isinstance(partitioner, LibraryPartitioner) else partitioner
        self._interceptors = interceptors
        self._namespace = namespace
        self._request_bytes_max = request_bytes_max
        self.counts = PartitionCounts()
        # Whether bytes go to librdkafka unchanged: the hot path.
        self.plain = (
            key is AS_GIVEN
            and value is AS_GIVEN
            and self._own is None
            and not interceptors
            and request_bytes_max >= RECORD_OVERHEAD_BYTES * 10
        )
        # Topics with the namespace's prefix; None without a namespace.
        self.names: NamespacedTopics | None = NamespacedTopics(namespace) if namespace else None

    @property
    def chooses(self) -> bool:
        """Return whether a Python partitioner chooses partitions."""
        return self._own is not None

    def encode(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp_ms: int | None,
    ) -> EncodedRecord:
        """Encode a record. Raise SerializationError, MessageTooLarge, errors of arguments, and in
        an event loop NotSerializedYet."""
        carried = headers_to_send(headers)
        if self._interceptors:
            said = Outgoing(topic, value, key, partition, tuple(carried), timestamp_ms)
            sent = sent_through(self._interceptors, said)
            topic, value, key, partition = sent.topic, sent.value, sent.key, sent.partition
            carried, timestamp_ms = list(sent.headers), sent.timestamp_ms
        given = len(carried)
        try:
            return self._write(topic, value, key, partition, carried, timestamp_ms)
        except NotToldYet as missing:
            # A copy: the caller may change its objects.
            kept = Outgoing(
                topic, _now(value), _now(key), partition, tuple(carried[:given]), timestamp_ms
            )
            full = self._namespace.add_topic(topic)
            waiting = UnserializedRecord(
                full, kept, missing.ask, missing.about, _guessed_bytes(kept)
            )
            raise NotSerializedYet(waiting) from None

    def write(self, unwritten: UnserializedRecord) -> EncodedRecord:
        """Encode an unserialized record again; raise as `encode`."""
        said = unwritten.record
        try:
            return self._write(
                said.topic,
                said.value,
                said.key,
                said.partition,
                list(said.headers),
                said.timestamp_ms,
            )
        except NotToldYet as missing:
            again = unwritten._replace(ask=missing.ask, about=missing.about)
            raise NotSerializedYet(again) from None

    def _write(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        carried: list[tuple[str, bytes | None]],
        timestamp_ms: int | None,
    ) -> EncodedRecord:
        # With the prefix: two namespaces do not share subjects of schemas.
        full = self._namespace.add_topic(topic)
        key_bytes = _serialized(self._key, full, key, carried, is_key=True)
        value_bytes = _serialized(self._value, full, value, carried, is_key=False)
        if timestamp_ms is not None and timestamp_ms <= 0:
            raise ValueError("timestamp_ms counts milliseconds since 1970 and is at least 1")
        if partition is None:
            partition = self.choose(full, key_bytes, value_bytes)
        elif partition < 0:
            raise ValueError(f"partition {partition} of {topic}: partitions are counted from 0")
        encoded = EncodedRecord(
            full, value_bytes, key_bytes, partition, timestamp_ms or 0, carried or None
        )
        if encoded.size_bytes > self._request_bytes_max:
            raise self.too_large(topic, encoded.size_bytes)
        return encoded

    def choose(self, full: str, key: bytes | None, value: bytes | None) -> int:
        """Return the Python partitioner's choice, if there is one and the count is known."""
        if self._own is None:
            return LIBRARY_CHOOSES
        count = self.counts.get(full)
        if count is None:
            return NOT_CHOSEN
        chosen = self._own(self._namespace.strip(full) or full, key, value, count)
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            raise PartitionerRefused(
                f"the partitioner chose {chosen!r} for {full}, which has {count} partitions"
            )
        return chosen

    def too_large(self, topic: str, size_bytes: int | None) -> MessageTooLarge:
        size = "a record" if size_bytes is None else f"a record of about {size_bytes:,} bytes"
        return MessageTooLarge(
            f"{size} for {topic} is larger than max.request.size ({self._request_bytes_max:,}). "
            "Raise max.request.size, and the topic's max.message.bytes with it, or send less"
        )

    def refused(self, error: Exception, topic: str) -> Exception:
        """Return why librdkafka rejected a record."""
        code = getattr(error.args[0], "code", None) if error.args else None
        if code is None:
            return error
        if code() == MESSAGE_SIZE_TOO_LARGE:
            return self.too_large(topic, None)
        return from_rdkafka(error.args[0], about=f"a record for {topic} was not taken")


class NamespacedTopics(dict[str, str]):
    """Topics with the namespace's prefix, cached."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self._namespace = namespace

    def __missing__(self, topic: str) -> str:
        full = self._namespace.add_topic(topic)
        self[topic] = full
        return full


def _serialized(
    serializer: Serializer[Any],
    topic: str,
    value: Any,
    headers: list[tuple[str, bytes | None]],
    *,
    is_key: bool,
) -> bytes | None:
    if value is None:
        return None
    try:
        if isinstance(serializer, Plain):
            return serializer.encode(value)
        return serializer.serialize(topic, value, headers)
    except (SerializationError, NotToldYet):
        raise
    except Exception as error:
        raise SerializationError(error, topic=topic, is_key=is_key) from error


def _guessed_bytes(record: Outgoing[Any, Any]) -> int:
    """Return an estimate of a record's memory."""
    seen: set[int] = set()
    waiting: list[Any] = [record.headers, record.key, record.value]  # the last is summed first
    size = largest = 0
    while waiting and len(seen) < PARTS_LOOKED_AT:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        own = sys.getsizeof(part, 0)
        size, largest = size + own, max(largest, own)
        if isinstance(part, Mapping):
            waiting += chain.from_iterable(part.items())
        elif isinstance(part, (list, tuple, set, frozenset, deque)):
            waiting += part
        elif not isinstance(part, type):
            waiting += getattr(part, "__dict__", {}).values()
            names = [each for kind in type(part).__mro__ for each in _slots(kind)]
            waiting += [getattr(part, each, None) for each in names]
    # The rest is estimated by the average without the largest part, which may hold all others.
    return size + (size - largest) // max(1, len(seen)) * len(waiting)


def _slots(kind: type) -> list[str]:
    """Return the attribute names of a class's slots, with private names mangled."""
    named = kind.__dict__.get("__slots__", ())
    return [
        f"_{kind.__name__.lstrip('_')}{each}"
        if each.startswith("__") and not each.endswith("__")
        else each
        for each in ([named] if isinstance(named, str) else named)
    ]


def _now(value: Any) -> Any:
    """Return a copy, if possible."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value
