"""Makers of the table's rows. A name that ends in _total is a counter, any other a gauge."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.broker.metrics.snapshot import MetricsSnapshot
from penstock.observe.metric import TOTAL, Metric, MetricKind, Number, Sample, single

Row: TypeAlias = Metric[MetricsSnapshot]
RowReader: TypeAlias = Callable[[MetricsSnapshot], Iterable[Sample]]


def row(
    name: str, about: str, value: Callable[[MetricsSnapshot], Number | None], unit: str = ""
) -> Row:
    """Return a row with one value; None means no sample."""
    return labelled(name, about, single(value), unit=unit)


def labelled(name: str, about: str, read: RowReader, *labels: str, unit: str = "") -> Row:
    """Return a row with a value per combination of labels."""
    kind = MetricKind.COUNTER if name.endswith(TOTAL) else MetricKind.GAUGE
    return Metric(name, kind, about, read, labels, unit)
