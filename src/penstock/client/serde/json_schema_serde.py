"""JSON with a schema in a registry or agreed upon beforehand; both sides check values.

With a registry each value carries its schema's id, as Confluent's serializers write it. A given
schema is checked when the serde is made. The package `jsonschema` validates, is loaded at first
use, and never fetches a schema by itself.
"""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from penstock.client.records import Headers
from penstock.client.serde.json_values import json_bytes, json_value
from penstock.client.serde.protocols import HeaderList, SerdeRefused
from penstock.client.serde.registry import JSON_SCHEMA, RegisteredSchema, SchemaRegistry
from penstock.client.serde.schema_ids import (
    Registered,
    SchemaSerde,
    SubjectOf,
    T,
    by_topic,
    frame,
    registered,
    unframe,
)


def json_schema(
    schema: str | Mapping[str, Any] | None = None,
    *,
    registry: str | SchemaRegistry | None = None,
    of: type[T] | None = None,
    subject_of: SubjectOf = by_topic,
    auto_register: bool = True,
    use_latest: bool = False,
    validate: bool = True,
) -> "JsonSchemaSerde[T]":
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
    return JsonSchemaSerde(own, use, of, validate)


class JsonSchemaSerde(SchemaSerde[Callable[[Any], None], T]):
    """Writes and reads the keys or the values of records."""

    def __init__(
        self,
        schema: RegisteredSchema | None,
        use: Registered | None,
        of: type[T] | None,
        validate: bool,
    ) -> None:
        super().__init__(schema, use, of)
        self._validate = validate

    def serialize(self, topic: str, value: T, headers: HeaderList, /) -> bytes:  # noqa: ARG002
        payload = json_bytes(value)
        schema, schema_id = self._schema, None
        if self._use is not None:
            name = None if schema is None else _title(schema)
            schema_id, schema = self._use.numbered(topic, self._is_key, schema, name)
        assert schema is not None, "without a registry there is a schema"
        if self._validate:
            # The check sees the value as JSON has it: times and numbers as text.
            self._of_schema(schema)(json_value(payload))
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
            self._of_schema(schema)(found)
        return self._made(found)

    def _compile(
        self, schema: RegisteredSchema, others: list[tuple[str, RegisteredSchema]]
    ) -> Callable[[Any], None]:
        return _validator(schema, others)


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
