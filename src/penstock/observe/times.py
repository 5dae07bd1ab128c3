"""Durations, counted in buckets: noting one costs a search and an addition.

Ten bounds per power of ten, from 10 microseconds to 100 seconds: a quantile is at most a quarter
too large. Quantiles cover the last minutes, sums and counts all time.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

_STEPS = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
BOUNDS_MS: tuple[float, ...] = (
    *(float(f"{step}e{power}") for power in range(-2, 5) for step in _STEPS),
    100_000.0,
)
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)  # those of Kafka's own metrics
# The `le` bounds for a scraper; each is one of the bounds above.
SHOWN_MS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0)
_SHOWN_PLACES = tuple(BOUNDS_MS.index(bound) for bound in SHOWN_MS)
RECENT_MS = 300_000.0  # the time span of quantiles
MARK_MS = 30_000.0  # the interval between two marks to count from


@dataclass(frozen=True, slots=True)
class Distribution:
    """The noted durations, for a page."""

    count: int
    total: float
    quantiles: tuple[tuple[float, float], ...] = ()
    buckets: tuple[tuple[float, int], ...] = ()  # (upper bound, number up to it)


class Times:
    """Durations in milliseconds."""

    __slots__ = ("_marks", "counts", "total_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.total_ms = 0.0
        self._marks: deque[tuple[float, list[int]]] = deque()

    def note(self, duration_ms: float, times: int = 1) -> None:
        self.counts[bisect_left(BOUNDS_MS, duration_ms)] += times
        self.total_ms += duration_ms * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    def summary(self, now_ms: float) -> Distribution:
        """Return everything, with the quantiles of the last minutes; `now_ms` is of any steady
        clock."""
        recent = self._recent(now_ms)
        known = sum(recent)
        quantiles = tuple((each, _quantile(recent, known, each)) for each in QUANTILES)
        return Distribution(self.count, self.total_ms, quantiles)

    def histogram_seconds(self) -> Distribution:
        """Return everything, in few buckets."""
        buckets = tuple(
            (bound / 1000, sum(self.counts[: place + 1]))
            for bound, place in zip(SHOWN_MS, _SHOWN_PLACES, strict=True)
        )
        return Distribution(self.count, self.total_ms / 1000, (), buckets)

    def _recent(self, now_ms: float) -> list[int]:
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now_ms - RECENT_MS:
            marks.popleft()
        if not marks or now_ms - marks[-1][0] >= MARK_MS:
            marks.append((now_ms, self.counts.copy()))
        at_ms, before = marks[0]
        if now_ms - at_ms < MARK_MS:
            return self.counts  # the last mark is too old: use all counts
        return [now - then for now, then in zip(self.counts, before, strict=True)]


def _quantile(counts: list[int], known: int, quantile: float) -> float:
    """Return the upper bound of the quantile's bucket; NaN if there is no count."""
    if not known:
        return float("nan")
    wanted = quantile * known
    reached = 0
    for place, count in enumerate(counts):
        reached += count
        if reached >= wanted and count:
            return BOUNDS_MS[min(place, len(BOUNDS_MS) - 1)]
    return BOUNDS_MS[-1]
