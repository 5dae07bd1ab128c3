"""From librdkafka's messages to records: topics without their prefix, keys and values as objects.

Plain bytes stay where they are until they are asked for: such a record is a thin cover over its
message. With a deserializer every record is made whole, so that one that cannot be read is found
before anybody works on it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, overload

from penstock.client.consumer.desk import Desk, Fetched
from penstock.client.consumer.ledger import Work, place_of
from penstock.client.consumer.plan import Plan
from penstock.client.failures import BatchOver, DeserializationError
from penstock.client.interceptors import ConsumerInterceptor, close_all, committed, consumed_through
from penstock.client.records import K, Record, V, headers_of_message
from penstock.client.serde import AS_GIVEN, BYTES, Deserializer, NotToldYet, Plain

T = TypeVar("T")


class Cover(Record[bytes, bytes]):
    """A record that reads its message when it is asked; only the value, which nearly everybody
    wants, is there already. Made by `_cover` and `_covers`."""

    __slots__ = ()

    # One of Python's own would take as long as all the rest of it.
    __init__ = object.__init__

    # Read-only, where the record that is made whole has attributes: nobody changes a record.
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
        """The message is kept: the rest still reads it."""
        message = cast("Fetched", self._message)
        self._headers = headers_of_message(message.headers())
        self._stamp = message.timestamp()
        epoch = message.leader_epoch()
        self._leader_epoch = None if epoch is None or epoch < 0 else epoch


def _cover(message: Fetched) -> Cover:
    cover: Cover = Cover()
    cover._message = message
    cover.value = message.value()
    return cover


def _covers(work: Work[Fetched]) -> Iterator[Cover]:
    for message in work.messages:
        cover = Cover()  # `_cover` once more: a call takes as long as the rest
        cover._message = message
        cover.value = message.value()
        yield cover
    if work.over:  # some of them are gone
        raise BatchOver()


class Records(Sequence[Record[K, V]]):
    """What one step has brought, in order. Covers are made when somebody looks at them, and not
    kept: thousands of objects that live on are what Python's garbage collector spends its time on.
    """

    __slots__ = ("_count", "_made", "work")

    def __init__(self, reader: "Reader[K, V]", work: Work[Fetched]) -> None:
        """Raises DeserializationError if the first cannot be read; those from the first unreadable
        one on are not in it, and come again."""
        self.work = work
        self._made: Sequence[Record[K, V]] | None = None if reader.is_lazy else reader.open(work)
        self._count = len(work.messages if self._made is None else self._made)

    @property
    def records(self) -> Sequence[Record[K, V]]:
        """To keep: they stay when the loop goes on."""
        return list(self)

    def values(self) -> "list[V | None]":
        """The values alone, the quickest way to them."""
        self.check()
        if self._made is None:
            return [message.value() for message in self.work.messages]
        return [record.value for record in self._made]

    def check(self) -> None:
        """Raises if the loop has gone on."""
        if self.work.over:
            raise BatchOver()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record[K, V]]:
        self.check()
        if self._made is None:
            return cast("Iterator[Record[K, V]]", _covers(self.work))
        return iter(self._made)

    @overload
    def __getitem__(self, at: int) -> Record[K, V]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Record[K, V]]: ...
    def __getitem__(self, at: int | slice) -> Record[K, V] | Sequence[Record[K, V]]:
        self.check()
        if self._made is not None:
            return self._made[at]
        messages = self.work.messages
        if isinstance(at, slice):
            return cast("Sequence[Record[K, V]]", list(map(_cover, messages[at])))
        return cast("Record[K, V]", _cover(messages[at]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} records)"


class Unreadable(Exception):
    """The message at a position cannot be read; those before it can."""

    def __init__(self, at: int, error: DeserializationError) -> None:
        super().__init__(at, error)
        self.at = at
        self.error = error


class Reader(Generic[K, V]):
    """Makes the records of one consumer."""

    def __init__(
        self,
        plan: Plan,
        desk: Desk,
        key: Deserializer[K],
        value: Deserializer[V],
        interceptors: tuple[ConsumerInterceptor, ...],
    ) -> None:
        self._plan = plan
        self._desk = desk
        self._interceptors = interceptors
        self._topics: dict[str, str] = {}
        # Why what a deserializer has to know could not be asked for (asking.py).
        self.unanswered: Exception | None = None
        self._key, self._value = _reading(key), _reading(value)
        # Nothing can go wrong with these, so nobody has to look before a body does.
        self.is_lazy = (
            self._key is None
            and self._value is None
            and not plan.namespace
            and not interceptors
            and not plan.manual_finish
        )

    def make(self, messages: Sequence[Fetched]) -> Sequence[Record[K, V]]:
        """Records of messages; Unreadable at the first that cannot be read."""
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
            topic = self._topics[on_cluster] = self._plan.topic_outside(on_cluster)
        key, value = message.key(), message.value()
        if self._key is not None and key is not None:
            key = self._read(self._key, message, topic, key, is_key=True)
        if self._value is not None and value is not None:
            value = self._read(self._value, message, topic, value, is_key=False)
        return Record.of_message(message, topic, message.partition(), message.offset(), key, value)

    def _read(
        self, read: "Read", message: Fetched, topic: str, data: bytes, *, is_key: bool
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

    # -- from work to what a body gets

    def open(self, work: Work[Fetched]) -> Sequence[Record[K, V]]:
        """The records of work in hand. One that cannot be read goes back, and so do those behind
        it; if it is the first, its error is raised."""
        try:
            made = self.make(work.messages)
        except Unreadable as found:
            self._desk.give_back(work, found.at)
            if found.at == 0:
                raise found.error from found.error.__cause__
            made = self.make(work.messages)
        if self._interceptors:
            made = list(consumed_through(self._interceptors, made))
        work.records = made
        if self._plan.manual_finish:
            with self._desk.lock:
                self._expect_each(work, made)
        return made

    def first(self, work: Work[Fetched]) -> Record[K, V] | None:
        """The record of work on one message; None if an interceptor has kept it to itself."""
        if self.is_lazy:
            return cast("Record[K, V]", _cover(work.messages[0]))
        made = self.open(work)
        return made[0] if made else None

    def _expect_each(self, work: Work[Fetched], made: Sequence[Record[K, V]]) -> None:
        """With the desk's lock held: each record is finished by itself."""
        at = {(place_of(each), each.offset()): n for n, each in enumerate(work.messages)}
        handles = {}
        for record in made:
            position = at.get((self._plan.place(record), record.offset))
            if position is not None:
                handles[id(record)] = position
        self._desk.ledger.expect_each(work, handles)

    def finish(self, record: Record[Any, Any]) -> bool:
        """One record is done, though its body has not ended; whether that still counts."""
        # Of one message there may be many covers.
        token = record._message if isinstance(record, Cover) else record
        with self._desk.lock:
            for work in () if self._plan.manual_finish else self._desk.ledger.in_hand:
                if not work.one_by_one:
                    self._finish_one_by_one(work, token)
            return self._desk.finish_one(token)

    def _finish_one_by_one(self, work: Work[Fetched], token: object) -> None:
        """If it is of this work, from now on its records are finished one by one."""
        if self.is_lazy:
            if any(each is token for each in work.messages):
                work.records = work.messages
                handles = {id(each): at for at, each in enumerate(work.messages)}
                self._desk.ledger.expect_each(work, handles)
        elif any(each is token for each in work.records):
            self._expect_each(work, cast("Sequence[Record[K, V]]", work.records))

    def tell_commits(self) -> None:
        """Interceptors hear of commits from the thread that uses the client."""
        news = self._desk.news
        while news:
            offsets = {self._plan.outside(at): each for at, each in news.popleft().items()}
            committed(self._interceptors, offsets)

    def close(self) -> None:
        """Interceptors are closed once."""
        interceptors, self._interceptors = self._interceptors, ()
        close_all(interceptors)


Read = Callable[[str, bytes, Fetched], Any]


def _reading(deserializer: Deserializer[Any]) -> Read | None:
    """The quickest way to call it; None where bytes stay as they are."""
    if deserializer is BYTES or deserializer is AS_GIVEN:
        return None
    if isinstance(deserializer, Plain):
        decode = deserializer.decode
        return lambda _topic, data, _message: decode(data)
    deserialize = deserializer.deserialize
    return lambda topic, data, message: deserialize(
        topic, data, headers_of_message(message.headers())
    )
