"""Python functions over Arrow arrays as functions over columns."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType

# Arrays are Any to the type checker: pyarrow has no types.
ArrowFunction = Callable[[pa.Array], pa.Array]


def arrow_function(
    function: ArrowFunction, result: DataType, *, once: bool = False
) -> Callable[[Column], Column]:
    """With `once` Spark calls it once per record, wherever and however often its result is used."""
    made: Any = sql.arrow_udf(function, result)  # type: ignore[attr-defined]  # made by a decorator

    def call(of: Column) -> Column:
        column = (made.asNondeterministic() if once else made)(of)
        assert isinstance(column, Column), "a function of columns gives a column"
        return column

    return call
