"""Conversion of librdkafka's messages to records: topics without prefix, keys and values as
objects.

Plain bytes are read on access: such a record wraps its message. With a deserializer each record is
converted at once, so that an unreadable record is found before its body runs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, overload

from penstock.client.consumer.assignment.resolved_config import ResolvedConfig
from penstock.client.consumer.engine.shared_state import Fetched, SharedState
from penstock.client.consumer.offsets.offset_tracker import InFlight, place_of
from penstock.client.failures import DeserializationError
from penstock.client.interceptors import ConsumerInterceptor, close_all, committed, consumed_through
from penstock.client.records import K, Record, V, headers_of_message
from penstock.client.serde.plain import AS_GIVEN, BYTES
from penstock.client.serde.protocols import Deserializer, NotToldYet, Plain

T = TypeVar("T")


class LazyRecord(Record[bytes, bytes]):
    """A record that reads its message on access; only the value is there already. Made by
    `_lazy_record` and `_lazy_records`."""

    __slots__ = ()

    # An __init__ in Python would take as long as all the rest.
    __init__ = object.__init__

    # Read-only, although a Record has attributes: applications do not change records.
    @property
    def topic(self) -> str:  # type: ignore[override]
        return self._message.topic()  # type: ignore[union-attr,no-any-return]

    @property
    def partition(self) -> int:  # type: ignore[override]
        return self._message.partition()  # type: ignore[union-attr,no-any-return]

    @property
    def offset(self) -> int:  # type: ignore[override]
        return self._message.offset()  # type: ignore[union-attr,no-any-return]

    @property
    def key(self) -> bytes | None:  # type: ignore[override]
        return self._message.key()  # type: ignore[union-attr,no-any-return]

    def _read(self) -> None:
        """Read the rest of the message, and keep the message."""
        message = cast("Fetched", self._message)
        self._headers = headers_of_message(message.headers())
        self._stamp = message.timestamp()
        epoch = message.leader_epoch()
        self._leader_epoch = None if epoch is None or epoch < 0 else epoch


def _lazy_record(message: Fetched) -> LazyRecord:
    cover: LazyRecord = LazyRecord()
    cover._message = message
    cover.value = message.value()
    return cover


def _lazy_records(messages: Sequence[Fetched]) -> Iterator[LazyRecord]:
    for message in messages:
        cover = LazyRecord()  # `_cover` inlined: a call takes as long as the rest
        cover._message = message
        cover.value = message.value()
        yield cover


class Records(Sequence[Record[K, V]]):
    """The records of one step of a loop, in order. Plain records are made on access and not kept:
    the garbage collector's time grows with the number of live objects."""

    __slots__ = ("_made", "work")

    def __init__(self, reader: "MessageConverter[K, V]", work: InFlight[Fetched]) -> None:
        """Convert the messages. An unreadable first record raises DeserializationError; a later one
        ends the batch before it and is read again."""
        self.work = work
        self._made: Sequence[Record[K, V]] | None = None if reader.is_lazy else reader.open(work)

    @property
    def records(self) -> Sequence[Record[K, V]]:
        """Return the records as a new list."""
        return list(self)

    def values(self) -> "list[V | None]":
        """Return the values alone: the fastest access."""
        if self._made is None:
            return [message.value() for message in self.work.messages]
        return [record.value for record in self._made]

    def __len__(self) -> int:
        return len(self.work.messages if self._made is None else self._made)

    def __iter__(self) -> Iterator[Record[K, V]]:
        if self._made is None:
            return cast("Iterator[Record[K, V]]", _lazy_records(self.work.messages))
        return iter(self._made)

    @overload
    def __getitem__(self, at: int) -> Record[K, V]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Record[K, V]]: ...
    def __getitem__(self, at: int | slice) -> Record[K, V] | Sequence[Record[K, V]]:
        if self._made is not None:
            return self._made[at]
        messages = self.work.messages
        if isinstance(at, slice):
            return cast("Sequence[Record[K, V]]", list(map(_lazy_record, messages[at])))
        return cast("Record[K, V]", _lazy_record(messages[at]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} records)"


class Unreadable(Exception):
    """The message at a position cannot be converted; those before can."""

    def __init__(self, at: int, error: DeserializationError) -> None:
        super().__init__(at, error)
        self.at = at
        self.error = error


class MessageConverter(Generic[K, V]):
    """Converts the messages of one consumer."""

    def __init__(
        self,
        config: ResolvedConfig,
        shared: SharedState,
        key: Deserializer[K],
        value: Deserializer[V],
        interceptors: tuple[ConsumerInterceptor, ...],
    ) -> None:
        self._config = config
        self._shared = shared
        self._interceptors = interceptors
        self._topics: dict[str, str] = {}
        # Why the last schema lookup failed.
        self.unanswered: Exception | None = None
        self._key, self._value = _deserialize_function(key), _deserialize_function(value)
        # Conversion cannot fail, so it may wait until a body asks.
        self.is_lazy = (
            self._key is None
            and self._value is None
            and not config.namespace
            and not interceptors
            and not config.manual_finish
        )

    def make(self, messages: Sequence[Fetched]) -> Sequence[Record[K, V]]:
        """Return the records of messages; raise Unreadable at the first unreadable one."""
        made: list[Record[K, V]] = []
        for message in messages:
            try:
                made.append(self._make_one(message))
            except DeserializationError as error:
                raise Unreadable(len(made), error) from error.__cause__
        return made

    def _make_one(self, message: Fetched) -> Record[K, V]:
        on_cluster = message.topic()
        topic = self._topics.get(on_cluster)
        if topic is None:
            topic = self._topics[on_cluster] = self._config.topic_without_namespace(on_cluster)
        key, value = message.key(), message.value()
        if self._key is not None and key is not None:
            key = self._read(self._key, message, topic, key, is_key=True)
        if self._value is not None and value is not None:
            value = self._read(self._value, message, topic, value, is_key=False)
        return Record.of_message(message, topic, message.partition(), message.offset(), key, value)

    def _read(
        self, read: "Deserialize", message: Fetched, topic: str, data: bytes, *, is_key: bool
    ) -> Any:
        try:
            return read(topic, data, message)
        except Exception as error:
            if isinstance(error, NotToldYet):
                if self.unanswered is None:
                    raise
                error = self.unanswered
            raise DeserializationError(
                error,
                topic=topic,
                partition=message.partition(),
                offset=message.offset(),
                is_key=is_key,
            ) from error

    # -- for the loops

    def open(self, work: InFlight[Fetched]) -> Sequence[Record[K, V]]:
        """Return the records of messages in flight. Give back the unreadable record and those
        behind it; raise its error if it is the first."""
        try:
            made = self.make(work.messages)
        except Unreadable as found:
            self._shared.give_back(work, found.at)
            if found.at == 0:
                raise found.error from found.error.__cause__
            made = self.make(work.messages)
        if self._interceptors:
            made = list(consumed_through(self._interceptors, made))
        work.records = made
        if self._config.manual_finish:
            with self._shared.lock:
                self._expect_each(work, made)
        return made

    def first(self, work: InFlight[Fetched]) -> Record[K, V] | None:
        """Return the record of one message; None if an interceptor has dropped it."""
        if self.is_lazy:
            return cast("Record[K, V]", _lazy_record(work.messages[0]))
        made = self.open(work)
        return made[0] if made else None

    def _expect_each(self, work: InFlight[Fetched], made: Sequence[Record[K, V]]) -> None:
        """Have each record finished by itself. Call with the lock held."""
        at = {(place_of(each), each.offset()): n for n, each in enumerate(work.messages)}
        handles = {}
        for record in made:
            position = at.get((self._config.place(record), record.offset))
            if position is not None:
                handles[id(record)] = position
        self._shared.tracker.expect_each(work, handles)

    def finish(self, record: Record[Any, Any]) -> bool:
        """Finish one record before its body ends. Return whether that still counts."""
        # A message may have many lazy records.
        token = record._message if isinstance(record, LazyRecord) else record
        with self._shared.lock:
            for work in () if self._config.manual_finish else self._shared.tracker.in_flight:
                if not work.one_by_one:
                    self._finish_one_by_one(work, token)
            return self._shared.finish_one(token)

    def _finish_one_by_one(self, work: InFlight[Fetched], token: object) -> None:
        """Finish the records of this work one by one from now on, if it holds the record."""
        if self.is_lazy:
            if any(each is token for each in work.messages):
                work.records = work.messages
                handles = {id(each): at for at, each in enumerate(work.messages)}
                self._shared.tracker.expect_each(work, handles)
        elif any(each is token for each in work.records):
            self._expect_each(work, cast("Sequence[Record[K, V]]", work.records))

    def notify_interceptors(self) -> None:
        """Tell interceptors about commits, on an application's thread."""
        news = self._shared.committed_offsets
        while news:
            offsets = {
                self._config.without_namespace(at): each for at, each in news.popleft().items()
            }
            committed(self._interceptors, offsets)

    def close(self) -> None:
        """Close the interceptors once."""
        interceptors, self._interceptors = self._interceptors, ()
        close_all(interceptors)


Deserialize = Callable[[str, bytes, Fetched], Any]


def _deserialize_function(deserializer: Deserializer[Any]) -> Deserialize | None:
    """Return the fastest call of a deserializer; None where bytes stay bytes."""
    if deserializer is BYTES or deserializer is AS_GIVEN:
        return None
    if isinstance(deserializer, Plain):
        decode = deserializer.decode
        return lambda _topic, data, _message: decode(data)
    deserialize = deserializer.deserialize
    return lambda topic, data, message: deserialize(
        topic, data, headers_of_message(message.headers())
    )
