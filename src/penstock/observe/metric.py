"""A metric as a row of a table: name, type, meaning, and reader.

Counting happens elsewhere: `read` looks at plain attributes on request, so the counting code pays
one integer addition, or nothing.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from penstock.observe.times import Distribution

S = TypeVar("S")  # the source that the rows of a table read

Number: TypeAlias = int | float
# The label values of a row, in order, and the number or the distribution.
Sample: TypeAlias = tuple[tuple[str, ...], Number | Distribution]

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
TOTAL = "_total"


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


class Metric(NamedTuple, Generic[S]):
    """One metric. A reader without a sample yields nothing."""

    name: str
    kind: MetricKind
    about: str
    read: Callable[[S], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    unit: str = ""


def single(value: Callable[[S], Number | Distribution | None]) -> Callable[[S], Iterable[Sample]]:
    """Return a reader for a metric without labels; the value None means no sample."""

    def read(source: S) -> Iterable[Sample]:
        found = value(source)
        return () if found is None else (((), found),)

    return read


def check_table(rows: Sequence[Metric[S]]) -> None:
    """Raise AssertionError for a row that no scraper could read: a mistake in the table, found at
    import."""
    seen: dict[str, None] = {}
    for row in rows:
        assert _METRIC_NAME.fullmatch(row.name), row.name
        assert all(_LABEL_NAME.fullmatch(label) for label in row.labels), row.labels
        assert (row.kind is MetricKind.COUNTER) == row.name.endswith(TOTAL), row.name
        family = row.name.removesuffix(TOTAL)
        assert family not in seen, f"{family} is there twice"
        assert row.about.endswith("."), row.name
        seen[family] = None
