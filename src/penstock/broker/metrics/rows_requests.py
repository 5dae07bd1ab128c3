"""Rows of the table: requests, connections, and what waits."""

from collections.abc import Callable, Iterable, Iterator

from penstock.broker.listener import Listener
from penstock.broker.metrics.counts import OTHER_VERSION, PRODUCE
from penstock.broker.metrics.seen import Seen
from penstock.errors import from_code
from penstock.observe.metric import Kind, Number, Row, Sample, single
from penstock.observe.times import Times
from penstock.wire.apis import APIS

FETCH = 1


def _names(key: int) -> tuple[str, ...]:
    """As Kafka has it, fetches of consumers are told under a name of their own, too."""
    return ("Fetch", "FetchConsumer") if key == FETCH else (APIS[key].name,)


def _requests(seen: Seen) -> Iterator[Sample]:
    broker = seen.broker
    found = dict(broker.counts.requests)
    for version, count in enumerate(broker.produce_memo.requests):
        if count:
            found[PRODUCE, version] = count
    for (key, version), count in sorted(found.items()):
        for name in _names(key):
            yield (name, "other" if version == OTHER_VERSION else str(version)), count


def _errors(seen: Seen) -> Iterator[Sample]:
    for (key, code), count in sorted(seen.broker.counts.errors.items()):
        for name in _names(key):
            yield (name, from_code(code).kafka_name()), count


def _times(seen: Seen) -> Iterator[tuple[str, Times]]:
    for key, times in sorted(seen.broker.counts.times.items()):
        if times.count:
            for name in _names(key):
                yield name, times


def _summaries(seen: Seen) -> Iterator[Sample]:
    for name, times in _times(seen):
        yield (name,), times.summary(seen.mono_ms)


def _histograms(seen: Seen) -> Iterator[Sample]:
    for name, times in _times(seen):
        if name != "FetchConsumer":
            yield (name,), times.histogram_seconds()


def _per_listener(value: Callable[[Listener], Number]) -> Callable[[Seen], Iterable[Sample]]:
    return lambda seen: [((each.name,), value(each)) for each in seen.broker.listeners]


def _memo_hits(seen: Seen) -> int:
    memo = seen.broker.produce_memo
    return sum(memo.requests) - memo.misses


ROWS: tuple[Row[Seen], ...] = (
    Row(
        "kafka_network_requestmetrics_requests_total",
        Kind.COUNTER,
        "Requests that were taken up, by API and version.",
        _requests,
        ("request", "version"),
    ),
    Row(
        "kafka_network_requestmetrics_errors_total",
        Kind.COUNTER,
        "Errors in answers, each place in an answer that has one; without NONE.",
        _errors,
        ("request", "error"),
    ),
    Row(
        "kafka_network_requestmetrics_totaltimems",
        Kind.SUMMARY,
        "Milliseconds from taking a request up to its answer, long polls included; quantiles of "
        "the last minutes, at most a quarter too large.",
        _summaries,
        ("request",),
        "ms",
    ),
    Row(
        "penstock_request_seconds",
        Kind.HISTOGRAM,
        "The same times in buckets, to be summed over nodes.",
        _histograms,
        ("request",),
        "seconds",
    ),
    Row(
        "kafka_server_socket_server_metrics_connection_count",
        Kind.GAUGE,
        "Open connections.",
        _per_listener(lambda it: len(it.connections)),
        ("listener",),
    ),
    Row(
        "kafka_server_socket_server_metrics_connection_creation_total",
        Kind.COUNTER,
        "Connections that were accepted, those that were turned away at once among them.",
        _per_listener(lambda it: it.opened),
        ("listener",),
    ),
    Row(
        "kafka_server_socket_server_metrics_connection_close_total",
        Kind.COUNTER,
        "Connections that have ended.",
        _per_listener(lambda it: it.opened - len(it.connections)),
        ("listener",),
    ),
    Row(
        "kafka_server_socket_server_metrics_incoming_byte_total",
        Kind.COUNTER,
        "Bytes of requests that were received.",
        _per_listener(lambda it: it.received_bytes),
        ("listener",),
        "bytes",
    ),
    Row(
        "kafka_server_socket_server_metrics_outgoing_byte_total",
        Kind.COUNTER,
        "Bytes of answers that were handed over for sending.",
        _per_listener(lambda it: it.sent_bytes),
        ("listener",),
        "bytes",
    ),
    Row(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        Kind.GAUGE,
        "The part of the last minute, 0 to 1, in which the loop had nothing to do. Below 0.3 it is "
        "time for another node.",
        single(lambda seen: seen.idle),
    ),
    Row(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        Kind.GAUGE,
        "The same: one loop does both.",
        single(lambda seen: seen.idle),
    ),
    Row(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        Kind.GAUGE,
        "Requests that wait: batches for their acknowledgement, fetches for records.",
        lambda seen: (
            (("Produce",), seen.waiting_produces),
            (("Fetch",), seen.broker.counts.parked_fetches),
        ),
        ("delayedoperation",),
    ),
    Row(
        "kafka_network_requestchannel_requestqueuesize",
        Kind.GAUGE,
        "Requests that wait for work off the loop; queued.max.requests is their limit.",
        single(lambda seen: seen.broker.backlog.requests),
    ),
    Row(
        "penstock_recompressed_batches_total",
        Kind.COUNTER,
        "Batches that were compressed anew because of their topic's compression.type.",
        single(lambda seen: seen.broker.recompression.recompressed),
    ),
    Row(
        "penstock_recompressed_read_bytes_total",
        Kind.COUNTER,
        "Bytes of those batches before.",
        single(lambda seen: seen.broker.recompression.bytes_in),
        (),
        "bytes",
    ),
    Row(
        "penstock_recompressed_written_bytes_total",
        Kind.COUNTER,
        "Bytes of those batches after.",
        single(lambda seen: seen.broker.recompression.bytes_out),
        (),
        "bytes",
    ),
    Row(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        Kind.GAUGE,
        "Fetch sessions.",
        single(lambda seen: len(seen.broker.sessions)),
    ),
    Row(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        Kind.GAUGE,
        "Partitions in fetch sessions.",
        single(lambda seen: seen.broker.sessions.describe()["partitions"]),
    ),
    Row(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        Kind.COUNTER,
        "Fetch sessions that had to go because others needed the room.",
        single(lambda seen: seen.broker.sessions.evictions),
    ),
    Row(
        "penstock_refusals_total",
        Kind.COUNTER,
        "Connections that were closed because of what they sent, or because of a limit.",
        single(lambda seen: seen.broker.observe.refusals),
    ),
    Row(
        "penstock_frame_bytes",
        Kind.GAUGE,
        "Memory of requests that have not arrived whole, or wait.",
        single(lambda seen: seen.broker.frames.lent_bytes),
        (),
        "bytes",
    ),
    Row(
        "penstock_produce_memo_hits_total",
        Kind.COUNTER,
        "Produce requests that were understood by their known beginning.",
        single(_memo_hits),
    ),
    Row(
        "penstock_produce_memo_misses_total",
        Kind.COUNTER,
        "Produce requests that had to be read field by field.",
        single(lambda seen: seen.broker.produce_memo.misses),
    ),
    Row(
        "penstock_cold_reads_total",
        Kind.COUNTER,
        "Reads that had to wait for the disk; others went on meanwhile.",
        single(lambda seen: seen.broker.counts.cold_reads),
    ),
)
