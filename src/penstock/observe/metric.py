"""A metric as a row of a table: its name, what kind it is, what it means, and who reads it.

Nothing is counted here. A row's `read` looks at plain attributes when somebody asks, so that what
works pays one integer addition, or nothing.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from penstock.observe.times import Distribution

S = TypeVar("S")  # what the rows of a table read

Number: TypeAlias = int | float
# The values of a row's labels, in their order, and the number, or the distribution, under them.
Sample: TypeAlias = tuple[tuple[str, ...], Number | Distribution]

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
TOTAL = "_total"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


class Row(NamedTuple, Generic[S]):
    """One metric. A reader that has nothing to say yields nothing."""

    name: str
    kind: Kind
    about: str
    read: Callable[[S], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    unit: str = ""


def single(value: Callable[[S], Number | Distribution | None]) -> Callable[[S], Iterable[Sample]]:
    """A reader for a metric without labels; None means that there is nothing to say."""

    def read(source: S) -> Iterable[Sample]:
        found = value(source)
        return () if found is None else (((), found),)

    return read


def check_table(rows: Sequence[Row[S]]) -> None:
    """AssertionError if a row could not be read by a scraper: our own mistake, found at import."""
    seen: dict[str, None] = {}
    for row in rows:
        assert _METRIC_NAME.fullmatch(row.name), row.name
        assert all(_LABEL_NAME.fullmatch(label) for label in row.labels), row.labels
        assert (row.kind is Kind.COUNTER) == row.name.endswith(TOTAL), row.name
        family = row.name.removesuffix(TOTAL)
        assert family not in seen, f"{family} is there twice"
        assert row.about.endswith("."), row.name
        seen[family] = None
