"""Lambdas are called once with stand-ins; what they do becomes an expression."""

import pickle
from typing import Any

import pytest

from penstock.streams import TopologyError, TracingError, event_time, f, lit, when
from penstock.streams.expressions import trace

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


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (lambda o: "x" in o.name, "isin"),
        (lambda o: len(o.name), "length"),
        (lambda o: list(o.name), "flat_map"),
        (lambda o: float(o.amount), "cast"),
        (lambda o: int(o.amount), "cast"),
        (lambda o: o.amount.otherwise(1), "when"),
    ],
)
def test_what_cannot_be_recorded_says_what_can(function: Any, hint: str) -> None:
    with pytest.raises(TracingError, match=hint):
        traced(function)


def test_a_field_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(TopologyError, match="no field amuont; there are amount, name, address"):
        traced(lambda o: o.amuont > 0)


def test_a_function_that_spark_does_not_have_is_refused_at_once() -> None:
    with pytest.raises(AttributeError, match="no upperr"):
        traced(lambda o: f.upperr(o.name))


def test_a_lambda_of_three_is_refused() -> None:
    with pytest.raises(TracingError, match=r"\(value\) or \(key, value\)"):
        traced(lambda a, b, c: a)  # noqa: ARG005


def test_an_expression_can_be_pickled() -> None:
    expression = trace(lambda o: when(o.amount > 0, o.name), None, FIELDS)
    assert repr(pickle.loads(pickle.dumps(expression))) == repr(expression)
