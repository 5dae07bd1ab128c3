"""Structures as Python values whose fields are attributes, in lambdas as in functions."""

import builtins
import dataclasses
import typing
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, Row, StructType

from penstock.streams.errors import StreamsError


def row_reader(of: DataType) -> Callable[[Any], Any]:
    """A function from Arrow's dicts to named tuples: value.amount instead of value["amount"]."""
    if isinstance(of, StructType) and of.fields:
        # `rename`: fields that are no names for Python are reached by their index.
        row = namedtuple("Row", of.fieldNames(), rename=True)  # type: ignore[misc]
        readers = [(each.name, row_reader(each.dataType)) for each in of.fields]

        def read(value: Any) -> Any:
            if value is None:
                return None
            return row(*[reader(value[name]) for name, reader in readers])

        return read
    if isinstance(of, ArrayType):
        element = row_reader(of.elementType)
        return lambda value: None if value is None else [element(each) for each in value]
    if isinstance(of, MapType):
        item = row_reader(of.valueType)
        return lambda value: None if value is None else {key: item(each) for key, each in value}
    return _same


def _same(value: Any) -> Any:
    return value


def row_maker(of: DataType) -> Callable[[Any], Any]:
    """A function from what a user gives (dict, dataclass, row, tuple) to Spark's rows."""
    if isinstance(of, StructType):
        names = of.fieldNames()
        makers = [row_maker(each.dataType) for each in of.fields]

        def make(value: Any) -> Any:
            if value is None:
                return None
            given = _fields(value, names)
            return Row(
                **{name: maker(given[name]) for name, maker in zip(names, makers, strict=True)}
            )

        return make
    if isinstance(of, ArrayType):
        element = row_maker(of.elementType)
        return lambda value: None if value is None else [element(each) for each in value]
    if isinstance(of, MapType):
        item = row_maker(of.valueType)
        return lambda value: (
            None if value is None else {key: item(each) for key, each in value.items()}
        )
    return _same


def _fields(value: Any, names: list[str]) -> dict[str, Any]:
    """The fields of one level; each must be there."""
    if dataclasses.is_dataclass(value):
        given = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    elif isinstance(value, Row):
        given = value.asDict()
    elif isinstance(value, dict):
        given = value
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        given = value._asdict()
    else:
        raise StreamsError(f"{value!r} has no fields; it needs {', '.join(names)}")
    missing = [name for name in names if name not in given]
    if missing:
        raise StreamsError(f"{value!r} lacks {', '.join(missing)}")
    return given


def instance_maker(of: Any) -> Callable[[Any], Any]:
    """A function from rows to what they were made of: objects of the dataclass, and inside it."""
    if dataclasses.is_dataclass(of):
        hints = typing.get_type_hints(of)
        makers = [(each.name, instance_maker(hints[each.name])) for each in dataclasses.fields(of)]

        def make(row: Any) -> Any:
            if row is None:
                return None
            return of(**{name: maker(row[name]) for name, maker in makers})  # type: ignore[operator]

        return make
    inner = [each for each in typing.get_args(of) if each is not type(None)]
    match typing.get_origin(of):
        case builtins.list:
            element = instance_maker(inner[0])
            return lambda value: None if value is None else [element(each) for each in value]
        case builtins.dict:
            item = instance_maker(inner[1])
            return lambda value: (
                None if value is None else {key: item(each) for key, each in value.items()}
            )
        case None:
            return _same
        case _:
            return instance_maker(inner[0])  # something | None
