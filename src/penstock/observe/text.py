"""Prometheus' text format 0.0.4, and OpenMetrics 1.0 on request.

Both come from the same rows. They differ in the family name of a counter, in the format of bucket
bounds, and in the last line.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import isinf, isnan

from penstock.observe.metric import TOTAL, Metric, MetricKind, Number, S, Sample
from penstock.observe.times import Distribution

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OPENMETRICS_END = "# EOF\n"
SAMPLES_PER_PIECE = 200  # about half a millisecond


def wants_openmetrics(accept: str) -> bool:
    """Return whether an Accept header prefers OpenMetrics; the default is plain text."""
    best: dict[str, float] = {}
    for choice in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in choice.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                weight = _weight(value)
        best[kind] = max(weight, best.get(kind, 0.0))
    plain = max(best.get(kind, 0.0) for kind in ("text/plain", "text/*", "*/*"))
    asked = best.get("application/openmetrics-text", 0.0)
    return asked > 0 and asked >= plain


def _weight(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0


def escape_label(text: str) -> str:
    if '"' in text or "\\" in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def escape_help(text: str, openmetrics: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if openmetrics else escaped


def number_text(value: Number) -> str:
    if isinstance(value, int):
        return str(int(value))  # True is 1
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def pieces(rows: Sequence[Metric[S]], source: S, *, openmetrics: bool = False) -> Iterator[str]:
    """Yield the page in pieces, so that the caller can pause in between. Families without a sample
    are left out."""
    for row in rows:
        samples = iter(row.read(source))
        some = list(islice(samples, SAMPLES_PER_PIECE))
        if not some:
            continue
        lines = _head(row, openmetrics)
        while some:
            for sample in some:
                _write(lines, row, sample)
            yield "\n".join(lines) + "\n"
            lines = []
            some = list(islice(samples, SAMPLES_PER_PIECE))
    if openmetrics:
        yield OPENMETRICS_END


def page(rows: Sequence[Metric[S]], source: S, *, openmetrics: bool = False) -> str:
    """Return the whole page at once, for callers without other work."""
    return "".join(pieces(rows, source, openmetrics=openmetrics))


def _head(row: Metric[S], openmetrics: bool) -> list[str]:
    family = row.name
    if openmetrics and row.kind is MetricKind.COUNTER:
        family = row.name.removesuffix(TOTAL)
    lines = [
        f"# HELP {family} {escape_help(row.about, openmetrics)}",
        f"# TYPE {family} {row.kind.value}",
    ]
    if openmetrics and row.unit and family.endswith(f"_{row.unit}"):
        lines.append(f"# UNIT {family} {row.unit}")
    return lines


def _write(lines: list[str], row: Metric[S], sample: Sample) -> None:
    values, value = sample
    # A row may have fewer values than labels: a label without a value is left out.
    labels = ",".join(
        f'{name}="{escape_label(text)}"'
        for name, text in zip(row.labels, values, strict=False)
        if text
    )
    if not isinstance(value, Distribution):
        lines.append(f"{_series(row.name, labels)} {number_text(value)}")
        return
    for quantile, at in value.quantiles:
        lines.append(f"{_series(row.name, labels, 'quantile', quantile)} {number_text(at)}")
    for bound, count in value.buckets:
        lines.append(f"{_series(row.name + '_bucket', labels, 'le', bound)} {count}")
    if row.kind is MetricKind.HISTOGRAM:
        lines.append(f"{_series(row.name + '_bucket', labels, 'le', float('inf'))} {value.count}")
    lines.append(f"{_series(row.name + '_sum', labels)} {number_text(value.total)}")
    lines.append(f"{_series(row.name + '_count', labels)} {value.count}")


def _series(name: str, labels: str, more: str = "", bound: float = 0.0) -> str:
    if more:
        extra = f'{more}="{number_text(bound)}"'
        labels = f"{labels},{extra}" if labels else extra
    return f"{name}{{{labels}}}" if labels else name
