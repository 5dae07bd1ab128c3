"""The functions of an aggregation, computed per group in the JVM: sum_("amount"), count(), ..."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.streams.errors import TopologyError
from penstock.streams.expressions import Expression, Fields, input_of, trace

Of = str | Callable[..., Any]  # the name of a field, or a lambda over the value


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of pyspark.sql.functions over an expression of the value."""

    function: str
    of: Of | None = None

    def traced(self, key: Fields, value: Fields) -> Expression | None:
        if self.of is None:
            return None
        if isinstance(self.of, str):
            return input_of("value", value)[self.of]
        return trace(self.of, key, value)

    def __str__(self) -> str:
        of = self.of if isinstance(self.of, str) else "" if self.of is None else "..."
        return f"{self.function}({of})"


def count(of: Of | None = None) -> Aggregate:
    """Count records; with a field, those in which it is not null."""
    return Aggregate("count", of)


def sum_(of: Of) -> Aggregate:
    return Aggregate("sum", of)


def avg(of: Of) -> Aggregate:
    return Aggregate("avg", of)


def min_(of: Of) -> Aggregate:
    return Aggregate("min", of)


def max_(of: Of) -> Aggregate:
    return Aggregate("max", of)


def stddev(of: Of) -> Aggregate:
    return Aggregate("stddev", of)


def collect_list(of: Of) -> Aggregate:
    """Collect all values of the group; they stay in the state until the window closes."""
    return Aggregate("collect_list", of)


def collect_set(of: Of) -> Aggregate:
    return Aggregate("collect_set", of)


def approx_count_distinct(of: Of) -> Aggregate:
    """Count distinct values approximately: Spark counts none exactly in a stream."""
    return Aggregate("approx_count_distinct", of)


def refuse_other(name: str, given: object) -> Aggregate:
    if not isinstance(given, Aggregate):
        raise TopologyError(
            f"{name} is {given!r}: it takes sum_, count, avg, min_, max_, ... of a field"
        )
    return given
