"""Avro, with the schema in a registry or agreed upon beforehand.

With a registry each value carries its schema's id, as Confluent's serializers write it. Values are
read with the schema that they were written with, resolved to the reader's own if there is one.
Without a registry a value is its bare encoding. A given schema is checked when the serde is made.
The package `fastavro` does the work and is loaded at first use.
"""

import dataclasses
import io
import json
import sys
from collections.abc import Mapping
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from penstock.client.records import Headers
from penstock.client.serde.avro_ints import Look, ints_of
from penstock.client.serde.json_types import is_msgspec, is_pydantic
from penstock.client.serde.protocols import HeaderList, SerdeRefused
from penstock.client.serde.registry import AVRO, RegisteredSchema, SchemaRegistry
from penstock.client.serde.schema_ids import (
    SchemaSerde,
    SubjectOf,
    T,
    by_topic,
    frame,
    registered,
    unframe,
)

# JSON text, or its parsed value.
AvroSchema: TypeAlias = str | Mapping[str, Any] | list[Any] | None
_BYTES = "bytes"
# The schema for a value without a schema of its own, by its type.
_PRIMITIVES: Mapping[type, str] = {
    str: '"string"',
    bytes: '"bytes"',
    int: '"long"',
    float: '"double"',
    bool: '"boolean"',
}


def avro(
    schema: AvroSchema = None,
    *,
    registry: str | SchemaRegistry | None = None,
    of: type[T] | None = None,
    subject_of: SubjectOf = by_topic,
    auto_register: bool = True,
    use_latest: bool = False,
) -> "AvroSerde[T]":
    """Return a serde of Avro values: dictionaries, or `of` a dataclass, pydantic model or msgspec
    Struct.

    With a registry and no schema, values are written with their subject's latest schema (text and
    numbers by their own type, if they have one).
    """
    text = schema if isinstance(schema, str) or schema is None else json.dumps(schema)
    own = None if text is None else RegisteredSchema(_checked(text), AVRO)
    use = registered(
        registry,
        subject_of=subject_of,
        auto_register=auto_register,
        use_latest=use_latest,
        has_schema=own is not None,
    )
    return AvroSerde(own, use, of)


class Parsed(NamedTuple):
    """A schema as fastavro takes it, and the check of its ints."""

    schema: Any
    ints: Look | None


class AvroSerde(SchemaSerde[Parsed, T]):
    """Writes and reads the keys or the values of records."""

    def serialize(self, topic: str, value: T, headers: HeaderList, /) -> bytes:  # noqa: ARG002
        schema, schema_id = self._schema, None
        if self._use is not None:
            schema = schema or _primitive(value)
            name = None if schema is None else _full_name(self._of_schema(schema).schema)
            schema_id, schema = self._use.numbered(topic, self._is_key, schema, name)
        assert schema is not None, "without a registry there is a schema"
        payload = _written(self._of_schema(schema), plain(value))
        return payload if schema_id is None else frame(schema_id, payload)

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T:  # noqa: ARG002
        wanted = None if self._schema is None else self._of_schema(self._schema).schema
        if self._use is None:
            found = _read(bytes(data), wanted, None)
        else:
            schema_id, payload = unframe(bytes(data))
            written = self._use.registry.by_id(schema_id)
            if written.kind != AVRO:
                raise ValueError(f"schema {schema_id} is {written.kind}, not {AVRO}")
            found = _read(payload, self._of_schema(written).schema, wanted)
        return self._made(found)

    def _compile(
        self, schema: RegisteredSchema, others: list[tuple[str, RegisteredSchema]]
    ) -> Parsed:
        named: dict[str, Any] = {}
        parse = partial(_fastavro().parse_schema, named_schemas=named)
        for _, other in others:
            parse(_schema_value(other.text))
        made = parse(_schema_value(schema.text))
        return Parsed(made, ints_of(made, named))


def plain(value: Any) -> Any:
    """Return objects as the dictionaries that Avro writes; a dictionary passes unchanged."""
    if type(value) in _PRIMITIVES or type(value) is dict:
        return value
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _deep(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if is_pydantic(type(value)):
        return _deep(value.model_dump(by_alias=True))
    if is_msgspec(type(value)):
        return {name: _deep(getattr(value, name)) for name in value.__struct_fields__}
    return value


def _deep(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _deep(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_deep(each) for each in value]
    return plain(value)


def _primitive(value: Any) -> RegisteredSchema | None:
    text = _PRIMITIVES.get(type(value))
    return None if text is None else RegisteredSchema(text, AVRO)


def _full_name(parsed: Any) -> str | None:
    name = parsed.get("name") if isinstance(parsed, dict) else None
    return name if isinstance(name, str) else None


def _written(by: Parsed, value: Any) -> bytes:
    parsed = by.schema
    # A value of type bytes is written without its length, as by Confluent's serializers.
    if parsed == _BYTES or (isinstance(parsed, dict) and parsed.get("type") == _BYTES):
        if isinstance(value, bytes | bytearray | memoryview) and _logical(parsed) is None:
            return bytes(value)
    if by.ints is not None:
        by.ints(value)
    out = io.BytesIO()
    try:
        _fastavro().schemaless_writer(out, parsed, value)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as problem:
        raise ValueError(_why_not(parsed, value) or _text_of(problem)) from problem
    return out.getvalue()


def _read(payload: bytes, written: Any, wanted: Any) -> Any:
    if (written == _BYTES or (isinstance(written, dict) and written.get("type") == _BYTES)) and (
        _logical(written) is None
    ):
        return payload
    source = io.BytesIO(payload)
    try:
        found = _fastavro().schemaless_reader(source, written, wanted)
    except (EOFError, ValueError, TypeError, KeyError, IndexError, OverflowError) as problem:
        raise ValueError(f"it is not what its schema says: {_text_of(problem)}") from problem
    except Exception as problem:
        if type(problem).__module__.startswith("fastavro"):
            raise ValueError(_text_of(problem)) from problem
        raise
    left = len(payload) - source.tell()
    if left:
        raise ValueError(f"{left} bytes are left over: it was written with another schema")
    return found


def _logical(parsed: Any) -> Any:
    return parsed.get("logicalType") if isinstance(parsed, dict) else None


def _why_not(parsed: Any, value: Any) -> str | None:
    """Return the field that does not fit; fastavro's error may not name it."""
    try:
        _fastavro()
        import_module("fastavro.validation").validate(value, parsed, raise_errors=True)
    except Exception as problem:
        return _text_of(problem)
    return None


def _text_of(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    return text[:500] or type(problem).__name__


def _checked(text: str) -> str:
    schema = _schema_value(text)
    parse = _fastavro().parse_schema
    try:
        parse(schema)
    except Exception as problem:
        named = f"{type(problem).__name__}: {_text_of(problem)}"
        raise SerdeRefused(f"the Avro schema is not legal ({named})") from problem
    return text


def _schema_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # A primitive's name alone is a schema, too.
        if text.isidentifier():
            return text
        raise SerdeRefused("the Avro schema is no JSON") from None


def _fastavro() -> Any:
    loaded = sys.modules.get("fastavro")
    if loaded is not None:
        return loaded
    try:
        return import_module("fastavro")
    except ImportError:
        raise SerdeRefused(
            "Avro needs the package fastavro: pip install 'penstock[avro]'"
        ) from None
