"""Structures as Python values whose fields are attributes, in lambdas and in functions."""

import builtins
import functools
import typing
from collections import namedtuple
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, Row, StructType

from penstock.streams.errors import StreamsError
from penstock.streams.schemas import declared_fields, fields_given, takes_positions


def row_reader(of: DataType) -> Callable[[Any], Any]:
    """Return a function from Arrow's dicts to named tuples: value.amount instead of
    value["amount"]."""
    if isinstance(of, StructType) and of.fields:
        # `rename`: fields with names that Python rejects are reached by index.
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
    """Return a function from a user's value (dict, dataclass, row, tuple) to Spark's rows."""
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


def _fields(value: Any, names: list[str]) -> Mapping[str, Any]:
    """Return the fields of one level; each must be there."""
    given = fields_given(value)
    if given is None:
        raise StreamsError(f"{value!r} has no fields; it needs {', '.join(names)}")
    missing = [name for name in names if name not in given]
    if missing:
        raise StreamsError(f"{value!r} lacks {', '.join(missing)}")
    return given


@functools.cache
def maker_of(of: Any) -> Callable[[Any], Any] | None:
    """Return the maker of a declared type; None for Spark's own types, which have no objects."""
    return None if isinstance(of, str | DataType) else instance_maker(of)


def instance_maker(of: Any) -> Callable[[Any], Any]:
    """Return a function from rows to objects of the declared class, nested ones included.

    Annotations are resolved here, once: the workers may lack the module.
    """
    declared = declared_fields(of)
    if declared is not None:
        return _object_maker(of, declared)
    inner = [each for each in typing.get_args(of) if each is not type(None)]
    match typing.get_origin(of):
        case builtins.list | builtins.tuple as sequence:
            element, whole = instance_maker(inner[0]), sequence
            if element is _same:
                return lambda value: None if value is None else whole(value)
            return lambda value: None if value is None else whole(element(each) for each in value)
        case builtins.dict:
            item = instance_maker(inner[1])
            # Arrow gives a map as pairs, Spark's rows as a dictionary.
            return lambda value: (
                None if value is None else {key: item(each) for key, each in dict(value).items()}
            )
        case None:
            return _same
        case _:
            return instance_maker(inner[0])  # something | None


def _object_maker(of: Any, declared: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a maker that passes fields without conversion in one go; most fields are such."""
    names = tuple(declared)
    makers = {name: instance_maker(hint) for name, hint in declared.items()}
    inner = {name: maker for name, maker in makers.items() if maker is not _same}
    if not inner and len(names) > 1 and takes_positions(of):
        values = itemgetter(*names)
        return lambda row: row if row is None or isinstance(row, of) else of(*values(row))

    def make(row: Any) -> Any:
        if row is None or isinstance(row, of):
            return row
        given = {name: row[name] for name in names}
        for name, maker in inner.items():
            given[name] = maker(given[name])
        return of(**given)

    return make
