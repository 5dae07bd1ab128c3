"""What the controller is told from outside: settings of the cluster, and the rules of configs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.controller.image import ELIGIBLE_LEADERS, ConfigResource, VersionRange
from penstock.controller.records import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_MIN,
)

# What one request may write: Kafka's own limit, and what keeps one batch below its size limit.
RECORDS_PER_REQUEST_MAX = 10_000

MIN_ISR = "min.insync.replicas"

SUPPORTED_FEATURES: Mapping[str, VersionRange] = {
    METADATA_VERSION: VersionRange(METADATA_VERSION_MIN, METADATA_VERSION_LATEST),
    "kraft.version": VersionRange(0, 1),
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
    """What the controller needs to know about configuration keys; `kind` is the resource type."""

    def validate(
        self,
        resource: ConfigResource,
        changes: Mapping[str, str | None],
        after: Mapping[str, str],
    ) -> None:
        """InvalidConfig if a change (None: back to the default) or all together are not legal."""
        ...

    def is_list(self, kind: int, name: str) -> bool: ...

    def default(self, kind: int, name: str) -> str | None:
        """What an unset key means, as text: where APPEND and SUBTRACT begin."""
        ...

    def effective_topic_configs(
        self, overrides: Mapping[str, str], cluster: Mapping[str, str], broker: Mapping[str, str]
    ) -> Sequence[ConfigEntry]:
        """Every topic key with its value and where it comes from, by name."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    cluster_id: str
    node_id: int
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    supported_features: Mapping[str, VersionRange] = field(
        default_factory=lambda: SUPPORTED_FEATURES
    )
