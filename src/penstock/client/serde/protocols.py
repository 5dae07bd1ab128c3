"""What a serializer and a deserializer are.

None is never given to them: a record without a value is a tombstone, without a key it has none, and
both pass as they are. The topic is called as on the cluster, with its namespace: so are subjects in
a registry. What they raise reaches the caller as SerializationError or DeserializationError, with
the record's place. They are called from the thread that sends or reads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

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
SerializerLike: TypeAlias = Serializer[T] | Callable[[T], bytes | None] | type[T] | str
DeserializerLike: TypeAlias = Deserializer[T] | Callable[[bytes], T] | type[T] | str
