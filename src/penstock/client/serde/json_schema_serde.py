"""JSON with a schema in a registry or agreed upon beforehand; both sides check values.

With a registry each value carries its schema's id, as Confluent's serializers write it. A given
schema is checked when the serde is made. The package `jsonschema` validates, is loaded at first
use, and never fetches a schema by itself.
"""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

from penstock.client.records import Headers
from penstock.client.serde.json_types import Reader, reader_of
from penstock.client.serde.json_values import json_bytes, json_value
from penstock.client.serde.protocols import HeaderList, SerdeRefused
from penstock.client.serde.registry import JSON_SCHEMA, RegisteredSchema, SchemaRegistry
from penstock.client.serde.schema_ids import (
    Registered,
    SubjectOf,
    by_topic,
    frame,
    registered,
    unframe,
)

T = TypeVar("T")
VALIDATORS_MAX = 1_000


@overload
def json_schema(
    schema: str | Mapping[str, Any] | None = ...,
    *,
    registry: str | SchemaRegistry | None = ...,
    of: type[T],
    subject_of: SubjectOf = ...,
    auto_register: bool = ...,
    use_latest: bool = ...,
    validate: bool = ...,
) -> "JsonSchemaSerde[T]": ...
@overload
def json_schema(
    schema: str | Mapping[str, Any] | None = ...,
    *,
    registry: str | SchemaRegistry | None = ...,
    of: None = ...,
    subject_of: SubjectOf = ...,
    auto_register: bool = ...,
    use_latest: bool = ...,
    validate: bool = ...,
) -> "JsonSchemaSerde[Any]": ...
def json_schema(
    schema: str | Mapping[str, Any] | None = None,
    *,
    registry: str | SchemaRegistry | None = None,
    of: type[Any] | None = None,
    subject_of: SubjectOf = by_topic,
    auto_register: bool = True,
    use_latest: bool = False,
    validate: bool = True,
) -> "JsonSchemaSerde[Any]":
    """Return a serde of JSON values: Python's own, or `of` a type as serde.json_of takes it.

    With a registry and no schema, values are written with their subject's latest schema.
    """
    text = schema if isinstance(schema, str) or schema is None else json.dumps(schema)
    own = None if text is None else RegisteredSchema(_checked(text), JSON_SCHEMA)
    if own is not None and validate:
        _validator(own, [])  # SerdeRefused if it is not legal
    use = registered(
        registry,
        subject_of=subject_of,
        auto_register=auto_register,
        use_latest=use_latest,
        has_schema=own is not None,
    )
    return JsonSchemaSerde(own, use, None if of is None else reader_of(of), validate)


class JsonSchemaSerde(Generic[T]):
    """Writes and reads the keys or the values of records."""

    def __init__(
        self,
        schema: RegisteredSchema | None,
        use: Registered | None,
        reader: Reader | None,
        validate: bool = True,
        is_key: bool = False,
    ) -> None:
        self._schema = schema
        self._use = use
        self._reader = reader
        self._validate = validate
        self._is_key = is_key
        self._validators: dict[RegisteredSchema, Callable[[Any], None]] = {}

    def of_part(self, is_key: bool) -> "JsonSchemaSerde[T]":
        """Return the same serde for keys, or for values: their schemas are under different
        subjects."""
        return JsonSchemaSerde(self._schema, self._use, self._reader, self._validate, is_key)

    def unwaiting(self) -> "JsonSchemaSerde[T]":
        """Return the same for event loops: NotToldYet instead of a wait for the registry."""
        use = None if self._use is None else self._use.unwaiting()
        return JsonSchemaSerde(self._schema, use, self._reader, self._validate, self._is_key)

    def serialize(self, topic: str, value: T, headers: HeaderList, /) -> bytes:  # noqa: ARG002
        payload = json_bytes(value)
        schema, schema_id = self._schema, None
        if self._use is not None:
            name = None if schema is None else _title(schema)
            schema_id, schema = self._use.numbered(topic, self._is_key, schema, name)
        assert schema is not None, "without a registry there is a schema"
        if self._validate:
            # The check sees the value as JSON has it: times and numbers as text.
            self._validator(schema)(json_value(payload))
        return payload if schema_id is None else frame(schema_id, payload)

    def deserialize(self, topic: str, data: bytes, headers: Headers, /) -> T:  # noqa: ARG002
        if self._use is None:
            payload, schema = data, self._schema
        else:
            schema_id, payload = unframe(bytes(data))
            schema = self._schema
            if self._validate and schema is None:
                schema = self._use.registry.by_id(schema_id)
                if schema.kind != JSON_SCHEMA:
                    raise ValueError(f"schema {schema_id} is {schema.kind}, not {JSON_SCHEMA}")
        found = json_value(payload)
        if self._validate:
            assert schema is not None, "without a registry there is a schema"
            self._validator(schema)(found)
        made: T = found if self._reader is None else self._reader(found)
        return made

    def _validator(self, schema: RegisteredSchema) -> Callable[[Any], None]:
        found = self._validators.get(schema)
        if found is None:
            others = [] if self._use is None else self._use.registry.references(schema)
            found = _validator(schema, others)
            if len(self._validators) >= VALIDATORS_MAX:
                self._validators.clear()
            self._validators[schema] = found
        return found


def _validator(
    schema: RegisteredSchema, others: list[tuple[str, RegisteredSchema]]
) -> Callable[[Any], None]:
    try:
        library = import_module("jsonschema")
        referencing = import_module("referencing")
        jsonschema_specification = import_module("referencing.jsonschema")
    except ImportError:
        raise SerdeRefused(
            "JSON Schema needs the package jsonschema: pip install 'penstock[json-schema]', or "
            "say validate=False"
        ) from None
    value = json.loads(schema.text)
    # An empty registry: the library's default one would fetch schemas by their addresses.
    known = referencing.Registry().with_resources(
        (
            name,
            referencing.Resource.from_contents(
                json.loads(other.text),
                default_specification=jsonschema_specification.DRAFT202012,
            ),
        )
        for name, other in others
    )
    kind = library.validators.validator_for(value, default=library.Draft202012Validator)
    try:
        kind.check_schema(value)
    except library.SchemaError as problem:
        raise SerdeRefused(f"the JSON schema is not legal: {problem.message}") from problem
    best = library.exceptions.best_match
    find = kind(value, registry=known).iter_errors

    def check(found: Any) -> None:
        misfit = best(find(found))
        if misfit is not None:
            raise ValueError(f"{misfit.json_path}: {misfit.message}"[:500])

    return check


def _title(schema: RegisteredSchema) -> str | None:
    value = json.loads(schema.text)
    title = value.get("title") if isinstance(value, dict) else None
    return title if isinstance(title, str) else None


def _checked(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        raise SerdeRefused("the JSON schema is no JSON") from None
    if not isinstance(value, dict | bool):
        raise SerdeRefused("a JSON schema is an object")
    return text
