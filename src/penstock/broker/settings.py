"""The broker's own settings as plain values, read once per change instead of once per request."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.config.broker import BrokerConfig, ConfigSource

REQUEST_BYTES_MAX = 1024 * 1024 * 1024  # of all requests of a node, where no setting says less


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of the broker that may change while it runs, as plain values."""

    socket_request_bytes_max: int
    request_bytes_max: int
    requests_max: int
    connections_max: int
    connections_per_address_max: int
    connections_per_address: Mapping[str, int]
    connections_idle_ms_max: int
    fetch_bytes_max: int
    move_bytes_per_second_max: int
    disk_reserve_bytes: int
    session_slots: int
    session_eviction_ms: int
    auto_create_topics: bool
    partitions_default: int
    file_delete_delay_ms: int
    retention_check_ms: int
    producer_expiry_check_ms: int
    first_duty_ms: int
    background_threads: int | None
    checkpoint_ms: int
    start_offset_checkpoint_ms: int
    high_watermark_checkpoint_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> "BrokerSettings":
        whole = config.integer
        return cls(
            socket_request_bytes_max=whole("socket.request.max.bytes"),
            request_bytes_max=_request_bytes_max(config),
            requests_max=whole("queued.max.requests"),
            connections_max=whole("max.connections"),
            connections_per_address_max=whole("max.connections.per.ip"),
            connections_per_address=config.connections_per_address,
            connections_idle_ms_max=whole("connections.max.idle.ms"),
            fetch_bytes_max=whole("fetch.max.bytes"),
            disk_reserve_bytes=whole("log.disk.reserve.bytes"),
            move_bytes_per_second_max=whole("replica.alter.log.dirs.io.max.bytes.per.second"),
            session_slots=whole("max.incremental.fetch.session.cache.slots"),
            session_eviction_ms=120_000,
            auto_create_topics=config.boolean("auto.create.topics.enable"),
            partitions_default=whole("num.partitions"),
            file_delete_delay_ms=whole("log.segment.delete.delay.ms"),
            retention_check_ms=whole("log.retention.check.interval.ms"),
            producer_expiry_check_ms=whole("producer.id.expiration.check.interval.ms"),
            first_duty_ms=whole("log.initial.task.delay.ms"),
            background_threads=_if_set(config, "background.threads"),
            checkpoint_ms=whole("log.flush.offset.checkpoint.interval.ms"),
            start_offset_checkpoint_ms=whole("log.flush.start.offset.checkpoint.interval.ms"),
            high_watermark_checkpoint_ms=whole("replica.high.watermark.checkpoint.interval.ms"),
        )


def _request_bytes_max(config: BrokerConfig) -> int:
    wanted = config.integer("queued.max.request.bytes")
    return wanted if wanted > 0 else REQUEST_BYTES_MAX


def _if_set(config: BrokerConfig, name: str) -> int | None:
    return None if config.source(name) is ConfigSource.DEFAULT else config.integer(name)
