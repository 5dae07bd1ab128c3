"""The demo's own reckoning: what it says must come out."""

from datetime import timedelta
from itertools import islice

from examples.orders.shop import (
    LATE_MAX,
    WINDOW,
    Cell,
    Customer,
    Order,
    Total,
    closing_order,
    customers,
    differences,
    expected,
    moment_of,
    orders,
)

KNOWN = [Customer("a", "A", "DE"), Customer("b", "B", "FR")]
ARRIVED = [
    Order(0, "a", 10, "2026-01-01T09:00:10Z"),
    Order(1, "b", 20, "2026-01-01T09:00:59Z"),
    Order(2, "a", 30, "2026-01-01T09:00:00Z"),
    Order(3, "a", 40, "2026-01-01T09:01:00Z"),
    Order(4, "nobody", 50, "2026-01-01T09:00:30Z"),
]
WANTED = {
    Cell("2026-01-01T09:00:00Z", "DE"): Total(2, 40),
    Cell("2026-01-01T09:00:00Z", "FR"): Total(1, 20),
    Cell("2026-01-01T09:01:00Z", "DE"): Total(1, 40),
}


def test_orders_are_counted_in_the_minute_and_country_that_they_belong_to() -> None:
    assert expected(ARRIVED, KNOWN) == WANTED


def test_the_same_results_do_not_differ_in_whatever_order() -> None:
    assert differences(WANTED, reversed(WANTED.items())) == []


def test_a_missing_a_doubled_and_a_wrong_result_are_each_named() -> None:
    (first, total), (second, _), _ = WANTED.items()
    found = [(first, total), (first, total), (second, Total(1, 21))]
    said = differences(WANTED, found)
    assert [line.partition(": ")[2] for line in said] == [
        "there more than once",
        "1 orders and 21 cents, not 1 orders and 20 cents",
        "missing, with 1 orders and 40 cents",
    ]


def test_a_seed_gives_the_same_day_again() -> None:
    assert customers(7) == customers(7) != customers(8)
    assert list(islice(orders(7, 100), 500)) == list(islice(orders(7, 100), 500))


def test_no_order_arrives_later_than_is_waited_for() -> None:
    newest = moment_of("2026-01-01T00:00:00Z")
    late = []
    for order in islice(orders(3, 1000), 5000):
        placed = moment_of(order.ordered_at)
        late.append(newest - placed)
        newest = max(newest, placed)
    assert timedelta(seconds=5) < max(late) <= LATE_MAX + timedelta(seconds=1)


def test_the_closing_order_is_later_than_every_window_and_counts_nowhere() -> None:
    closing = closing_order(ARRIVED)
    assert moment_of(closing.ordered_at) > moment_of("2026-01-01T09:01:00Z") + WINDOW
    assert expected([*ARRIVED, closing], KNOWN) == WANTED
