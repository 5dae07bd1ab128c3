"""The controller of the simulated nodes: its own decisions, on an image of a few brokers.

Records are committed at once. The controller lives through all faults, but may be cut off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.controller import leadership_changes
from penstock.controller.alter_partition import AlterPartitionRequests
from penstock.controller.delta import merge
from penstock.controller.elections import Electorate, LeaderElection, change_partition
from penstock.controller.image import (
    ELIGIBLE_LEADERS,
    NO_LEADER,
    BrokerImage,
    Image,
    PartitionImage,
    Topic,
)
from penstock.controller.settings import ControllerSettings
from penstock.errors import KafkaError
from penstock.testing.sim.replication.draws import DeathMix
from penstock.wire.messages import k56_alter_partition as k56
from penstock.wire.records.metadata import PartitionChangeRecord

if TYPE_CHECKING:
    from penstock.testing.sim.replication.simulation import ReplicationSimulation

CONTROLLER_ID = 0
TOPIC = "simulated"
TOPIC_ID = b"simulated-topic-"
DIRECTORY = b"directory-of-%04d"
ALTER_VERSION = 3
NO_EPOCH = -1


class SimController:
    """Sessions, incarnations and in-sync sets."""

    def __init__(self, simulation: "ReplicationSimulation") -> None:
        self._simulation = simulation
        self._counters = simulation.checker.counters
        draw = simulation.draw
        self.node_id = CONTROLLER_ID
        self.life = 1
        self.paused_until_ms = 0.0
        self._settings = ControllerSettings(
            "simulated-cluster", CONTROLLER_ID, min_insync_replicas=draw.min_insync
        )
        ids = range(1, draw.nodes + 1)
        self._heard_ms = dict.fromkeys(ids, 0.0)
        partitions = {index: _new_partition(index, draw.nodes) for index in range(draw.partitions)}
        self.image = Image(
            offset=draw.nodes,
            topics={TOPIC: Topic(TOPIC, TOPIC_ID, partitions)},
            topic_names={TOPIC_ID: TOPIC},
            brokers={each: _registered(each, each, fenced=False) for each in ids},
            features={ELIGIBLE_LEADERS: 1} if draw.eligible_leaders else {},
        )

    @property
    def partitions(self) -> Mapping[int, PartitionImage]:
        return self.image.topics[TOPIC].partitions

    @property
    def is_whole(self) -> bool:
        """Return whether all replicas of all partitions are in sync."""
        return all(
            each.leader != NO_LEADER and len(each.isr) == len(each.replicas)
            for each in self.partitions.values()
        )

    def _commit(
        self, changes: Sequence[PartitionChangeRecord], broker: BrokerImage | None = None
    ) -> None:
        partitions = dict(self.partitions)
        for record in changes:
            before = partitions[record.partition_id]
            after = partitions[record.partition_id] = merge(before, record)
            self._count(before, after)
            self._simulation.tell(self, f"{after}")
        brokers = dict(self.image.brokers)
        if broker is not None:
            brokers[broker.broker_id] = broker
            self._simulation.tell(self, f"{broker.broker_id} {broker.epoch} {broker.fenced=}")
        self.image = replace(
            self.image,
            offset=self.image.offset + 1,
            topics={TOPIC: Topic(TOPIC, TOPIC_ID, partitions)},
            brokers=brokers,
        )
        self._simulation.publish(self.image)

    def _count(self, before: PartitionImage, after: PartitionImage) -> None:
        if after.leader_epoch == before.leader_epoch:
            return
        if after.leader == NO_LEADER:
            self._counters["partitions without a leader"] += 1
            return
        self._counters["elections"] += 1
        if after.leader in before.eligible_leaders:
            self._counters["elections of eligible leaders"] += 1
        elif after.leader not in before.isr:
            self._counters["elections of last known leaders"] += 1
        self._simulation.faults.maybe_disturb_leader(after.leader)

    # -- requests of nodes

    def register(self, node_id: int, life: int, previous_epoch: int) -> int:
        """Return the epoch of an incarnation; -1 while the session of another one runs."""
        former = self.image.brokers[node_id]
        incarnation_id = life.to_bytes(16)
        if former.incarnation_id == incarnation_id:
            return former.epoch
        if not former.fenced and self._has_session(node_id):
            return NO_EPOCH
        if self._simulation.draw.deaths is DeathMix.POWER:
            if life != self._simulation.nodes[node_id].life:
                return NO_EPOCH  # a late request of an ended life would count as one more death
        clean = previous_epoch == former.epoch
        changes = leadership_changes.changes_on_new_incarnation(
            self.image, self._settings, node_id, clean=clean
        )
        epoch = self.image.offset + 1
        incarnation = _registered(node_id, epoch, fenced=True)
        self._commit(changes, replace(incarnation, incarnation_id=incarnation_id))
        return epoch

    def heartbeat(self, node_id: int, epoch: int, offset: int) -> Image | int:
        """Note that a node lives; unfence it if its image has its registration. Return the image,
        the epoch of the registration if it is another one."""
        broker = self.image.brokers[node_id]
        if broker.epoch != epoch:
            return broker.epoch
        self._heard_ms[node_id] = self._simulation.now_ms
        if broker.fenced and offset >= epoch:
            changes = leadership_changes.changes_on_return(self.image, self._settings, node_id)
            self._commit(changes, replace(broker, fenced=False))
        return self.image

    def shut_down(self, node_id: int, epoch: int) -> bool:
        """Take all leaderships from a node that is about to stop."""
        broker = self.image.brokers[node_id]
        if broker.epoch == epoch and not broker.fenced:
            self.fence(node_id)
        return True

    def alter(self, request: k56.AlterPartitionRequest) -> k56.AlterPartitionResponse:
        try:
            outcome = AlterPartitionRequests(self.image, self._settings).alter(
                request, ALTER_VERSION
            )
        except KafkaError as error:
            self._counters["stale broker epochs rejected"] += 1
            return k56.AlterPartitionResponse(error_code=error.code)
        changes: list[PartitionChangeRecord] = list(outcome.records)
        for record in changes:
            if record.isr is None:
                continue  # the rejection of an ineligible replica
            before = self.partitions[record.partition_id].isr
            joining = [each for each in record.isr if each not in before]
            self._counters["joins" if joining else "shrinks"] += 1
            for each in joining:
                self._check_join(record.partition_id, each)
        if changes:
            self._commit(changes)
        reply = outcome.reply
        assert isinstance(reply, k56.AlterPartitionResponse)
        codes = [each.error_code for topic in reply.topics for each in topic.partitions]
        self._counters["in-sync sets rejected"] += any(codes)
        return reply

    def _check_join(self, index: int, node_id: int) -> None:
        """Check the log of a replica that joins, unless its death is not known here so far."""
        node = self._simulation.nodes[node_id]
        if node.life and node.broker_epoch == self.image.brokers[node_id].epoch:
            self._simulation.checker.note_join(index, node_id, node.logs[index])

    # -- time

    def _has_session(self, node_id: int) -> bool:
        last_ms = self._heard_ms[node_id]
        return self._simulation.now_ms - last_ms <= self._simulation.draw.session_ms

    def fence_silent(self) -> None:
        """Fence a broker whose session has ended."""
        for broker in self.image.brokers.values():
            if not broker.fenced and not self._has_session(broker.broker_id):
                self._counters["fenced brokers"] += 1
                self.fence(broker.broker_id)
                return

    def fence(self, node_id: int) -> None:
        changes = leadership_changes.changes_on_leaving(self.image, self._settings, node_id)
        self._commit(changes, replace(self.image.brokers[node_id], fenced=True))

    def elect_preferred(self) -> None:
        """Elect the first replica of each partition, where possible."""
        electorate = Electorate(self.image, self._settings, election=LeaderElection.PREFERRED)
        topic = self.image.topics[TOPIC]
        records = [change_partition(electorate, topic, each) for each in topic.partitions.values()]
        changes = [each for each in records if each is not None]
        if changes:
            self._counters["preferred elections"] += 1
            self._commit(changes)


def _new_partition(index: int, nodes: int) -> PartitionImage:
    """Return a partition whose first replica leads."""
    replicas = tuple(1 + (index + each) % nodes for each in range(nodes))
    directories = tuple(DIRECTORY % each for each in replicas)
    return PartitionImage(index, replicas, replicas, replicas[0], 0, 0, directories)


def _registered(node_id: int, epoch: int, *, fenced: bool) -> BrokerImage:
    return BrokerImage(
        broker_id=node_id,
        epoch=epoch,
        incarnation_id=bytes(16),
        endpoints=(),
        features={},
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=False,
        directories=(DIRECTORY % node_id,),
    )
