"""Settings of the controller, and the rules of configuration keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.controller.image import ELIGIBLE_LEADERS, ConfigResourceId, VersionRange
from penstock.controller.records import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_MIN,
)

# Limits of one request: Kafka's own, and one that keeps a batch below its size limit.
RECORDS_PER_REQUEST_MAX = 10_000

MIN_ISR = "min.insync.replicas"
KRAFT_VERSION = "kraft.version"

SUPPORTED_FEATURES: Mapping[str, VersionRange] = {
    METADATA_VERSION: VersionRange(METADATA_VERSION_MIN, METADATA_VERSION_LATEST),
    KRAFT_VERSION: VersionRange(0, 1),
    "group.version": VersionRange(0, 1),
    "transaction.version": VersionRange(0, 2),
    ELIGIBLE_LEADERS: VersionRange(0, 1),
}


class ConfigEntry(NamedTuple):
    """One effective setting; `source` as in DescribeConfigs (1 topic, 4 static, 5 default...)."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool


class ConfigRules(Protocol):
    """Rules of configuration keys; `kind` is the resource type."""

    def validate(
        self,
        resource: ConfigResourceId,
        changes: Mapping[str, str | None],
        after: Mapping[str, str],
    ) -> None:
        """Raise InvalidConfig if a change, or all values together, are not legal. None restores the
        default."""
        ...

    def is_list(self, kind: int, name: str) -> bool: ...

    def default(self, kind: int, name: str) -> str | None:
        """Return the default of a key, as text: APPEND and SUBTRACT begin there."""
        ...

    def effective_topic_configs(
        self, overrides: Mapping[str, str], cluster: Mapping[str, str], broker: Mapping[str, str]
    ) -> Sequence[ConfigEntry]:
        """Return every topic key with its value and its source, by name."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Settings of the node around a controller. The checks for leaders have intervals; None is no
    check."""

    cluster_id: str
    node_id: int
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    preferred_leader_check_ms: int | None = 300_000
    unclean_leader_check_ms: int | None = 300_000
    broker_session_timeout_ms: int = 9000
    supported_features: Mapping[str, VersionRange] = field(
        default_factory=lambda: SUPPORTED_FEATURES
    )
