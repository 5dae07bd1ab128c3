"""Types from dataclasses, from Python and from text; lengths of time."""

import datetime
import decimal
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pyspark import cloudpickle
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.streams import TopologyError
from penstock.streams.ddl import WORDS, parse_type
from penstock.streams.durations import duration_ms, duration_text
from penstock.streams.rows import instance_maker, maker_of, row_maker, row_reader
from penstock.streams.schemas import plain, spark_type


@dataclass
class Place:
    city: str
    zip: str | None


@dataclass
class Person:
    name: str
    age: int
    places: list[Place]
    scores: dict[str, float]
    home: Place | None = None


def test_a_dataclass_is_a_structure_whose_fields_may_be_null_only_if_they_say_so() -> None:
    found = spark_type(Place)
    assert found == StructType(
        [StructField("city", StringType(), False), StructField("zip", StringType(), True)]
    )


def test_lists_dicts_and_dataclasses_nest() -> None:
    text = spark_type(Person).simpleString()
    assert text == (
        "struct<name:string,age:bigint,places:array<struct<city:string,zip:string>>,"
        "scores:map<string,double>,home:struct<city:string,zip:string>>"
    )


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (int, "bigint"),
        (bytes, "binary"),
        (datetime.datetime, "timestamp"),
        (datetime.date, "date"),
        (decimal.Decimal, "decimal(38,18)"),
        (list[int], "array<bigint>"),
        ("double", "double"),
        (LongType(), "bigint"),
    ],
)
def test_python_s_types_and_spark_s_are_taken(of: object, text: str) -> None:
    assert spark_type(of).simpleString() == text


@pytest.mark.parametrize("of", [object, int | str, complex, "nonsense", "a int b", "array<int"])
def test_what_has_no_type_is_refused(of: object) -> None:
    with pytest.raises(TopologyError):
        spark_type(of)


TYPES = st.recursive(
    st.sampled_from(list(WORDS.values())) | st.builds(DecimalType, st.just(20), st.integers(0, 5)),
    lambda inner: (
        st.builds(ArrayType, inner)
        | st.builds(MapType, st.just(StringType()), inner)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda types: StructType([StructField(f"f{at}", each) for at, each in enumerate(types)])
        )
    ),
    max_leaves=6,
)


@given(TYPES)
def test_spark_s_text_of_a_type_is_read_back(of: DataType) -> None:
    assert parse_type(of.simpleString()) == of


def test_fields_without_a_structure_around_them_are_one() -> None:
    assert parse_type("name string not null, amount double") == StructType(
        [StructField("name", StringType(), False), StructField("amount", DoubleType())]
    )


def test_a_row_goes_to_spark_and_comes_back_as_its_dataclass() -> None:
    person = Person("a", 1, [Place("x", None)], {"s": 0.5}, None)
    row = row_maker(spark_type(Person))(person)
    assert instance_maker(Person)(row) == person


class Model(BaseModel):
    city: str
    places: list[Place] = []


@dataclass(kw_only=True)
class Pair:
    both: tuple[Place, ...]
    summed: int = field(default=7, init=False)


@pytest.mark.parametrize(
    ("of", "made"),
    [
        (Model, Model(city="x", places=[Place("y", None)])),
        (Pair, Pair(both=(Place("x", "1"), Place("y", "2")))),
        (list[Place], [Place("x", None)]),
        (Place | None, Place("x", None)),
        (int, 5),
    ],
)
def test_what_was_declared_is_made_of_arrows_values(of: Any, made: object) -> None:
    make = maker_of(of)
    assert make is not None
    assert make(plain(made)) == made and make(made) == made and make(None) is None


def test_a_map_of_arrow_is_made_a_dict() -> None:
    row = plain(Person("a", 1, [], {"s": 0.5}, Place("x", None))) | {"scores": [("s", 0.5)]}
    assert instance_maker(Person)(row) == Person("a", 1, [], {"s": 0.5}, Place("x", None))


@pytest.mark.parametrize("of", ["name string", LongType()])
def test_sparks_own_types_have_no_objects(of: object) -> None:
    assert maker_of(of) is None


def test_a_maker_goes_to_other_processes() -> None:
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    make = pickle.loads(dumps(maker_of(Person)))
    person = Person("a", 1, [Place("x", None)], {"s": 0.5}, None)
    assert make(plain(person)) == person


def test_a_class_of_pydantic_is_a_structure() -> None:
    text = "struct<city:string,places:array<struct<city:string,zip:string>>>"
    assert spark_type(Model).simpleString() == text


def test_a_row_without_a_field_is_refused_by_its_name() -> None:
    with pytest.raises(Exception, match="lacks zip"):
        row_maker(spark_type(Place))({"city": "x"})


def test_fields_are_attributes_in_functions() -> None:
    read = row_reader(spark_type(Place))
    assert read({"city": "x", "zip": None}).city == "x"


def test_everything_becomes_plain_dicts() -> None:
    assert plain([Place("x", None)]) == [{"city": "x", "zip": None}]


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [("1 minute", 60_000), ("30 seconds", 30_000), ("500ms", 500), ("1 hour 5 min", 3_900_000)],
)
def test_lengths_of_time_are_written_as_people_do(text: str, length_ms: int) -> None:
    assert duration_ms(text, "it") == length_ms


@given(st.integers(1, 10**9))
def test_a_length_is_read_as_it_is_printed(length_ms: int) -> None:
    assert duration_ms(duration_text(length_ms), "it") == length_ms


@pytest.mark.parametrize("text", ["", "soon", "5 lightyears", "-1 second", "0 seconds"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match="it is"):
        duration_ms(text, "it")
