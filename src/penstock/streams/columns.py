"""Expressions as Spark's columns."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sql

from penstock.streams.errors import TopologyError
from penstock.streams.expressions import Expression, ExpressionKind, arguments_of, kind_of, name_of

OPERATORS: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&": operator.and_,
    "|": operator.or_,
    "~": operator.invert,
    "neg": operator.neg,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def column_of(expression: Expression, inputs: Mapping[str, Column]) -> Column:
    """Return Spark's column; `inputs` has the column of each whole input: key, value, timestamp."""
    name, arguments = name_of(expression), arguments_of(expression)
    match kind_of(expression):
        case ExpressionKind.INPUT:
            if name not in inputs:
                raise TopologyError(f"{name} is not known here")
            return inputs[name]
        case ExpressionKind.LITERAL:
            return sql.lit(arguments[0])
        case ExpressionKind.FIELD:
            return column_of(arguments[0], inputs).getField(name)
        case ExpressionKind.STRUCT:
            return sql.struct(*(column_of(each, inputs).alias(field) for field, each in arguments))
        case ExpressionKind.CHOICE:
            return _choice(name, arguments, inputs)
        case ExpressionKind.OPERATOR:
            # A constant comes first only in `1 - column`: Spark's columns know both orders.
            result = OPERATORS[name](*(_argument(each, inputs) for each in arguments))
        case ExpressionKind.METHOD:
            target, *rest = (_argument(each, inputs) for each in arguments)
            result = getattr(target, name)(*rest)
        case ExpressionKind.CALL:
            result = getattr(sql, name)(*(_argument(each, inputs) for each in arguments))
    assert isinstance(result, Column), "an operation on columns gives a column"
    return result


def _argument(value: Any, inputs: Mapping[str, Column]) -> Any:
    if isinstance(value, list | tuple):
        return [_argument(each, inputs) for each in value]
    return column_of(value, inputs) if isinstance(value, Expression) else value


def _choice(name: str, arguments: tuple[Any, ...], inputs: Mapping[str, Column]) -> Column:
    columns = [column_of(each, inputs) for each in arguments]
    last = columns.pop() if name == "otherwise" else None
    chosen = sql.when(columns[0], columns[1])
    for at in range(2, len(columns), 2):
        chosen = chosen.when(columns[at], columns[at + 1])
    return chosen if last is None else chosen.otherwise(last)
