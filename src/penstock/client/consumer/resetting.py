"""Partitions without an offset to read from: auto.offset.reset is none, or by_duration.

librdkafka reports them and stops reading them. With `none` the application is told; with
`by_duration` the first offset of that time is asked for and they begin there.
"""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock.client.consumer.desk import Desk
from penstock.client.consumer.ledger import Place
from penstock.client.consumer.partitions import Partitions
from penstock.client.consumer.places import offsets_at
from penstock.client.consumer.plan import Plan
from penstock.client.consumer.troubles import PartitionWithoutOffset

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError

log = logging.getLogger("penstock.client.consumer")


class Resetting:
    """Of one consumer; `ask` puts questions to the brokers."""

    def __init__(
        self,
        plan: Plan,
        desk: Desk,
        ask: Callable[[Callable[[Any, float], Any], float], "Future[Any]"],
        partitions: Partitions,
    ) -> None:
        self._plan = plan
        self._desk = desk
        self._ask = ask
        self._partitions = partitions

    def missing(self, reports: "Mapping[Place, RdkafkaError]") -> None:
        """On the polling thread."""
        match self._plan.offset_reset:
            case ("by_duration", int(duration_ms)):
                self._look_back(list(reports), duration_ms)
            case _:
                for place, error in reports.items():
                    outside = self._plan.outside(place)
                    self._desk.fail(PartitionWithoutOffset(outside, error.str()))

    def _look_back(self, places: list[Place], duration_ms: int) -> None:
        moment_ms = max(0, int(time.time() * 1000) - duration_ms)

        def begin(answer: "Future[dict[Place, int]]") -> None:
            error = None if answer.cancelled() else answer.exception()
            if isinstance(error, Exception):
                log.warning("no offsets of the time that auto.offset.reset names: %s", error)
                self._desk.fail(error)
            elif not answer.cancelled():
                self._desk.order(lambda: self._begin(answer.result()))

        moments = dict.fromkeys(places, moment_ms)
        self._ask(
            lambda rdkafka, left_s: offsets_at(rdkafka, moments, left_s), self._plan.api_timeout_s
        ).add_done_callback(begin)

    def _begin(self, offsets: Mapping[Place, int]) -> None:
        with self._desk.lock:
            owned = {at: each for at, each in offsets.items() if self._desk.ledger.owns(at)}
        self._partitions.move(owned, moved=False)
