"""Values of annotated types from JSON: dataclasses, containers, times, enums.

`reader_of` compiles a type into a function once. A value that does not fit is rejected with the
path to it; unknown fields are ignored, so that writers may add some. In a union the first member
that fits is taken; a member of exactly the value's own type comes before all others.
"""

import base64
import binascii
import dataclasses
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from itertools import repeat
from typing import Any, TypeAlias
from uuid import UUID

from penstock.client.serde.hidden_values import holds_secrets, refuse_hidden
from penstock.client.serde.protocols import SerdeRefused

Reader: TypeAlias = Callable[[Any], Any]

_LISTS = frozenset({list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable})
_SETS: Mapping[object, type] = {
    set: set,
    frozenset: frozenset,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
_MAPPINGS = frozenset({dict, abc.Mapping, abc.MutableMapping})


class Misfit(ValueError):
    """A value does not fit its type; the text starts with the path to it."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.path = path

    def under(self, step: str) -> "Misfit":
        """Return the same, with the path from one level above."""
        joined = step + (f".{self.path}" if self.path and self.path[0] != "[" else self.path)
        return Misfit(self.what, joined)

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what


def to_jsonable(value: Any) -> Any:
    """Return a value that JSON knows for one that it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    match value:
        case Enum():
            return value.value
        case UUID() | Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case set() | frozenset():
            return list(value)
        case Mapping():
            return dict(value)
    if is_pydantic(type(value)):
        if holds_secrets(value):
            refuse_hidden(value)
        return value.model_dump(mode="json", by_alias=True)
    if is_msgspec(type(value)):
        return sys.modules["msgspec"].to_builtins(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def is_pydantic(kind: object) -> bool:
    """Return whether it is a pydantic model, without loading pydantic."""
    loaded = sys.modules.get("pydantic")
    return loaded is not None and isinstance(kind, type) and issubclass(kind, loaded.BaseModel)


def is_msgspec(kind: object) -> bool:
    """Return whether it is a msgspec Struct, without loading msgspec."""
    loaded = sys.modules.get("msgspec")
    return loaded is not None and isinstance(kind, type) and issubclass(kind, loaded.Struct)


def reader_of(kind: Any) -> Reader:
    """Return the function that makes a value of this type from parsed JSON."""
    return _ReaderCompiler().reader(kind)


class _ReaderCompiler:
    """Compiles one type and its parts; a class that contains itself is compiled once."""

    def __init__(self) -> None:
        self._classes: dict[type, Reader] = {}

    def reader(self, kind: Any) -> Reader:
        found = _SCALARS.get(kind) if isinstance(kind, abc.Hashable) else None
        if found is not None:
            return found
        if kind is Any or kind is object:
            return _as_it_is
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is not None:
            return self._generic(kind, origin, arguments)
        if kind in _MAPPINGS or kind in _LISTS or kind in _SETS or kind is tuple:
            return self._generic(kind, kind, ())
        if isinstance(kind, typing.NewType):
            return self.reader(kind.__supertype__)
        if isinstance(kind, type):
            return self._class(kind)
        raise SerdeRefused(f"{kind!r} is no type that can be read from JSON")

    def _generic(self, kind: Any, origin: Any, arguments: tuple[Any, ...]) -> Reader:
        if origin is typing.Annotated:
            return self.reader(arguments[0])
        if origin is typing.Literal:
            return _literal(arguments)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments)
        if origin in _LISTS:
            return _listing(self._inner(arguments), list)
        if origin in _SETS:
            return _listing(self._inner(arguments), _SETS[origin])
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _MAPPINGS:
            key, value = arguments or (str, Any)
            return _mapping(_key_reader(key), self.reader(value))
        raise SerdeRefused(f"{kind!r} is no type that can be read from JSON")

    def _inner(self, arguments: tuple[Any, ...]) -> Reader:
        return self.reader(arguments[0]) if arguments else _as_it_is

    def _tuple(self, arguments: tuple[Any, ...]) -> Reader:
        if not arguments:
            return _listing(_as_it_is, tuple)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _listing(self.reader(arguments[0]), tuple)
        return _fixed([self.reader(each) for each in arguments], tuple)

    def _union(self, members: tuple[Any, ...]) -> Reader:
        readers = [self.reader(each) for each in members]
        exact = {each for each in members if each in (str, int, float, bool, type(None))}
        names = " or ".join(getattr(each, "__name__", str(each)) for each in members)

        def read(value: Any) -> Any:
            if type(value) in exact:
                return value
            for each in readers:
                try:
                    return each(value)
                except Misfit:
                    continue
            raise Misfit(f"expected {names}, not {_shown(value)}")

        return read

    def _class(self, kind: type) -> Reader:
        if kind in self._classes:
            return self._classes[kind]

        def compiled_later(value: Any) -> Any:
            return self._classes[kind](value)

        # A class under compilation may contain itself.
        self._classes[kind] = compiled_later
        self._classes[kind] = self._new_class(kind)
        return self._classes[kind]

    def _new_class(self, kind: type) -> Reader:
        if is_pydantic(kind) or hasattr(kind, "__pydantic_validator__"):
            validate = sys.modules["pydantic"].TypeAdapter(kind).validate_python
            return _foreign(validate)
        if is_msgspec(kind):
            convert = sys.modules["msgspec"].convert
            return _foreign(lambda value: convert(value, kind))
        if issubclass(kind, Enum):
            return _enum(kind)
        if dataclasses.is_dataclass(kind):
            return self._dataclass(kind)
        if typing.is_typeddict(kind):
            return self._typed_dict(kind)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple(kind)
        raise SerdeRefused(
            f"{kind.__name__} is no type that can be read from JSON; use a dataclass, a pydantic "
            "model or a msgspec Struct, or give functions of your own"
        )

    def _named_tuple(self, kind: Any) -> Reader:
        hints = _hints(kind)
        return _fixed([self.reader(hints.get(each, Any)) for each in kind._fields], kind._make)

    def _dataclass(self, kind: type) -> Reader:
        hints = _hints(kind)
        missing = dataclasses.MISSING
        fields = [
            (
                each.name,
                self.reader(hints[each.name]),
                each.default is missing and each.default_factory is missing,
            )
            for each in dataclasses.fields(kind)
            if each.init
        ]
        return _record(fields, lambda values: kind(**values), kind.__name__)

    def _typed_dict(self, kind: Any) -> Reader:
        fields = [
            (name, self.reader(_bare(hint)), name in kind.__required_keys__)
            for name, hint in _hints(kind).items()
        ]
        return _record(fields, dict, kind.__name__)


def _bare(hint: Any) -> Any:
    """Return the type without Required and NotRequired."""
    wrapped = typing.get_origin(hint) in (typing.Required, typing.NotRequired)
    return typing.get_args(hint)[0] if wrapped else hint


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except NameError as problem:
        raise SerdeRefused(
            f"the annotations of {kind.__name__} cannot be read: {problem}; define what they name "
            "at the top of its module"
        ) from problem


def _record(
    fields: list[tuple[str, Reader, bool]], make: Callable[[dict[str, Any]], Any], name: str
) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Misfit(f"expected the fields of {name}, not {_shown(value)}")
        found = {}
        for field, reader, required in fields:
            if field in value:
                try:
                    found[field] = reader(value[field])
                except Misfit as misfit:
                    raise misfit.under(field) from None
            elif required:
                raise Misfit(f"the field {field} of {name} is missing")
        try:
            return make(found)
        except Misfit:
            raise
        except (TypeError, ValueError) as problem:
            # The class itself checks its values, in __post_init__.
            raise Misfit(f"{name} refuses them: {problem}") from problem

    return read


def _foreign(validate: Callable[[Any], Any]) -> Reader:
    def read(value: Any) -> Any:
        try:
            return validate(value)
        except ValueError as problem:
            raise Misfit(str(problem)) from problem

    return read


def _listing(inner: Reader, make: Callable[[list[Any]], Any]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise Misfit(f"expected a list, not {_shown(value)}")
        return make(_items(value, repeat(inner)))

    return read


def _fixed(readers: list[Reader], make: Callable[[list[Any]], Any]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise Misfit(f"expected a list of {len(readers)}, not {_shown(value)}")
        return make(_items(value, readers))

    return read


def _items(values: list[Any], readers: Iterable[Reader]) -> list[Any]:
    found = []
    for index, (each, reader) in enumerate(zip(values, readers, strict=False)):
        try:
            found.append(reader(each))
        except Misfit as misfit:
            raise misfit.under(f"[{index}]") from None
    return found


def _mapping(key_reader: Reader, inner: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Misfit(f"expected an object, not {_shown(value)}")
        found = {}
        for key, each in value.items():
            try:
                found[key_reader(key)] = inner(each)
            except Misfit as misfit:
                raise misfit.under(key) from None
        return found

    return read


def _key_reader(kind: Any) -> Reader:
    """Return the reader of a key: JSON's keys are text, whole numbers among them."""
    if kind is str or kind is Any or kind is object:
        return _as_it_is
    if kind is int:
        return _made_by(int, "a whole number")
    raise SerdeRefused(f"the keys of a mapping are str or int in JSON, not {kind!r}")


def _literal(allowed: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        for each in allowed:
            if value == each and type(value) is type(each):
                return each
        raise Misfit(f"expected one of {', '.join(map(repr, allowed))}, not {_shown(value)}")

    return read


def _enum(kind: type[Enum]) -> Reader:
    def read(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise Misfit(f"{_shown(value)} is no {kind.__name__}") from None

    return read


def _as_it_is(value: Any) -> Any:
    return value


def _of_type(kind: type, said: str) -> Reader:
    def read(value: Any) -> Any:
        # By the exact type: True is an int, but not meant.
        if type(value) is not kind:
            raise Misfit(f"expected {said}, not {_shown(value)}")
        return value

    return read


def _float(value: Any) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise Misfit(f"expected a number, not {_shown(value)}")


def _made_by(make: Callable[[str], Any], said: str, kind: type | None = None) -> Reader:
    def read(value: Any) -> Any:
        # Avro has such values of its own; JSON has their text.
        if kind is not None and type(value) is kind:
            return value
        if type(value) is str:
            try:
                return make(value)
            except (ValueError, InvalidOperation, binascii.Error):
                pass
        raise Misfit(f"expected {said}, not {_shown(value)}")

    return read


def _seconds(value: Any) -> timedelta:
    if type(value) is timedelta:
        return value
    try:
        return timedelta(seconds=_float(value))
    except OverflowError:
        raise Misfit(f"{_shown(value)} seconds are too many") from None


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_SCALARS: Mapping[Any, Reader] = {
    str: _of_type(str, "text"),
    int: _of_type(int, "a whole number"),
    bool: _of_type(bool, "true or false"),
    type(None): _of_type(type(None), "null"),
    None: _of_type(type(None), "null"),
    float: _float,
    bytes: _made_by(_from_base64, "base64", bytes),
    datetime: _made_by(datetime.fromisoformat, "a time (ISO 8601)", datetime),
    date: _made_by(date.fromisoformat, "a date (ISO 8601)", date),
    time: _made_by(time.fromisoformat, "a time of day (ISO 8601)", time),
    timedelta: _seconds,
    Decimal: _made_by(Decimal, "a decimal number in quotes", Decimal),
    UUID: _made_by(UUID, "a UUID", UUID),
}
