"""Types of keys, values and state: from a dataclass, a Python type, Spark's type or its text.

A field of a dataclass may be null only if it says so (`str | None`); records that lack it are bad.
"""

import dataclasses
import datetime
import decimal
import types
import typing
from typing import Any, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.streams.ddl import parse_type
from penstock.streams.errors import TopologyError

# A dataclass, a Python type, Spark's DataType, or text such as "bigint" and "name string, age int".
TypeLike: TypeAlias = "type[Any] | DataType | str | types.GenericAlias | types.UnionType"

DECIMAL = DecimalType(38, 18)
PLAIN: dict[Any, DataType] = {
    str: StringType(),
    int: LongType(),
    float: DoubleType(),
    bool: BooleanType(),
    bytes: BinaryType(),
    datetime.datetime: TimestampType(),
    datetime.date: DateType(),
    decimal.Decimal: DECIMAL,
}


def spark_type(of: Any) -> DataType:
    """Spark's type of what a user wrote down."""
    if isinstance(of, DataType):
        return of
    if isinstance(of, str):
        return parse_type(of)
    return _from_python(of)[0]


def _from_python(of: Any) -> tuple[DataType, bool]:
    """The type, and whether it may be null."""
    if of in PLAIN:
        return PLAIN[of], False
    if dataclasses.is_dataclass(of):
        return _from_dataclass(of), False
    origin, arguments = typing.get_origin(of), typing.get_args(of)
    if origin in (types.UnionType, typing.Union):
        return _from_union(of, arguments)
    if origin in (list, tuple) and arguments:
        element, nullable = _from_python(arguments[0])
        return ArrayType(element, nullable), False
    if origin is dict:
        key, _ = _from_python(arguments[0])
        value, nullable = _from_python(arguments[1])
        return MapType(key, value, nullable), False
    raise TopologyError(
        f"{of!r} has no type in Spark: a dataclass, str, int, float, bool, bytes, datetime, date, "
        "Decimal, list[...], dict[..., ...] and these with `| None` have one"
    )


def _from_union(of: Any, arguments: tuple[Any, ...]) -> tuple[DataType, bool]:
    others = [each for each in arguments if each is not types.NoneType]
    if len(others) != 1 or len(others) == len(arguments):
        raise TopologyError(f"{of!r}: of unions, only `something | None` has a type in Spark")
    return _from_python(others[0])[0], True


def _from_dataclass(of: Any) -> StructType:
    hints = typing.get_type_hints(of)
    fields = []
    for each in dataclasses.fields(of):
        found, nullable = _from_python(hints[each.name])
        fields.append(StructField(each.name, found, nullable))
    return StructType(fields)


def field_names(of: DataType) -> tuple[str, ...] | None:
    return tuple(of.fieldNames()) if isinstance(of, StructType) else None


def all_nullable(of: DataType) -> DataType:
    """What Spark makes of it on the way: nothing promises that a column has no nulls."""
    match of:
        case StructType():
            fields = [StructField(each.name, all_nullable(each.dataType)) for each in of.fields]
            return StructType(fields)
        case ArrayType():
            return ArrayType(all_nullable(of.elementType), True)
        case MapType():
            return MapType(all_nullable(of.keyType), all_nullable(of.valueType), True)
        case _:
            return of


def plain(value: Any) -> Any:
    """A record as dicts and lists, whatever it was made of."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if hasattr(value, "__fields__") or hasattr(value, "asDict"):  # Spark's rows
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
