"""Values of the clients' interfaces: brokers, topics, configurations and offsets."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    """The kind of resource that has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """A resource with a configuration; a broker without a name stands for all."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        every_broker = self.type is ResourceType.BROKER and not self.name
        kind = self.type.name.lower().replace("_", " ")
        return "all brokers" if every_broker else f"{kind} {self.name}"


class Broker(NamedTuple):
    """`fenced`: registered, without a heartbeat for too long."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Eligible and last known leaders are None unless requested."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    eligible_leaders: tuple[int, ...] | None = None
    last_known_leaders: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 leaves a count to the broker. `assignments` has the replicas of each partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)
    assignments: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """-1 and the zero id stand for values that an older server does not return."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One key; `value` is None if it is unset or secret."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    type: int
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]


class Operation(IntEnum):
    """The kind of change of a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    operation: Operation
    value: str | None = None


class At(IntEnum):
    """Positions in a partition without a timestamp of their own."""

    END = -1
    BEGINNING = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class FoundOffset(NamedTuple):
    """The offset found for a timestamp, or an end of a partition.

    A field is -1 without a value: no record is that late, or an end has no timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int
