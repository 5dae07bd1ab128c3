"""What is counted while a broker works, because nothing else keeps it. Plain numbers.

Produce is nearly all the traffic, so its requests are timed by the turn: all that came with one
turn and were answered at its end took the same time. Those that had to wait longer are timed one
by one, and so is everything that goes through dispatch.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from penstock.broker.metrics.error_codes import errors_in
from penstock.errors import (
    CorruptMessage,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from penstock.observe.times import BOUNDS_MS, Times

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

PRODUCE = 0
OTHER_VERSION = -1  # of a request from the future
# What a client may run into by itself; as in Kafka, only other errors are failed requests.
EXPECTED_OF_PRODUCE = frozenset(
    error.code
    for error in (
        CorruptMessage,
        UnknownTopicOrPartition,
        NotLeaderOrFollower,
        MessageTooLarge,
        KafkaStorageError,
    )
)


class Totals:
    """What was counted for partitions, summed."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "produces",
        "records_in",
    )

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0

    def add(self, partition: "Partition") -> None:
        log = partition.log
        self.records_in += log.appended_records
        self.bytes_in += log.appended_bytes
        self.bytes_out += partition.bytes_out
        self.bytes_rejected += partition.bytes_rejected
        self.produces += partition.produces
        self.fetches += partition.fetches
        self.failed_produces += partition.failed_produces
        self.failed_fetches += partition.failed_fetches


class Counts:
    """Of one broker, since it started."""

    __slots__ = (
        "_timed",
        "cold_reads",
        "errors",
        "parked_fetches",
        "produce_times",
        "requests",
        "retired",
        "timed_alone",
        "times",
    )

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int], int] = {}  # (API key, version), without Produce
        self.times: dict[int, Times] = {}  # by API key
        self.errors: dict[tuple[int, int], int] = {}  # (API key, error code)
        self.produce_times = self.times[PRODUCE] = Times()
        self.timed_alone = 0  # Produce requests that are not timed by their turn
        self._timed = 0  # Produce requests whose turn has ended
        self.cold_reads = 0
        self.parked_fetches = 0
        self.retired = Totals()  # of partitions that are not here any more

    # -- requests through dispatch

    def came(self, key: int, version: int) -> None:
        place = (key, version)
        self.requests[place] = self.requests.get(place, 0) + 1

    def answered(self, key: int, duration_ms: float) -> None:
        times = self.times.get(key)
        if times is None:
            times = self.times[key] = Times()
        times.note(duration_ms)

    def told(self, key: int, response: Any) -> None:
        """An answer leaves: count the errors in it."""
        for code in errors_in(response):
            self.failed(key, code)

    def failed(self, key: int, code: int) -> None:
        place = (key, code)
        self.errors[place] = self.errors.get(place, 0) + 1

    # -- Produce

    def produce_failed(self, partition: "Partition | None", code: int) -> None:
        self.failed(PRODUCE, code)
        if partition is not None and code not in EXPECTED_OF_PRODUCE:
            partition.failed_produces += 1

    def turn_ended(self, produces: int, duration_ms: float) -> None:
        """`produces` requests have come so far; those of this turn are answered, but the ones that
        are timed alone."""
        turn = produces - self.timed_alone - self._timed
        if turn > 0:
            self._timed += turn
            times = self.produce_times  # as Times.note does it; this is in every turn
            times.counts[bisect_left(BOUNDS_MS, duration_ms)] += turn
            times.total_ms += duration_ms * turn
