"""What a worker counts, in Prometheus' words."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.observe.metric import Kind, Row, Sample, check_table, single
from penstock.observe.times import Times
from penstock.retry import Counts, Retrying


@dataclass(slots=True)
class Figures:
    """Of one worker."""

    retrying: Retrying
    times: dict[str, Times] = field(default_factory=dict)  # of handlers, by topic


def _each(count: Callable[[Counts], int]) -> Callable[[Figures], Iterable[Sample]]:
    def read(figures: Figures) -> Iterable[Sample]:
        for topic, counts in figures.retrying.counts.items():
            yield (topic,), count(counts)

    return read


def _durations(figures: Figures) -> Iterable[Sample]:
    for topic, times in figures.times.items():
        yield (topic,), times.histogram_seconds()


_TOPIC = ("topic",)
ROWS: tuple[Row[Figures], ...] = (
    Row(
        "penstock_worker_attempts_total",
        Kind.COUNTER,
        "Calls of handlers.",
        _each(lambda counts: counts.tried),
        _TOPIC,
    ),
    Row(
        "penstock_worker_succeeded_total",
        Kind.COUNTER,
        "Records that were handled.",
        _each(lambda counts: counts.succeeded),
        _TOPIC,
    ),
    Row(
        "penstock_worker_retried_total",
        Kind.COUNTER,
        "Records that failed and went to a retry topic.",
        _each(lambda counts: counts.retried),
        _TOPIC,
    ),
    Row(
        "penstock_worker_dead_total",
        Kind.COUNTER,
        "Records that went to the dead-letter topic.",
        _each(lambda counts: counts.dead),
        _TOPIC,
    ),
    Row(
        "penstock_worker_waited_behind_total",
        Kind.COUNTER,
        "Records that went to a retry topic behind another of their key.",
        _each(lambda counts: counts.behind),
        _TOPIC,
    ),
    Row(
        "penstock_worker_duplicates_total",
        Kind.COUNTER,
        "Records that were left out because their event was handled before.",
        _each(lambda counts: counts.seen),
        _TOPIC,
    ),
    Row(
        "penstock_worker_handler_seconds",
        Kind.HISTOGRAM,
        "How long handlers took.",
        _durations,
        _TOPIC,
        "seconds",
    ),
    Row(
        "penstock_worker_in_flight",
        Kind.GAUGE,
        "Records that are read and not committed.",
        single(lambda figures: figures.retrying.in_flight),
    ),
    Row(
        "penstock_worker_held",
        Kind.GAUGE,
        "Records of retry topics that are held in memory until they are due.",
        single(lambda figures: figures.retrying.held),
    ),
    Row(
        "penstock_worker_partitions",
        Kind.GAUGE,
        "Source partitions that this process works on.",
        single(lambda figures: len(figures.retrying.partitions)),
    ),
    Row(
        "penstock_worker_transactions_total",
        Kind.COUNTER,
        "Transactions that were committed.",
        single(lambda figures: figures.retrying.transactions),
    ),
    Row(
        "penstock_worker_restarts_total",
        Kind.COUNTER,
        "How often the clients were given up and made anew.",
        single(lambda figures: figures.retrying.restarts),
    ),
)
check_table(ROWS)
