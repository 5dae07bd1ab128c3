"""Medians, spreads, ratios and verdicts: the arithmetic of a comparison."""

from dataclasses import dataclass
from enum import Enum
from statistics import median


class Bound(Enum):
    """Which side of its target a ratio has to stay on."""

    AT_LEAST = "≥"
    AT_MOST = "≤"


@dataclass(frozen=True, slots=True)
class Target:
    """A limit of the ratio; with a unit, of Penstock's own figure."""

    bound: Bound
    limit: float
    unit: str = ""

    def met_by(self, value: float) -> bool:
        return value >= self.limit if self.bound is Bound.AT_LEAST else value <= self.limit

    def __str__(self) -> str:
        return f"{self.bound.value} {self.limit:g} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some rounds, and how far they lie apart."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        if not values:
            raise ValueError("no rounds, no median")
        return cls(median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{figure(self.median)} ({figure(self.low)}-{figure(self.high)})"


def figure(value: float) -> str:
    """Three significant digits at most below 1,000; whole numbers above."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ratio_of(ours: Spread, theirs: Spread) -> float | None:
    """Penstock's median over Apache Kafka's; None where Kafka's is zero."""
    return ours.median / theirs.median if theirs.median else None


def cost_percent(plain: float, safe: float) -> float:
    """How much throughput the safe way costs, in percent of the plain one."""
    return (1 - safe / plain) * 100
