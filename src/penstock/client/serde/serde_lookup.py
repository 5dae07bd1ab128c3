"""Finds the serializer or deserializer for a client's argument.

The argument may be None, an object with the method, a function, a type, one of our short names,
Java's name of a class, or a Python path (`package.module:name`). A class is made without arguments;
if its object has a method `configure`, it gets the client's keys and whether it is for keys, as in
Java.
"""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast
from uuid import UUID

from penstock.client.records import Headers
from penstock.client.runtime.python_paths import NotThere, load
from penstock.client.serde.json_types import is_msgspec, is_pydantic
from penstock.client.serde.json_values import JSON, json_of
from penstock.client.serde.keys import encoding_of
from penstock.client.serde.plain import (
    AS_GIVEN,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    UUID_TEXT,
    VOID,
    string_in,
)
from penstock.client.serde.protocols import (
    Deserializer,
    HeaderList,
    Plain,
    Properties,
    SerdeRefused,
    Serializer,
)

NOTHING: Properties = {}


class _Side(NamedTuple):
    """The differences between writing and reading."""

    noun: str
    method: str
    java_suffix: str


_WRITING = _Side("serializer", "serialize", "Serializer")
_READING = _Side("deserializer", "deserialize", "Deserializer")

_BY_TYPE: Mapping[object, Plain[Any]] = {
    bytes: BYTES,
    str: STRING,
    int: LONG,
    float: DOUBLE,
    bool: BOOLEAN,
    UUID: UUID_TEXT,
}
_BY_NAME: Mapping[str, Plain[Any]] = {
    "bytes": BYTES,
    "string": STRING,
    "str": STRING,
    "integer": INTEGER,
    "long": LONG,
    "int": LONG,
    "short": SHORT,
    "float": FLOAT,
    "double": DOUBLE,
    "uuid": UUID_TEXT,
    "boolean": BOOLEAN,
    "void": VOID,
    "json": JSON,
}
_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
# Without Serializer or Deserializer at the end.
_BY_JAVA_NAME: Mapping[str, Plain[Any]] = {
    f"{_JAVA_PACKAGE}ByteArray": BYTES,
    f"{_JAVA_PACKAGE}ByteBuffer": BYTES,
    f"{_JAVA_PACKAGE}Bytes": BYTES,
    f"{_JAVA_PACKAGE}String": STRING,
    f"{_JAVA_PACKAGE}Integer": INTEGER,
    f"{_JAVA_PACKAGE}Long": LONG,
    f"{_JAVA_PACKAGE}Short": SHORT,
    f"{_JAVA_PACKAGE}Float": FLOAT,
    f"{_JAVA_PACKAGE}Double": DOUBLE,
    f"{_JAVA_PACKAGE}UUID": UUID_TEXT,
    f"{_JAVA_PACKAGE}Boolean": BOOLEAN,
    f"{_JAVA_PACKAGE}Void": VOID,
    "io.confluent.kafka.serializers.KafkaJson": JSON,
}
# Functions of confluent_serdes.py, which is loaded when one is named.
_WITH_REGISTRY: Mapping[str, str] = {
    "io.confluent.kafka.serializers.KafkaAvro": "configured_avro",
    "io.confluent.kafka.serializers.json.KafkaJsonSchema": "configured_json_schema",
}
_NO_JAVA: Mapping[str, str] = {
    f"{_JAVA_PACKAGE}List": "write lists as JSON (json) or Avro instead",
    "io.confluent.kafka.serializers.protobuf.KafkaProtobuf": "give a function, e.g. "
    "value=Order.SerializeToString or value=Order.FromString",
}


def serializer_of(
    said: object | None, *, is_key: bool, properties: Properties = NOTHING
) -> Serializer[Any]:
    """Return the serializer. Raise SerdeRefused with the cause."""
    return cast("Serializer[Any]", _resolved(said, _WRITING, is_key, properties))


def deserializer_of(
    said: object | None, *, is_key: bool, properties: Properties = NOTHING
) -> Deserializer[Any]:
    """Return the deserializer. Raise SerdeRefused with the cause."""
    return cast("Deserializer[Any]", _resolved(said, _READING, is_key, properties))


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionSerializer:
    """A function that writes, as a serializer."""

    encode: Callable[[Any], bytes | None]

    def serialize(self, topic: str, value: Any, headers: HeaderList, /) -> bytes | None:  # noqa: ARG002
        return self.encode(value)


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionDeserializer:
    """A function that reads, as a deserializer."""

    decode: Callable[[bytes], Any]

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> Any:  # noqa: ARG002
        return self.decode(data)


def _resolved(said: object | None, side: _Side, is_key: bool, properties: Properties) -> object:
    if said is None:
        return AS_GIVEN
    if isinstance(said, str):
        said = _named(said.strip(), side, is_key, properties)
    if _is_kind(said):
        return _of_kind(said, side, is_key, properties)
    return _of_object(said, side, is_key)


def _of_object(said: object, side: _Side, is_key: bool) -> object:
    if callable(getattr(said, side.method, None)):
        of_part = getattr(said, "of_part", None)
        return of_part(is_key) if callable(of_part) else said
    if callable(said):
        return FunctionSerializer(said) if side is _WRITING else FunctionDeserializer(said)
    raise SerdeRefused(
        f"{said!r} is no {side.noun}: it has no method `{side.method}` and is no function"
    )


def _is_kind(said: object) -> bool:
    """Return whether it is a class, or a type with arguments such as list[int]."""
    return isinstance(said, type) or typing.get_origin(said) is not None


def _of_kind(kind: Any, side: _Side, is_key: bool, properties: Properties) -> object:
    known = _BY_TYPE.get(kind)
    if known is not None:
        return known
    if is_pydantic(kind) or is_msgspec(kind) or dataclasses.is_dataclass(kind):
        # A class of values, unless it is itself a serializer or deserializer.
        if not callable(getattr(kind, side.method, None)):
            return json_of(kind)
    if callable(getattr(kind, side.method, None)):
        return _made(kind, side, is_key, properties)
    return json_of(kind)


def _made(kind: Any, side: _Side, is_key: bool, properties: Properties) -> object:
    try:
        made = kind()
    except TypeError as problem:
        raise SerdeRefused(
            f"{kind.__name__} cannot be made without arguments ({problem}); give an object of it"
        ) from problem
    configure = getattr(made, "configure", None)
    if callable(configure):
        configure(dict(properties), is_key)
    return _of_object(made, side, is_key)


def _named(name: str, side: _Side, is_key: bool, properties: Properties) -> object:
    known = _BY_NAME.get(name.lower())
    if known is not None:
        return known
    stem = name.removesuffix(side.java_suffix)
    if stem != name and stem in _BY_JAVA_NAME:
        found = _BY_JAVA_NAME[stem]
        encoding = encoding_of(properties, side.noun, is_key) if found is STRING else None
        return found if encoding is None else string_in(encoding)
    if stem != name and stem in _WITH_REGISTRY:
        from penstock.client.serde import confluent_serdes

        return getattr(confluent_serdes, _WITH_REGISTRY[stem])(properties, is_key)
    if stem in _NO_JAVA:
        raise SerdeRefused(f"{name} is Java and is not offered; {_NO_JAVA[stem]}")
    other = _READING if side is _WRITING else _WRITING
    if name.removesuffix(other.java_suffix) != name and (
        name.removesuffix(other.java_suffix) in {*_BY_JAVA_NAME, *_WITH_REGISTRY}
    ):
        raise SerdeRefused(f"{name} is a {other.noun}, and a {side.noun} is asked for")
    try:
        return load(name)
    except NotThere as problem:
        raise SerdeRefused(
            f"{name} is no {side.noun}: {problem}. Known by name are {', '.join(_BY_NAME)} and "
            f"Java's own ({_JAVA_PACKAGE}String{side.java_suffix}); anything else is a Python path "
            "such as package.module:name"
        ) from problem
