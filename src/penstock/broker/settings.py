"""The broker's own settings as plain values, read once per change instead of once per request."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.config.broker import BrokerConfig, ConfigSource
from penstock.config.exposure import exposed
from penstock.config.key_fields import configured, read_configured

REQUEST_BYTES_MAX = 1024 * 1024 * 1024  # of all requests of a node, where no setting says less


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of the broker that may change while it runs, as plain values."""

    request_bytes_max: int
    connections_per_address: Mapping[str, int]
    exposed: tuple[str, ...]  # a sentence for each unprotected listener
    background_threads: int | None
    socket_request_bytes_max: int = configured("socket.request.max.bytes")
    requests_max: int = configured("queued.max.requests")
    connections_max: int = configured("max.connections")
    connections_per_address_max: int = configured("max.connections.per.ip")
    connections_idle_ms_max: int = configured("connections.max.idle.ms")
    fetch_bytes_max: int = configured("fetch.max.bytes")
    move_bytes_per_second_max: int = configured("replica.alter.log.dirs.io.max.bytes.per.second")
    disk_reserve_bytes: int = configured("log.disk.reserve.bytes")
    session_slots: int = configured("max.incremental.fetch.session.cache.slots")
    auto_create_topics: bool = configured("auto.create.topics.enable")
    file_delete_delay_ms: int = configured("log.segment.delete.delay.ms")
    retention_check_ms: int = configured("log.retention.check.interval.ms")
    producer_expiry_check_ms: int = configured("producer.id.expiration.check.interval.ms")
    first_duty_ms: int = configured("log.initial.task.delay.ms")
    checkpoint_ms: int = configured("log.flush.offset.checkpoint.interval.ms")
    start_offset_checkpoint_ms: int = configured("log.flush.start.offset.checkpoint.interval.ms")
    replica_lag_ms_max: int = configured("replica.lag.time.max.ms")
    replica_backoff_ms: int = configured("replica.fetch.backoff.ms")
    replica_fetch_bytes_max: int = configured("replica.fetch.max.bytes")
    replica_fetch_bytes_min: int = configured("replica.fetch.min.bytes")
    replica_response_bytes_max: int = configured("replica.fetch.response.max.bytes")
    replica_fetch_wait_ms: int = configured("replica.fetch.wait.max.ms")
    replica_socket_timeout_ms: int = configured("replica.socket.timeout.ms")
    high_watermark_checkpoint_ms: int = configured("replica.high.watermark.checkpoint.interval.ms")

    @classmethod
    def of(cls, config: BrokerConfig) -> "BrokerSettings":
        return read_configured(
            cls,
            config,
            request_bytes_max=_request_bytes_max(config),
            connections_per_address=config.connections_per_address,
            exposed=exposed(config),
            background_threads=_if_set(config, "background.threads"),
        )


def _request_bytes_max(config: BrokerConfig) -> int:
    wanted = config.integer("queued.max.request.bytes")
    return wanted if wanted > 0 else REQUEST_BYTES_MAX


def _if_set(config: BrokerConfig, name: str) -> int | None:
    return None if config.source(name) is ConfigSource.DEFAULT else config.integer(name)
