"""The schema is the typed class: one class per message, for all versions.

    @message(key=12, versions="0-4", flexible=4)
    class HeartbeatRequest:
        group_id: str = ""
        group_instance_id: str | None = field("3+", default=None)

`@struct` marks the structures nested in a message, `@record` the records of an internal topic.  A
field without `field(...)` exists in every version. `| None` makes it nullable in every version that
has it, `nullable="7+"` in some. A field with a `tag` is one of the tagged fields.  Every field has
Kafka's default, so a caller omits the fields that a version lacks. Such fields are not written, and
read as the default.

Creating a class only notes its parts: fields are parsed and the constructor is compiled on first
use, because a node loads many classes and uses few of them at its start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import get_annotations
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)

from penstock.wire.primitives import BOOL, BYTES, Blob, Fixed

T = TypeVar("T")

LAST_VERSION: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class SchemaVersions:
    """An inclusive range of versions."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "SchemaVersions":
        """Parse Kafka's notation: `3`, `3-5` or `3+`."""
        if text.endswith("+"):
            return cls(int(text[:-1]), LAST_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_VERSION: Final = SchemaVersions(0, -1)
EVERY_VERSION: Final = SchemaVersions(0, LAST_VERSION)


@dataclass(frozen=True, slots=True)
class Text:
    """A string: UTF-8 behind its length."""


@dataclass(frozen=True, slots=True)
class Array:
    """A count and that many elements."""

    element: "Kind"


@dataclass(frozen=True, slots=True)
class Nested:
    """A structure, its fields in line."""

    cls: type


Kind = Fixed | Text | Blob | Array | Nested


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field, as the codec needs it."""

    name: str
    kind: Kind
    versions: SchemaVersions
    nullable: SchemaVersions
    tag: int | None
    default: object
    default_factory: Callable[[], object] | None

    def fresh_default(self) -> object:
        return self.default if self.default_factory is None else self.default_factory()


@dataclass(frozen=True, slots=True)
class _Declared:
    """The unparsed arguments of `field(...)`."""

    versions: str | None
    tag: int | None
    nullable: str | None
    default: object
    default_factory: Callable[[], object] | None


@overload
def field(
    versions: str | None = None, *, tag: int | None = None, nullable: str | None = None, default: T
) -> T: ...
@overload
def field(
    versions: str | None = None,
    *,
    tag: int | None = None,
    nullable: str | None = None,
    default_factory: Callable[[], T],
) -> T: ...
def field(
    versions: str | None = None,
    *,
    tag: int | None = None,
    nullable: str | None = None,
    default: object = None,
    default_factory: Callable[[], object] | None = None,
) -> Any:
    """Declare the versions of a field, and where it is nullable or tagged."""
    return _Declared(versions, tag, nullable, default, default_factory)


class MessageSchema:
    """The codec's knowledge of one class, and the code made from it."""

    def __init__(self, annotations: dict[str, Any], declared: dict[str, object]) -> None:
        self.key: int | None = None
        self.versions = EVERY_VERSION
        self.flexible_from: int | None = None
        self.response = False
        self.stored = False
        self.readers: dict[int, Callable[..., Any]] = {}
        self.writers: dict[int, Callable[..., None]] = {}
        self.sliced_readers: dict[int, Callable[..., Any]] = {}
        self.sliced_writers: dict[int, Callable[..., Any]] = {}
        self._annotations = annotations
        self._declared = declared

    @cached_property
    def fields(self) -> tuple[FieldSchema, ...]:
        return tuple(
            _parse_field(name, annotation, self._declared[name])
            for name, annotation in self._annotations.items()
        )

    def flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


def _parse_field(name: str, annotation: object, declared: object) -> FieldSchema:
    if not isinstance(declared, _Declared):
        declared = _Declared(None, None, None, declared, None)
    kind, optional = _parse_annotation(annotation)
    nullable = NO_VERSION
    if optional:
        nullable = SchemaVersions.parse(declared.nullable) if declared.nullable else EVERY_VERSION
    return FieldSchema(
        name,
        kind,
        SchemaVersions.parse(declared.versions) if declared.versions else EVERY_VERSION,
        nullable,
        declared.tag,
        declared.default,
        declared.default_factory,
    )


def _parse_annotation(annotation: Any) -> tuple[Kind, bool]:
    """Return the wire type of an annotation, and whether None is allowed."""
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = (part for part in get_args(annotation) if part is not NoneType)
        return _parse_annotation(inner)[0], True
    if get_origin(annotation) is Annotated:
        return annotation.__metadata__[0], False
    if get_origin(annotation) is list:
        return Array(_parse_annotation(get_args(annotation)[0])[0]), False
    plain: dict[object, Kind] = {bool: BOOL, str: Text(), bytes: BYTES}
    return plain.get(annotation) or Nested(annotation), False


def schema_of(cls: type) -> MessageSchema:
    schema: MessageSchema = cls.__schema__  # type: ignore[attr-defined]
    return schema


class _Structure:
    """The base of all message classes."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, **values: object) -> None:
        compiled = _compile_init(schema_of(type(self)))
        type(self).__init__ = compiled  # type: ignore[method-assign]
        compiled(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the fields without defaults and without the content of bytes, which may be long or
        secret."""
        parts = [
            f"{field.name}={_show(getattr(self, field.name), field.kind)}"
            for field in schema_of(type(self)).fields
            if getattr(self, field.name) != field.fresh_default()
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


def _show(value: object, kind: Kind) -> str:
    if isinstance(kind, Array) and isinstance(value, list):
        return f"[{', '.join(_show(item, kind.element) for item in value)}]"
    if isinstance(value, bytes | bytearray | memoryview):
        return value.hex() if isinstance(kind, Fixed) else f"<{len(value)} bytes>"
    return repr(value)


def _compile_init(schema: MessageSchema) -> Callable[..., None]:
    """Compile a constructor that takes keywords and sets slots."""
    names: dict[str, object] = {"_absent": object()}
    parameters, body = [], []
    for item in schema.fields:
        if item.default_factory is None:
            names[f"_d_{item.name}"] = item.default
            parameters.append(f"{item.name}=_d_{item.name}")
            body.append(f" self.{item.name} = {item.name}")
        else:
            names[f"_d_{item.name}"] = item.default_factory
            parameters.append(f"{item.name}=_absent")
            fresh = f"_d_{item.name}() if {item.name} is _absent else {item.name}"
            body.append(f" self.{item.name} = {fresh}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(body or [" pass"])
    exec(source, names)
    return cast("Callable[..., None]", names["__init__"])


def _slotted(cls: type[T]) -> type[T]:
    """Return the class with slots, and its defaults moved out of their way."""
    annotations = get_annotations(cls)
    declared = {name: cls.__dict__[name] for name in annotations}
    namespace = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in declared and name not in ("__dict__", "__weakref__")
    }
    namespace["__slots__"] = tuple(declared)
    made = type(cls.__name__, (_Structure,), namespace)
    made.__schema__ = MessageSchema(annotations, declared)  # type: ignore[attr-defined]
    return cast("type[T]", made)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Mark a structure nested in a message."""
    return _slotted(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, versions: str, flexible: int | None = None, key: int | None = None, response: bool = False
) -> Callable[[type[T]], type[T]]:
    """Mark a request or a response. `key` is the API key; `flexible` is the first version with
    compact lengths and tagged fields."""

    def decorate(cls: type[T]) -> type[T]:
        made = _slotted(cls)
        schema = schema_of(made)
        schema.key = key
        schema.versions = SchemaVersions.parse(versions)
        schema.flexible_from = flexible
        schema.response = response
        return made

    return decorate


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def record(
    *, versions: str, flexible: int | None = None, key: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Mark a record of an internal topic; `key` is its type within its family. Its strings have no
    limit: stored records must be read and kept."""

    def decorate(cls: type[T]) -> type[T]:
        made = message(versions=versions, flexible=flexible, key=key)(cls)
        schema_of(made).stored = True
        return made

    return decorate


def records_in(*modules: dict[str, Any]) -> list[tuple[int, type]]:
    """Return the record classes of the modules' namespaces in order, each behind its type."""
    names = [found for module in modules for found in module.values()]
    classes = [found for found in names if isinstance(found, type) and hasattr(found, "__schema__")]
    keyed = [(schema_of(cls).key, cls) for cls in classes]
    return [(key, cls) for key, cls in keyed if key is not None]
