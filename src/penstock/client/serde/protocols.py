"""The protocols of serializers and deserializers.

None never reaches a serializer: a record without a value is a tombstone, and a missing key stays
missing. The topic is the name on the cluster, with its namespace; so are subjects in a registry. An
exception reaches the caller as SerializationError or DeserializationError, with the record's topic,
partition and offset. Serializers run on the thread that sends or reads. A serializer that asks a
registry has a twin for event loops, which never waits.
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
# Keys such as schema.registry.url, as configured.
Properties: TypeAlias = Mapping[str, object]


class SerdeRefused(ValueError):
    """No serializer or deserializer; the text gives the cause and the next step."""


class NotToldYet(Exception):
    """A schema has to be requested first, and the caller must not wait.

    `ask` waits, on another thread; then the caller repeats the call. `about` is equal for equal
    requests.
    """

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
    """Serializer and deserializer in one."""

    def serialize(self, topic: str, value: T, headers: HeaderList, /) -> bytes | None: ...

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T: ...


@runtime_checkable
class Waits(Protocol):
    """A serializer or deserializer that may wait for a registry."""

    def unwaiting(self) -> object:
        """Return its twin for event loops, which raises NotToldYet instead of waiting. Both share
        their cache."""
        ...


@dataclass(frozen=True, slots=True)
class Plain(Generic[T]):
    """A serde of the value alone; the hot path calls `encode` and `decode`."""

    name: str
    encode: Callable[[T], bytes | None]
    decode: Callable[[bytes], T]

    def serialize(self, topic: str, value: T, headers: HeaderList, /) -> bytes | None:  # noqa: ARG002
        return self.encode(value)

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T:  # noqa: ARG002
        return self.decode(data)

    def __repr__(self) -> str:
        return f"serde {self.name}"


# A serializer as configured: an object, a function, a type, or a name. A type checker cannot know
# the type behind a name.
SerializerOf: TypeAlias = Serializer[T] | Callable[[T], bytes | None] | type[T]
SerializerLike: TypeAlias = SerializerOf[T] | str
DeserializerOf: TypeAlias = Deserializer[T] | Callable[[bytes], T] | type[T]
DeserializerLike: TypeAlias = DeserializerOf[T] | str

S = TypeVar("S")


def unwaiting(serde: S) -> S:
    """Return the serde for an event loop."""
    return cast("S", serde.unwaiting()) if isinstance(serde, Waits) else serde
