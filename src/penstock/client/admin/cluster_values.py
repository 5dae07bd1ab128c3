"""Arguments and results of the admin client about the cluster: elections, reassignments, log
directories, the metadata quorum, features."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock.model import TopicPartition


class Election(IntEnum):
    """PREFERRED: the first replica leads again. UNCLEAN: a replica that may lack records may
    lead."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A partition under reassignment: all its replicas, the adding and the removing ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Replica(NamedTuple):
    """One replica of a partition; printed as Kafka's tools print it."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class ReplicaLog(NamedTuple):
    """A replica in a log directory. `future`: the replica is being copied from another
    directory."""

    size_bytes: int
    offset_lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker; sizes are None if an older server omits them."""

    path: str
    total_bytes: int | None
    usable_bytes: int | None
    cordoned: bool
    replicas: Mapping[TopicPartition, ReplicaLog]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A replica of the quorum. None stands for a value that an older server omits or that is not
    set."""

    node_id: int
    directory_id: bytes | None
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class QuorumListener(NamedTuple):
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[QuorumListener, ...]]


class LevelRange(NamedTuple):
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """`finalized` levels are in force; `supported` levels are those of the asked broker.

    `epoch` is None while no level is finalized.
    """

    finalized: Mapping[str, LevelRange]
    supported: Mapping[str, LevelRange]
    epoch: int | None


class FeatureChangeKind(IntEnum):
    """A kind of change. An unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureChange(NamedTuple):
    """A new level of a feature; level 0 disables it."""

    level: int
    kind: FeatureChangeKind = FeatureChangeKind.UPGRADE


@dataclass(frozen=True, slots=True)
class BrokerApis:
    """The API versions of a broker by API key, and its features."""

    versions: Mapping[int, LevelRange]
    features: FeatureLevels
