"""Rows of the table: requests, connections, and what waits."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics.row import Row, RowReader, labelled, row
from penstock.broker.metrics.snapshot import MetricsSnapshot
from penstock.broker.network.listener import BrokerListener
from penstock.broker.request_metrics import OTHER_VERSION, PRODUCE
from penstock.errors import from_code
from penstock.observe.metric import Metric, MetricKind, Number, Sample
from penstock.observe.times import Times
from penstock.wire.apis import APIS

if TYPE_CHECKING:
    from penstock.broker.logins.listener_logins import ListenerLogins

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


def _per_listener(value: Callable[[BrokerListener], Number]) -> RowReader:
    return lambda seen: [((each.name,), value(each)) for each in seen.broker.listeners]


def _of_logins(value: "Callable[[ListenerLogins], Number]") -> RowReader:
    """Return a value of each listener with SASL."""
    return lambda seen: [
        ((each.name,), value(each.logins))
        for each in seen.broker.listeners
        if each.logins is not None
    ]


def _logins(name: str, about: str, value: "Callable[[ListenerLogins], Number]") -> Row:
    full = f"kafka_server_socket_server_metrics_{name}"
    return labelled(full, about, _of_logins(value), "listener")


def _cache_hits(seen: MetricsSnapshot) -> int:
    cache = seen.broker.produce_cache
    return sum(cache.requests) - cache.misses


def _certificate_ends(seen: MetricsSnapshot) -> Iterator[Sample]:
    for name, end_ms in seen.broker.tls.ends_ms().items():
        yield (name,), end_ms // 1000


ROWS: tuple[Row, ...] = (
    row(
        "penstock_exposed_listeners",
        "Listeners that a network reaches without a login, or with passwords in clear.",
        lambda seen: len(seen.broker.settings.exposed),
    ),
    labelled(
        "penstock_certificate_end_seconds",
        "When the certificate of a listener ends, in seconds since 1970.",
        _certificate_ends,
        "listener",
        unit="seconds",
    ),
    labelled(
        "kafka_network_requestmetrics_requests_total",
        "Requests that were taken up, by API and version.",
        _requests,
        "request",
        "version",
    ),
    labelled(
        "kafka_network_requestmetrics_errors_total",
        "Errors in answers, each place in an answer that has one; without NONE.",
        _errors,
        "request",
        "error",
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
    labelled(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections.",
        _per_listener(lambda it: it.open_count),
        "listener",
    ),
    labelled(
        "kafka_server_socket_server_metrics_connection_creation_total",
        "Connections that were accepted, those that were turned away at once among them.",
        _per_listener(lambda it: it.opened),
        "listener",
    ),
    labelled(
        "kafka_server_socket_server_metrics_connection_close_total",
        "Connections that have ended.",
        _per_listener(lambda it: it.opened - it.open_count),
        "listener",
    ),
    labelled(
        "kafka_server_socket_server_metrics_incoming_byte_total",
        "Bytes of requests that were received.",
        _per_listener(lambda it: it.received_bytes),
        "listener",
        unit="bytes",
    ),
    labelled(
        "kafka_server_socket_server_metrics_outgoing_byte_total",
        "Bytes of answers that were handed over for sending.",
        _per_listener(lambda it: it.sent_bytes),
        "listener",
        unit="bytes",
    ),
    _logins(
        "successful_authentication_total",
        "Connections that have logged in.",
        lambda it: it.successful,
    ),
    _logins(
        "failed_authentication_total",
        "Connections that were closed without a login: wrong credentials, or other requests.",
        lambda it: it.failed,
    ),
    _logins(
        "successful_reauthentication_total",
        "Later logins of open connections.",
        lambda it: it.successful_again,
    ),
    _logins(
        "failed_reauthentication_total",
        "Later logins that failed and ended their connections.",
        lambda it: it.failed_again,
    ),
    _logins(
        "expired_connections_killed_total",
        "Connections that were closed for a request after the end of their login.",
        lambda it: it.expired,
    ),
    row(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "The part of the last minute, 0 to 1, in which the loop had nothing to do. Below 0.3 it is "
        "time for another node.",
        lambda seen: seen.idle,
    ),
    row(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "The same: one loop does both.",
        lambda seen: seen.idle,
    ),
    labelled(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests that wait: batches for their acknowledgement, fetches for records.",
        lambda seen: (
            (("Produce",), seen.waiting_produces),
            (("Fetch",), seen.broker.request_metrics.parked_fetches),
        ),
        "delayedoperation",
    ),
    row(
        "kafka_network_requestchannel_requestqueuesize",
        "Requests that wait for work off the loop; queued.max.requests is their limit.",
        lambda seen: seen.broker.backpressure.requests,
    ),
    row(
        "penstock_recompressed_batches_total",
        "Batches that were compressed anew because of their topic's compression.type.",
        lambda seen: seen.broker.recompression.recompressed,
    ),
    row(
        "penstock_recompressed_read_bytes_total",
        "Bytes of those batches before.",
        lambda seen: seen.broker.recompression.bytes_in,
        "bytes",
    ),
    row(
        "penstock_recompressed_written_bytes_total",
        "Bytes of those batches after.",
        lambda seen: seen.broker.recompression.bytes_out,
        "bytes",
    ),
    row(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions.",
        lambda seen: len(seen.broker.sessions),
    ),
    row(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions in fetch sessions.",
        lambda seen: seen.broker.sessions.describe()["partitions"],
    ),
    row(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        "Fetch sessions that had to go because others needed the room.",
        lambda seen: seen.broker.sessions.evictions,
    ),
    row(
        "penstock_refusals_total",
        "Connections that were closed because of what they sent, or because of a limit.",
        lambda seen: seen.broker.rejections.rejected,
    ),
    row(
        "penstock_frame_bytes",
        "Memory of requests that have not arrived whole, or wait.",
        lambda seen: seen.broker.frames.lent_bytes,
        "bytes",
    ),
    row(
        "penstock_produce_memo_hits_total",
        "Produce requests that were understood by their known beginning.",
        _cache_hits,
    ),
    row(
        "penstock_produce_memo_misses_total",
        "Produce requests that had to be read field by field.",
        lambda seen: seen.broker.produce_cache.misses,
    ),
    row(
        "penstock_cold_reads_total",
        "Reads that had to wait for the disk; others went on meanwhile.",
        lambda seen: seen.broker.request_metrics.cold_reads,
    ),
)
