"""The broker's own settings as plain values, read once per change instead of once per request."""

from dataclasses import dataclass

from penstock.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class Settings:
    """What the shell looks at while it works."""

    socket_request_bytes_max: int
    connections_max: int
    connections_per_address_max: int
    connections_idle_ms_max: int
    fetch_bytes_max: int
    session_slots: int
    session_eviction_ms: int
    auto_create_topics: bool
    partitions_default: int
    file_delete_delay_ms: int
    retention_check_ms: int
    checkpoint_ms: int
    start_offset_checkpoint_ms: int
    high_watermark_checkpoint_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> "Settings":
        whole = config.integer
        return cls(
            socket_request_bytes_max=whole("socket.request.max.bytes"),
            connections_max=whole("max.connections"),
            connections_per_address_max=whole("max.connections.per.ip"),
            connections_idle_ms_max=whole("connections.max.idle.ms"),
            fetch_bytes_max=whole("fetch.max.bytes"),
            session_slots=whole("max.incremental.fetch.session.cache.slots"),
            session_eviction_ms=120_000,
            auto_create_topics=config.boolean("auto.create.topics.enable"),
            partitions_default=whole("num.partitions"),
            file_delete_delay_ms=whole("log.segment.delete.delay.ms"),
            retention_check_ms=whole("log.retention.check.interval.ms"),
            checkpoint_ms=whole("log.flush.offset.checkpoint.interval.ms"),
            start_offset_checkpoint_ms=whole("log.flush.start.offset.checkpoint.interval.ms"),
            high_watermark_checkpoint_ms=whole("replica.high.watermark.checkpoint.interval.ms"),
        )
