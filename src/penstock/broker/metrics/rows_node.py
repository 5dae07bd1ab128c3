"""Rows of the table: directories, the process, and the loop."""

from collections.abc import Callable, Iterable
from itertools import accumulate

from penstock.broker.metrics.row import Row, RowReader, labelled, row
from penstock.broker.metrics.snapshot import LogDirSnapshot, MetricsSnapshot
from penstock.broker.metrics.status import python_version
from penstock.observe.metric import Metric, MetricKind, Number, Sample, single
from penstock.observe.times import Distribution
from penstock.release import VERSION
from penstock.world import LATE_BOUNDS_MS, ProcessStats

LATE_TURN_MS = 100.0  # a bound of the buckets
STARTING, RUNNING, STOPPING = 1, 3, 6  # Kafka's numbers of a broker's states


def _per_directory(value: Callable[[LogDirSnapshot], Number | None]) -> RowReader:
    def read(seen: MetricsSnapshot) -> Iterable[Sample]:
        for each in seen.directories:
            found = value(each)
            if found is not None:
                yield (each.directory.disk.root,), found

    return read


def _process(
    name: str, about: str, value: Callable[[ProcessStats], Number | None], unit: str = ""
) -> Row:
    return row(name, about, lambda seen: value(seen.vitals), unit)


def _lateness(seen: MetricsSnapshot) -> Distribution | None:
    counts = seen.vitals.late_counts
    if not counts:
        return None
    reached = accumulate(counts)
    buckets = tuple((bound / 1000, next(reached)) for bound in LATE_BOUNDS_MS)
    return Distribution(sum(counts), seen.vitals.late_ms_total / 1000, (), buckets)


def _state(seen: MetricsSnapshot) -> int:
    if seen.broker.stopping:
        return STOPPING
    return RUNNING if seen.broker.ready else STARTING


def _duties(seen: MetricsSnapshot) -> Iterable[Sample]:
    """Return the number of long tasks of each kind, also if it is 0."""
    found = dict.fromkeys(("clean", "delete", "move", "recover"), 0)
    for reporter in seen.broker.reporters:
        for each in reporter.progress():
            found[each.duty] = found.get(each.duty, 0) + 1
    return [((duty,), count) for duty, count in found.items()]


ROWS: tuple[Row, ...] = (
    row(
        "kafka_server_kafkaserver_brokerstate",
        "1 while it starts, 3 while it runs, 6 while it stops.",
        _state,
    ),
    row(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that have failed. Should be 0.",
        lambda seen: sum(each.directory.failed is not None for each in seen.directories),
    ),
    labelled(
        "kafka_log_logmanager_logdirectoryoffline",
        "1 if this log directory has failed.",
        _per_directory(lambda it: int(it.directory.failed is not None)),
        "logdirectory",
    ),
    labelled(
        "penstock_directory_partitions",
        "Partitions in this log directory.",
        _per_directory(lambda it: len(it.directory.partitions)),
        "logdirectory",
    ),
    labelled(
        "penstock_directory_free_bytes",
        "Room left on the file system of this log directory.",
        _per_directory(lambda it: it.free_bytes),
        "logdirectory",
        unit="bytes",
    ),
    labelled(
        "penstock_directory_total_bytes",
        "Size of the file system of this log directory.",
        _per_directory(lambda it: it.total_bytes),
        "logdirectory",
        unit="bytes",
    ),
    labelled(
        "penstock_directory_full",
        "1 while writes to this log directory are refused because it is full. Should be 0.",
        _per_directory(lambda it: int(it.directory.full)),
        "logdirectory",
    ),
    Metric(
        "kafka_log_logflushstats_logflushrateandtimems",
        MetricKind.SUMMARY,
        "Rounds of fsync, and how long they took; quantiles of the last minutes.",
        single(lambda seen: seen.broker.replicas.sync_times.summary(seen.mono_ms)),
        (),
        "ms",
    ),
    row(
        "penstock_deletions_total",
        "Files and directories that were removed after file.delete.delay.ms.",
        lambda seen: seen.broker.replicas.deletions.removed,
    ),
    row(
        "penstock_deletions_waiting",
        "Files and directories that wait for that.",
        lambda seen: seen.broker.replicas.deletions.waiting,
    ),
    labelled(
        "penstock_duties",
        "Long duties under way or waiting; `penstock log status` shows each of them.",
        _duties,
        "duty",
    ),
    labelled(
        "penstock_build_info",
        "1; the labels say what runs here.",
        lambda seen: (((VERSION, python_version(), str(seen.broker.node_id)), 1),),
        "version",
        "python",
        "node_id",
    ),
    _process("penstock_turns_total", "Turns of the loop.", lambda it: it.turns),
    _process(
        "penstock_turns_late_total",
        "Turns of the loop in which something began over 100 ms late. Heartbeats and elections "
        "wait meanwhile. Should be rare.",
        lambda it: sum(it.late_counts[LATE_BOUNDS_MS.index(LATE_TURN_MS) + 1 :]),
    ),
    Metric(
        "penstock_loop_late_seconds",
        MetricKind.HISTOGRAM,
        "How late the loop was when something was due: what a request may have to wait for others.",
        single(_lateness),
        (),
        "seconds",
    ),
    _process(
        "penstock_loop_cpu_seconds_total",
        "Processor time of the loop's thread.",
        lambda it: it.loop_cpu_seconds,
        "seconds",
    ),
    _process(
        "penstock_worker_threads",
        "Threads for work that waits: syncs, cold reads, removals, recompression.",
        lambda it: it.worker_threads,
    ),
    _process(
        "penstock_worker_tasks",
        "Pieces of such work that run or wait for a thread.",
        lambda it: it.worker_tasks,
    ),
    _process(
        "process_cpu_seconds_total",
        "Processor time of this process.",
        lambda it: it.cpu_seconds,
        "seconds",
    ),
    _process(
        "process_resident_memory_bytes",
        "Memory of this process.",
        lambda it: it.resident_bytes,
        "bytes",
    ),
    _process(
        "process_virtual_memory_bytes",
        "Address space of this process.",
        lambda it: it.virtual_bytes,
        "bytes",
    ),
    _process("process_open_fds", "Open files and sockets.", lambda it: it.open_files),
    _process("process_max_fds", "How many may be open (ulimit -n).", lambda it: it.files_max),
    _process(
        "process_start_time_seconds",
        "When this process was started, in seconds since 1970.",
        lambda it: it.started_ms / 1000,
        "seconds",
    ),
)
