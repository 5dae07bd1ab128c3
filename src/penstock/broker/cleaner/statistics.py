"""Numbers of the cleaner, with the meaning that Kafka's metrics have."""

from penstock.log.compaction.order import CleaningReport


class CleanerStatistics:
    """Counted where a run ends; nothing is counted per record or per turn."""

    def __init__(self, now_ms: int) -> None:
        self.runs = 0
        self.aborted_runs = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_kept = 0
        self.keyless_dropped = 0
        self.seconds = 0.0
        self.last: CleaningReport | None = None
        self.last_seconds = 0.0
        self.last_look_ms = now_ms  # wall clock: when the logs were last looked at
        self.dirty_ratio_max = 0.0
        self.compaction_delay_ms_max = 0
        self.process_deaths = 0
        self.uncleanable = 0

    def ran(self, report: CleaningReport, seconds: float) -> None:
        self.runs += 1
        self.bytes_read += report.bytes_read
        self.bytes_written += report.bytes_written
        self.records_read += report.records_read
        self.records_kept += report.records_kept
        self.keyless_dropped += report.keyless_dropped
        self.seconds += seconds
        self.last = report
        self.last_seconds = seconds

    # As Kafka's metrics have them.

    @property
    def max_dirty_percent(self) -> int:
        return int(100 * self.dirty_ratio_max)

    @property
    def max_compaction_delay_seconds(self) -> int:
        return self.compaction_delay_ms_max // 1000

    @property
    def max_buffer_utilization_percent(self) -> int:
        return int(100 * self.last.map_used) if self.last else 0

    @property
    def cleaner_recopy_percent(self) -> int:
        """Return the share of the bytes read by the last job that were written again."""
        if self.last is None or not self.last.bytes_read:
            return 0
        return 100 * self.last.bytes_written // self.last.bytes_read

    @property
    def max_clean_time_seconds(self) -> int:
        return int(self.last_seconds)

    def time_since_last_run_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.last_look_ms)
