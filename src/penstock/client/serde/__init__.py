"""Keys and values as Python has them, and as bytes: serializers, deserializers, schemas.

`serializer_of` and `deserializer_of` take what a client was told: an object, a function, a type or
a name, Java's own among them. Numbers are big-endian, as Java's serializers write them.
"""

from penstock.client.failures.kinds import DeserializationError, SerializationError
from penstock.client.records import Headers
from penstock.client.serde.avro import avro
from penstock.client.serde.json_schema import json_schema
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
from penstock.client.serde.registry import RegistryError, SchemaRegistry
from penstock.client.serde.resolving import deserializer_of, serializer_of

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
