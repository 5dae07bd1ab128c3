"""Leader elections when brokers come, go, or return from a crash, or on request.

An in-sync replica leads; without one, an eligible leader replica does. Eligible replicas were in
sync when the set fell below min.insync.replicas, so they have all committed records. If both sets
are empty, the last leader may return. Other replicas lead only where unclean election is allowed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from penstock.controller.image import (
    BROKER,
    EVERY_BROKER,
    NO_LEADER,
    RECOVERING,
    TOPIC,
    UNASSIGNED_DIRECTORY,
    ConfigResourceId,
    Image,
    PartitionImage,
    Topic,
)
from penstock.controller.records import DIRECTORIES_SINCE
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
    election: LeaderElection = LeaderElection.ONLINE
    _configs: dict[str, Any] = field(default_factory=dict)

    def may_lead(self, broker_id: int) -> bool:
        if broker_id in (self.removed, self.crashed):
            return False
        broker = self.image.brokers.get(broker_id)
        return broker_id == self.added or (broker is not None and broker.active)

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
    eligible = _eligible_leaders(electorate, topic, partition, isr) if with_eligible else []
    eligible = [each for each in eligible if each in wanted.replicas]
    last_known = list(partition.last_known_leaders)
    record = PartitionChangeRecord(partition_id=partition.partition_id, topic_id=topic.topic_id)

    leader, unclean = _elect(electorate, topic, wanted, isr, eligible)
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
    if with_eligible and not isr and partition.isr:
        last_known = [partition.leader] if partition.leader != NO_LEADER else last_known
    elif leader != NO_LEADER:
        last_known = []

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
    """Return the only directory of a broker. A broker with several assigns one itself."""
    broker = image.brokers.get(broker_id)
    directories = () if broker is None else broker.directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def _eligible_leaders(
    electorate: Electorate, topic: Topic, partition: PartitionImage, isr: list[int]
) -> list[int]:
    if len(isr) >= electorate.min_isr(topic.name, partition):
        return []
    candidates = dict.fromkeys((*partition.eligible_leaders, *partition.isr))
    return [each for each in candidates if each not in isr and each != electorate.crashed]


def _elect(
    electorate: Electorate,
    topic: Topic,
    partition: PartitionImage,
    isr: list[int],
    eligible: list[int],
) -> tuple[int, bool]:
    """Return the leader, and whether the choice may lose records."""
    entitled = isr or eligible
    may_lead: Callable[[int], bool] = electorate.may_lead
    if electorate.election is LeaderElection.PREFERRED:
        first = partition.replicas[0]
        if first in entitled and may_lead(first):
            return first, False
    if partition.leader in entitled and may_lead(partition.leader):
        return partition.leader, False
    for each in partition.replicas:
        if each in entitled and may_lead(each):
            return each, False
    if not entitled and electorate.image.eligible_leaders_enabled:
        # No replica is sure to have all records; the last leader has the most.
        last = partition.last_known_leaders
        if len(last) == 1 and may_lead(last[0]):
            return last[0], True
    if electorate.unclean_allowed(topic.name):
        for each in partition.replicas:
            if may_lead(each):
                return each, True
    return NO_LEADER, False


def changes_on_leaving(image: Image, settings: ControllerSettings, broker_id: int) -> list[Any]:
    """Return the changes for a broker that is fenced or gone: other replicas take over."""
    return _changes(
        Electorate(image, settings, removed=broker_id),
        lambda partition: broker_id in partition.isr or partition.leader == broker_id,
    )


def changes_on_return(image: Image, settings: ControllerSettings, broker_id: int) -> list[Any]:
    """Return the changes for a broker that is back: partitions without a leader may get this
    one."""
    return _changes(
        Electorate(image, settings, added=broker_id),
        lambda partition: partition.leader == NO_LEADER and broker_id in partition.replicas,
    )


def changes_on_crash(image: Image, settings: ControllerSettings, broker_id: int) -> list[Any]:
    """Return the changes for a broker without a clean stop: its logs may lack their end.

    With other replicas, the broker is no longer in sync. An only replica goes on leading in a new
    epoch: clients then notice that offsets were used again. Without eligible leader replicas the
    in-sync set stays, since nothing else names complete replicas.
    """
    records: list[Any] = []
    if image.eligible_leaders_enabled:
        records += _changes(
            Electorate(image, settings, crashed=broker_id),
            lambda partition: (
                partition.replicas != (broker_id,)
                and (broker_id in partition.isr or broker_id in partition.eligible_leaders)
            ),
        )
    records += [
        PartitionChangeRecord(
            partition_id=partition.partition_id, topic_id=topic.topic_id, leader=broker_id
        )
        for topic, partition in image.partitions()
        if partition.replicas == (broker_id,) and partition.leader == broker_id
    ]
    return records


def _changes(electorate: Electorate, concerned: Callable[[PartitionImage], bool]) -> list[Any]:
    records = []
    for topic, partition in electorate.image.partitions():
        if concerned(partition):
            record = change_partition(electorate, topic, partition)
            if record is not None:
                records.append(record)
    return records
