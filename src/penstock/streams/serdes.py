"""Bytes of a record to a typed column and back, by Spark's own expressions if it has them.

A serde also gives the error of invalid bytes (`cause`), so that one bad record goes to the dead
letters and the query continues. The same serdes read and write single values in Python (`to_bytes`,
`from_bytes`), for tests and for inspecting stores.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from penstock.streams.column_functions import arrow_function, case, quoted
from penstock.streams.column_serde import ColumnSerde, DecodedColumn
from penstock.streams.errors import TopologyError
from penstock.streams.json_text import JsonSerde
from penstock.streams.rows import maker_of
from penstock.streams.schemas import spark_type

BINARY, STRING = BinaryType(), StringType()


@dataclass(frozen=True, slots=True)
class BytesSerde:
    """Bytes, unchanged."""

    type: DataType = BINARY
    can_fail: bool = False

    def __str__(self) -> str:
        return "bytes"

    def parse(self, raw: Column) -> Column:
        return raw

    def decode(self, raw: str, parsed: str) -> DecodedColumn:  # noqa: ARG002
        return DecodedColumn(parsed)

    def encode(self, value: Column) -> Column:
        return value

    def to_bytes(self, value: Any) -> bytes | None:
        return None if value is None else bytes(value)

    def from_bytes(self, data: bytes | None) -> Any:
        return data


@dataclass(frozen=True, slots=True)
class StringSerde:
    """UTF-8; as with Kafka's serde, invalid bytes become U+FFFD."""

    type: DataType = STRING
    can_fail: bool = False

    def __str__(self) -> str:
        return "string"

    def parse(self, raw: Column) -> Column:
        return sql.make_valid_utf8(raw.cast("string"))

    def decode(self, raw: str, parsed: str) -> DecodedColumn:  # noqa: ARG002
        return DecodedColumn(parsed)

    def encode(self, value: Column) -> Column:
        return value.cast("string").cast("binary")

    def to_bytes(self, value: Any) -> bytes | None:
        return None if value is None else str(value).encode()

    def from_bytes(self, data: bytes | None) -> Any:
        return None if data is None else data.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class NumberSerde:
    """A number of fixed size, big-endian."""

    name: str
    type: DataType
    size: int
    layout: str
    can_fail: bool = True

    def __str__(self) -> str:
        return self.name

    def decode(self, raw: str, parsed: str) -> DecodedColumn:
        said = quoted(f"{self.name} takes {self.size} bytes and this has ")
        wrong = case(f"length({raw}) <> {self.size}", f"concat({said}, length({raw}))")
        return DecodedColumn(parsed, wrong)

    def to_bytes(self, value: Any) -> bytes | None:
        return None if value is None else struct.pack(self.layout, value)

    def from_bytes(self, data: bytes | None) -> Any:
        return None if data is None else struct.unpack(self.layout, data)[0]


class WholeSerde(NumberSerde):
    """Two's complement: Kafka's Short, Integer and Long serdes."""

    __slots__ = ()

    def parse(self, raw: Column) -> Column:
        fits = sql.length(raw) == self.size
        unsigned = sql.conv(sql.hex(raw), 16, -10 if self.size == 8 else 10).cast("bigint")
        half = 1 << (self.size * 8 - 1)
        signed = unsigned
        if self.size < 8:
            signed = sql.when(unsigned >= half, unsigned - 2 * half).otherwise(unsigned)
        return sql.when(fits, signed.cast(self.type))

    def encode(self, value: Column) -> Column:
        mask = (1 << (self.size * 8)) - 1
        whole = value.cast("bigint")
        digits = whole if self.size == 8 else whole.bitwiseAND(mask)
        return sql.unhex(sql.lpad(sql.hex(digits), self.size * 2, "0"))


class FloatingSerde(NumberSerde):
    """IEEE 754: Kafka's Float and Double serdes; in Python, since Spark has none."""

    __slots__ = ()

    def parse(self, raw: Column) -> Column:
        layout, size = self.layout, self.size

        def read(data: pa.Array) -> pa.Array:
            values = [
                struct.unpack(layout, each)[0] if each is not None and len(each) == size else None
                for each in data.to_pylist()
            ]
            return pa.array(values, pa.float64() if size == 8 else pa.float32())

        return arrow_function(read, self.type)(raw)

    def encode(self, value: Column) -> Column:
        layout = self.layout

        def write(numbers: pa.Array) -> pa.Array:
            packed = [
                None if each is None else struct.pack(layout, each) for each in numbers.to_pylist()
            ]
            return pa.array(packed, pa.binary())

        return arrow_function(write, BinaryType())(value.cast(self.type))


def bytes_() -> BytesSerde:
    return BytesSerde()


def string() -> StringSerde:
    return StringSerde()


def short() -> WholeSerde:
    return WholeSerde("short", ShortType(), 2, ">h")


def integer() -> WholeSerde:
    return WholeSerde("integer", IntegerType(), 4, ">i")


def long() -> WholeSerde:
    return WholeSerde("long", LongType(), 8, ">q")


def float_() -> FloatingSerde:
    return FloatingSerde("float", FloatType(), 4, ">f")


def double() -> FloatingSerde:
    return FloatingSerde("double", DoubleType(), 8, ">d")


def json_schema(of: Any) -> JsonSerde:
    """Return a serde of JSON: of a dataclass, of Spark's type, or of its text: "name string, age
    int"."""
    return JsonSerde(spark_type(of), make=maker_of(of))


def avro_schema(schema: Any) -> ColumnSerde:
    """Return a serde of Avro by its schema: a dict, its JSON text, or a plain type's name. No
    registry header."""
    from penstock.streams.avro import AvroColumnSerde

    is_text = isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"')
    return AvroColumnSerde.of(schema if is_text else json.dumps(schema))


_SERDE_NAMES = {str: "string()", bytes: "bytes_()", int: "long()", float: "double()"}


def checked(argument: str, serde: ColumnSerde | None) -> ColumnSerde | None:
    """Return the serde. For a type, raise TopologyError with the serde that may be meant."""
    if serde is None or (not isinstance(serde, type) and hasattr(serde, "to_bytes")):
        return serde
    given: Any = serde
    if isinstance(given, type):
        meant = _SERDE_NAMES.get(given, f"json_schema({given.__name__})")
    else:
        name = getattr(given, "__name__", "")
        meant = f"{name}()" if name in globals() else "string(), long() or json_schema(Order)"
    raise TopologyError(f"{argument} is {given!r}, which is no serde; say {argument}={meant}")


def serde_for(of: DataType) -> ColumnSerde:
    """Return the default serde of a type: bytes and text unchanged, else JSON."""
    if isinstance(of, BinaryType):
        return BytesSerde()
    if isinstance(of, StringType):
        return StringSerde()
    return JsonSerde(of)
