"""The shop that the demo runs on: its customers, its orders, and what should come out.

Everything follows from a seed and the number of orders, so that a run can be checked against it.
Time is the shop's own: it passes with the orders, not with the clock, however slow a machine is.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

COUNTRIES = ("AT", "CH", "DE", "FR", "IT")
CUSTOMERS = 60
OPENS_AT = datetime(2026, 1, 1, 9, tzinfo=UTC)

WINDOW = timedelta(minutes=1)
# An order may arrive so much later than one that was placed after it ...
LATE_MAX = timedelta(seconds=20)
# ... and is waited for so long: more than LATE_MAX, or orders would be left out.
WATERMARK_DELAY = timedelta(seconds=30)

# Nobody has this number: the join leaves out what comes from it.
STRANGER = "nobody"


@dataclass(frozen=True, slots=True)
class Customer:
    customer_id: str
    name: str
    country: str


@dataclass(frozen=True, slots=True)
class Order:
    order_id: int
    customer_id: str
    amount_cents: int
    ordered_at: str


class Cell(NamedTuple):
    """What results are counted by: a window, by the second it begins, and a country."""

    window_start: str
    country: str


class Total(NamedTuple):
    orders: int
    revenue_cents: int


def to_json(record: Customer | Order) -> bytes:
    return json.dumps(asdict(record), separators=(",", ":")).encode()


def written_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def customers(seed: int) -> list[Customer]:
    chance = Random(f"customers {seed}")
    return [
        Customer(f"c{number:03}", f"Customer {number}", chance.choice(COUNTRIES))
        for number in range(CUSTOMERS)
    ]


def orders(seed: int, per_minute: int) -> Iterator[Order]:
    """Without an end, in the order of arrival: some arrive up to LATE_MAX after their time."""
    chance = Random(f"orders {seed}")
    number = 0
    while True:
        arrival = OPENS_AT + LATE_MAX + WINDOW * number / per_minute
        late = chance.random() * LATE_MAX if chance.random() < 0.2 else timedelta()
        placed = (arrival - late).replace(microsecond=0)
        yield Order(
            number,
            f"c{chance.randrange(CUSTOMERS):03}",
            chance.randint(100, 20_000),
            written_time(placed),
        )
        number += 1


def closing_order(after: Iterable[Order]) -> Order:
    """Moves the watermark past the last window, so that it comes out; the join leaves it out.

    A window is final when an order has been seen that is later than its end and the delay. After
    the last order of all there would never be one.
    """
    last = max(moment_of(each.ordered_at) for each in after)
    later = last + WINDOW + WATERMARK_DELAY + timedelta(seconds=1)
    return Order(-1, STRANGER, 0, written_time(later))


def expected(arrived: Iterable[Order], known: Iterable[Customer]) -> dict[Cell, Total]:
    """What a pipeline must make of these orders."""
    country_of = {each.customer_id: each.country for each in known}
    found: dict[Cell, Total] = defaultdict(lambda: Total(0, 0))
    for order in arrived:
        if order.customer_id not in country_of:
            continue
        cell = Cell(_window_of(order.ordered_at), country_of[order.customer_id])
        before = found[cell]
        found[cell] = Total(before.orders + 1, before.revenue_cents + order.amount_cents)
    return dict(found)


def differences(wanted: Mapping[Cell, Total], found: Iterable[tuple[Cell, Total]]) -> list[str]:
    """What is missing, what is too much, what is there twice, and what has another sum."""
    said: list[str] = []
    seen: dict[Cell, Total] = {}
    for cell, total in found:
        if cell in seen:
            said.append(f"{cell.window_start} {cell.country}: there more than once")
        elif cell not in wanted:
            said.append(f"{cell.window_start} {cell.country}: {total.orders} orders from nowhere")
        elif total != wanted[cell]:
            said.append(
                f"{cell.window_start} {cell.country}: {_told(total)}, not {_told(wanted[cell])}"
            )
        seen[cell] = total
    missing = [cell for cell in wanted if cell not in seen]
    said += [
        f"{cell.window_start} {cell.country}: missing, with {_told(wanted[cell])}"
        for cell in sorted(missing)
    ]
    return said


def _told(total: Total) -> str:
    return f"{total.orders} orders and {total.revenue_cents} cents"


def moment_of(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _window_of(text: str) -> str:
    """Windows begin with the minute, as Spark has them."""
    moment = moment_of(text)
    return written_time(moment - timedelta(seconds=moment.timestamp() % WINDOW.total_seconds()))
