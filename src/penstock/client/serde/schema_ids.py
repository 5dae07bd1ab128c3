"""The schema id before a value, the subject of a schema in a registry, and the base of such serdes.

The frame is that of Confluent's serializers: a zero byte, four bytes of the id (big-endian), the
payload.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from struct import Struct
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from penstock.client.serde.json_types import Reader, reader_of
from penstock.client.serde.protocols import SerdeRefused
from penstock.client.serde.registry import RegisteredSchema, SchemaRegistry, SchemaWithId

if TYPE_CHECKING:  # defaults of type variables come with Python 3.13
    from typing_extensions import TypeVar as DefaultingTypeVar

    # For a serde without `of`.
    T = DefaultingTypeVar("T", default=Any)
else:
    T = TypeVar("T")
C = TypeVar("C")

COMPILED_MAX = 1_000
MAGIC = 0
_HEAD = Struct(">bI")


def frame(schema_id: int, payload: bytes) -> bytes:
    return _HEAD.pack(MAGIC, schema_id) + payload


def unframe(data: bytes) -> tuple[int, bytes]:
    """Return the schema's id and the payload."""
    if len(data) < _HEAD.size:
        raise ValueError(
            f"{len(data)} bytes are too few for a value with a schema: a zero byte, four of the "
            "schema's id, the payload. Was it written by a serializer with a registry?"
        )
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(
            f"it begins with the byte {data[0]}, not with 0 as values do whose schema is in a "
            "registry. Was it written by a serializer with a registry?"
        )
    return schema_id, data[_HEAD.size :]


# (topic, whether it is the key's, the schema's full name if it has one)
SubjectOf: TypeAlias = Callable[[str, bool, str | None], str]


def by_topic(topic: str, is_key: bool, name: str | None) -> str:  # noqa: ARG001
    return f"{topic}-{'key' if is_key else 'value'}"


def by_record(topic: str, is_key: bool, name: str | None) -> str:  # noqa: ARG001
    return _named(name)


def by_topic_and_record(topic: str, is_key: bool, name: str | None) -> str:  # noqa: ARG001
    return f"{topic}-{_named(name)}"


def _named(name: str | None) -> str:
    if name is None:
        raise ValueError("the subject is named after the schema, and the schema has no name")
    return name


_BY_CLASS: dict[str, SubjectOf] = {
    "TopicNameStrategy": by_topic,
    "RecordNameStrategy": by_record,
    "TopicRecordNameStrategy": by_topic_and_record,
}


def subject_naming(said: str) -> SubjectOf:
    """Return the naming by the name of Confluent's class, with or without its package."""
    found = _BY_CLASS.get(said.strip().rpartition(".")[2])
    if found is None:
        raise SerdeRefused(
            f"{said} is no way to name subjects that is known here; use {', '.join(_BY_CLASS)}"
        )
    return found


@dataclass(frozen=True, slots=True)
class Registered:
    """The use of a registry by a serializer."""

    registry: SchemaRegistry
    subject_of: SubjectOf = by_topic
    # Whether a new schema is registered; if not, the subject must have it.
    auto_register: bool = True
    # Whether the subject's latest schema replaces that of the serializer.
    use_latest: bool = False

    def numbered(
        self, topic: str, is_key: bool, schema: RegisteredSchema | None, name: str | None
    ) -> SchemaWithId:
        """Return the schema to write with; without an own one, the subject's latest."""
        subject = self.subject_of(topic, is_key, name)
        if schema is None or self.use_latest:
            return self.registry.latest(subject)
        find = self.registry.register if self.auto_register else self.registry.find
        return SchemaWithId(find(subject, schema), schema)

    def unwaiting(self) -> "Registered":
        """Return the same for event loops: NotToldYet instead of a wait."""
        return replace(self, registry=self.registry.unwaiting())


def registered(
    registry: str | SchemaRegistry | None,
    *,
    subject_of: SubjectOf,
    auto_register: bool,
    use_latest: bool,
    has_schema: bool,
) -> Registered | None:
    """Return the use of a registry; None without one: the serializer then needs a schema."""
    if registry is None:
        if not has_schema:
            raise SerdeRefused("give a schema, or a registry (registry=...) that has it")
        return None
    if isinstance(registry, str):
        registry = SchemaRegistry(registry)
    return Registered(registry, subject_of, auto_register, use_latest)


class SchemaSerde(ABC, Generic[C, T]):
    """Writes and reads the keys or the values of records by a schema."""

    def __init__(
        self, schema: RegisteredSchema | None, use: Registered | None, of: type[T] | None
    ) -> None:
        self._schema = schema
        self._use = use
        self._reader: Reader | None = None if of is None else reader_of(of)
        self._is_key = False
        self._compiled: dict[RegisteredSchema, C] = {}

    def of_part(self, is_key: bool) -> Self:
        """Return the same serde for keys, or for values: their schemas are under different
        subjects."""
        other = copy(self)
        other._is_key = is_key
        return other

    def unwaiting(self) -> Self:
        """Return the same for event loops: NotToldYet instead of a wait for the registry."""
        other = copy(self)
        other._use = None if self._use is None else self._use.unwaiting()
        return other

    def _of_schema(self, schema: RegisteredSchema) -> C:
        """Return the compiled schema, from the cache if possible."""
        found = self._compiled.get(schema)
        if found is None:
            others = [] if self._use is None else self._use.registry.references(schema)
            if len(self._compiled) >= COMPILED_MAX:
                self._compiled.clear()
            found = self._compiled[schema] = self._compile(schema, others)
        return found

    @abstractmethod
    def _compile(self, schema: RegisteredSchema, others: list[tuple[str, RegisteredSchema]]) -> C:
        """Return what the serde needs of a schema and of those that it refers to."""

    def _made(self, found: Any) -> T:
        made: T = found if self._reader is None else self._reader(found)
        return made
