"""Rows of the table: directories, the process, and the loop."""

from collections.abc import Callable, Iterable
from itertools import accumulate

from penstock.broker.metrics.seen import DirectorySeen, Seen
from penstock.broker.metrics.status import python_version
from penstock.observe.metric import Kind, Number, Row, Sample, single
from penstock.observe.times import Distribution
from penstock.release import VERSION
from penstock.world import LATE_BOUNDS_MS, Vitals

STARTING, RUNNING, STOPPING = 1, 3, 6  # Kafka's numbers of a broker's states


def _per_directory(
    value: Callable[[DirectorySeen], Number | None],
) -> Callable[[Seen], Iterable[Sample]]:
    def read(seen: Seen) -> Iterable[Sample]:
        for each in seen.directories:
            found = value(each)
            if found is not None:
                yield (each.directory.disk.root,), found

    return read


def _process(
    name: str, about: str, value: Callable[[Vitals], Number | None], unit: str = ""
) -> Row[Seen]:
    kind = Kind.COUNTER if name.endswith("_total") else Kind.GAUGE
    return Row(name, kind, about, single(lambda seen: value(seen.vitals)), (), unit)


def _lateness(seen: Seen) -> Distribution | None:
    counts = seen.vitals.late_counts
    if not counts:
        return None
    reached = accumulate(counts)
    buckets = tuple((bound / 1000, next(reached)) for bound in LATE_BOUNDS_MS)
    return Distribution(sum(counts), seen.vitals.late_ms_total / 1000, (), buckets)


def _state(seen: Seen) -> int:
    if seen.broker.stopping:
        return STOPPING
    return RUNNING if seen.broker.ready else STARTING


def _duties(seen: Seen) -> Iterable[Sample]:
    """How many of each are under way; all kinds are told, so that a zero can be seen."""
    found = dict.fromkeys(("clean", "delete", "move", "recover"), 0)
    for reporter in seen.broker.reporters:
        for each in reporter.progress():
            found[each.duty] = found.get(each.duty, 0) + 1
    return [((duty,), count) for duty, count in found.items()]


ROWS: tuple[Row[Seen], ...] = (
    Row(
        "kafka_server_kafkaserver_brokerstate",
        Kind.GAUGE,
        "1 while it starts, 3 while it runs, 6 while it stops.",
        single(_state),
    ),
    Row(
        "kafka_log_logmanager_offlinelogdirectorycount",
        Kind.GAUGE,
        "Log directories that have failed. Should be 0.",
        single(lambda seen: sum(each.directory.failed is not None for each in seen.directories)),
    ),
    Row(
        "kafka_log_logmanager_logdirectoryoffline",
        Kind.GAUGE,
        "1 if this log directory has failed.",
        _per_directory(lambda it: int(it.directory.failed is not None)),
        ("logdirectory",),
    ),
    Row(
        "penstock_directory_partitions",
        Kind.GAUGE,
        "Partitions in this log directory.",
        _per_directory(lambda it: len(it.directory.partitions)),
        ("logdirectory",),
    ),
    Row(
        "penstock_directory_free_bytes",
        Kind.GAUGE,
        "Room left on the file system of this log directory.",
        _per_directory(lambda it: it.free_bytes),
        ("logdirectory",),
        "bytes",
    ),
    Row(
        "penstock_directory_total_bytes",
        Kind.GAUGE,
        "Size of the file system of this log directory.",
        _per_directory(lambda it: it.total_bytes),
        ("logdirectory",),
        "bytes",
    ),
    Row(
        "penstock_directory_full",
        Kind.GAUGE,
        "1 while writes to this log directory are refused because it is full. Should be 0.",
        _per_directory(lambda it: int(it.directory.full)),
        ("logdirectory",),
    ),
    Row(
        "kafka_log_logflushstats_logflushrateandtimems",
        Kind.SUMMARY,
        "Rounds of fsync, and how long they took; quantiles of the last minutes.",
        single(lambda seen: seen.broker.hosting.sync_times.summary(seen.mono_ms)),
        (),
        "ms",
    ),
    Row(
        "penstock_deletions_total",
        Kind.COUNTER,
        "Files and directories that were removed after file.delete.delay.ms.",
        single(lambda seen: seen.broker.hosting.deletions.removed),
    ),
    Row(
        "penstock_deletions_waiting",
        Kind.GAUGE,
        "Files and directories that wait for that.",
        single(lambda seen: seen.broker.hosting.deletions.waiting),
    ),
    Row(
        "penstock_duties",
        Kind.GAUGE,
        "Long duties under way or waiting; `penstock log status` shows each of them.",
        _duties,
        ("duty",),
    ),
    Row(
        "penstock_build_info",
        Kind.GAUGE,
        "1; the labels say what runs here.",
        lambda seen: (((VERSION, python_version(), str(seen.broker.node_id)), 1),),
        ("version", "python", "node_id"),
    ),
    _process("penstock_turns_total", "Turns of the loop.", lambda it: it.turns),
    Row(
        "penstock_loop_late_seconds",
        Kind.HISTOGRAM,
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
