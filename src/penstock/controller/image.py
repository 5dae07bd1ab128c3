"""The cluster as the committed metadata records describe it: immutable, one value per version.

A new image shares with the old one every unchanged part. Only the tables that a batch touched are
copied. `delta.py` makes one from the other. The mappings are never written to after the image is
made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from penstock.controller.records import METADATA_VERSION, METADATA_VERSION_LATEST
from penstock.wire.records.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)

NO_LEADER = -1
RECOVERED, RECOVERING = 0, 1

# Kafka reserves the first hundred directory ids. Migrating: the broker is older than directory ids;
# earlier versions of this server wrote it for unassigned. Unassigned: the broker has not chosen a
# directory yet. Lost: the directory of the replica is offline, and its id is not known.
MIGRATING_DIRECTORY = bytes(16)
UNASSIGNED_DIRECTORY = (1).to_bytes(16)
LOST_DIRECTORY = (2).to_bytes(16)

ELIGIBLE_LEADERS = "eligible.leader.replicas.version"

K = TypeVar("K")
V = TypeVar("V")


def empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PartitionImage:
    partition_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    eligible_leaders: tuple[int, ...] = ()
    last_known_leaders: tuple[int, ...] = ()
    recovery_state: int = RECOVERED

    def directory_of(self, broker_id: int) -> bytes:
        """Return the directory of a replica; unassigned for a broker without one, and for all
        replicas if the records are older than directory ids."""
        if broker_id not in self.replicas or len(self.directories) != len(self.replicas):
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(broker_id)]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]  # by id, in order


class ListenerEndpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[ListenerEndpoint, ...]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[bytes, ...]
    cordoned: tuple[bytes, ...] | None = None

    @property
    def active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown

    def has_online_directory(self, directory: bytes) -> bool:
        """Return whether a replica in this directory can be served. Without any directory the
        broker registered before there were directory ids."""
        if directory in self.directories or directory in (
            MIGRATING_DIRECTORY,
            UNASSIGNED_DIRECTORY,
        ):
            return True
        return not self.directories and directory != LOST_DIRECTORY

    @property
    def uncordoned_directories(self) -> tuple[bytes, ...]:
        """Return the directories that take new replicas: online and not cordoned."""
        cordoned = self.cordoned or ()
        return tuple(each for each in self.directories if each not in cordoned)

    @property
    def takes_replicas(self) -> bool:
        """Return whether new replicas may be placed here. A fenced broker may get some, a broker in
        controlled shutdown gets none."""
        cordoned = bool(self.directories) and not self.uncordoned_directories
        return not self.in_controlled_shutdown and not cordoned

    def endpoint(self, listener: str) -> ListenerEndpoint | None:
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class ControllerNode:
    controller_id: int
    incarnation_id: bytes
    endpoints: tuple[ListenerEndpoint, ...]
    features: Mapping[str, VersionRange]
    zk_migration_ready: bool = False


class ConfigResourceId(NamedTuple):
    """`kind` as on the wire: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""

    kind: int
    name: str


TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
EVERY_BROKER = ConfigResourceId(BROKER, "")


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """The next block, and who got the last one."""

    next_producer_id: int = 0
    broker_id: int = -1
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Image:
    offset: int = -1  # of the last record in it
    epoch: int = -1
    timestamp_ms: int = 0
    topics: Mapping[str, Topic] = field(default_factory=empty)
    topic_names: Mapping[bytes, str] = field(default_factory=empty)
    brokers: Mapping[int, BrokerImage] = field(default_factory=empty)
    controllers: Mapping[int, ControllerNode] = field(default_factory=empty)
    configs: Mapping[ConfigResourceId, Mapping[str, str]] = field(default_factory=empty)
    features: Mapping[str, int] = field(default_factory=empty)  # finalized, never 0
    producer_ids: ProducerIds = ProducerIds()
    client_quotas: Mapping[tuple[Any, ...], ClientQuotaRecord] = field(default_factory=empty)
    scram: Mapping[tuple[str, int], UserScramCredentialRecord] = field(default_factory=empty)
    acls: Mapping[bytes, AccessControlEntryRecord] = field(default_factory=empty)
    delegation_tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=empty)
    unread: tuple[bytes, ...] = ()

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, METADATA_VERSION_LATEST)

    @property
    def eligible_leaders_enabled(self) -> bool:
        return self.features.get(ELIGIBLE_LEADERS, 0) >= 1

    def topic(self, topic_id: bytes) -> Topic | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def leader_of(self, topic: str | bytes, index: int) -> tuple[int, int] | None:
        """Return the leader of a partition and its epoch; None if there is no such partition.
        `topic` is a name or an id."""
        found = self.topics.get(topic) if isinstance(topic, str) else self.topic(topic)
        if found is None or index not in found.partitions:
            return None
        partition = found.partitions[index]
        return partition.leader, partition.leader_epoch

    def config(self, resource: ConfigResourceId) -> Mapping[str, str]:
        return self.configs.get(resource) or empty()

    def partitions(self) -> Iterator[tuple[Topic, PartitionImage]]:
        for topic in self.topics.values():
            for partition in topic.partitions.values():
                yield topic, partition
