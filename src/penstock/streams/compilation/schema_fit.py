"""Fits values to the schema of a topic.

Fields are matched by name: Spark's cast would take them in order. Spark cannot promise that a
computed field is not null, so each row is checked. A null where the schema requires a value stops
the query with the name of the field.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from penstock.streams.errors import TopologyError
from penstock.streams.schemas import all_nullable


def fitted(value: Column, has: DataType, wanted: DataType, topic: str) -> Column:
    """Return the column as the wanted type; a deletion stays one."""
    shaped = _shaped(value, has, wanted, topic, "")
    missing = _missing(shaped, wanted, "")
    if not missing:
        return shaped
    checked = sql.when(shaped.isNull(), shaped)
    for path, is_missing in missing:
        text = (
            f"a record for {topic} has no {path}, which its schema requires: filter such records "
            "out before, or let the schema have nulls there"
        )
        checked = checked.when(is_missing, sql.raise_error(text).cast(all_nullable(wanted)))
    return checked.otherwise(shaped)


def _shaped(value: Column, has: DataType, wanted: DataType, topic: str, path: str) -> Column:
    if all_nullable(has) == all_nullable(wanted):
        return value
    match has, wanted:
        case StructType(), StructType():
            return _structure(value, has, wanted, topic, path)
        case ArrayType(), ArrayType():
            one, two = has.elementType, wanted.elementType
            return sql.transform(value, lambda each: _shaped(each, one, two, topic, f"{path}[]"))
        case MapType(), MapType() if has.keyType == wanted.keyType:
            one, two = has.valueType, wanted.valueType
            return sql.transform_values(
                value, lambda _, each: _shaped(each, one, two, topic, f"{path}{{}}")
            )
        case _:
            return value.cast(all_nullable(wanted))


def _structure(value: Column, has: StructType, wanted: StructType, topic: str, path: str) -> Column:
    names = has.fieldNames()
    extra = [name for name in names if name not in wanted.fieldNames()]
    lacking = [each.name for each in wanted.fields if not each.nullable and each.name not in names]
    for wrong, said in ((extra, "has"), (lacking, "lacks")):
        if wrong:
            inside = f" in {path}" if path else ""
            raise TopologyError(
                f"the value for {topic} {said} {', '.join(wrong)}{inside}; its schema is "
                f"{wanted.simpleString()}. map_values(lambda o: {{...}}) gives it these fields"
            )
    fields = [
        (
            _shaped(
                value.getField(each.name),
                has[each.name].dataType,
                each.dataType,
                topic,
                f"{path}.{each.name}".lstrip("."),
            )
            if each.name in names
            else sql.lit(None).cast(all_nullable(each.dataType))
        ).alias(each.name)
        for each in wanted.fields
    ]
    return sql.when(value.isNotNull(), sql.struct(*fields))


def _missing(value: Column, of: DataType, path: str) -> list[tuple[str, Column]]:
    """Return each required field with the condition that it is null; outer ones first."""
    found: list[tuple[str, Column]] = []
    match of:
        case StructType():
            for each in of.fields:
                inner, name = value.getField(each.name), f"{path}.{each.name}".lstrip(".")
                if not each.nullable:
                    found.append((name, inner.isNull()))
                below = _missing(inner, each.dataType, name)
                found += [(deep, inner.isNotNull() & condition) for deep, condition in below]
        case ArrayType():
            if not of.containsNull:
                found.append((f"{path}[]", sql.exists(value, lambda each: each.isNull())))
            found += _missing_in(value, of.elementType, path)
        case MapType():
            if not of.valueContainsNull:
                nulls = sql.exists(sql.map_values(value), lambda each: each.isNull())
                found.append((f"{path}{{}}", nulls))
    return found


def _missing_in(value: Column, element: DataType, path: str) -> list[tuple[str, Column]]:
    """Return the conditions for the elements of an array; their number is known without one."""
    names = [name for name, _ in _missing(sql.lit(None), element, f"{path}[]")]

    def condition(at: int) -> Callable[[Column], Column]:
        return lambda each: _missing(each, element, "")[at][1]

    return [(name, sql.exists(value, condition(at))) for at, name in enumerate(names)]
