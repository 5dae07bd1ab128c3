"""Topologies with state, run as real streaming queries on given records."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from shop import Click, Customer, Order, View

from penstock.streams import (
    Context,
    Processor,
    QueryFailed,
    Streams,
    avg,
    count,
    hopping,
    json_schema,
    list_state,
    map_state,
    max_,
    session,
    sum_,
    tumbling,
    value_state,
)

pytestmark = pytest.mark.xdist_group("spark")


def orders(app: Streams) -> Any:
    return app.stream("orders", value=json_schema(Order))


def window(minute: int, **fields: Any) -> dict[str, Any]:
    start, end = f"2026-01-01T00:{minute:02}:00.000Z", f"2026-01-01T00:{minute + 1:02}:00.000Z"
    return {"window_start": start, "window_end": end, **fields}


@pytest.mark.deep
def test_revenue_per_country_and_minute() -> None:
    app = Streams("revenue", bootstrap="localhost:9092")
    orders = app.stream("orders", value=json_schema(Order))
    customers = app.table("customers", value=json_schema(Customer))
    (
        orders.join(customers, on="customer_id")
        .filter(lambda o: o.amount > 0)
        .group_by("country")
        .windowed(tumbling("1 minute", grace="30 seconds"))
        .aggregate(revenue=sum_("amount"), orders=count())
        .to("revenue-per-minute")
    )
    with app.test() as test:
        test.send("orders", Order("c1", 5.0), at="2026-01-01 00:00:10")
        test.send("orders", Order("c2", 7.0), at="2026-01-01 00:00:20")
        test.send("orders", Order("c1", 1.5), at="2026-01-01 00:00:50")
        test.send("orders", Order("c1", -9.0), at="2026-01-01 00:00:50")
        test.send("orders", Order("nobody", 4.0), at="2026-01-01 00:00:50")
        test.send("customers", Customer("c1", "NL"), key="c1")
        test.send("customers", Customer("c2", "DE"), key="c2")
        test.advance("2 minutes")
        found = {each.key: each.value for each in test.output("revenue-per-minute")}
    assert found == {
        "NL": window(0, revenue=6.5, orders=2),
        "DE": window(0, revenue=7.0, orders=1),
    }


def test_totals_change_with_every_batch_and_can_be_looked_at() -> None:
    app = Streams("shop")
    orders(app).group_by("customer_id").count(store="counts").to("counts")
    with app.test() as test:
        for customer in "aab":
            test.send("orders", Order(customer, 1.0))
        test.step()
        test.send("orders", Order("a", 1.0))
        test.send("orders", b"broken")
        assert [(each.key, each.value) for each in test.output("counts")][-1] == ("a", 3)
        assert test.table("counts") == {"a": 3, "b": 1}
        assert test.store("counts").get("a") == 3 and test.store("counts").get("c") is None
        assert len(test.store("counts")) == 2
        assert [each.offset for each in test.dead_letters()] == [4]


def test_state_goes_on_where_it_was() -> None:
    app = Streams("shop")
    grouped = orders(app).group_by("customer_id")
    grouped.aggregate(total=sum_("amount"), mean=avg("amount"), most=max_("amount"), store="s")
    with app.test() as test:
        test.send("orders", Order("a", 1.0))
        assert test.store("s").get("a") == {"total": 1.0, "mean": 1.0, "most": 1.0}
        test.send("orders", Order("a", 3.0))
        assert test.store("s").get("a") == {"total": 4.0, "mean": 2.0, "most": 3.0}


def test_a_window_comes_once_when_it_is_over_and_what_is_too_late_is_left_out() -> None:
    app = Streams("shop")
    grouped = orders(app).group_by("customer_id")
    grouped.windowed(tumbling("1 minute", grace="30 seconds")).count(store="w").to("out")
    with app.test() as test:
        test.send("orders", Order("a", 1.0), at="2026-01-01 00:00:10")
        test.step()
        test.send("orders", Order("a", 1.0), at="2026-01-01 00:01:25")
        test.step()
        test.send("orders", Order("a", 1.0), at="2026-01-01 00:00:30")  # within the grace
        assert test.values("out") == []
        assert [each.value for each in test.store("w").fetch("a")] == [{"count": 2}, {"count": 1}]
        test.send("orders", Order("a", 1.0), at="2026-01-01 00:01:31")
        test.step()
        test.send("orders", Order("b", 1.0), at="2026-01-01 00:01:32")  # the window comes out here
        test.step()
        test.send("orders", Order("a", 1.0), at="2026-01-01 00:00:40")  # after it
        assert test.values("out") == [window(0, count=2)]


def test_every_change_of_a_window_comes_on_request() -> None:
    app = Streams("shop")
    grouped = orders(app).group_by("customer_id")
    grouped.windowed(tumbling("1 minute")).count(emit="updates").to("out")
    with app.test() as test:
        test.send("orders", Order("a", 1.0))
        test.step()
        test.send("orders", Order("a", 1.0))
        assert test.values("out") == [window(0, count=1), window(0, count=2)]


def test_hopping_windows_overlap() -> None:
    app = Streams("shop")
    grouped = orders(app).group_by("customer_id")
    grouped.windowed(hopping("2 minutes", advance="1 minute")).count().to("out")
    with app.test() as test:
        test.send("orders", Order("a", 1.0), at="2026-01-01 00:01:10")
        test.advance()
        starts = sorted(each["window_start"] for each in test.values("out"))
    assert starts == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.000Z"]


def test_a_session_lasts_as_long_as_there_is_no_gap() -> None:
    app = Streams("shop")
    grouped = orders(app).group_by("customer_id")
    grouped.windowed(session("1 minute")).aggregate(n=count(), total=sum_("amount")).to("out")
    with app.test() as test:
        for time in ("00:00:10", "00:01:00", "00:10:00"):
            test.send("orders", Order("a", 1.0), at=f"2026-01-01 {time}")
        test.advance()
        assert test.values("out") == [
            {
                "window_start": "2026-01-01T00:00:10.000Z",
                "window_end": "2026-01-01T00:02:00.000Z",
                "n": 2,
                "total": 2.0,
            },
            {
                "window_start": "2026-01-01T00:10:00.000Z",
                "window_end": "2026-01-01T00:11:00.000Z",
                "n": 1,
                "total": 1.0,
            },
        ]


@pytest.mark.deep
def test_final_results_can_be_aggregated_again() -> None:
    app = Streams("shop")
    (
        orders(app)
        .group_by("customer_id")
        .windowed(tumbling("1 minute"))
        .count()
        .group_by(lambda v: v.window_start)
        .windowed(tumbling("1 hour"))
        .aggregate(customers=count(), most=max_("count"))
        .to("out")
    )
    with app.test() as test:
        for customer in "aab":
            test.send("orders", Order(customer, 1.0))
        test.advance("2 hours")
        test.advance("2 hours")
        (found,) = test.values("out")
    assert (found["customers"], found["most"]) == (2, 2)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("join", {("u1", "p", "a1")}, marks=pytest.mark.deep),
        pytest.param("left_join", {("u1", "p", "a1"), ("u3", "q", None)}, marks=pytest.mark.deep),
        ("outer_join", {("u1", "p", "a1"), ("u3", "q", None), ("u1", None, "a2")}),
    ],
)
def test_two_streams_are_joined_within_a_time(kind: str, expected: set[Any]) -> None:
    app = Streams("ads")
    clicks = app.stream("clicks", value=json_schema(Click))
    views = app.stream("views", value=json_schema(View))
    getattr(clicks, kind)(views, on="user", within="1 minute").to("out")
    with app.test() as test:
        test.send("clicks", Click("u1", "p"), at="2026-01-01 00:00:10")
        test.send("clicks", Click("u3", "q"), at="2026-01-01 00:00:10")
        test.send("views", View("u1", "a1"), at="2026-01-01 00:00:40")
        test.send("views", View("u1", "a2"), at="2026-01-01 00:05:10")
        test.advance()
        found = {(each["user"], each["page"], each["ad"]) for each in test.values("out")}
    assert found == expected


@pytest.mark.deep
def test_joined_streams_can_be_aggregated() -> None:
    app = Streams("ads")
    clicks = app.stream("clicks", value=json_schema(Click))
    views = app.stream("views", value=json_schema(View))
    joined = clicks.join(views, on="user", before="0 seconds", after="1 minute")
    joined.group_by("user").windowed(tumbling("1 minute")).count().to("out")
    with app.test() as test:
        test.send("clicks", Click("u1", "p"), at="2026-01-01 00:00:10")
        test.send("views", View("u1", "before"), at="2026-01-01 00:00:05")
        test.send("views", View("u1", "after"), at="2026-01-01 00:00:40")
        test.advance()
        test.advance()
        assert test.values("out") == [window(0, count=1)]


def test_joined_tables_follow_both_sides_and_delete() -> None:
    app = Streams("tables")
    left = app.table("left", value=json_schema("x int")).filter(lambda v: v.x > 0)
    right = app.table("right", value=json_schema("y int")).map_values(lambda v: {"y": v.y * 2})
    left.join(right).to("out")
    with app.test() as test:
        test.send("left", {"x": 1}, key="k")
        test.send("right", {"y": 2}, key="other")
        test.step()
        test.send("right", {"y": 2}, key="k")
        test.step()
        test.send("left", {"x": -1}, key="k")
        found = [(each.key, each.value) for each in test.output("out")]
    assert found == [("k", {"x": 1, "y": 4}), ("k", None)]


@pytest.mark.deep
def test_a_total_behind_a_join_goes_through_an_internal_topic() -> None:
    app = Streams("shop")
    customers = app.table("customers", value=json_schema(Customer))
    orders(app).join(customers, on="customer_id").group_by("country").count().to("out")
    with app.test() as test:
        test.send("customers", Customer("c1", "NL"), key="c1")
        test.send("orders", Order("c1", 1.0))
        test.send("orders", Order("c1", 2.0))
        assert test.table("out") == {"NL": 2}


def test_duplicates_are_dropped_by_key_and_window() -> None:
    app = Streams("shop")
    orders(app).deduplicate("customer_id", window=tumbling("1 minute")).to("out")
    with app.test() as test:
        for time, amount in (("00:00:10", 1.0), ("00:00:20", 1.0), ("00:01:20", 2.0)):
            test.send("orders", Order("a", amount), at=f"2026-01-01 {time}")
            test.step()
        assert [each["amount"] for each in test.values("out")] == [1.0, 2.0]


def _sum(one: Order, two: Order) -> Order:
    assert isinstance(one, Order) and isinstance(two, Order)
    return Order(one.customer_id, one.amount + two.amount)


def test_reduce_folds_the_values_of_a_key_and_of_a_window() -> None:
    app = Streams("shop")
    by_customer = orders(app).select_key("customer_id").group_by_key()
    by_customer.reduce(_sum, store="sums")
    largest = by_customer.windowed(tumbling("1 minute"))
    largest.reduce(lambda one, two: one if one.amount > two.amount else two).to("largest")
    with app.test() as test:
        for amount in (1.0, 3.0, 2.0):
            test.send("orders", Order("a", amount))
            test.step()
        test.advance()
        value = {"customer_id": "a", "amount": 3.0}
        assert test.values("largest") == [window(0, value=value)]
        assert test.store("sums").get("a") == {"customer_id": "a", "amount": 6.0}


@dataclass
class Alarm:
    times: int
    why: str


class Watch(Processor[str, Order, Alarm]):
    """Says when an order is the third of its customer, and when a customer has gone quiet."""

    times = value_state(int)
    seen = list_state(Order)
    by_amount = map_state(float, int)

    def process(self, key: str, value: Order, context: Context) -> Iterator[Alarm]:
        assert isinstance(value, Order)
        times = (self.times.get() or 0) + 1
        self.times.set(times)
        self.seen.append(value)
        self.by_amount.set(value.amount, times)
        assert context.timestamp is not None
        context.set_timer(context.timestamp + timedelta(minutes=5))
        if times == 3:
            yield Alarm(times, f"{key} is eager")

    def on_timer(self, key: str, at: Any, context: Context) -> Iterator[Alarm]:  # noqa: ARG002
        yield Alarm(len(self.seen.get()), f"{key} is quiet")
        self.seen.clear()


def watching(**options: Any) -> Streams:
    app = Streams("watch")
    stream = orders(app).select_key("customer_id")
    stream.process(Watch(), value=Alarm, timers="event", store="watch", **options).to("out")
    return app


def test_a_processor_keeps_state_and_sets_timers() -> None:
    with watching().test() as test:
        for amount in (1.0, 2.0, 3.0):
            test.send("orders", Order("a", amount))
        test.advance("10 minutes")
        found = [(each["times"], each["why"]) for each in test.values("out")]
        assert found == [(3, "a is eager"), (3, "a is quiet")]
        store = test.store("watch")
        assert store.get("a", "times") == 3 and store.get("a", "seen") == []
        assert store.get("a", "by_amount") == {1.0: 1, 2.0: 2, 3.0: 3}


def test_a_processor_is_tried_alone_through_pyspark_s_tester() -> None:
    with watching().test() as test:
        alone = test.processor("watch")
        assert alone.send("a", Order("a", 1.0)) == [] and alone.send("a", Order("a", 2.0)) == []
        assert [each["why"] for each in alone.send("a", Order("a", 3.0))] == ["a is eager"]
        assert alone.state("seen", "a") == [Order("a", amount) for amount in (1.0, 2.0, 3.0)]
        assert [each["times"] for each in alone.advance("10 minutes")] == [3]
        assert alone.state("seen", "a") == [] and alone.state("times", "b") is None


def test_time_does_not_advance_by_a_number_without_unit() -> None:
    with watching().test() as test:
        for driver in (test, test.processor("watch")):
            with pytest.raises(TypeError, match=r'name the unit: advance\("5 seconds"\)'):
                driver.advance(5)  # type: ignore[arg-type]


class Forgetful(Processor[str, Order, int]):
    seen = value_state(int, ttl="1 ms")

    def process(self, key: str, value: Order, context: Context) -> Iterator[int]:  # noqa: ARG002
        seen = (self.seen.get() or 0) + 1
        self.seen.set(seen)
        yield seen


def test_state_with_a_time_to_live_is_forgotten() -> None:
    app = Streams("watch")
    orders(app).select_key("customer_id").process(Forgetful(), value=int).to("out")
    with app.test() as test:
        for _ in range(2):
            test.send("orders", Order("a", 1.0))
            test.step()
        assert test.values("out") == [1, 1]


class Broken(Processor[str, Order, int]):
    def process(self, key: str, value: Order, context: Context) -> Iterator[int]:  # noqa: ARG002
        raise ValueError("this processor is broken")


def test_a_processor_that_raises_stops_the_query_with_its_error() -> None:
    app = Streams("watch")
    orders(app).select_key("customer_id").process(Broken(), value=int).to("out")
    with app.test() as test:
        test.send("orders", Order("a", 1.0))
        with pytest.raises(QueryFailed, match="ValueError: this processor is broken"):
            test.values("out")
