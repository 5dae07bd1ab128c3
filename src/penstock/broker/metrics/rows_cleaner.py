"""Rows of the table: compaction."""

from collections.abc import Callable, Iterable

from penstock.broker.cleaner.statistics import CleanerStatistics
from penstock.broker.metrics.row import Row, RowReader, labelled, row
from penstock.broker.metrics.snapshot import MetricsSnapshot
from penstock.broker.partitions.partition import Partition
from penstock.observe.metric import Number, Sample


def _cleaner(
    name: str, about: str, value: Callable[[CleanerStatistics], Number], unit: str = ""
) -> Row:
    return row(name, about, lambda seen: value(seen.broker.cleaner.statistics), unit)


def _gauge(
    name: str, about: str, value: Callable[[CleanerStatistics], Number], unit: str = ""
) -> Row:
    return _cleaner(f"kafka_log_{name}", about, value, unit)


def _counter(
    name: str, about: str, value: Callable[[CleanerStatistics], Number], unit: str = ""
) -> Row:
    return _cleaner(f"penstock_cleaner_{name}_total", about, value, unit)


def _uncleanable(count: Callable[[Partition], int]) -> RowReader:
    """Return the sums over partitions that the cleaner has given up, by log directory."""

    def read(seen: MetricsSnapshot) -> Iterable[Sample]:
        found = dict.fromkeys((each.directory for each in seen.directories), 0)
        for partition in seen.broker.cleaner.uncleanable:
            found[partition.directory] = found.get(partition.directory, 0) + count(partition)
        return [((directory.disk.root,), total) for directory, total in found.items()]

    return read


ROWS: tuple[Row, ...] = (
    _gauge(
        "logcleanermanager_max_dirty_percent",
        "The dirtiest log that was looked at: the part, 0 to 100, that was not cleaned yet.",
        lambda it: it.max_dirty_percent,
    ),
    row(
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        "Since the cleaner last looked for work.",
        lambda seen: seen.broker.cleaner.statistics.time_since_last_run_ms(seen.wall_ms),
        "ms",
    ),
    labelled(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Partitions that the cleaner has given up; /status, `penstock log status` and the log say "
        "which, why, and what to do. Should be 0.",
        _uncleanable(lambda _: 1),
        "logdirectory",
    ),
    labelled(
        "kafka_log_logcleanermanager_uncleanable_bytes",
        "Size of those partitions.",
        _uncleanable(lambda partition: partition.log.size),
        "logdirectory",
        unit="bytes",
    ),
    _gauge(
        "logcleaner_max_buffer_utilization_percent",
        "How full the table of keys was in the last run; near 100 a log takes several passes "
        "(log.cleaner.dedupe.buffer.size).",
        lambda it: it.max_buffer_utilization_percent,
    ),
    _gauge(
        "logcleaner_cleaner_recopy_percent",
        "Of the bytes that the last run read, those it wrote again.",
        lambda it: it.cleaner_recopy_percent,
    ),
    _gauge(
        "logcleaner_max_clean_time_secs",
        "How long the last run took.",
        lambda it: it.max_clean_time_seconds,
        "secs",
    ),
    _gauge(
        "logcleaner_max_compaction_delay_secs",
        "How long a record has waited beyond max.compaction.lag.ms.",
        lambda it: it.max_compaction_delay_seconds,
        "secs",
    ),
    _counter("runs", "Runs of the cleaner that ended well.", lambda it: it.runs),
    _counter("aborted_runs", "Runs that ended early.", lambda it: it.aborted_runs),
    _counter("read_bytes", "Bytes that the cleaner has read.", lambda it: it.bytes_read, "bytes"),
    _counter(
        "written_bytes", "Bytes that the cleaner has written.", lambda it: it.bytes_written, "bytes"
    ),
    _counter("read_records", "Records that the cleaner has read.", lambda it: it.records_read),
    _counter("kept_records", "Records that it has kept.", lambda it: it.records_kept),
    _counter(
        "keyless_records",
        "Records without a key that it has dropped: they were there before their topic was "
        "compacted.",
        lambda it: it.keyless_dropped,
    ),
    _counter(
        "process_deaths",
        "Processes for compaction that ended before their work did.",
        lambda it: it.process_deaths,
    ),
)
