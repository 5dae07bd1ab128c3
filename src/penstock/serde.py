"""Serializers and deserializers: Python values and bytes, with a schema registry or without.

from penstock.serde import STRING, SchemaRegistry, avro, json_schema

Modules for a registry are loaded at first use.
"""

from typing import TYPE_CHECKING

from penstock.client.failures.kinds import DeserializationError, SerializationError
from penstock.client.records import Headers
from penstock.client.serde.json_values import JSON, json_of
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
    DeserializerLike,
    DeserializerOf,
    HeaderList,
    NotToldYet,
    Plain,
    Serde,
    SerdeRefused,
    Serializer,
    SerializerLike,
    SerializerOf,
    unwaiting,
)
from penstock.client.serde.serde_lookup import deserializer_of, serializer_of
from penstock.late import loaded_late

if TYPE_CHECKING:
    from penstock.client.serde.avro_serde import avro
    from penstock.client.serde.json_schema_serde import json_schema
    from penstock.client.serde.registry import RegistryError, SchemaRegistry

_MODULES = {
    "RegistryError": "penstock.client.serde.registry",
    "SchemaRegistry": "penstock.client.serde.registry",
    "avro": "penstock.client.serde.avro_serde",
    "json_schema": "penstock.client.serde.json_schema_serde",
}

__all__ = [
    "AS_GIVEN",
    "BOOLEAN",
    "BYTES",
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "JSON",
    "LONG",
    "SHORT",
    "STRING",
    "UUID_TEXT",
    "VOID",
    "DeserializationError",
    "Deserializer",
    "DeserializerLike",
    "DeserializerOf",
    "HeaderList",
    "Headers",
    "NotToldYet",
    "Plain",
    "RegistryError",
    "SchemaRegistry",
    "Serde",
    "SerdeRefused",
    "SerializationError",
    "Serializer",
    "SerializerLike",
    "SerializerOf",
    "avro",
    "deserializer_of",
    "json_of",
    "json_schema",
    "serializer_of",
    "string_in",
    "unwaiting",
]

__getattr__ = loaded_late(globals(), _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
