"""Serializers and deserializers: Python values and bytes, with a schema registry or without.

from penstock.serde import STRING, SchemaRegistry, avro, json_schema
"""

from typing import TYPE_CHECKING

from penstock.late import loaded_late

if TYPE_CHECKING:
    from penstock.client.serde import (
        AS_GIVEN,
        BOOLEAN,
        BYTES,
        DOUBLE,
        FLOAT,
        INTEGER,
        JSON,
        LONG,
        SHORT,
        STRING,
        UUID_TEXT,
        VOID,
        DeserializationError,
        Deserializer,
        DeserializerLike,
        DeserializerOf,
        HeaderList,
        Headers,
        NotToldYet,
        Plain,
        RegistryError,
        SchemaRegistry,
        Serde,
        SerdeRefused,
        SerializationError,
        Serializer,
        SerializerLike,
        SerializerOf,
        avro,
        deserializer_of,
        json_of,
        json_schema,
        serializer_of,
        string_in,
        unwaiting,
    )

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

__getattr__ = loaded_late(globals(), dict.fromkeys(__all__, "penstock.client.serde"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
