"""Records read, records to send, and receipts of Python values.

Topics have no namespace prefix. Records are made on the hot path, one per message: plain slotted
objects that read headers and times from librdkafka's message on access. A record never changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from penstock.model import TopicPartition

K = TypeVar("K")
V = TypeVar("V")
if TYPE_CHECKING:  # defaults of type variables come with Python 3.13
    from typing_extensions import TypeVar as DefaultingTypeVar

    # For a producer without serializers.
    SentKey = DefaultingTypeVar("SentKey", default=bytes | str)
    SentValue = DefaultingTypeVar("SentValue", default=bytes | str)
    # For a consumer without deserializers.
    ReadKey = DefaultingTypeVar("ReadKey", default=bytes)
    ReadValue = DefaultingTypeVar("ReadValue", default=bytes)
else:
    SentKey = TypeVar("SentKey")
    SentValue = TypeVar("SentValue")
    ReadKey = TypeVar("ReadKey")
    ReadValue = TypeVar("ReadValue")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersLike: TypeAlias = (
    Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]] | None
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimestampType(IntEnum):
    """The origin of a record's time; the numbers are librdkafka's."""

    NONE = 0
    CREATE_TIME = 1
    LOG_APPEND_TIME = 2


class Delivered:
    """A written record: topic, partition, offset and time. The offset is negative with acks=0.

    No tuple: on the hot path the result of send() becomes this object.
    """

    __slots__ = ("offset", "partition", "timestamp_ms", "topic")

    def __init__(self, topic: str, partition: int, offset: int, timestamp_ms: int | None) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}-{self.partition}@{self.offset}>"


class MessageLike(Protocol):
    """The part of librdkafka's message that a record reads on access."""

    def headers(self) -> Any: ...
    def timestamp(self) -> tuple[int, int]: ...
    def leader_epoch(self) -> int | None: ...


class Record(Generic[K, V]):
    """A record as read: partition, offset, key, value, headers and time."""

    __slots__ = (
        "_headers",
        "_leader_epoch",
        "_message",
        "_stamp",
        "key",
        "offset",
        "partition",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: K | None,
        value: V | None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        timestamp_type: TimestampType | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self._message: MessageLike | None = None
        self._headers = headers
        if timestamp_type is None:
            known = timestamp_ms is not None
            timestamp_type = TimestampType.CREATE_TIME if known else TimestampType.NONE
        self._stamp: tuple[int, int] = (
            int(timestamp_type),
            -1 if timestamp_ms is None else timestamp_ms,
        )
        self._leader_epoch = leader_epoch

    @classmethod
    def of_message(
        cls,
        message: MessageLike,
        topic: str,
        partition: int,
        offset: int,
        key: K | None,
        value: V | None,
    ) -> "Record[K, V]":
        """Make a record of librdkafka's message; headers, time and epoch are read on access."""
        record: Record[K, V] = cls.__new__(cls)
        record.topic = topic
        record.partition = partition
        record.offset = offset
        record.key = key
        record.value = value
        record._message = message
        return record

    def _read(self) -> None:
        """Copy the rest of the message, and drop the message."""
        message = self._message
        if message is not None:
            self._headers = headers_of_message(message.headers())
            self._stamp = message.timestamp()
            epoch = message.leader_epoch()
            self._leader_epoch = None if epoch is None or epoch < 0 else epoch
            self._message = None

    @property
    def headers(self) -> Headers:
        self._read()
        return self._headers

    @property
    def timestamp_ms(self) -> int | None:
        """Return the milliseconds since 1970; None if the record has no time."""
        self._read()
        kind, stamp = self._stamp
        return None if kind == TimestampType.NONE or stamp < 0 else stamp

    @property
    def timestamp_type(self) -> TimestampType:
        self._read()
        return TimestampType(self._stamp[0])

    @property
    def leader_epoch(self) -> int | None:
        self._read()
        return self._leader_epoch

    @property
    def time(self) -> datetime | None:
        """Return the record's time in UTC, to the millisecond; None if the record has no time."""
        stamp = self.timestamp_ms
        return None if stamp is None else _EPOCH + timedelta(milliseconds=stamp)

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header of this name."""
        for found, value in reversed(self.headers):
            if found == name:
                return value
        return None

    def _values(self) -> tuple[object, ...]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.key,
            self.value,
            self.headers,
            self.timestamp_ms,
            self.timestamp_type,
            self.leader_epoch,
        )

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self) -> tuple[object, ...]:
        return (Record, self._values())

    def __repr__(self) -> str:
        place = f"{self.topic}-{self.partition}@{self.offset}"
        return f"Record({place}, key={self.key!r}, value={self.value!r})"


@dataclass(slots=True, eq=False, repr=False)
class OutRecord(Generic[K, V]):
    """A record of a batch with more than key and value."""

    value: V | None = None
    key: K | None = None
    _: KW_ONLY
    partition: int | None = None
    headers: HeadersLike = None
    timestamp_ms: int | None = None

    def __repr__(self) -> str:
        return f"OutRecord({self.value!r}, key={self.key!r})"


def headers_of_message(found: Any) -> Headers:
    """Return librdkafka's headers as a record has them."""
    return tuple((name, value) for name, value in found) if found else ()


def headers_to_send(said: HeadersLike) -> list[tuple[str, bytes | None]]:
    """Return headers for the wire: text becomes UTF-8, order is kept."""
    if not said:
        return []
    pairs = said.items() if isinstance(said, Mapping) else said
    return [(name, _header_bytes(name, value)) for name, value in pairs]


def _header_bytes(name: object, value: object) -> bytes | None:
    if not isinstance(name, str):
        raise TypeError(f"the header {name!r} is not named by text")
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"the header {name} is {value!r}; it takes bytes, text or None")
