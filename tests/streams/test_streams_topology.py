"""What a topology becomes, what it refuses, and how it is drawn. No Spark runs here."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shop import Click, Customer, Order, View

from penstock.streams import (
    NotOffered,
    Processor,
    Streams,
    TopologyError,
    count,
    hopping,
    json_schema,
    session,
    sliding,
    string,
    sum_,
    tumbling,
    value_state,
)
from penstock.streams.queries import DEAD_LETTERS


def make(bad_records: str = "skip", **settings: Any) -> Streams:
    return Streams("shop", "localhost:9092", bad_records=bad_records, **settings)


def orders(app: Streams) -> Any:
    return app.stream("orders", value=json_schema(Order))


def queries(app: Streams) -> list[str]:
    return [query.name for query in app.plan().queries]


# -- queries


def test_branches_without_state_are_one_query() -> None:
    app = make()
    large, small = orders(app).branch(lambda o: o.amount > 10)
    large.to("large")
    small.map_values(lambda o: o.amount).to("small")
    (query,) = app.plan().queries
    assert query.topics == ["large", "small"] and not query.stateful


def test_sinks_with_state_are_queries_of_their_own() -> None:
    app = make()
    stream = orders(app)
    stream.to("copy")
    stream.group_by("customer_id").count().to("counts")
    stream.group_by("customer_id").windowed(tumbling("1 minute")).count().to("per-minute")
    assert sorted(queries(app)) == ["copy", "counts", "per-minute"]


def test_a_store_without_a_sink_is_a_query_that_writes_nothing() -> None:
    app = make()
    orders(app).group_by("customer_id").count(store="counts")
    (query,) = app.plan().queries
    assert (query.name, query.writes, query.stores) == ("counts", False, ("counts",))


def test_windows_append_and_totals_update() -> None:
    app = make()
    orders(app).group_by("customer_id").windowed(tumbling("1 minute")).count().to("final")
    orders(app).group_by("customer_id").count().to("totals")
    modes = {query.name: query.updates for query in app.plan().queries}
    assert modes == {"final": False, "totals": True}


def test_updates_of_windows_come_when_asked_for() -> None:
    app = make()
    grouped = orders(app).group_by("customer_id")
    grouped.windowed(tumbling("1 minute")).count(emit="updates").to("out")
    assert app.plan().queries[0].updates


def test_the_largest_grace_is_the_application_s() -> None:
    app = make()
    grouped = orders(app).group_by("customer_id")
    grouped.windowed(tumbling("1 minute", grace="5 seconds")).count().to("a")
    grouped.windowed(tumbling("1 hour", grace="30 seconds")).count().to("b")
    assert [query.grace_ms for query in app.plan().queries] == [30_000, 30_000]


def test_a_query_without_event_time_has_no_grace() -> None:
    app = make()
    orders(app).group_by("customer_id").count().to("out")
    assert app.plan().queries[0].grace_ms is None


def test_bad_records_of_a_stateful_query_have_a_query_of_their_own() -> None:
    app = make("dead_letter")
    orders(app).group_by("customer_id").count().to("out")
    assert queries(app) == ["out", DEAD_LETTERS]


def test_bad_records_that_a_stateless_query_meets_are_not_looked_for_twice() -> None:
    app = make("dead_letter")
    stream = orders(app)
    stream.to("copy")
    stream.group_by("customer_id").count().to("out")
    assert sorted(queries(app)) == ["copy", "out"]


def test_bytes_and_text_cannot_be_bad() -> None:
    app = make("dead_letter")
    app.stream("lines").group_by_key().count().to("out")
    assert queries(app) == ["out"]


def test_a_total_behind_a_join_begins_a_new_query_by_an_internal_topic() -> None:
    app = make()
    customers = app.table("customers", value=json_schema(Customer))
    orders(app).join(customers, on="customer_id").group_by("country").count().to("out")
    first, second = app.plan().queries
    assert re.fullmatch(r"shop-select-key-\d+-repartition", first.topics[0])
    assert [node.topic for node in second.inputs] == first.topics


def test_a_computed_table_is_joined_by_an_internal_topic() -> None:
    app = make()
    totals = orders(app).group_by("customer_id").aggregate(total=sum_("amount"))
    app.stream("clicks", value=json_schema(Click)).join(totals, on="user").to("out")
    first, second = app.plan().queries
    assert first.topics[0].endswith("-changelog") and first.updates
    assert second.topics == ["out"] and not second.updates


def test_a_topology_that_writes_nothing_is_refused() -> None:
    app = make()
    orders(app)
    with pytest.raises(TopologyError, match="nothing is written"):
        app.plan()


# -- refusals


class Counting(Processor[str, Order, int]):
    seen = value_state(int, ttl="1 minute")


def on_table(app: Streams) -> Any:
    return app.table("customers", value=json_schema(Customer))


REFUSED: dict[str, tuple[Callable[[Streams], Any], type[Exception], str]] = {
    "sliding windows": (lambda _: sliding("1 minute"), NotOffered, "hopping"),
    "foreign keys": (
        lambda app: on_table(app).join(on_table(app), on="country"),
        NotOffered,
        "foreign-key",
    ),
    "grouping a table": (lambda app: on_table(app).group_by("country"), NotOffered, "to_stream"),
    "a stream outer a table": (
        lambda app: orders(app).outer_join(on_table(app), on="customer_id"),
        NotOffered,
        "no outer join",
    ),
    "streams without a time": (
        lambda app: orders(app).join(orders(app)),
        TopologyError,
        "within=",
    ),
    "a table within a time": (
        lambda app: orders(app).join(on_table(app), on="customer_id", within="1 minute"),
        TopologyError,
        "a table has no time",
    ),
    "a global table to a table": (
        lambda app: on_table(app).join(app.global_table("g", value=json_schema(Customer))),
        NotOffered,
        "joins streams only",
    ),
    "updates of sessions": (
        lambda app: (
            orders(app).group_by("customer_id").windowed(session("1 minute")).count(emit="updates")
        ),
        NotOffered,
        "final results only",
    ),
    "reduce of sessions": (
        lambda app: (
            orders(app)
            .group_by("customer_id")
            .windowed(session("1 minute"))
            .reduce(lambda one, _: one)
        ),
        NotOffered,
        "aggregate",
    ),
    "a second aggregation of updates": (
        lambda app: orders(app).group_by("customer_id").count().to_stream().group_by_key(),
        NotOffered,
        "second aggregation",
    ),
    "a join of updates": (
        lambda app: (
            orders(app)
            .group_by("customer_id")
            .count()
            .to_stream()
            .join(on_table(app), joiner=lambda left, _: left)
        ),
        NotOffered,
        "join of updates",
    ),
    "Python over updates": (
        lambda app: (
            orders(app).group_by("customer_id").count().to_stream().map(lambda k, v: (k, v))
        ),
        NotOffered,
        "before the aggregation",
    ),
    "merged updates": (
        lambda app: orders(app).merge(orders(app).group_by("customer_id").count().to_stream()),
        NotOffered,
        "to\\(",
    ),
    "hopping deduplication": (
        lambda app: orders(app).deduplicate(window=hopping("2 minutes", advance="1 minute")),
        NotOffered,
        "tumbling",
    ),
    "an expiring state with event timers": (
        lambda app: orders(app).process(Counting(), value=int, timers="event"),
        NotOffered,
        "wall",
    ),
    "an unknown clock": (
        lambda app: orders(app).process(Counting(), value=int, timers="moon"),
        TopologyError,
        "event",
    ),
    "an unknown emission": (
        lambda app: (
            orders(app)
            .group_by("customer_id")
            .windowed(tumbling("1 minute"))
            .count(emit="sometimes")
        ),
        TopologyError,
        "final",
    ),
    "an unknown field": (
        lambda app: orders(app).group_by("contry"),
        TopologyError,
        "no field contry",
    ),
    "no aggregate": (
        lambda app: orders(app).group_by("customer_id").aggregate(total="amount"),
        TopologyError,
        "sum_",
    ),
    "nothing to aggregate": (
        lambda app: orders(app).group_by("customer_id").aggregate(),
        TopologyError,
        "at least one",
    ),
    "fields that both sides have": (
        lambda app: orders(app).join(orders(app), within="1 minute"),
        TopologyError,
        "both sides have customer_id, amount",
    ),
    "a value without fields": (
        lambda app: app.stream("lines").join(on_table(app)),
        TopologyError,
        "joiner",
    ),
    "different values merged": (
        lambda app: orders(app).merge(app.stream("clicks", value=json_schema(Click))),
        TopologyError,
        "merge needs equal values",
    ),
    "a store twice": (
        lambda app: [orders(app).group_by_key().count(store="c") for _ in range(2)],
        TopologyError,
        "a store c already",
    ),
    "a time that is no field": (
        lambda app: app.stream("orders", value=json_schema(Order), timestamp="at"),
        TopologyError,
        "no such field",
    ),
    "gaps between windows": (
        lambda _: hopping("1 minute", advance="2 minutes"),
        TopologyError,
        "fall between",
    ),
    "an id with a slash": (lambda _: Streams("a/b"), TopologyError, "application.id"),
    "an unknown policy": (lambda _: Streams("a", bad_records="cry"), TopologyError, "dead_letter"),
    "an unknown start": (lambda _: Streams("a", start="now"), TopologyError, "earliest"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_says_so_where_it_is_written(name: str) -> None:
    build, kind, hint = REFUSED[name]
    with pytest.raises(kind, match=hint):
        build(make())


# -- describe


def test_the_topology_is_drawn_from_its_sinks_to_its_sources(tmp_path: Path) -> None:
    app = make("dead_letter", state_dir=tmp_path)
    customers = on_table(app)
    (
        orders(app)
        .join(customers, on="customer_id")
        .filter(lambda o: o.amount > 0)
        .group_by("country")
        .windowed(tumbling("1 minute", grace="30 seconds"))
        .aggregate(revenue=sum_("amount"), orders=count())
        .to("revenue-per-minute")
    )
    text = app.describe()
    assert text.splitlines() == [
        "Application shop on localhost:9092, 2 queries",
        f"  state in {tmp_path / 'shop'}",
        "  bad records: dead letter to shop-dead-letters",
        "",
        "Query revenue-per-minute  (with state, appends, grace 30 seconds)",
        "  to revenue-per-minute",
        "  └─ aggregate-4*: aggregate revenue = sum(amount), orders = count() per tumbling 1 minute"
        "  (final results)",
        "     └─ select-key-3: select_key country",
        "        └─ filter-2: filter amount > 0",
        "           └─ join-1*: inner join stream-table on customer_id = key",
        "              ├─ orders: stream orders  (key string, value json "
        "struct<customer_id:string,amount:double>)",
        "              └─ customers: table customers  (key string, value json "
        "struct<customer_id:string,country:string>)",
        "",
        "Query dead-letters  (without state)",
        "  to shop-dead-letters",
        "  ├─ orders: stream orders  (key string, value json "
        "struct<customer_id:string,amount:double>)",
        "  └─ customers: table customers  (key string, value json "
        "struct<customer_id:string,country:string>)",
    ]


def test_the_queries_of_one_topology_have_different_names() -> None:
    app = make()
    for field in ("customer_id", "amount"):
        orders(app).group_by(field).count().to("out")
    assert queries(app) == ["out", "out-2"]


def test_the_fields_of_a_join_are_those_of_both_sides() -> None:
    app = make()
    views = app.stream("views", value=json_schema(View))
    joined = app.stream("clicks", value=json_schema(Click)).join(views, on="user", within=1000)
    assert joined.node.shape.value == ("user", "page", "ad")


def test_what_belongs_to_another_application_is_refused_when_it_is_joined() -> None:
    app, other = make(), Streams("other")
    theirs = other.stream("orders", value=json_schema(Order))
    builds: list[Callable[[], object]] = [
        lambda: orders(app).join(other.table("customers"), joiner=lambda a, b: {"a": a, "b": b}),
        lambda: orders(app).join(other.global_table("customers"), joiner=lambda a, _: a),
        lambda: orders(app).join(theirs, within=1000, joiner=lambda a, _: a),
        lambda: orders(app).merge(theirs),
        lambda: on_table(app).join(other.table("customers"), joiner=lambda a, _: a),
    ]
    for build in builds:
        with pytest.raises(TopologyError, match="shop and other are two applications"):
            build()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (str, "string()"),
        (int, "long()"),
        (Order, "json_schema(Order)"),
        (string, "string()"),
        ("string", "string(), long() or json_schema(Order)"),
    ],
)
@pytest.mark.parametrize("argument", ["key", "value"])
def test_what_is_no_serde_names_the_one_that_is_meant(
    argument: str, given: Any, meant: str
) -> None:
    app = make()
    for refuse in (app.stream, app.table, orders(app).to):
        with pytest.raises(TopologyError, match=re.escape(f"no serde; say {argument}={meant}")):
            refuse("topic", **{argument: given})
