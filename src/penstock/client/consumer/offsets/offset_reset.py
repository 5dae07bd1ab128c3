"""Partitions without a valid offset: auto.offset.reset is none, or by_duration.

librdkafka reports such a partition and stops reading it. With `none` the application gets an error;
with `by_duration` the partition starts at the first offset of that time.
"""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock.client.consumer.assignment.partitions import Partitions
from penstock.client.consumer.assignment.resolved_config import ResolvedConfig
from penstock.client.consumer.engine.error_policy import PartitionWithoutOffset
from penstock.client.consumer.engine.shared_state import SharedState
from penstock.client.consumer.offsets.offset_lookup import offsets_at
from penstock.client.consumer.offsets.offset_tracker import PartitionKey

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError

log = logging.getLogger("penstock.client.consumer")


class OffsetResetter:
    """The resets of one consumer; `ask` asks the brokers."""

    def __init__(
        self,
        config: ResolvedConfig,
        shared: SharedState,
        ask: Callable[[Callable[[Any, float], Any], float], "Future[Any]"],
        partitions: Partitions,
    ) -> None:
        self._config = config
        self._shared = shared
        self._ask = ask
        self._partitions = partitions

    def missing(self, reports: "Mapping[PartitionKey, RdkafkaError]") -> None:
        """Handle reports of missing offsets, on the thread that polls."""
        match self._config.offset_reset:
            case ("by_duration", int(duration_ms)):
                self._look_back(list(reports), duration_ms)
            case _:
                for place, error in reports.items():
                    outside = self._config.without_namespace(place)
                    self._shared.fail(PartitionWithoutOffset(outside, error.str()))

    def _look_back(self, places: list[PartitionKey], duration_ms: int) -> None:
        moment_ms = max(0, int(time.time() * 1000) - duration_ms)

        def begin(answer: "Future[dict[PartitionKey, int]]") -> None:
            error = None if answer.cancelled() else answer.exception()
            if isinstance(error, Exception):
                log.warning("the offset lookup of auto.offset.reset=by_duration failed: %s", error)
                self._shared.fail(error)
            elif not answer.cancelled():
                self._shared.submit(lambda: self._begin(answer.result()))

        moments = dict.fromkeys(places, moment_ms)
        self._ask(
            lambda rdkafka, left_s: offsets_at(rdkafka, moments, left_s), self._config.api_timeout_s
        ).add_done_callback(begin)

    def _begin(self, offsets: Mapping[PartitionKey, int]) -> None:
        with self._shared.lock:
            owned = {at: each for at, each in offsets.items() if self._shared.tracker.owns(at)}
        self._partitions.move(owned, moved=False)
