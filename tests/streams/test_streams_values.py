"""What values are on their way: objects of the declared class, deletions, fields of a schema."""

import datetime
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.errors import PySparkException
from shop import Order

from penstock.streams import Streams, TopologyError, avro_schema, json_schema

pytestmark = pytest.mark.xdist_group("spark")


@dataclass
class Line:
    article: str
    pieces: int | None


@dataclass
class Basket:
    customer: str
    lines: list[Line]
    notes: dict[str, Line]
    first: Line | None
    at: datetime.datetime


class Reading(BaseModel):
    sensor: str
    degrees: float


NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
BASKET = Basket("c", [Line("a", 1)], {"n": Line("b", None)}, Line("a", 1), NOON)

AVRO = {
    "type": "record",
    "name": "Total",
    "fields": [{"name": "who", "type": "string"}, {"name": "total", "type": "double"}],
}


def orders(app: Streams) -> Any:
    return app.stream("orders", value=json_schema(Order))


# -- objects


def test_python_functions_get_objects_of_the_declared_class_and_may_return_them() -> None:
    app = Streams("shop")

    def doubled(key: str, basket: Basket) -> tuple[str, Basket]:
        assert basket == BASKET, basket
        return key, Basket(basket.customer * 2, basket.lines, basket.notes, None, basket.at)

    baskets = app.stream("baskets", value=json_schema(Basket))
    baskets.map(doubled, value=Basket).flat_map(_lines, value=Line).to("lines")
    with app.test() as test:
        test.send("baskets", BASKET, key="k")
        assert test.values("lines") == [{"article": "cc", "pieces": 1}]
        assert test.dead_letters() == []


def _lines(key: str, basket: Basket) -> list[tuple[str, Line]]:
    return [(key, Line(basket.customer, each.pieces)) for each in basket.lines]


def test_a_filter_keeps_the_class_and_a_peek_the_record() -> None:
    app = Streams("shop", bad_records="fail")

    def look(_: str, order: Order) -> None:
        assert isinstance(order, Order), order

    orders(app).filter(lambda o: o.amount > 0).peek(look).select_key("customer_id").to("out")
    with app.test() as test:
        test.send("orders", Order("c", 1.0))
        assert test.values("out") == [{"customer_id": "c", "amount": 1.0}]


def test_a_class_of_pydantic_is_as_good_as_a_dataclass() -> None:
    app = Streams("shop", bad_records="fail")
    readings = app.stream("readings", value=json_schema(Reading))

    def warmer(key: str, reading: Reading) -> tuple[str, Reading]:
        return key, reading.model_copy(update={"degrees": reading.degrees + 1})

    readings.map(warmer, value=Reading).to("out")
    with app.test() as test:
        test.send("readings", Reading(sensor="s", degrees=20.0))
        assert test.values("out") == [{"sensor": "s", "degrees": 21.0}]


def test_an_error_in_python_names_the_record_where_bad_records_are_fatal() -> None:
    app = Streams("shop", bad_records="fail")
    orders(app).map(lambda key, order: (key, 1 / order.amount), value=float).to("out")
    with app.test() as test:
        test.send("orders", Order("c", 1.0))
        test.send("orders", Order("c", 0.0))
        where = r"map failed for a record of orders \(partition 0 offset 1\): ZeroDivisionError"
        with pytest.raises(PySparkException, match=where):
            test.values("out")


# -- nulls


def test_a_record_without_a_value_stays_a_deletion() -> None:
    app = Streams("shop")
    orders(app).map_values(lambda o: {"a": o.amount, "fixed": 1}).to("out")
    with app.test() as test:
        test.send("orders", None, key="gone")
        test.send("orders", Order("c", 1.0), key="here")
        assert [(each.key, each.value) for each in test.output("out")] == [
            ("gone", None),
            ("here", {"a": 1.0, "fixed": 1}),
        ]


def test_what_is_not_known_to_be_true_passes_a_filter_not() -> None:
    app = Streams("shop")
    lines = app.stream("lines", value=json_schema(Line))
    lines.filter_not(lambda line: line.pieces > 5).map_values(lambda line: line.article).to("out")
    with app.test() as test:
        for line in (Line("many", 9), Line("few", 1), Line("unknown", None)):
            test.send("lines", line)
        assert test.values("out") == ["few", "unknown"]


def test_a_condition_that_is_a_number_is_told_with_its_step() -> None:
    app = Streams("shop")
    orders(app).filter(lambda o: o.amount).to("out")
    with app.test() as test:
        test.send("orders", Order("c", 1.0))
        with pytest.raises(TopologyError, match=r"filter amount.*true or false: compare it"):
            test.values("out")


# -- schemas of what is written


def test_computed_fields_fit_a_schema_by_their_names() -> None:
    app = Streams("shop")
    swapped = orders(app).map_values(lambda o: {"amount": o.amount * 2, "customer_id": "x"})
    swapped.to("json", value=json_schema(Order))
    totals = orders(app).map_values(lambda o: {"total": o.amount * 2, "who": o.customer_id})
    totals.to("avro", value=avro_schema(AVRO))
    with app.test() as test:
        test.send("orders", Order("c", 1.0))
        test.send("orders", None)
        assert test.values("json") == [{"customer_id": "x", "amount": 2.0}, None]
        assert test.values("avro") == [{"who": "c", "total": 2.0}, None]


@pytest.mark.parametrize("serde", [json_schema("total double not null"), avro_schema(AVRO)])
def test_a_null_in_a_required_field_stops_the_query_with_its_name(serde: Any) -> None:
    app = Streams("shop")
    lines = app.stream("lines", value=json_schema(Line))
    computed = {"who": "x"} if "who" in serde.type.fieldNames() else {}
    lines.map_values(lambda line: {"total": line.pieces * 2, **computed}).to("out", value=serde)
    with app.test() as test:
        test.send("lines", Line("a", None))
        with pytest.raises(PySparkException, match="a record for out has no total, which"):
            test.values("out")


def test_nulls_are_found_inside_lists_and_structures() -> None:
    app = Streams("shop")
    lines = app.stream("lines", value=json_schema(Line))
    wanted = json_schema("all array<struct<article: string not null>>")
    lines.map_values(lambda line: {"all": [{"article": line.article}, {"article": None}]}).to(
        "out", value=wanted
    )
    with app.test() as test:
        test.send("lines", Line("a", 1))
        with pytest.raises(PySparkException, match=r"a record for out has no all\[\]\.article"):
            test.values("out")


@pytest.mark.parametrize(
    ("fields", "said"),
    [(("customer_id",), "lacks amount"), (("customer_id", "amount", "more"), "has more")],
)
def test_a_value_with_other_fields_than_its_schema_is_refused(
    fields: tuple[str, ...], said: str
) -> None:
    app = Streams("shop")
    orders(app).map_values(lambda _: dict.fromkeys(fields, 1)).to("out", value=json_schema(Order))
    with app.test() as test:
        test.send("orders", Order("c", 1.0))
        with pytest.raises(TopologyError, match=said):
            test.values("out")


# -- Python's words for numbers and lists


def test_numbers_and_lists_mean_what_they_mean_in_python() -> None:
    app = Streams("shop")
    orders(app).map_values(
        lambda o: {
            "size": abs(o.amount),
            "whole": round(o.amount),
            "tenths": round(o.amount, 1),
            "square": o.amount**2,
            "both": [o.amount, 1.0],
            "none": [],
        }
    ).to("out")
    with app.test() as test:
        test.send("orders", Order("c", -2.25))
        (found,) = test.values("out")
        amount = -2.25
        assert found == {
            "size": abs(amount),
            "whole": round(amount),
            "tenths": round(amount, 1),
            "square": amount**2,
            "both": [amount, 1.0],
            "none": [],
        }


def test_a_record_that_came_out_has_a_time() -> None:
    app = Streams("shop")
    orders(app).to("out")
    with app.test() as test:
        test.send("orders", Order("c", 1.0), at="2026-01-01 12:00")
        assert [each.timestamp for each in test.output("out")] == [NOON]
