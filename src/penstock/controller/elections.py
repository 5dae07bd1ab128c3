"""Leader elections when brokers come, go, or return from a crash, or on request.

An in-sync replica leads; without one, an eligible leader replica does. Eligible replicas were in
sync when the set fell below min.insync.replicas, so they have all committed records. If both sets
are empty, the last leader may return. Other replicas lead only where unclean election is allowed.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from penstock.controller.image import (
    BROKER,
    EVERY_BROKER,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    RECOVERING,
    TOPIC,
    UNASSIGNED_DIRECTORY,
    ConfigResourceId,
    Image,
    PartitionImage,
    Topic,
)
from penstock.controller.records import DIRECTORIES_SINCE, ISR_SHRINK_KEEPS_EPOCH_SINCE
from penstock.controller.settings import MIN_ISR, ControllerSettings
from penstock.wire.records.metadata import PartitionChangeRecord

UNCLEAN_ELECTION = "unclean.leader.election.enable"
LEADER_UNCHANGED = -2


class LeaderElection(Enum):
    """CLEAN: any valid leader for a partition without one. ONLINE: the same, and an unclean one
    where the topic allows that. PREFERRED: the first replica, if valid. UNCLEAN: any live replica,
    without a valid leader."""

    CLEAN = "clean"
    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True)
class Electorate:
    """The brokers and settings that elections depend on."""

    image: Image
    settings: ControllerSettings
    removed: int = NO_LEADER  # leaves: neither in sync nor leader any more
    added: int = NO_LEADER  # returns: may lead although the image shows it fenced
    crashed: int = NO_LEADER  # came back without a clean stop: its log may have lost its end
    offline: frozenset[bytes] = frozenset()  # directories that the image still shows online
    election: LeaderElection = LeaderElection.ONLINE
    _configs: dict[str, Any] = field(default_factory=dict)

    def may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        """Return whether the broker is up and its replica of the partition is online."""
        if broker_id in (self.removed, self.crashed):
            return False
        broker = self.image.brokers.get(broker_id)
        if broker is None or not (broker.active or broker_id == self.added):
            return False
        directory = partition.directory_of(broker_id)
        return directory not in self.offline and broker.has_online_directory(directory)

    def setting(self, topic: str, name: str, static: str) -> str:
        """Return the topic's own value, else the broker's, else the cluster's, else the static
        one."""
        own = self.image.config(ConfigResourceId(TOPIC, topic)).get(name)
        if own is not None:
            return own
        if name not in self._configs:
            node = ConfigResourceId(BROKER, str(self.settings.node_id))
            cluster = self.image.config(EVERY_BROKER).get(name, static)
            self._configs[name] = self.image.config(node).get(name, cluster)
        return str(self._configs[name])

    def min_isr(self, topic: str, partition: PartitionImage) -> int:
        value = self.setting(topic, MIN_ISR, str(self.settings.min_insync_replicas))
        return min(int(value), len(partition.replicas))

    def unclean_allowed(self, topic: str) -> bool:
        """Return whether a replica that may lack records may lead."""
        if self.election is LeaderElection.ONLINE:
            return self.unclean_configured(topic)
        return self.election is LeaderElection.UNCLEAN

    def unclean_configured(self, topic: str) -> bool:
        static = str(self.settings.unclean_leader_election_enable).lower()
        return self.setting(topic, UNCLEAN_ELECTION, static) == "true"


def change_partition(
    electorate: Electorate,
    topic: Topic,
    partition: PartitionImage,
    wanted: PartitionImage | None = None,
) -> PartitionChangeRecord | None:
    """Return the record that takes the partition to its wanted state; None if nothing changes.

    `wanted` has the new replicas, directories, in-sync set and recovery state, if they change.
    """
    wanted = wanted or partition
    isr = [each for each in wanted.isr if each not in (electorate.removed, electorate.crashed)]
    if wanted.adding or wanted.removing:
        wanted, isr = complete_reassignment(wanted, isr)
    eligible = eligible_leaders(electorate, topic, partition, wanted, isr)
    record = PartitionChangeRecord(partition_id=partition.partition_id, topic_id=topic.topic_id)

    leader, unclean = elect_leader(electorate, topic, partition, wanted, isr, eligible)
    if leader != partition.leader:
        record.leader = leader
        isr, eligible = _sets_under_new_leader(leader, isr, eligible, unclean=unclean)
        if unclean and partition.recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING
    elif any(each not in wanted.replicas for each in partition.replicas):
        record.leader = leader  # a new epoch: those that go must not be taken for followers
    if not electorate.image.eligible_leaders_enabled:
        eligible = []
        isr = isr or list(partition.isr)  # the last one in sync stays named, to lead again
    if _shrink_begins_epoch(electorate.image, partition, isr) and not _names_leader(record):
        record.leader = leader
    if wanted.recovery_state != partition.recovery_state:
        record.leader_recovery_state = wanted.recovery_state

    changed = _names_leader(record) or record.leader_recovery_state >= 0
    for name, value, before in (
        ("isr", isr, partition.isr),
        ("eligible_leader_replicas", eligible, partition.eligible_leaders),
        (
            "last_known_elr",
            last_known_leaders(electorate.image, partition, record),
            partition.last_known_leaders,
        ),
        ("replicas", list(wanted.replicas), partition.replicas),
        ("adding_replicas", list(wanted.adding), partition.adding),
        ("removing_replicas", list(wanted.removing), partition.removing),
        ("directories", _directories(electorate.image, partition, wanted), partition.directories),
    ):
        if value != list(before):
            setattr(record, name, value)
            changed = True
    return record if changed else None


def _names_leader(record: PartitionChangeRecord) -> bool:
    """Return whether the record begins a leader epoch."""
    return bool(record.leader != LEADER_UNCHANGED)


def _sets_under_new_leader(
    leader: int, isr: list[int], eligible: list[int], *, unclean: bool
) -> tuple[list[int], list[int]]:
    """Return the in-sync set and the eligible leader replicas under a newly elected leader."""
    if unclean:
        return [leader], []
    if leader in eligible:
        return [leader], [each for each in eligible if each != leader]
    return isr, eligible


def _shrink_begins_epoch(image: Image, partition: PartitionImage, isr: list[int]) -> bool:
    """Return whether a smaller in-sync set alone begins a leader epoch (KAFKA-15021)."""
    shrinks = any(each not in isr for each in partition.isr)
    return shrinks and image.metadata_version < ISR_SHRINK_KEEPS_EPOCH_SINCE


def last_known_leaders(
    image: Image, partition: PartitionImage, record: PartitionChangeRecord
) -> list[int]:
    """Return the leader that a partition loses. A note ends with the next leader, and no later loss
    replaces it before."""
    noted = list(partition.last_known_leaders)
    if not image.eligible_leaders_enabled:
        return noted
    if record.leader >= 0:
        return []
    if record.leader == NO_LEADER != partition.leader and not noted:
        return [partition.leader]
    return noted


def complete_reassignment(
    wanted: PartitionImage, isr: list[int]
) -> tuple[PartitionImage, list[int]]:
    """Return the partition and its in-sync set, without the removed replicas once all others are in
    sync."""
    staying = tuple(each for each in wanted.replicas if each not in wanted.removing)
    in_sync = [each for each in isr if each not in wanted.removing]
    if not staying or not in_sync or any(each not in in_sync for each in staying):
        return wanted, isr
    return replace(wanted, replicas=staying, adding=(), removing=()), in_sync


def _directories(image: Image, partition: PartitionImage, wanted: PartitionImage) -> list[bytes]:
    """Return the directory of each replica; a new replica gets its broker's default."""
    if wanted.replicas == partition.replicas or image.metadata_version < DIRECTORIES_SINCE:
        return list(wanted.directories)
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    return [known.get(each) or default_directory(image, each) for each in wanted.replicas]


def default_directory(image: Image, broker_id: int) -> bytes:
    """Return the only directory of a broker that takes replicas. A broker with several assigns one
    itself."""
    broker = image.brokers.get(broker_id)
    if broker is not None and not broker.directories:
        return MIGRATING_DIRECTORY
    directories = () if broker is None else broker.uncordoned_directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def eligible_leaders(
    electorate: Electorate,
    topic: Topic,
    partition: PartitionImage,
    wanted: PartitionImage,
    isr: list[int],
) -> list[int]:
    """Return the replicas that leave an in-sync set below min.insync.replicas, and those that have
    left it before. With a whole set none is needed."""
    if not electorate.image.eligible_leaders_enabled:
        return list(partition.eligible_leaders)  # of an earlier feature level: used up by a change
    if len(isr) >= electorate.min_isr(topic.name, partition):
        return []
    candidates = dict.fromkeys((*partition.eligible_leaders, *partition.isr))
    gone = (*isr, electorate.crashed)
    return [each for each in candidates if each not in gone and each in wanted.replicas]


def elect_leader(
    electorate: Electorate,
    topic: Topic,
    partition: PartitionImage,
    wanted: PartitionImage,
    isr: list[int],
    eligible: list[int],
) -> tuple[int, bool]:
    """Return the leader, and whether the choice may lose records."""
    entitled = isr or eligible
    first = wanted.replicas[0]  # then the present leader, then the others in their order
    if electorate.election is not LeaderElection.PREFERRED or first not in entitled:
        first = partition.leader
    for each in (first, partition.leader, *wanted.replicas):
        if each in entitled and electorate.may_lead(partition, each):
            return each, False
    last = _last_known_leader(electorate, partition)
    if not entitled and last is not None:
        return last, True
    if electorate.unclean_allowed(topic.name):
        for each in wanted.replicas:
            if electorate.may_lead(partition, each):
                return each, True
    return NO_LEADER, False


def _last_known_leader(electorate: Electorate, partition: PartitionImage) -> int | None:
    """Return the last leader if it may lead again. Where no replica is sure to have all records,
    it has the most."""
    noted = partition.last_known_leaders
    if not electorate.image.eligible_leaders_enabled or len(noted) != 1:
        return None
    return noted[0] if electorate.may_lead(partition, noted[0]) else None
