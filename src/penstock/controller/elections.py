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
    """ONLINE: any valid leader for a partition without one. PREFERRED: the first replica, if valid.
    UNCLEAN: any live replica, without a valid leader."""

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
        if self.election is not LeaderElection.ONLINE:
            return self.election is LeaderElection.UNCLEAN
        return self.unclean_configured(topic)

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

    `wanted` has the new replicas and in-sync set, if they change.
    """
    with_eligible = electorate.image.eligible_leaders_enabled
    gone = (electorate.removed, electorate.crashed)
    wanted = wanted or partition
    isr = [each for each in wanted.isr if each not in gone]
    if wanted.adding or wanted.removing:
        wanted, isr = complete_reassignment(wanted, isr)
    eligible = []
    if with_eligible and len(isr) < electorate.min_isr(topic.name, partition):
        eligible = _eligible_leaders(electorate, partition, wanted, isr)
    last_known = list(partition.last_known_leaders)
    record = PartitionChangeRecord(partition_id=partition.partition_id, topic_id=topic.topic_id)

    leader, unclean = _elect(electorate, topic, partition, wanted, isr, eligible)
    if leader != partition.leader:
        record.leader = leader
        if unclean:
            isr, eligible = [leader], []
            if partition.recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
        elif leader in eligible:
            isr = [leader]
            eligible = [each for each in eligible if each != leader]
    elif any(each not in wanted.replicas for each in partition.replicas):
        record.leader = leader  # a new epoch: those that go must not be taken for followers
    if not with_eligible and not isr:
        isr = list(partition.isr)  # the last one in sync stays named: only it may lead again
    if with_eligible and record.leader >= 0:
        last_known = []
    elif with_eligible and leader == NO_LEADER != partition.leader and not last_known:
        last_known = [partition.leader]  # noted once: later changes leave the first one
    shrinks = any(each not in isr for each in partition.isr)
    if shrinks and electorate.image.metadata_version < ISR_SHRINK_KEEPS_EPOCH_SINCE:
        record.leader = leader

    changed = record.leader != LEADER_UNCHANGED or record.leader_recovery_state >= 0
    for name, value, before in (
        ("isr", isr, partition.isr),
        ("eligible_leader_replicas", eligible, partition.eligible_leaders),
        ("last_known_elr", last_known, partition.last_known_leaders),
        ("replicas", list(wanted.replicas), partition.replicas),
        ("adding_replicas", list(wanted.adding), partition.adding),
        ("removing_replicas", list(wanted.removing), partition.removing),
        ("directories", _directories(electorate.image, partition, wanted), partition.directories),
    ):
        if value != list(before):
            setattr(record, name, value)
            changed = True
    return record if changed else None


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
        return list(partition.directories)
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


def _eligible_leaders(
    electorate: Electorate, partition: PartitionImage, wanted: PartitionImage, isr: list[int]
) -> list[int]:
    """Return the replicas that leave an in-sync set below min.insync.replicas, and those that have
    left it before."""
    candidates = dict.fromkeys((*partition.eligible_leaders, *partition.isr))
    gone = (*isr, electorate.crashed)
    return [each for each in candidates if each not in gone and each in wanted.replicas]


def _elect(
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
    if not entitled and electorate.image.eligible_leaders_enabled:
        # No replica is sure to have all records; the last leader has the most.
        last = partition.last_known_leaders
        if len(last) == 1 and electorate.may_lead(partition, last[0]):
            return last[0], True
    if electorate.unclean_allowed(topic.name):
        for each in wanted.replicas:
            if electorate.may_lead(partition, each):
                return each, True
    return NO_LEADER, False
