"""JSON with a schema, parsed and written in the JVM."""

import base64
import datetime
import decimal
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    DataType,
    StringType,
    StructField,
    StructType,
)

from penstock.streams.column_functions import case, named, quoted, structure
from penstock.streams.column_serde import DecodedColumn
from penstock.streams.schemas import all_nullable, plain

CORRUPT = "_penstock_corrupt"
ALONE = "it"  # Spark parses structures only: a lone number is wrapped into one
SHOWN_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """A structure as a JSON object; a lone value as JSON of its own."""

    type: DataType
    can_fail: bool = True
    make: Callable[[Any], Any] | None = None  # makes objects of the declared class from rows

    def __str__(self) -> str:
        return f"json {self.type.simpleString()}"

    @property
    def _alone(self) -> bool:
        return not isinstance(self.type, StructType)

    @property
    def _fields(self) -> list[StructField]:
        of = (
            self.type
            if isinstance(self.type, StructType)
            else StructType([StructField(ALONE, self.type)])
        )
        whole = all_nullable(of)
        assert isinstance(whole, StructType), "it was one"
        return whole.fields

    def parse(self, raw: Column) -> Column:
        text = sql.make_valid_utf8(raw.cast("string"))
        if self._alone:
            text = sql.concat(sql.lit(f'{{"{ALONE}":'), text, sql.lit("}"))
        return sql.from_json(
            text,
            StructType([*self._fields, StructField(CORRUPT, StringType())]),
            {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT},
        )

    def decode(self, raw: str, parsed: str) -> DecodedColumn:
        is_null = f"({raw} IS NULL OR trim(CAST({raw} AS STRING)) = 'null')"
        inside = {each.name: f"{parsed}.{named(each.name)}" for each in self._fields}
        value = inside[ALONE] if self._alone else structure(inside)
        cause = case(f"NOT {is_null}", self._cause(raw, parsed))
        return DecodedColumn(case(f"NOT {is_null}", value), cause)

    def _cause(self, raw: str, parsed: str) -> str:
        shown = f"substring(make_valid_utf8(CAST({raw} AS STRING)), 1, {SHOWN_CHARACTERS_MAX})"
        wanted = quoted(f"not JSON of {self.type.simpleString()}: ")
        broken = f"{parsed} IS NULL OR {parsed}.{CORRUPT} IS NOT NULL"
        cases = [(broken, f"concat({wanted}, {shown})")]
        if isinstance(self.type, StructType):
            cases += [
                (missing, quoted(f"the field {path} is missing or null"))
                for path, missing in _required(self.type, parsed, "")
            ]
        return f"CASE {' '.join(f'WHEN {one} THEN {two}' for one, two in cases)} END"

    def encode(self, value: Column) -> Column:
        options = {"ignoreNullFields": "false"}
        if not self._alone:
            return sql.when(value.isNotNull(), sql.to_json(value, options)).cast("binary")
        wrapped = sql.to_json(sql.struct(value.alias(ALONE)), options)
        lead = len(ALONE) + 5  # {"it": and, with the brace behind it, what stays is the value
        text = wrapped.substr(sql.lit(lead), sql.length(wrapped) - lead)
        return sql.when(value.isNotNull(), text).cast("binary")

    def to_bytes(self, value: Any) -> bytes | None:
        if value is None:
            return None
        return json.dumps(plain(value), default=_json_default, separators=(",", ":")).encode()

    def from_bytes(self, data: bytes | None) -> Any:
        return None if data is None else json.loads(data)


def _required(of: StructType, inside: str, path: str) -> list[tuple[str, str]]:
    """Return each required field with the condition that it is missing."""
    found: list[tuple[str, str]] = []
    for each in of.fields:
        column, name = f"{inside}.{named(each.name)}", f"{path}{each.name}"
        if not each.nullable:
            found.append((name, f"{column} IS NULL"))
        if isinstance(each.dataType, StructType):
            deeper = _required(each.dataType, column, f"{name}.")
            found += [(below, f"{column} IS NOT NULL AND {missing}") for below, missing in deeper]
    return found


def _json_default(value: Any) -> Any:
    """Return the text that Spark would write for a Python value."""
    match value:
        case datetime.datetime():
            return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        case datetime.date():
            return value.isoformat()
        case decimal.Decimal():
            return float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise TypeError(f"{value!r} has no JSON")
