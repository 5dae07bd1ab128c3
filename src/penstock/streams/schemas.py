"""Types of keys, values and state: from a dataclass, a Python type, Spark's type or its text.

A field of a dataclass may be null only if it says so (`str | None`); records that lack it are bad.
"""

import dataclasses
import datetime
import decimal
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

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
CLASSES_MAX = 1_024  # classes with remembered fields
# Types of most values: their fields are not looked up.
UNCHANGED = frozenset((str, int, float, bool, bytes, type(None)))


def spark_type(of: Any) -> DataType:
    """Return Spark's type of a declared type."""
    if isinstance(of, DataType):
        return of
    if isinstance(of, str):
        return parse_type(of)
    return _from_python(of)[0]


def _from_python(of: Any) -> tuple[DataType, bool]:
    """Return the type, and whether it may be null."""
    if of in PLAIN:
        return PLAIN[of], False
    declared = declared_fields(of)
    if declared is not None:
        return _from_fields(declared), False
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
        f"{of!r} has no type in Spark: a dataclass, a class of pydantic or msgspec, str, int, "
        "float, bool, bytes, datetime, date, Decimal, list[...], dict[..., ...] and these with "
        "`| None` have one"
    )


def _from_union(of: Any, arguments: tuple[Any, ...]) -> tuple[DataType, bool]:
    others = [each for each in arguments if each is not types.NoneType]
    if len(others) != 1 or len(others) == len(arguments):
        raise TopologyError(f"{of!r}: of unions, only `something | None` has a type in Spark")
    return _from_python(others[0])[0], True


def _from_fields(declared: Mapping[str, Any]) -> StructType:
    fields = []
    for name, hint in declared.items():
        found, nullable = _from_python(hint)
        fields.append(StructField(name, found, nullable))
    return StructType(fields)


def declared_fields(of: Any) -> dict[str, Any] | None:
    """Return the declared fields of a class with their types; None for other types."""
    if not isinstance(of, type):
        return None
    if dataclasses.is_dataclass(of):
        names = [each.name for each in dataclasses.fields(of) if each.init]
    else:
        names = _names_of_models(of)
    if not names:
        return None
    hints = typing.get_type_hints(of)
    return {name: hints[name] for name in names}


def takes_positions(of: type) -> bool:
    """Return whether objects of the class are made of values in the order of its fields."""
    return dataclasses.is_dataclass(of) and not any(each.kw_only for each in dataclasses.fields(of))


def _names_of_models(of: Any) -> list[str]:
    """Return the field names of pydantic's and msgspec's classes, which need not be installed."""
    names = getattr(of, "__pydantic_fields__", None) or getattr(of, "__struct_fields__", None)
    return [] if names is None else [*names]


def fields_given(value: Any) -> Mapping[str, Any] | None:
    """Return one level of a user's value by field names; None without fields."""
    if isinstance(value, dict):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        named: Mapping[str, Any] = value._asdict()
        return named
    if isinstance(value, tuple) and hasattr(value, "asDict"):  # Spark's rows
        row: Mapping[str, Any] = value.asDict()
        return row
    kind: Any = type(value)  # a class is hashable, unless its metaclass says otherwise
    names = _names_in(kind)
    return {name: getattr(value, name) for name in names} if names else None


@functools.lru_cache(CLASSES_MAX)
def _names_in(of: type) -> tuple[str, ...]:
    """Return all names of an object, computed fields too; called for every record."""
    if dataclasses.is_dataclass(of):
        return tuple(each.name for each in dataclasses.fields(of))
    return tuple(_names_of_models(of))


def field_names(of: DataType) -> tuple[str, ...] | None:
    return tuple(of.fieldNames()) if isinstance(of, StructType) else None


def all_nullable(of: DataType) -> DataType:
    """Return the type with nullable fields: Spark promises no column without nulls."""
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
    """Return a record as dicts and lists."""
    if type(value) in UNCHANGED:
        return value
    given = fields_given(value)
    if given is not None:
        return {name: plain(each) for name, each in given.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
