"""Avro by a schema, through fastavro on Arrow batches: PySpark from pip has no Avro jar."""

import io
import json
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.streams.column_functions import arrow_function
from penstock.streams.column_serde import DecodedColumn
from penstock.streams.errors import TopologyError
from penstock.streams.schemas import plain

PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "uuid": StringType(),
}


@dataclass(frozen=True, slots=True)
class AvroColumnSerde:
    """One datum per record, without a header."""

    schema: str
    type: DataType
    can_fail: bool = True

    @classmethod
    def of(cls, schema: str) -> "AvroColumnSerde":
        try:
            parsed = fastavro.parse_schema(json.loads(schema))
        except (ValueError, fastavro.schema.SchemaParseException) as problem:
            raise TopologyError(f"this is not an Avro schema: {problem}") from problem
        return cls(schema, _type_of(parsed)[0])

    def __str__(self) -> str:
        return f"avro {self.type.simpleString()}"

    def parse(self, raw: Column) -> Column:
        text = self.schema
        result = StructType([StructField("value", self.type), StructField("cause", StringType())])
        arrow = to_arrow_type(result, timezone="UTC")

        def read(data: pa.Array) -> pa.Array:
            schema = fastavro.parse_schema(json.loads(text))
            return pa.array([_read(schema, each) for each in data.to_pylist()], arrow)

        return arrow_function(read, result)(raw)

    def decode(self, raw: str, parsed: str) -> DecodedColumn:  # noqa: ARG002
        return DecodedColumn(f"{parsed}.value", f"{parsed}.cause")

    def encode(self, value: Column) -> Column:
        text = self.schema

        def write(values: pa.Array) -> pa.Array:
            schema = fastavro.parse_schema(json.loads(text))
            written = [
                None if each is None else _write(schema, each) for each in values.to_pylist()
            ]
            return pa.array(written, pa.binary())

        return arrow_function(write, BinaryType())(value)

    def to_bytes(self, value: Any) -> bytes | None:
        if value is None:
            return None
        return _write(fastavro.parse_schema(json.loads(self.schema)), plain(value))

    def from_bytes(self, data: bytes | None) -> Any:
        if data is None:
            return None
        return _read_whole(fastavro.parse_schema(json.loads(self.schema)), data)


def _read(schema: Any, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {"value": None, "cause": None}
    try:
        return {"value": _read_whole(schema, data), "cause": None}
    except Exception as problem:  # fastavro raises any exception for invalid bytes
        return {
            "value": None,
            "cause": f"not Avro of the schema: {type(problem).__name__}: {problem}",
        }


def _read_whole(schema: Any, data: bytes) -> Any:
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, schema, None)
    left = len(data) - stream.tell()
    if left:
        raise ValueError(f"{left} bytes are left over")
    return value


def _write(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def _type_of(schema: Any) -> tuple[DataType, bool]:
    """Return Spark's type of a parsed schema, and whether it may be null."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise TopologyError("of Avro's unions, only those of null and one other are offered")
        return _type_of(others[0])[0], len(others) < len(schema)
    if isinstance(schema, str):
        schema = {"type": schema}
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0)), False
    if logical in LOGICAL:
        return LOGICAL[logical], False
    if isinstance(kind, dict | list):
        return _type_of(kind)
    match kind:
        case "record":
            fields = [
                StructField(each["name"], *_type_of(each["type"])) for each in schema["fields"]
            ]
            return StructType(fields), False
        case "array":
            return ArrayType(*_type_of(schema["items"])), False
        case "map":
            return MapType(StringType(), *_type_of(schema["values"])), False
    if kind not in PLAIN:
        raise TopologyError(f"Avro's {kind} is not offered")
    return PLAIN[kind], False
