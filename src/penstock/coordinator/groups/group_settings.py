"""The settings of the group coordinator that cannot change while a broker runs, read once.

Dynamic settings come from coordinator.cluster.ClusterView.
"""

from dataclasses import dataclass

from penstock.config.broker import BrokerConfig

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    # classic groups
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    size_max: int = 2**31 - 1
    # offsets
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    offsets_check_interval_ms: int = 600_000
    # consumer groups (KIP-848)
    migration_policy: str = "bidirectional"
    assignors: tuple[str, ...] = ("uniform", "range")
    consumer_size_max: int = 2**31 - 1
    consumer_session_timeout_ms: int = 45_000
    consumer_session_timeout_ms_min: int = 45_000
    consumer_session_timeout_ms_max: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_heartbeat_interval_ms_min: int = 5_000
    consumer_heartbeat_interval_ms_max: int = 15_000
    consumer_assignment_interval_ms_min: int = 0
    consumer_assignment_interval_ms_max: int = 15_000
    regex_refresh_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> "GroupSettings":
        whole = config.integer
        return cls(
            session_timeout_ms_min=whole("group.min.session.timeout.ms"),
            session_timeout_ms_max=whole("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=whole("group.initial.rebalance.delay.ms"),
            size_max=whole("group.max.size"),
            offset_metadata_bytes_max=whole("offset.metadata.max.bytes"),
            offsets_retention_ms=whole("offsets.retention.minutes") * MINUTE_MS,
            offsets_check_interval_ms=whole("offsets.retention.check.interval.ms"),
            migration_policy=str(config.get("group.consumer.migration.policy")).lower(),
            assignors=config.texts("group.consumer.assignors"),
            consumer_size_max=whole("group.consumer.max.size"),
            consumer_session_timeout_ms=whole("group.consumer.session.timeout.ms"),
            consumer_session_timeout_ms_min=whole("group.consumer.min.session.timeout.ms"),
            consumer_session_timeout_ms_max=whole("group.consumer.max.session.timeout.ms"),
            consumer_heartbeat_interval_ms=whole("group.consumer.heartbeat.interval.ms"),
            consumer_heartbeat_interval_ms_min=whole("group.consumer.min.heartbeat.interval.ms"),
            consumer_heartbeat_interval_ms_max=whole("group.consumer.max.heartbeat.interval.ms"),
            consumer_assignment_interval_ms_min=whole("group.consumer.min.assignment.interval.ms"),
            consumer_assignment_interval_ms_max=whole("group.consumer.max.assignment.interval.ms"),
            regex_refresh_interval_ms=whole("group.consumer.regex.refresh.interval.ms"),
        )
