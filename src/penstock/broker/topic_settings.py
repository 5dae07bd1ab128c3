"""A topic's settings as the shell needs them: plain values, and what they ask of each batch."""

from penstock.config.topic import TopicConfig
from penstock.log.config import UNBOUNDED, LogConfig
from penstock.wire.batch import (
    HEADER,
    MAX_TIMESTAMP,
    Header,
    check_keys,
    check_timestamps,
    stamp_append_time,
)
from penstock.world import Buffer


class TopicSettings:
    """Shared by all partitions of a topic; made anew when its configuration changes."""

    __slots__ = (
        "append_time",
        "compact",
        "log",
        "message_bytes_max",
        "min_insync",
        "plain",
        "timestamp_after_ms_max",
        "timestamp_before_ms_max",
    )

    def __init__(self, config: TopicConfig, producer_expiration_ms: int) -> None:
        policies = config.texts("cleanup.policy")
        self.message_bytes_max = config.integer("max.message.bytes")
        self.min_insync = config.integer("min.insync.replicas")
        self.append_time = config.text("message.timestamp.type") == "LogAppendTime"
        self.compact = "compact" in policies
        self.timestamp_before_ms_max = config.integer("message.timestamp.before.max.ms")
        self.timestamp_after_ms_max = config.integer("message.timestamp.after.max.ms")
        # Whether a batch can be stored by its header alone
        self.plain = not (
            self.append_time or self.compact or self.timestamp_before_ms_max < UNBOUNDED
        )
        self.log = LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.integer("segment.ms"),
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
            file_delete_delay_ms=config.integer("file.delete.delay.ms"),
            producer_expiration_ms=producer_expiration_ms,
        )

    def check_timestamps(self, batch: Buffer, header: Header, now_ms: int) -> None:
        check_timestamps(
            batch,
            header,
            now_ms,
            before_ms_max=self.timestamp_before_ms_max,
            after_ms_max=self.timestamp_after_ms_max,
        )

    def admit(self, batch: memoryview, header: Header, now_ms: int) -> tuple[Buffer, Header]:
        """What the topic asks of a batch beyond its header; the batch as it is to be stored."""
        if self.compact:
            check_keys(batch)
        if self.append_time:
            stamped = stamp_append_time(batch, now_ms)
            return stamped, HEADER.unpack_from(stamped)
        if not self.plain or header[MAX_TIMESTAMP] > now_ms + self.timestamp_after_ms_max:
            self.check_timestamps(batch, header, now_ms)
        return batch, header
