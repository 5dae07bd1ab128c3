"""Topologies without state, run on given records: expressions, Python, serdes, bad records."""

import re
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from shop import Click, Customer, Order

from penstock.streams import (
    Streams,
    TopologyError,
    avro_schema,
    bytes_,
    double,
    event_time,
    f,
    float_,
    integer,
    json_schema,
    long,
    short,
    string,
    when,
)
from penstock.streams.compilation.compiler import Compiler
from penstock.streams.test_driver_queries import SCHEMA, driver_session

pytestmark = pytest.mark.xdist_group("spark")


def orders(app: Streams, **options: Any) -> Any:
    return app.stream("orders", value=json_schema(Order), **options)


def test_expressions_filter_and_map() -> None:
    app = Streams("shop")
    (
        orders(app)
        .filter(lambda o: o.amount > 0)
        .map_values(
            lambda key, o: {
                "id": key,
                "size": when(o.amount > 9, "large").otherwise("small"),
                "who": f.upper(o.customer_id),
                "year": f.year(event_time),
            }
        )
        .to("out")
    )
    with app.test() as test:
        test.send("orders", Order("c1", 50.0), key="o1")
        test.send("orders", Order("c1", -1.0), key="o2")
        test.send("orders", Order("c2", 5.0), key="o3")
        assert test.values("out") == [
            {"id": "o1", "size": "large", "who": "C1", "year": 2026},
            {"id": "o3", "size": "small", "who": "C2", "year": 2026},
        ]


def test_a_record_takes_the_first_branch_that_it_meets_or_the_last_one() -> None:
    app = Streams("shop")
    large, small, rest = orders(app).branch(lambda o: o.amount > 10, lambda o: o.amount > 0)
    large.to("large")
    small.map_values(lambda o: o.amount).to("small")
    rest.to("rest")
    with app.test() as test:
        for amount in (50.0, 5.0, -1.0):
            test.send("orders", Order("c", amount))
        test.send("orders", None, key="tombstone")
        assert [each["amount"] for each in test.values("large")] == [50.0]
        assert test.values("small") == [5.0]
        assert [None if each is None else each["amount"] for each in test.values("rest")] == [
            -1.0,
            None,
        ]


def test_merged_branches_have_each_record_once_and_bad_ones_too() -> None:
    app = Streams("shop")
    large, small = orders(app).branch(lambda o: o.amount > 10)
    large.merge(small).to("out")
    with app.test() as test:
        test.send("orders", Order("c", 50.0))
        test.send("orders", Order("c", 5.0))
        test.send("orders", b"broken")
        assert sorted(each["amount"] for each in test.values("out")) == [5.0, 50.0]
        assert len(test.dead_letters()) == 1


def test_python_per_record_maps_and_flattens_and_peeks() -> None:
    app = Streams("shop")
    (
        orders(app)
        .peek(lambda key, value: None)  # noqa: ARG005
        .map(
            lambda key, value: (f"{key}!", {"cents": round(value.amount * 100)}), value="cents int"
        )
        .flat_map(lambda key, value: [(key, value.cents)] * 2, value="int")
        .flat_map_values(lambda cents: [cents, cents + 1], value=int)
        .to("out")
    )
    with app.test() as test:
        test.send("orders", Order("c", 1.5), key="o1")
        found = test.output("out")
    assert [(each.key, each.value) for each in found] == [("o1!", n) for n in (150, 151) * 2]


def test_keys_are_selected_and_records_dealt_out_anew() -> None:
    app = Streams("shop")
    orders(app).select_key("customer_id").repartition(2).to("out")
    with app.test() as test:
        test.send("orders", Order("c1", 1.0), key="o1")
        assert [each.key for each in test.output("out")] == ["c1"]


def test_headers_stay_with_a_record_where_they_are_asked_for() -> None:
    app = Streams("shop")
    orders(app, headers=True).filter(lambda o: o.amount > 0).to("out")
    with app.test() as test:
        test.send("orders", Order("c1", 1.0), headers={"trace": b"7"})
        assert [dict(each.headers) for each in test.output("out")] == [{"trace": b"7"}]


def test_a_dataframe_goes_out_and_comes_back() -> None:
    app = Streams("shop")
    orders(app).transform(lambda df: df.filter("value.amount > 1")).to("out")
    with app.test() as test:
        test.send("orders", Order("c1", 1.0))
        test.send("orders", Order("c2", 2.0))
        assert [each["customer_id"] for each in test.values("out")] == ["c2"]


def test_a_dataframe_from_elsewhere_is_a_stream() -> None:
    from penstock.spark.session import session

    df = session("penstock-trial").sql("select 'k' key, named_struct('n', 1L) value")
    app = Streams("shop")
    app.from_dataframe(df).map_values(lambda v: v.n + 1).to("out")
    with app.test() as test:
        assert [(each.key, each.value) for each in test.output("out")] == [("k", 2)]


def test_a_global_table_joins_by_any_field_and_is_read_anew() -> None:
    app = Streams("shop")
    customers = app.global_table("customers", value=json_schema(Customer))
    orders(app).left_join(customers, on="customer_id").to("out")
    with app.test() as test:
        test.send("customers", Customer("c1", "BE"), key="c1")
        test.send("customers", Customer("c1", "NL"), key="c1")
        test.send("customers", Customer("c2", "DE"), key="c2")
        test.send("customers", None, key="c2")
        test.send("orders", Order("c1", 1.0))
        test.send("orders", Order("c2", 2.0))
        assert [each["country"] for each in test.values("out")] == ["NL", None]
        test.send("customers", Customer("c1", "FR"), key="c1")
        test.send("orders", Order("c1", 3.0))
        assert test.values("out")[-1]["country"] == "FR"


def test_what_is_written_to_a_topic_is_read_from_it() -> None:
    app = Streams("shop")
    orders(app).filter(lambda o: o.amount > 1).to("large")
    app.stream("large", value=json_schema(Order)).map_values(lambda o: o.amount).to("amounts")
    with app.test() as test:
        test.send("orders", Order("c1", 1.0))
        test.send("orders", Order("c1", 2.0))
        assert test.values("amounts") == [2.0]


# -- serdes


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (bytes_(), b"\x00\xff", b"\x00\xff"),
        (string(), "héllo", "héllo".encode()),
        (short(), -2, struct.pack(">h", -2)),
        (integer(), -(2**31), struct.pack(">i", -(2**31))),
        (long(), -1, struct.pack(">q", -1)),
        (long(), 2**63 - 1, struct.pack(">q", 2**63 - 1)),
        (float_(), 0.5, struct.pack(">f", 0.5)),
        (double(), -1e300, struct.pack(">d", -1e300)),
        (json_schema("int"), 7, b"7"),
        (json_schema("a int, b array<string>"), {"a": 1, "b": ["x"]}, b'{"a":1,"b":["x"]}'),
        (avro_schema("long"), 3, b"\x06"),
    ],
    ids=str,
)
def test_a_serde_reads_what_it_writes_in_spark_and_in_python(
    serde: Any, value: Any, data: bytes
) -> None:
    assert serde.to_bytes(value) == data and serde.from_bytes(data) == value
    app = Streams("serdes")
    app.stream("in", value=serde).to("out", value=serde)
    with app.test() as test:
        test.send("in", data)
        test.send("in", None)
        assert test.values("out") == [value, None]


def test_text_that_is_not_utf_8_is_read_with_marks_in_it() -> None:
    app = Streams("serdes")
    app.stream("in", value=string()).map_values(f.length).to("out")
    with app.test() as test:
        test.send("in", b"a\xffb")
        assert test.values("out") == [3] and test.dead_letters() == []


# -- bad records


BROKEN: dict[str, tuple[Any, bytes, str]] = {
    "no JSON": (json_schema(Order), b"{", "value: not JSON of struct<"),
    "empty": (json_schema(Order), b"", "value: not JSON of struct<"),
    "another type": (json_schema(Order), b'{"customer_id":"c","amount":"x"}', "value: not JSON"),
    "a field missing": (json_schema(Order), b'{"amount":1}', "customer_id is missing or null"),
    "too short": (long(), b"\x00", "value: long takes 8 bytes and this has 1"),
    "not Avro": (avro_schema("double"), b"\x00", "value: not Avro of the schema"),
    "left over": (avro_schema("long"), b"\x00\x00", "1 bytes are left over"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_bad_record_goes_to_the_dead_letters_with_cause_and_position(name: str) -> None:
    serde, data, cause = BROKEN[name]
    app = Streams("shop")
    app.stream("in", value=serde).to("out")
    with app.test() as test:
        test.send("in", None, key="fine")
        test.send("in", data, key="k", headers={"theirs": b"1"})
        (letter,) = test.dead_letters()
        assert cause in letter.cause
        assert (letter.key, letter.value) == (b"k", data)
        assert (letter.topic, letter.partition, letter.offset) == ("in", 0, 1)
        assert [each.key for each in test.output("out")] == ["fine"]


def test_a_bad_key_is_a_bad_record() -> None:
    app = Streams("shop")
    app.stream("in", key=integer()).to("out")
    with app.test() as test:
        test.send("in", b"v", key=b"abc")
        assert test.dead_letters()[0].cause == "key: integer takes 4 bytes and this has 3"


def test_a_record_without_its_time_is_a_bad_record() -> None:
    app = Streams("shop")
    app.stream("in", value=json_schema("at timestamp"), timestamp="at").to("out")
    with app.test() as test:
        test.send("in", b'{"at":null}')
        test.send("in", b'{"at":"2026-01-01T00:00:00Z"}')
        assert test.dead_letters()[0].cause == "timestamp: at is null"
        assert len(test.values("out")) == 1


def test_an_error_in_python_makes_its_record_a_bad_one() -> None:
    app = Streams("shop")
    orders(app).map(lambda key, o: (key, 1 / o.amount), value=float).to("out")
    with app.test() as test:
        test.send("orders", Order("c", 0.0))
        test.send("orders", Order("c", 2.0))
        test.send("orders", b"broken")
        assert test.values("out") == [0.5]
        causes = {each.offset: each.cause for each in test.dead_letters()}
    found = re.fullmatch(r"map: ZeroDivisionError: float division by zero \((.*):\d+\)", causes[0])
    assert found is not None and found[1] == __file__
    assert causes[2].startswith("value: not JSON")


def test_a_result_of_the_wrong_type_makes_its_record_a_bad_one() -> None:
    app = Streams("shop")
    orders(app).map(lambda key, o: (key, o.customer_id), value=float).to("out")
    with app.test() as test:
        test.send("orders", Order("c", 0.0))
        assert len(test.dead_letters()) == 1


def test_bad_records_are_skipped_on_request() -> None:
    app = Streams("shop", bad_records="skip")
    orders(app).to("out")
    with app.test() as test:
        test.send("orders", b"broken")
        test.send("orders", Order("c", 1.0))
        assert len(test.values("out")) == 1 and test.dead_letters() == []


def test_bad_records_stop_the_query_on_request() -> None:
    app = Streams("shop", bad_records="fail")
    orders(app).to("out")
    with app.test() as test:
        test.send("orders", b"broken")
        with pytest.raises(Exception, match=r"orders cannot be read \(partition 0 offset 0\)"):
            test.values("out")


@pytest.mark.parametrize("policy", ["dead_letter", "skip", "fail"])
def test_a_record_is_parsed_once_whatever_follows(policy: str, tmp_path: Path) -> None:
    """Spark likes to move a filter down and to compute for it once more what it needs."""
    app = Streams("shop", bad_records=policy)
    orders(app).filter(lambda o: o.amount > 0).map_values(lambda o: o.customer_id).to("out")
    spark = driver_session(None)

    class Files:
        has_ticks = False

        def stream(self, node: Any, columns: tuple[str, ...]) -> DataFrame:  # noqa: ARG002
            return spark.read.schema(SCHEMA).parquet(str(tmp_path)).select(*columns)

        def table_now(self, node: Any, columns: tuple[str, ...]) -> DataFrame:
            return self.stream(node, columns)

    (query,) = app.plan().queries
    compiler = Compiler(query, Files(), app.settings.bad_records, "shop")
    plan = compiler.output("dead")._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("from_json") == 1


# -- the test kit itself


def test_a_topic_that_nobody_reads_or_writes_is_told() -> None:
    app = Streams("shop")
    orders(app).to("out")
    with app.test() as test:
        with pytest.raises(TopologyError, match="no source reads order; there are orders"):
            test.send("order", Order("c", 1.0))
        with pytest.raises(TopologyError, match="nothing is written to outt; there are out"):
            test.output("outt")


def test_types_that_are_never_equal_are_refused_by_a_join() -> None:
    app = Streams("shop")
    table = app.global_table("g", key=double(), value=json_schema(Customer))
    clicks = app.stream("clicks", value=json_schema(Click))
    clicks.join(table, on="user").to("out")
    with app.test() as test:
        test.send("clicks", Click("u", "p"))
        with pytest.raises(TopologyError, match="string is never equal to double"):
            test.output("out")
