"""Settings of a topic as plain values, and the checks that they require of a batch."""

from penstock.config.topic import TopicConfig
from penstock.log.config import UNBOUNDED, LogConfig
from penstock.wire.batch import (
    HEADER,
    MAX_TIMESTAMP,
    Header,
    needs_time_check,
    stamp_append_time,
)
from penstock.wire.compression import NAMES, NONE, unpacked_bytes_max
from penstock.world import Buffer


class TopicSettings:
    """Shared by all partitions of a topic; replaced when its configuration changes."""

    def __init__(self, config: TopicConfig, producer_expiration_ms: int) -> None:
        policies = config.texts("cleanup.policy")
        self.message_bytes_max = config.integer("max.message.bytes")
        self.unpacked_bytes_max = unpacked_bytes_max(self.message_bytes_max)
        self.min_insync = config.integer("min.insync.replicas")
        self.append_time = config.text("message.timestamp.type") == "LogAppendTime"
        self.compact = "compact" in policies
        self.timestamp_before_ms_max = config.integer("message.timestamp.before.max.ms")
        self.timestamp_after_ms_max = config.integer("message.timestamp.after.max.ms")
        # The codec that batches are stored in, and its level; None is the producer's own
        self.codec, self.level = _compression(config)
        self.flush_messages = config.integer("flush.messages")
        self.flush_ms = config.integer("flush.ms")
        self.flushes = self.flush_messages < UNBOUNDED or self.flush_ms < UNBOUNDED
        # Whether a batch can be stored as it is, by its header alone: always, or if it is in the
        # codec of the topic
        by_header = not (
            self.append_time or self.compact or self.timestamp_before_ms_max < UNBOUNDED
        )
        self.plain = by_header and self.codec is None
        self.plain_in_codec = by_header and self.codec is not None
        self.log = LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=self._segment_ms(config),
            segment_jitter_ms=config.integer("segment.jitter.ms"),
            index_interval_bytes=config.integer("index.interval.bytes"),
            index_bytes_max=config.integer("segment.index.bytes"),
            message_bytes_max=self.message_bytes_max,
            append_time=self.append_time,
            timestamp_before_ms_max=self.timestamp_before_ms_max,
            timestamp_after_ms_max=self.timestamp_after_ms_max,
            retention_ms=config.integer("retention.ms"),
            retention_bytes=config.integer("retention.bytes"),
            delete="delete" in policies,
            compact=self.compact,
            min_cleanable_ratio=config.number("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=config.integer("min.compaction.lag.ms"),
            max_compaction_lag_ms=config.integer("max.compaction.lag.ms"),
            delete_retention_ms=config.integer("delete.retention.ms"),
            file_delete_delay_ms=config.integer("file.delete.delay.ms"),
            producer_expiration_ms=producer_expiration_ms,
            preallocate=config.boolean("preallocate"),
        )

    def _segment_ms(self, config: TopicConfig) -> int:
        """Return segment.ms, at most max.compaction.lag.ms: only closed segments are compacted."""
        segment_ms = config.integer("segment.ms")
        lag_ms = config.integer("max.compaction.lag.ms")
        return min(segment_ms, lag_ms) if self.compact else segment_ms

    def needs_look(self, header: Header, now_ms: int) -> bool:
        """Return whether the records of a batch must be looked at before they are stored."""
        if self.append_time:
            return self.compact
        if self.plain and header[MAX_TIMESTAMP] <= now_ms + self.timestamp_after_ms_max:
            return False
        return self.compact or needs_time_check(
            header,
            now_ms,
            before_ms_max=self.timestamp_before_ms_max,
            after_ms_max=self.timestamp_after_ms_max,
        )

    def as_stored(self, batch: Buffer, header: Header, now_ms: int) -> tuple[Buffer, Header]:
        """Return the batch as the log stores it."""
        if not self.append_time:
            return batch, header
        stamped = stamp_append_time(batch, now_ms)
        return stamped, HEADER.unpack_from(stamped)


def _compression(config: TopicConfig) -> tuple[int | None, int | None]:
    name = config.text("compression.type")
    if name == "producer":
        return None, None
    if name == "uncompressed":
        return NONE, None
    levelled = name in ("gzip", "lz4", "zstd")
    return NAMES.index(name), config.integer(f"compression.{name}.level") if levelled else None
