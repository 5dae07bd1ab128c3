"""How long things may take in a group: its own settings, within the limits of the server."""

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.groups.consumer.member import ConsumerMember
from penstock.coordinator.groups.group_settings import GroupSettings


class Timeouts:
    def __init__(self, settings: GroupSettings, cluster: ClusterView) -> None:
        self._settings = settings
        self._cluster = cluster

    def session_timeout_ms(self, group_id: str) -> int:
        limits = self._settings
        return self._setting(
            group_id,
            "consumer.session.timeout.ms",
            limits.consumer_session_timeout_ms,
            limits.consumer_session_timeout_ms_min,
            limits.consumer_session_timeout_ms_max,
        )

    def session_timeout_ms_of(self, group_id: str, member: ConsumerMember) -> int:
        """Return a classic member's own session timeout, else that of its group."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.session_timeout_ms(group_id)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        limits = self._settings
        return self._setting(
            group_id,
            "consumer.heartbeat.interval.ms",
            limits.consumer_heartbeat_interval_ms,
            limits.consumer_heartbeat_interval_ms_min,
            limits.consumer_heartbeat_interval_ms_max,
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        limits = self._settings
        return self._setting(
            group_id,
            "consumer.assignment.interval.ms",
            self._cluster.consumer_assignment_interval_ms(),
            limits.consumer_assignment_interval_ms_min,
            limits.consumer_assignment_interval_ms_max,
        )

    def _setting(
        self, group_id: str, key: str, default_ms: int, least_ms: int, most_ms: int
    ) -> int:
        stored = self._cluster.group_config(group_id).get(key)
        try:
            value_ms = int(stored or "")
        except ValueError:
            return default_ms  # nothing is set, or nothing that could be meant
        return min(max(value_ms, least_ms), most_ms)
