"""Writes the shop's customers and orders to their topics, at a steady rate, until it is time."""

import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer

from examples.orders.pipeline import Place
from examples.orders.shop import (
    LATE_MAX,
    WATERMARK_DELAY,
    WINDOW,
    Customer,
    Order,
    closing_order,
    customers,
    orders,
    to_json,
)
from penstock.client.values import NewTopic
from penstock.errors import TopicAlreadyExists
from penstock.sync import Admin

PARTITIONS = 2
TICK_SECONDS = 0.2
# A minute of the shop, on the clock.
MINUTE_SECONDS = 5
FLUSH_SECONDS_MAX = 30

# What is on its way together may arrive in any order: that, too, must be waited for.
assert LATE_MAX + WINDOW * TICK_SECONDS / MINUTE_SECONDS < WATERMARK_DELAY


class FeedFailed(Exception):
    """Records could not be written."""


def create_topics(place: Place, replication_factor: int = 1) -> None:
    """Those that are there already stay as they are."""
    names = (place.orders, place.customers, place.revenue)
    with Admin(bootstrap=place.bootstrap) as admin:
        wanted = [NewTopic(name, PARTITIONS, replication_factor) for name in names]
        for answer in admin.create_topics(wanted).values():
            if isinstance(answer, Exception) and not isinstance(answer, TopicAlreadyExists):
                raise answer


class Writer:
    """Writes records and waits until they are there."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer = Producer(
            {
                "bootstrap.servers": place.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,  # what goes wrong is told on delivery; the rest is noise
            }
        )
        self._problem: KafkaError | None = None

    def write_customers(self, known: Sequence[Customer]) -> None:
        for each in known:
            self._send(self._place.customers, each.customer_id, to_json(each))
        self._flush()

    def write_orders(self, arrived: Sequence[Order]) -> None:
        for each in arrived:
            self._send(self._place.orders, each.customer_id, to_json(each))
        self._flush()

    def _send(self, topic: str, key: str, value: bytes) -> None:
        self._producer.produce(topic, value, key=key, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._problem = self._problem or error

    def _flush(self) -> None:
        left = self._producer.flush(FLUSH_SECONDS_MAX)
        if left or self._problem is not None:
            raise FeedFailed(f"{left} records were not written: {self._problem or 'no answer'}")


class Feed(threading.Thread):
    """A day of the shop: some first orders; when it is told to go on, more of them for some
    seconds; then the closing order."""

    def __init__(self, place: Place, *, seed: int, orders_per_second: int, seconds: float) -> None:
        super().__init__(name="feed", daemon=True)
        self.customers = customers(seed)
        self.arrived: list[Order] = []
        self.failure: Exception | None = None
        self._writer = Writer(place)
        self._orders = orders(seed, per_minute=orders_per_second * MINUTE_SECONDS)
        self._per_tick = max(1, round(orders_per_second * TICK_SECONDS))
        self._seconds = seconds
        self._may_go_on = threading.Event()
        self._enough = threading.Event()

    @property
    def ended(self) -> bool:
        return self.ident is not None and not self.is_alive()

    @property
    def goes_on(self) -> bool:
        return self._may_go_on.is_set()

    def go_on(self) -> None:
        self._may_go_on.set()

    def stop(self) -> None:
        """Soon, without the closing order."""
        self._enough.set()
        self._may_go_on.set()
        if self.ident is not None:
            self.join(FLUSH_SECONDS_MAX)

    def write_customers(self) -> None:
        self._writer.write_customers(self.customers)

    def run(self) -> None:
        try:
            self._run()
        except Exception as failure:
            self.failure = failure

    def _run(self) -> None:
        self._tick()
        self._may_go_on.wait()
        began = time.monotonic()
        ticks = 0
        while (spent := time.monotonic() - began) < self._seconds:
            if self._enough.wait(max(0.0, ticks * TICK_SECONDS - spent)):
                return
            self._tick()
            ticks += 1
        self._writer.write_orders([closing_order(self.arrived)])

    def _tick(self) -> None:
        coming = [next(self._orders) for _ in range(self._per_tick)]
        self._writer.write_orders(coming)
        self.arrived += coming
