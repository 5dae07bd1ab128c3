"""The settings of the group coordinator that cannot change while a broker runs, read once.

Dynamic settings come from coordinator.cluster.ClusterView.
"""

from dataclasses import dataclass

from penstock.config.broker import BrokerConfig
from penstock.config.key_fields import configured, read_configured

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    # classic groups
    session_timeout_ms_min: int = configured("group.min.session.timeout.ms")
    session_timeout_ms_max: int = configured("group.max.session.timeout.ms")
    initial_rebalance_delay_ms: int = configured("group.initial.rebalance.delay.ms")
    size_max: int = configured("group.max.size")
    # offsets
    offset_metadata_bytes_max: int = configured("offset.metadata.max.bytes")
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    offsets_check_interval_ms: int = configured("offsets.retention.check.interval.ms")
    # consumer groups (KIP-848)
    migration_policy: str = configured("group.consumer.migration.policy")
    assignors: tuple[str, ...] = configured("group.consumer.assignors")
    consumer_size_max: int = configured("group.consumer.max.size")
    consumer_session_timeout_ms: int = configured("group.consumer.session.timeout.ms")
    consumer_session_timeout_ms_min: int = configured("group.consumer.min.session.timeout.ms")
    consumer_session_timeout_ms_max: int = configured("group.consumer.max.session.timeout.ms")
    consumer_heartbeat_interval_ms: int = configured("group.consumer.heartbeat.interval.ms")
    consumer_heartbeat_interval_ms_min: int = configured("group.consumer.min.heartbeat.interval.ms")
    consumer_heartbeat_interval_ms_max: int = configured("group.consumer.max.heartbeat.interval.ms")
    consumer_assignment_interval_ms_min: int = configured(
        "group.consumer.min.assignment.interval.ms"
    )
    consumer_assignment_interval_ms_max: int = configured(
        "group.consumer.max.assignment.interval.ms"
    )
    regex_refresh_interval_ms: int = configured("group.consumer.regex.refresh.interval.ms")

    @classmethod
    def of(cls, config: BrokerConfig) -> "GroupSettings":
        return read_configured(
            cls,
            config,
            offsets_retention_ms=config.integer("offsets.retention.minutes") * MINUTE_MS,
            migration_policy=config.text("group.consumer.migration.policy").lower(),
        )
