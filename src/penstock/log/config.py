"""The settings of a topic that one partition's log uses."""

from dataclasses import dataclass

UNBOUNDED = 2**63 - 1
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Values, not names: `config/` holds the keys and their defaults."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    # Spreads the rolls of many partitions: each segment subtracts its own share, up to this.
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 * 1024 * 1024
    message_bytes_max: int = 1024 * 1024 + 12
    append_time: bool = False
    timestamp_before_ms_max: int = UNBOUNDED
    timestamp_after_ms_max: int = 60 * 60 * 1000
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    delete: bool = True
    compact: bool = False
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNBOUNDED
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60 * 1000
    producer_expiration_ms: int = _DAY_MS
    preallocate: bool = False
