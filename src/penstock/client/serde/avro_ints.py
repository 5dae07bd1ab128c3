"""Checks Avro `int` values: an `int` has 32 bits, and fastavro writes 64 without an error.

A schema is compiled once into a check of its ints; a schema without ints costs nothing. In a union
fastavro itself checks values, to find the branch that fits.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from penstock.client.serde.json_types import Misfit

INT_MIN, INT_MAX = -(2**31), 2**31 - 1

# Takes a value; raises Misfit, with the path to the part that does not fit.
Look: TypeAlias = Callable[[Any], None]


def ints_of(parsed: Any, named: Mapping[str, Any]) -> Look | None:
    """Return the check of all ints of a parsed schema; None without ints. `named` are the schemas
    that this one may name."""
    return _AvroCompiler(named).look(parsed)


class _AvroCompiler:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._records: dict[str, Look | None] = {}
        self._under_way: set[str] = set()

    def look(self, schema: Any) -> Look | None:
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        kind = schema.get("type") if isinstance(schema, Mapping) else schema
        match kind:
            case "int":
                return _look_at_int
            case "array":
                return _look_at_items(self.look(schema["items"]))
            case "map":
                return _look_at_values(self.look(schema["values"]))
            case "record" | "error":
                return self._record(schema)
            case Mapping():  # {"type": {"type": "int"}}
                return self.look(kind)
        return None

    def _record(self, schema: Mapping[str, Any]) -> Look | None:
        name = schema["name"]
        if name in self._under_way:
            return self._later(name)
        if name not in self._records:
            self._under_way.add(name)
            looks = [(each["name"], self.look(each["type"])) for each in schema["fields"]]
            fields = [(field, look) for field, look in looks if look is not None]
            self._records[name] = _look_at_fields(fields) if fields else None
            self._under_way.discard(name)
        return self._records[name]

    def _later(self, name: str) -> Look:
        """Return a check for a schema that contains itself: its parts are known when values
        come."""

        def look(value: Any) -> None:
            found = self._records[name]
            if found is not None:
                found(value)

        return look


def _look_at_int(value: Any) -> None:
    if type(value) is int and not INT_MIN <= value <= INT_MAX:
        raise Misfit(f"{value} does not fit into an int of 32 bits; it would need the type long")


# For a value of another type fastavro raises its own error.


def _look_at_fields(fields: list[tuple[str, Look]]) -> Look:
    def look(value: Any) -> None:
        if type(value) is not dict and not isinstance(value, Mapping):  # the second is slow
            return
        for name, inner in fields:
            try:
                inner(value.get(name))
            except Misfit as misfit:
                raise misfit.under(name) from None

    return look


def _look_at_items(inner: Look | None) -> Look | None:
    if inner is None:
        return None

    def look(value: Any) -> None:
        if isinstance(value, list | tuple):
            for index, each in enumerate(value):
                try:
                    inner(each)
                except Misfit as misfit:
                    raise misfit.under(f"[{index}]") from None

    return look


def _look_at_values(inner: Look | None) -> Look | None:
    if inner is None:
        return None

    def look(value: Any) -> None:
        if isinstance(value, Mapping):
            for key, each in value.items():
                try:
                    inner(each)
                except Misfit as misfit:
                    raise misfit.under(str(key)) from None

    return look
