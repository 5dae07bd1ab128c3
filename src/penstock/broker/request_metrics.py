"""Request metrics: counts and times by API. Plain numbers.

Produce is nearly all the traffic, so its requests are timed by the turn: those that came in one
turn and were answered at its end took the same time. Requests that waited longer, and requests of
other APIs, are timed one by one.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

from penstock.errors import (
    CorruptMessage,
    KafkaStorageError,
    MessageTooLarge,
    NotController,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from penstock.observe.times import BOUNDS_MS, Times
from penstock.wire.schema import Array, Nested, schema_of

PRODUCE = 0
OTHER_VERSION = -1  # of a request from the future
ERROR_CODE = "error_code"
# Errors that clients expect; as in Kafka, only other errors count as failed requests.
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


class ProducedPartition(Protocol):
    """A partition, as far as failed batches are counted in it."""

    failed_produces: int


class RequestMetrics:
    """Counts and times of one broker since its start."""

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int], int] = {}  # (API key, version), without Produce
        self.times: dict[int, Times] = {}  # by API key
        self.errors: dict[tuple[int, int], int] = {}  # (API key, error code)
        self.produce_times = self.times[PRODUCE] = Times()
        self.timed_alone = 0  # Produce requests that are not timed by their turn
        self._timed = 0  # Produce requests whose turn has ended
        self.cold_reads = 0
        self.parked_fetches = 0

    # -- requests through dispatch

    def count_request(self, key: int, version: int) -> None:
        place = (key, version)
        self.requests[place] = self.requests.get(place, 0) + 1

    def answered(self, key: int, duration_ms: float) -> None:
        times = self.times.get(key)
        if times is None:
            times = self.times[key] = Times()
        times.note(duration_ms)

    def count_errors(self, key: int, response: Any) -> None:
        """Count the errors in a short answer. Hot path: the walk of `errors_in` without pauses."""
        kind = type(response)
        places = _places.get(kind) or _find(kind)
        if places.own and response.error_code:
            self.failed(key, response.error_code)
        for name in places.leaves:
            for each in getattr(response, name) or ():
                if each.error_code:
                    self.failed(key, each.error_code)
        for name in places.nested:
            if (inner := getattr(response, name)) is not None:
                self.count_errors(key, inner)
        for name in places.lists:
            for each in getattr(response, name) or ():
                self.count_errors(key, each)

    def failed(self, key: int, code: int) -> None:
        place = (key, code)
        self.errors[place] = self.errors.get(place, 0) + 1

    # -- Produce

    def produce_failed(self, partition: ProducedPartition | None, code: int) -> None:
        self.failed(PRODUCE, code)
        if partition is not None and code not in EXPECTED_OF_PRODUCE:
            partition.failed_produces += 1

    def turn_ended(self, produces: int, duration_ms: float) -> None:
        """Time the Produce requests of this turn. `produces` counts all requests so far."""
        turn = produces - self.timed_alone - self._timed
        if turn > 0:
            self._timed += turn
            times = self.produce_times  # as Times.note does it; this is in every turn
            times.counts[bisect_left(BOUNDS_MS, duration_ms)] += turn
            times.total_ms += duration_ms * turn


class _Places(NamedTuple):
    """The fields of a message class with errors: its own, and those of nested structures."""

    own: bool
    nested: tuple[str, ...]
    lists: tuple[str, ...]
    leaves: tuple[str, ...]  # lists of structures with one code and nothing further


_places: dict[type, _Places] = {}

PARTS_READ = 4  # of an answer, to see whether a controller is not active


def says_not_controller(response: Any) -> bool:
    """Return whether a controller that is not active has answered: each part of its answer says
    so."""
    return NotController.code in islice(errors_in(response), PARTS_READ)


def errors_in(response: Any) -> Iterator[int]:
    """Yield a code for each structure of an answer, 0 without an error: a walk can pause there."""
    kind = type(response)
    places = _places.get(kind) or _find(kind)
    yield response.error_code if places.own else 0
    for name in places.nested:
        if (value := getattr(response, name)) is not None:
            yield from errors_in(value)
    for name in places.lists:
        for value in getattr(response, name) or ():
            yield from errors_in(value)
    for name in places.leaves:
        for value in getattr(response, name) or ():
            yield value.error_code


def _find(kind: type) -> _Places:
    own, nested = False, []
    lists: list[str] = []
    leaves: list[str] = []
    for field in schema_of(kind).fields:
        if field.name == ERROR_CODE:
            own = True
        match field.kind:
            case Nested(cls=inner) if any(_find(inner)):
                nested.append(field.name)
            case Array(element=Nested(cls=inner)) if any(found := _find(inner)):
                (lists if any(found[1:]) else leaves).append(field.name)
    places = _places[kind] = _Places(own, tuple(nested), tuple(lists), tuple(leaves))
    return places
