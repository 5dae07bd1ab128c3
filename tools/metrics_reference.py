"""Writes the reference of all metrics, docs/reference/metrics.md, from the table.

python -m tools.metrics_reference > docs/reference/metrics.md
"""

from penstock.broker.metrics.snapshot import LAGS_MAX, PARTITIONS_MAX, TOPICS_MAX
from penstock.broker.metrics.table import SECTIONS

_HEAD = f"""\
# Metrics

Made from the code by `python -m tools.metrics_reference`; do not edit.

A node serves them at `/metrics` on the address that `metrics.listener` names, in Prometheus' text
format, and in OpenMetrics for those who ask for `application/openmetrics-text`. Names that begin
with `kafka_` are those that Kafka's JMX exporter gives with its usual rules, in small letters;
`process_` is what every Prometheus client tells; `penstock_` is our own.
[Operating a node](../guides/operating.md) says what to look at.

Counters of topics have one series per topic, and one without `topic` for all of them together,
those of deleted topics included: sum either the one or the others. At most {TOPICS_MAX:,} topics
have series of their own. Logs are told per topic; `/metrics?partitions=orders,payments` tells the
partitions of these topics one by one instead, `?partitions=*` those of all, up to
{PARTITIONS_MAX:,} partitions. The lag of groups has at most {LAGS_MAX:,} series, one for each group
and topic. `penstock_metrics_left_out` says what did not fit.
"""


def reference() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, rows in SECTIONS:
        parts += [f"## {title}\n", "| metric | kind | labels | |", "|---|---|---|---|"]
        for row in rows:
            labels = ", ".join(f"`{label}`" for label in row.labels)
            about = f"{row.about} ({row.unit})" if row.unit else row.about
            cells = (f"`{row.name}`", row.kind.value, labels, about.replace("|", "\\|"))
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    print(reference(), end="")
