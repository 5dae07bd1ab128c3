"""Functions of columns: Python functions over Arrow arrays, and Spark's SQL as text.

SQL text serves expressions of many parts: built from columns, each part is a call to Java.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType

# pyarrow has no types, so arrays are Any to the type checker.
ArrowFunction = Callable[[pa.Array], pa.Array]


def arrow_function(
    function: ArrowFunction, result: DataType, *, once: bool = False
) -> Callable[[Column], Column]:
    """Return a function of columns; with `once` Spark calls it once per record, however often it is
    used."""
    made: Any = sql.arrow_udf(function, result)  # type: ignore[attr-defined]  # made by a decorator

    def call(of: Column) -> Column:
        column = (made.asNondeterministic() if once else made)(of)
        assert isinstance(column, Column), "a function of columns gives a column"
        return column

    return call


def quoted(text: str) -> str:
    """Return a string literal."""
    inside = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{inside}'"


def named(*path: str) -> str:
    """Return a column, or a field of it, by any name."""
    return ".".join("`" + each.replace("`", "``") + "`" for each in path)


def case(condition: str, then: str, otherwise: str = "NULL") -> str:
    return f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END"


def structure(fields: dict[str, str]) -> str:
    return "named_struct(" + ", ".join(f"{quoted(name)}, {of}" for name, of in fields.items()) + ")"
