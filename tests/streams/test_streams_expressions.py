"""Lambdas are called once with stand-ins; what they do becomes an expression."""

import pickle
from typing import Any

import pytest

from penstock.streams import (
    Streams,
    StreamsError,
    TopologyError,
    TracingError,
    event_time,
    f,
    lit,
    when,
)
from penstock.streams.builder import joined_value
from penstock.streams.expressions import input_of, trace, trace_condition

FIELDS = ("amount", "name", "address")


def traced(function: Any) -> str:
    return repr(trace(function, None, FIELDS))


def test_a_comparison_is_recorded() -> None:
    assert traced(lambda o: o.amount > 0) == "amount > 0"


def test_a_lambda_is_called_once() -> None:
    calls: list[object] = []

    def condition(order: Any) -> Any:
        calls.append(order)
        return order.amount > 0

    trace(condition, None, FIELDS)
    assert len(calls) == 1


def test_conditions_are_joined_by_the_operators_of_columns() -> None:
    text = traced(lambda o: (o.amount > 0) & ~(o.name == "x") | o.amount.is_null())
    assert text == "((amount > 0) & (~(name == 'x'))) | amount.isNull()"


def test_nested_fields_are_reached_by_attributes_and_by_name() -> None:
    assert traced(lambda o: o.address.city) == traced(lambda o: o["address"]["city"])


def test_when_stands_for_if() -> None:
    assert traced(lambda o: when(o.amount > 9, "big").otherwise("small")) == (
        "otherwise(amount > 9, 'big', 'small')"
    )


def test_a_dict_is_a_structure() -> None:
    assert traced(lambda o: {"twice": o.amount * 2, "one": 1}) == "{twice: amount * 2, one: 1}"


def test_functions_of_spark_are_recorded_by_name() -> None:
    assert traced(lambda o: f.upper(o.name)) == "upper(name)"


def test_a_lambda_of_two_gets_the_key_too() -> None:
    assert traced(lambda key, o: key == o.name) == "key == name"


def test_the_time_of_a_record_can_be_named() -> None:
    assert traced(lambda o: o.amount > 0) != traced(lambda _: event_time > lit("2026-01-01"))


@pytest.mark.parametrize(
    "function",
    [
        lambda o: o.amount > 0 and o.name == "x",
        lambda o: o.amount > 0 or o.name == "x",
        lambda o: not o.amount,
        lambda o: 1 if o.amount > 0 else 2,
        lambda o: 0 < o.amount < 10,
    ],
)
def test_python_s_own_conditions_name_what_to_write_instead(function: Any) -> None:
    with pytest.raises(TracingError, match=r"&.*\|.*when\("):
        traced(function)


ISIN = r"column\.isin\(\[\.\.\.\]\) instead of `column in`"


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda o: "x" in o.name, "contains"),
        (lambda o: o.name in ["x", "y"], ISIN),
        (lambda o: o.name not in ("x", "y"), ISIN),
        (lambda o: o.name in {"x", "y"}, ISIN),
        (lambda o: len(o.name), "length"),
        (lambda o: list(o.name), "flat_map"),
        (lambda o: float(o.amount), "cast"),
        (lambda o: int(o.amount), "cast"),
        (lambda o: o.amount.otherwise(1), "when"),
        (lambda o: str(o.name), r"f\.concat.*cast"),
        (lambda o: f"{o.name} & co", r"f\.concat.*cast"),
        (lambda o: f"{o.amount:.2f}", r"f\.concat.*cast"),
        (lambda o: "%s!" % o.name, r"f\.concat.*cast"),  # noqa: UP031
        (lambda o: "%d" % o.amount, "cast"),  # noqa: UP031
        (lambda o: "{}!".format(o.name), r"f\.concat.*cast"),  # noqa: UP032
        (lambda o: o.name + "!", r"f\.concat"),
        (lambda o: "Mr " + o.name, r"f\.concat"),
        (lambda o: o.name.upper(), r"no method upper\(\): write f\.upper\(column\)"),
        (lambda o: o.name.strip(), r"write f\.trim\(column\)"),
        (lambda o: o.name.casefold(), r"no method casefold\(\).*map\(\)"),
        (lambda o: (o.amount + 1)(), "cannot be called"),
        (lambda o: o.amount // 2, r"f\.floor"),
        (lambda o: 2 // o.amount, r"f\.floor"),
        (lambda _: {1, 2}, "set is no value"),
    ],
)
def test_what_cannot_be_recorded_says_what_can(function: Any, hint: str) -> None:
    with pytest.raises(TracingError, match=hint):
        traced(function)


def test_a_field_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(TopologyError, match="no field amuont; there are amount, name, address"):
        traced(lambda o: o.amuont > 0)


def test_a_function_that_spark_does_not_have_is_refused_at_once() -> None:
    with pytest.raises(TracingError, match="no upperr"):
        traced(lambda o: f.upperr(o.name))


def test_an_error_of_the_function_itself_is_told_with_its_place() -> None:
    with pytest.raises(TracingError, match=r"test_streams_expressions\.py:\d+: ZeroDivisionError"):
        traced(lambda _: 1 / 0)


def test_a_lambda_of_three_is_refused() -> None:
    with pytest.raises(TracingError, match=r"\(value\) or \(key, value\)"):
        traced(lambda a, b, c: a)  # noqa: ARG005


def test_an_expression_can_be_pickled() -> None:
    expression = trace(lambda o: when(o.amount > 0, o.name), None, FIELDS)
    assert repr(pickle.loads(pickle.dumps(expression))) == repr(expression)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda o: abs(o.amount), "abs(amount)"),
        (lambda o: round(o.amount, 2), "bround(amount, 2)"),
        (lambda o: round(o.amount), "bround(amount, 0).cast('bigint')"),
        (lambda o: o.amount**2, "pow(amount, 2)"),
        (lambda o: 2**o.amount, "pow(2, amount)"),
        (lambda o: 7 % o.amount, "7 % amount"),
        (lambda o: {"k": [o.amount, 1]}, "{k: array(amount, 1)}"),
    ],
)
def test_python_s_own_words_for_numbers_and_lists_are_recorded(function: Any, text: str) -> None:
    assert traced(function) == text


def test_a_stand_in_can_be_looked_at_while_debugging() -> None:
    assert f"{input_of('value', FIELDS)['amount']!r}" == "amount"


@pytest.mark.parametrize(
    "function",
    [lambda _: 5, lambda o: {"a": o.amount}, lambda o: o.amount * 2, lambda o: -o.amount],
)
def test_what_cannot_be_true_is_no_condition(function: Any) -> None:
    with pytest.raises(TracingError, match="neither true nor false: compare it"):
        trace_condition(function, None, FIELDS)


def test_a_condition_may_be_a_constant() -> None:
    assert repr(trace_condition(lambda _: True, None, FIELDS)) == "True"


def test_text_in_place_of_a_lambda_says_where_sql_goes() -> None:
    with pytest.raises(TracingError, match=r"takes a lambda.*'amount > 1'.*transform"):
        Streams("shop").stream("orders").filter("amount > 1")  # type: ignore[arg-type]


# -- where it stands


def line_of(function: Any) -> str:
    return f"test_streams_expressions.py:{function.__code__.co_firstlineno}: "


@pytest.mark.parametrize(
    "function",
    [
        lambda o: o.amount > 0 and o.name == "x",
        lambda o: o.name in {"x", "y"},
        lambda o: o.colour,
        lambda: 1,
        lambda _: {},
    ],
    ids=["no truth", "no hash", "no field", "no parameter", "no value"],
)
def test_what_is_wrong_with_a_lambda_is_told_with_its_file_and_line(function: Any) -> None:
    with pytest.raises(StreamsError) as told:
        trace(function, None, FIELDS)
    assert line_of(function) in str(told.value)


def test_of_a_function_with_several_lines_the_one_that_is_wrong_is_named() -> None:
    def doubled(order: Any) -> Any:
        amount = order.amount * 2
        return float(amount)

    with pytest.raises(TracingError, match=rf":{doubled.__code__.co_firstlineno + 2}: float"):
        trace(doubled, None, FIELDS)


def test_a_condition_and_a_joiner_are_told_with_their_line_too() -> None:
    condition: Any = lambda o: o.amount + 1  # noqa: E731
    with pytest.raises(TracingError, match="neither true nor false") as told:
        trace_condition(condition, None, FIELDS)
    assert line_of(condition) in str(told.value)
    joiner: Any = lambda left, right: left.nothing  # noqa: ARG005, E731
    with pytest.raises(TopologyError) as wrong:
        joined_value(FIELDS, FIELDS, None, joiner)
    assert line_of(joiner) in str(wrong.value)
