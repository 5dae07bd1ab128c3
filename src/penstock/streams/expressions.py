"""Expressions that stand for columns: a lambda is called once with them and its result is recorded.

An Expression is a plain tree that is made, printed and pickled without Spark; `columns.py` turns it
into Spark's columns. Python's `and`, `or`, `not`, `in` and `if` cannot be recorded, and raise.
"""

import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NoReturn

from penstock.streams.errors import StreamsError, TopologyError, TracingError, with_place

NO_TRUTH = (
    "a column has no truth value while a topology is described: write & instead of `and`, | "
    "instead of `or`, ~ instead of `not` (with parentheses around comparisons), "
    "column.isin([...]) instead of `column in`, and when(condition, value).otherwise(value) "
    "instead of `if`. Python per record is what map, flat_map and process are for"
)
NO_HASH = (
    "a column is no member of a set and no key of a dict while a topology is described: write "
    "column.isin([...]) instead of `column in`"
)

NO_TEXT = (
    "a column has no text while a topology is described, so str(), f-strings, % and format() "
    'would write its name: use f.concat(...) or f.format_string("%s", column) to put texts '
    'together, and column.cast("string") to make a text of a column'
)
NO_SUM = "+ adds numbers: f.concat(...) puts texts together"
# Methods of Python's values whose function in Spark has another name.
RENAMED = {
    "strip": "trim",
    "lstrip": "ltrim",
    "rstrip": "rtrim",
    "title": "initcap",
    "find": "locate",
    "strftime": "date_format",
    "isoformat": "date_format",
    "get": "element_at",
}


class ExpressionKind(StrEnum):
    INPUT = "input"  # a whole input: the key, the value, the timestamp
    FIELD = "field"
    LITERAL = "literal"
    OPERATOR = "operator"
    METHOD = "method"  # of a column: cast, isin, ...
    CALL = "call"  # of pyspark.sql.functions
    STRUCT = "struct"
    CHOICE = "choice"  # when ... otherwise


Fields = tuple[str, ...] | None  # None: not a structure, or unknown before Spark's analysis


def _refuses(reason: str) -> Callable[..., Any]:
    """Return a method of Python that has no meaning for a column."""

    def method(*_: object) -> NoReturn:
        raise TracingError(reason)

    return method


def _infix(name: str) -> "Callable[[Expression, object], Expression]":
    return lambda left, right: _operator(name, left, right)


def _reflected(name: str) -> "Callable[[Expression, object], Expression]":
    return lambda right, left: _operator(name, left, right)


class Expression:
    """A value in every record. Attributes are fields; [] takes any name."""

    __slots__ = ("_arguments", "_fields", "_kind", "_name")

    def __init__(
        self, kind: ExpressionKind, name: str, arguments: Sequence[Any] = (), fields: Fields = None
    ) -> None:
        self._kind, self._name, self._arguments, self._fields = kind, name, tuple(arguments), fields

    # -- fields

    def __getattr__(self, name: str) -> "Expression":
        if name.startswith("__"):
            raise AttributeError(name)
        return self._field(name)

    def __getitem__(self, name: "str | int | Expression") -> "Expression":
        if isinstance(name, str):
            return self._field(name)
        return Expression(ExpressionKind.METHOD, "getItem", (self, name))

    def _field(self, name: str) -> "Expression":
        if self._fields is not None and name not in self._fields:
            known = ", ".join(self._fields)
            raise TopologyError(f"there is no field {name}; there are {known}")
        return Expression(ExpressionKind.FIELD, name, (self,))

    # -- what cannot be recorded

    __bool__ = _refuses(NO_TRUTH)
    __str__ = _refuses(NO_TEXT)
    __format__ = _refuses(NO_TEXT)
    __len__ = _refuses("len() cannot be recorded: write f.length(column) or f.size(column)")
    __int__ = _refuses('int() cannot be recorded: write column.cast("bigint")')
    __float__ = _refuses('float() cannot be recorded: write column.cast("double")')
    __iter__ = _refuses("a column cannot be looped over: flat_map does this per record")
    __contains__ = _refuses(
        "`in` cannot be recorded: write column.isin(...) or column.contains(...)"
    )
    __floordiv__ = __rfloordiv__ = _refuses("// cannot be recorded: write f.floor(a / b)")

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:  # noqa: ARG002
        raise TracingError(_no_method(self))

    __hash__ = _refuses(NO_HASH)  # == makes an expression, so there is no equality

    # -- operators

    __eq__ = _infix("==")  # type: ignore[assignment]
    __ne__ = _infix("!=")  # type: ignore[assignment]
    __lt__, __le__, __gt__, __ge__ = _infix("<"), _infix("<="), _infix(">"), _infix(">=")
    __and__, __rand__ = _infix("&"), _reflected("&")
    __or__, __ror__ = _infix("|"), _reflected("|")
    __sub__, __rsub__ = _infix("-"), _reflected("-")
    __mul__, __rmul__ = _infix("*"), _reflected("*")
    __truediv__, __rtruediv__ = _infix("/"), _reflected("/")
    __mod__, __rmod__ = _infix("%"), _reflected("%")

    def __invert__(self) -> "Expression":
        return _operator("~", self)

    def __neg__(self) -> "Expression":
        return _operator("neg", self)

    def __add__(self, other: object) -> "Expression":
        _refuse_text(other)
        return _operator("+", self, other)

    def __radd__(self, other: object) -> "Expression":
        _refuse_text(other)
        return _operator("+", other, self)

    def __pow__(self, other: object) -> "Expression":
        return Expression(ExpressionKind.CALL, "pow", (self, other))

    def __rpow__(self, other: object) -> "Expression":
        return Expression(ExpressionKind.CALL, "pow", (other, self))

    def __abs__(self) -> "Expression":
        return Expression(ExpressionKind.CALL, "abs", (self,))

    def __round__(self, digits: int | None = None) -> "Expression":
        """Round as Python does: a half goes to the even neighbour, no digits give a whole
        number."""
        rounded = Expression(ExpressionKind.CALL, "bround", (self, digits or 0))
        return rounded.cast("bigint") if digits is None else rounded

    # -- methods, by the names that Spark's columns have

    def cast(self, type_name: str) -> "Expression":
        return _method(self, "cast", type_name)

    def isin(self, *values: Any) -> "Expression":
        return _method(self, "isin", *values)

    def between(self, low: Any, high: Any) -> "Expression":
        return _method(self, "between", low, high)

    def is_null(self) -> "Expression":
        return _method(self, "isNull")

    def is_not_null(self) -> "Expression":
        return _method(self, "isNotNull")

    def like(self, pattern: str) -> "Expression":
        return _method(self, "like", pattern)

    def rlike(self, pattern: str) -> "Expression":
        return _method(self, "rlike", pattern)

    def startswith(self, text: Any) -> "Expression":
        return _method(self, "startswith", text)

    def endswith(self, text: Any) -> "Expression":
        return _method(self, "endswith", text)

    def contains(self, text: Any) -> "Expression":
        return _method(self, "contains", text)

    def substr(self, start: Any, length: Any) -> "Expression":
        return _method(self, "substr", start, length)

    # -- when(...).when(...).otherwise(...)

    def when(self, condition: Any, value: Any) -> "Expression":
        self._refuse_unless_choice("when")
        return Expression(
            ExpressionKind.CHOICE, "when", (*self._arguments, condition, as_value(value))
        )

    def otherwise(self, value: Any) -> "Expression":
        self._refuse_unless_choice("otherwise")
        return Expression(ExpressionKind.CHOICE, "otherwise", (*self._arguments, as_value(value)))

    def _refuse_unless_choice(self, name: str) -> None:
        if self._kind is not ExpressionKind.CHOICE or self._name == "otherwise":
            raise TracingError(f"{name}() follows when(condition, value)")

    def __repr__(self) -> str:
        return text_of(self)


def _operator(name: str, *arguments: object) -> Expression:
    return Expression(ExpressionKind.OPERATOR, name, arguments)


def _refuse_text(other: object) -> None:
    if isinstance(other, str):
        raise TracingError(NO_SUM)


def _no_method(called: Expression) -> str:
    """Return the error for `o.name.upper()`: a called field was meant as a method."""
    if kind_of(called) is not ExpressionKind.FIELD:
        return "a column cannot be called"
    from pyspark.sql import functions

    name = RENAMED.get(name_of(called), name_of(called))
    said = f"a column has no method {name_of(called)}()"
    if callable(getattr(functions, name, None)):
        return f"{said}: write f.{name}(column)"
    return f"{said}: f has Spark's functions, and map() runs Python per record"


def _method(target: Expression, name: str, *arguments: Any) -> Expression:
    return Expression(ExpressionKind.METHOD, name, (target, *arguments))


class Functions:
    """Any function of pyspark.sql.functions, recorded by its name: `f.upper(o.name)`."""

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        from pyspark.sql import functions

        if name.startswith("_") or not callable(getattr(functions, name, None)):
            raise AttributeError(f"pyspark.sql.functions has no {name}")

        def call(*arguments: Any) -> Expression:
            return Expression(ExpressionKind.CALL, name, arguments)

        return call


f = Functions()


def when(condition: Expression, value: Any) -> Expression:
    """Return an `if` for columns: when(o.amount > 100, "large").otherwise("small")."""
    return Expression(ExpressionKind.CHOICE, "when", (condition, as_value(value)))


def lit(value: Any) -> Expression:
    """Return a constant as a column."""
    return Expression(ExpressionKind.LITERAL, "lit", (value,))


ARITHMETIC = ("+", "-", "*", "/", "%", "neg")
KEY, VALUE, TIMESTAMP, RIGHT = "key", "value", "timestamp", "right"

event_time = Expression(ExpressionKind.INPUT, TIMESTAMP)


def input_of(name: str, fields: Fields) -> Expression:
    return Expression(ExpressionKind.INPUT, name, fields=fields)


def as_value(result: Any) -> Expression:
    """Return a lambda's result as a value: an expression, a dict of fields, or a constant."""
    if isinstance(result, Expression):
        return result
    if isinstance(result, dict):
        named = {str(name): as_value(each) for name, each in result.items()}
        if not named:
            raise TracingError("a value needs at least one field")
        return Expression(ExpressionKind.STRUCT, "struct", tuple(named.items()), tuple(named))
    if isinstance(result, list | tuple):
        return Expression(ExpressionKind.CALL, "array", [as_value(each) for each in result])
    if isinstance(result, set | frozenset) or callable(result):
        raise TracingError(
            f"a {type(result).__name__} is no value of a column: return an expression, a dict of "
            "fields, a list or a constant"
        )
    return lit(result)


def trace_condition(function: Callable[..., Any], key: Fields, value: Fields) -> Expression:
    """Trace the condition of a filter or a branch. Raise now if the result is certainly no
    condition."""
    return with_place(function, lambda: _condition(_trace(function, key, value)))


def _condition(found: Expression) -> Expression:
    kind, name = kind_of(found), name_of(found)
    constant = kind is ExpressionKind.LITERAL and not isinstance(
        arguments_of(found)[0], bool | None
    )
    if (
        kind is ExpressionKind.STRUCT
        or constant
        or (kind is ExpressionKind.OPERATOR and name in ARITHMETIC)
    ):
        raise TracingError(
            f"{text_of(found)} is neither true nor false: compare it, as in "
            "filter(lambda o: o.amount > 0)"
        )
    return found


def trace(function: Callable[..., Any], key: Fields, value: Fields) -> Expression:
    """Call a function once: with the value, or with key and value if it takes two."""
    return with_place(function, lambda: _trace(function, key, value))


def _trace(function: Callable[..., Any], key: Fields, value: Fields) -> Expression:
    if not callable(function):
        raise TracingError(
            f"this takes a lambda, such as lambda o: o.amount > 1, and not {function!r}; SQL as "
            'text goes into transform: transform(lambda df: df.where("value.amount > 1"))'
        )
    inputs = [input_of(VALUE, value)]
    if parameter_count(function) == 2:
        inputs.insert(0, input_of(KEY, key))
    try:
        result = function(*inputs)
    except StreamsError:
        raise
    except Exception as problem:
        raise TracingError(
            f"{type(problem).__name__}: {problem}. The function is called once, with expressions "
            "that stand for the fields of all records"
        ).with_traceback(problem.__traceback__) from problem
    return as_value(result)


def parameter_count(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    required = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        and each.default is each.empty
    ]
    if not required and any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 1
    if len(required) not in (1, 2):
        raise TracingError("this function takes (value) or (key, value)")
    return len(required)


# -- looking at expressions from outside, where attributes would be fields


def kind_of(expression: Expression) -> ExpressionKind:
    return object.__getattribute__(expression, "_kind")  # type: ignore[no-any-return]


def name_of(expression: Expression) -> str:
    return object.__getattribute__(expression, "_name")  # type: ignore[no-any-return]


def arguments_of(expression: Expression) -> tuple[Any, ...]:
    return object.__getattribute__(expression, "_arguments")  # type: ignore[no-any-return]


def fields_of(expression: Expression) -> Fields:
    return object.__getattribute__(expression, "_fields")  # type: ignore[no-any-return]


def text_of(expression: object) -> str:
    """Return the expression as a person would write it, for `describe`."""
    if not isinstance(expression, Expression):
        return repr(expression)
    name, arguments = name_of(expression), arguments_of(expression)
    match kind_of(expression):
        case ExpressionKind.INPUT:
            return name
        case ExpressionKind.LITERAL:
            return repr(arguments[0])
        case ExpressionKind.FIELD:
            inside = text_of(arguments[0])
            return name if inside == VALUE else f"{inside}.{name}"
        case ExpressionKind.OPERATOR if len(arguments) == 1:
            return f"{'-' if name == 'neg' else name}{_inner(arguments[0])}"
        case ExpressionKind.OPERATOR:
            return f"{_inner(arguments[0])} {name} {_inner(arguments[1])}"
        case ExpressionKind.METHOD:
            rest = ", ".join(text_of(each) for each in arguments[1:])
            return f"{_inner(arguments[0])}.{name}({rest})"
        case ExpressionKind.STRUCT:
            return "{" + ", ".join(f"{field}: {text_of(each)}" for field, each in arguments) + "}"
        case _:
            return f"{name}({', '.join(text_of(each) for each in arguments)})"


def _inner(expression: object) -> str:
    text = text_of(expression)
    binary = isinstance(expression, Expression) and kind_of(expression) is ExpressionKind.OPERATOR
    return f"({text})" if binary else text
