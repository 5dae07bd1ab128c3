"""What is to be seen of a running pipeline: lag by group, results as consumers get them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Assigned
from pyspark.sql.streaming.query import StreamingQuery

from examples.orders.feed import PARTITIONS
from examples.orders.pipeline import ARCHIVE, REVENUE, Place
from examples.orders.shop import Cell, Total
from penstock.client.values import At, FoundOffset
from penstock.model import TopicPartition
from penstock.sync import Admin

RESULTS_AT_ONCE_MAX = 10_000
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at it."""

    phase: str
    seconds: float
    orders_written: int
    lag: Mapping[str, int | None]  # by group; None while the group has committed nothing
    batch: int | None
    rows_per_second: float
    watermark: str
    results: Sequence[tuple[Cell, Total]]

    @property
    def began(self) -> bool:
        """The first batch is done."""
        return self.batch is not None

    @property
    def caught_up(self) -> bool:
        return all(each == 0 for each in self.lag.values())


class Watch:
    """Looks through the protocol alone: it would work from another machine."""

    def __init__(self, place: Place, queries: Sequence[StreamingQuery]) -> None:
        self._place = place
        self._queries = {query.name: query for query in queries}
        self._admin = Admin(bootstrap=place.bootstrap)
        self._consumer = Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": "not-used",  # nothing is committed to it
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [Assigned(place.revenue, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
        )
        self._results: list[tuple[Cell, Total]] = []

    def close(self) -> None:
        self._consumer.close()
        self._admin.close()

    def look(self, phase: str, seconds: float, orders_written: int) -> Snapshot:
        self._take_results()
        place = self._place
        groups = {place.group(REVENUE): place.orders, place.group(ARCHIVE): place.revenue}
        progress: Mapping[str, Any] = self._queries[REVENUE].lastProgress or {}
        event_time = progress.get("eventTime") or {}
        return Snapshot(
            phase,
            seconds,
            orders_written,
            {group: self._lag(group, topic) for group, topic in groups.items()},
            progress.get("batchId"),
            progress.get("processedRowsPerSecond") or 0.0,
            event_time.get("watermark", ""),
            tuple(self._results),
        )

    def _lag(self, group: str, topic: str) -> int | None:
        places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        committed = self._admin.groups.offsets(group)
        ends = self._admin.offsets(dict.fromkeys(places, At.END))
        if not all(place in committed for place in places):
            return None
        lag = 0
        for place in places:
            end = ends[place]
            if not isinstance(end, FoundOffset):
                return None
            lag += max(0, end.offset - committed[place].offset)
        return lag

    def _take_results(self) -> None:
        for message in self._consumer.consume(RESULTS_AT_ONCE_MAX, POLL_SECONDS):
            value = message.value()
            if message.error() is None and value is not None:
                found = json.loads(value)
                began = found["window_start"].partition(".")[0].rstrip("Z") + "Z"
                total = Total(found["orders"], found["revenue_cents"])
                self._results.append((Cell(began, found["country"]), total))
