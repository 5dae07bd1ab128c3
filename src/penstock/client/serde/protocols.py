"""What a serializer and a deserializer are.

None is never given to them: a record without a value is a tombstone, without a key it has none, and
both pass as they are. The topic is called as on the cluster, with its namespace: so are subjects in
a registry. What they raise reaches the caller as SerializationError or DeserializationError, with
the record's place. They are called from the thread that sends or reads; those that ask somebody
else (a registry) have a twin for event loops, which never waits.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from penstock.client.records import Headers

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)

# A serializer may append to the headers of the record that it writes.
HeaderList: TypeAlias = list[tuple[str, bytes | None]]
# Keys such as schema.registry.url, as the client was given them.
Properties: TypeAlias = Mapping[str, object]


class SerdeRefused(ValueError):
    """What was said is no serializer or deserializer; the text says why, and the way out."""


class NotToldYet(Exception):
    """What is needed has to be asked for elsewhere first, and whoever called must not wait. `ask`
    waits: on a thread; then the same call goes on. `about` is the same for the same question."""

    def __init__(self, ask: Callable[[], object], about: Hashable) -> None:
        super().__init__("what is needed has to be asked for first")
        self.ask = ask
        self.about = about


@runtime_checkable
class Serializer(Protocol[T_contra]):
    """Turns a key or a value into bytes."""

    def serialize(self, topic: str, value: T_contra, headers: HeaderList, /) -> bytes | None: ...


@runtime_checkable
class Deserializer(Protocol[T_co]):
    """Turns bytes into a key or a value."""

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T_co: ...


@runtime_checkable
class Serde(Protocol[T]):
    """Both in one."""

    def serialize(self, topic: str, value: T, headers: HeaderList, /) -> bytes | None: ...

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T: ...


@runtime_checkable
class Waits(Protocol):
    """A serializer or deserializer that may wait for an answer from elsewhere."""

    def unwaiting(self) -> object:
        """Its twin for event loops: raises NotToldYet where this one would wait. They share what
        they were told."""
        ...


@dataclass(frozen=True, slots=True)
class Plain(Generic[T]):
    """A serde that looks at nothing but the value; the hot path calls `encode` and `decode`."""

    name: str
    encode: Callable[[T], bytes | None]
    decode: Callable[[bytes], T]

    def serialize(self, topic: str, value: T, headers: HeaderList, /) -> bytes | None:  # noqa: ARG002
        return self.encode(value)

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T:  # noqa: ARG002
        return self.decode(data)

    def __repr__(self) -> str:
        return f"serde {self.name}"


# What a client may be told: an object, a function, a type, or a name.
# Of a name a type checker cannot tell what it stands for.
SerializerOf: TypeAlias = Serializer[T] | Callable[[T], bytes | None] | type[T]
SerializerLike: TypeAlias = SerializerOf[T] | str
DeserializerOf: TypeAlias = Deserializer[T] | Callable[[bytes], T] | type[T]
DeserializerLike: TypeAlias = DeserializerOf[T] | str

S = TypeVar("S")


def unwaiting(serde: S) -> S:
    """As an event loop may call it."""
    return cast("S", serde.unwaiting()) if isinstance(serde, Waits) else serde
