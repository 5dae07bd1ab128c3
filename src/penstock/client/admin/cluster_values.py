"""What the admin client takes and tells about the cluster: elections, reassignments, directories,
the metadata quorum, features."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock.model import TopicPartition


class Election(IntEnum):
    """PREFERRED: the first replica leads again. UNCLEAN: one that may have lost records may."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A partition on its way: all its replicas, those that come and those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Replica(NamedTuple):
    """One copy of a partition; prints the way Kafka's tools write it."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class ReplicaLog(NamedTuple):
    """A partition in a directory. `future`: it is being copied here from another one."""

    size_bytes: int
    offset_lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker; None for sizes that an older server does not tell."""

    path: str
    total_bytes: int | None
    usable_bytes: int | None
    cordoned: bool
    replicas: Mapping[TopicPartition, ReplicaLog]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """None for what an older server does not tell, or what has not happened."""

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
    """`finalized` is in force; `supported` is what the asked broker could do.

    `epoch` is None while nothing is finalized.
    """

    finalized: Mapping[str, LevelRange]
    supported: Mapping[str, LevelRange]
    epoch: int | None


class FeatureChangeKind(IntEnum):
    """A downgrade that is not safe may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureChange(NamedTuple):
    """Level 0 takes a feature out of force."""

    level: int
    kind: FeatureChangeKind = FeatureChangeKind.UPGRADE


@dataclass(frozen=True, slots=True)
class BrokerApis:
    """The versions of each API that a broker serves, by API key, and its features."""

    versions: Mapping[int, LevelRange]
    features: FeatureLevels
