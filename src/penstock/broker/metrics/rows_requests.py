"""Rows of the table: requests, connections, and what waits."""

from collections.abc import Callable, Iterable, Iterator

from penstock.broker.metrics.snapshot import MetricsSnapshot
from penstock.broker.network.listener import BrokerListener
from penstock.broker.request_metrics import OTHER_VERSION, PRODUCE
from penstock.errors import from_code
from penstock.observe.metric import Metric, MetricKind, Number, Sample, single
from penstock.observe.times import Times
from penstock.wire.apis import APIS

FETCH = 1


def _names(key: int) -> tuple[str, ...]:
    """Return the names of an API. As in Kafka, fetches count as FetchConsumer, too."""
    return ("Fetch", "FetchConsumer") if key == FETCH else (APIS[key].name,)


def _requests(seen: MetricsSnapshot) -> Iterator[Sample]:
    broker = seen.broker
    found = dict(broker.request_metrics.requests)
    for version, count in enumerate(broker.produce_cache.requests):
        if count:
            found[PRODUCE, version] = count
    for (key, version), count in sorted(found.items()):
        for name in _names(key):
            yield (name, "other" if version == OTHER_VERSION else str(version)), count


def _errors(seen: MetricsSnapshot) -> Iterator[Sample]:
    for (key, code), count in sorted(seen.broker.request_metrics.errors.items()):
        for name in _names(key):
            yield (name, from_code(code).kafka_name()), count


def _times(seen: MetricsSnapshot) -> Iterator[tuple[str, Times]]:
    for key, times in sorted(seen.broker.request_metrics.times.items()):
        if times.count:
            for name in _names(key):
                yield name, times


def _summaries(seen: MetricsSnapshot) -> Iterator[Sample]:
    for name, times in _times(seen):
        yield (name,), times.summary(seen.mono_ms)


def _histograms(seen: MetricsSnapshot) -> Iterator[Sample]:
    for name, times in _times(seen):
        if name != "FetchConsumer":
            yield (name,), times.histogram_seconds()


def _per_listener(
    value: Callable[[BrokerListener], Number],
) -> Callable[[MetricsSnapshot], Iterable[Sample]]:
    return lambda seen: [((each.name,), value(each)) for each in seen.broker.listeners]


def _cache_hits(seen: MetricsSnapshot) -> int:
    cache = seen.broker.produce_cache
    return sum(cache.requests) - cache.misses


ROWS: tuple[Metric[MetricsSnapshot], ...] = (
    Metric(
        "kafka_network_requestmetrics_requests_total",
        MetricKind.COUNTER,
        "Requests that were taken up, by API and version.",
        _requests,
        ("request", "version"),
    ),
    Metric(
        "kafka_network_requestmetrics_errors_total",
        MetricKind.COUNTER,
        "Errors in answers, each place in an answer that has one; without NONE.",
        _errors,
        ("request", "error"),
    ),
    Metric(
        "kafka_network_requestmetrics_totaltimems",
        MetricKind.SUMMARY,
        "Milliseconds from taking a request up to its answer, long polls included; quantiles of "
        "the last minutes, at most a quarter too large.",
        _summaries,
        ("request",),
        "ms",
    ),
    Metric(
        "penstock_request_seconds",
        MetricKind.HISTOGRAM,
        "The same times in buckets, to be summed over nodes.",
        _histograms,
        ("request",),
        "seconds",
    ),
    Metric(
        "kafka_server_socket_server_metrics_connection_count",
        MetricKind.GAUGE,
        "Open connections.",
        _per_listener(lambda it: len(it.connections)),
        ("listener",),
    ),
    Metric(
        "kafka_server_socket_server_metrics_connection_creation_total",
        MetricKind.COUNTER,
        "Connections that were accepted, those that were turned away at once among them.",
        _per_listener(lambda it: it.opened),
        ("listener",),
    ),
    Metric(
        "kafka_server_socket_server_metrics_connection_close_total",
        MetricKind.COUNTER,
        "Connections that have ended.",
        _per_listener(lambda it: it.opened - len(it.connections)),
        ("listener",),
    ),
    Metric(
        "kafka_server_socket_server_metrics_incoming_byte_total",
        MetricKind.COUNTER,
        "Bytes of requests that were received.",
        _per_listener(lambda it: it.received_bytes),
        ("listener",),
        "bytes",
    ),
    Metric(
        "kafka_server_socket_server_metrics_outgoing_byte_total",
        MetricKind.COUNTER,
        "Bytes of answers that were handed over for sending.",
        _per_listener(lambda it: it.sent_bytes),
        ("listener",),
        "bytes",
    ),
    Metric(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        MetricKind.GAUGE,
        "The part of the last minute, 0 to 1, in which the loop had nothing to do. Below 0.3 it is "
        "time for another node.",
        single(lambda seen: seen.idle),
    ),
    Metric(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        MetricKind.GAUGE,
        "The same: one loop does both.",
        single(lambda seen: seen.idle),
    ),
    Metric(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        MetricKind.GAUGE,
        "Requests that wait: batches for their acknowledgement, fetches for records.",
        lambda seen: (
            (("Produce",), seen.waiting_produces),
            (("Fetch",), seen.broker.request_metrics.parked_fetches),
        ),
        ("delayedoperation",),
    ),
    Metric(
        "kafka_network_requestchannel_requestqueuesize",
        MetricKind.GAUGE,
        "Requests that wait for work off the loop; queued.max.requests is their limit.",
        single(lambda seen: seen.broker.backpressure.requests),
    ),
    Metric(
        "penstock_recompressed_batches_total",
        MetricKind.COUNTER,
        "Batches that were compressed anew because of their topic's compression.type.",
        single(lambda seen: seen.broker.recompression.recompressed),
    ),
    Metric(
        "penstock_recompressed_read_bytes_total",
        MetricKind.COUNTER,
        "Bytes of those batches before.",
        single(lambda seen: seen.broker.recompression.bytes_in),
        (),
        "bytes",
    ),
    Metric(
        "penstock_recompressed_written_bytes_total",
        MetricKind.COUNTER,
        "Bytes of those batches after.",
        single(lambda seen: seen.broker.recompression.bytes_out),
        (),
        "bytes",
    ),
    Metric(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        MetricKind.GAUGE,
        "Fetch sessions.",
        single(lambda seen: len(seen.broker.sessions)),
    ),
    Metric(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        MetricKind.GAUGE,
        "Partitions in fetch sessions.",
        single(lambda seen: seen.broker.sessions.describe()["partitions"]),
    ),
    Metric(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        MetricKind.COUNTER,
        "Fetch sessions that had to go because others needed the room.",
        single(lambda seen: seen.broker.sessions.evictions),
    ),
    Metric(
        "penstock_refusals_total",
        MetricKind.COUNTER,
        "Connections that were closed because of what they sent, or because of a limit.",
        single(lambda seen: seen.broker.rejections.rejected),
    ),
    Metric(
        "penstock_frame_bytes",
        MetricKind.GAUGE,
        "Memory of requests that have not arrived whole, or wait.",
        single(lambda seen: seen.broker.frames.lent_bytes),
        (),
        "bytes",
    ),
    Metric(
        "penstock_produce_memo_hits_total",
        MetricKind.COUNTER,
        "Produce requests that were understood by their known beginning.",
        single(_cache_hits),
    ),
    Metric(
        "penstock_produce_memo_misses_total",
        MetricKind.COUNTER,
        "Produce requests that had to be read field by field.",
        single(lambda seen: seen.broker.produce_cache.misses),
    ),
    Metric(
        "penstock_cold_reads_total",
        MetricKind.COUNTER,
        "Reads that had to wait for the disk; others went on meanwhile.",
        single(lambda seen: seen.broker.request_metrics.cold_reads),
    ),
)
