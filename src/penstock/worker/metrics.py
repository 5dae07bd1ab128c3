"""The metrics of a worker, for Prometheus."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.observe.metric import Metric, MetricKind, Sample, check_table, single
from penstock.observe.times import Times
from penstock.retry import Retrying

_TOPIC = ("topic",)


@dataclass(slots=True)
class Figures:
    """The counts and times of one worker."""

    retrying: Retrying
    times: dict[str, Times] = field(default_factory=dict)  # of handlers, by topic


def _counter(name: str, help_text: str, field_name: str) -> Metric[Figures]:
    """Return the row of one of the counts that each topic has."""

    def read(figures: Figures) -> Iterable[Sample]:
        for topic, counts in figures.retrying.counts.items():
            yield (topic,), getattr(counts, field_name)

    return Metric(f"penstock_worker_{name}_total", MetricKind.COUNTER, help_text, read, _TOPIC)


def _durations(figures: Figures) -> Iterable[Sample]:
    for topic, times in figures.times.items():
        yield (topic,), times.histogram_seconds()


ROWS: tuple[Metric[Figures], ...] = (
    _counter("attempts", "Calls of handlers.", "tried"),
    _counter("succeeded", "Records that were handled.", "succeeded"),
    _counter("retried", "Records that failed and went to a retry topic.", "retried"),
    _counter("dead", "Records that went to the dead-letter topic.", "dead"),
    _counter(
        "waited_behind", "Records that went to a retry topic behind another of their key.", "behind"
    ),
    _counter(
        "duplicates", "Records that were skipped because their event was handled before.", "seen"
    ),
    Metric(
        "penstock_worker_handler_seconds",
        MetricKind.HISTOGRAM,
        "How long handlers took.",
        _durations,
        _TOPIC,
        "seconds",
    ),
    Metric(
        "penstock_worker_in_flight",
        MetricKind.GAUGE,
        "Records that are read and not committed.",
        single(lambda figures: figures.retrying.in_flight),
    ),
    Metric(
        "penstock_worker_held",
        MetricKind.GAUGE,
        "Records of retry topics that are held in memory until they are due.",
        single(lambda figures: figures.retrying.held),
    ),
    Metric(
        "penstock_worker_partitions",
        MetricKind.GAUGE,
        "Source partitions that this process works on.",
        single(lambda figures: len(figures.retrying.partitions)),
    ),
    Metric(
        "penstock_worker_transactions_total",
        MetricKind.COUNTER,
        "Transactions that were committed.",
        single(lambda figures: figures.retrying.transactions),
    ),
    Metric(
        "penstock_worker_restarts_total",
        MetricKind.COUNTER,
        "How often the clients were closed and created again.",
        single(lambda figures: figures.retrying.restarts),
    ),
)
check_table(ROWS)
