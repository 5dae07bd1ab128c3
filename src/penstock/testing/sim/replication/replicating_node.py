"""One simulated node: its lives, its registration, and the roles of its replicas.

A life begins with a start from the disk, and waits for its registration before it takes any role.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.controller.image import NO_LEADER, Image, PartitionImage
from penstock.errors import KafkaError, NotLeaderOrFollower
from penstock.replication.follower import PartitionFollower
from penstock.testing.sim.replication.connections import MessageConnection
from penstock.testing.sim.replication.isr_requests import IsrRequests
from penstock.testing.sim.replication.leader_contact import LATEST, LeaderContact
from penstock.testing.sim.replication.served_fetch import ServedSessions
from penstock.testing.sim.replication.sim_controller import NO_EPOCH, TOPIC, TOPIC_ID
from penstock.testing.sim.replication.sim_partition import SimPartition
from penstock.testing.sim.replication.storage import SimReplicaLog

if TYPE_CHECKING:
    from penstock.testing.sim.replication.simulation import ReplicationSimulation


class ReplicatingNode:
    """A broker with a replica of each partition."""

    def __init__(self, simulation: "ReplicationSimulation", node_id: int) -> None:
        self.simulation = simulation
        self.node_id = node_id
        self.life = 0
        self.paused_until_ms = 0.0
        self.logs = [SimReplicaLog() for _ in range(simulation.draw.partitions)]
        self.broker_epoch = NO_EPOCH
        self._lives = 0
        self._claimed_epoch = NO_EPOCH  # of the last life, after a clean stop
        self._is_stopping = False
        self._controller: MessageConnection | None = None
        self.image = simulation.controller.image
        self._begin()

    def _begin(self) -> None:
        """Forget all that only a process knows."""
        self.partitions = [SimPartition(self, index, log) for index, log in enumerate(self.logs)]
        self.contacts: dict[int, LeaderContact] = {}
        self.sessions = ServedSessions(self)
        self.isr_changes = IsrRequests(self)

    # -- life

    def start(self, registered_epoch: int = NO_EPOCH) -> None:
        """Begin a life from the disk; nodes of a new cluster are registered already."""
        assert not self.life, "one life at a time"
        self._lives += 1
        self.life = self._lives
        self._is_stopping = False
        self.broker_epoch = registered_epoch
        for log in self.logs:
            log.reopen()
        self._begin()
        self.simulation.tell(self, "start")
        self._heartbeat()
        self._look_for_laggards()
        self._flush()
        if registered_epoch == NO_EPOCH:
            self._register()
        else:
            self.hear(self.image)

    def kill(self) -> None:
        """End the process; the page cache survives."""
        self.life = 0
        self._claimed_epoch = NO_EPOCH
        self.simulation.tell(self, "end of the process")

    def lose_power(self) -> None:
        """End the process, and lose what is not synced."""
        self.kill()
        for log in self.logs:
            log.lose_tail(self.simulation.chance.randrange)

    def stop_cleanly(self) -> None:
        """Have the controller take the leaderships, then end with everything synced."""
        if self.broker_epoch == NO_EPOCH or self._is_stopping:
            return
        self._is_stopping = True
        controller, simulation = self.simulation.controller, self.simulation

        def stop(_answer: object) -> None:
            for partition in self.partitions:
                partition.log.synced_offset = partition.log.end_offset
                partition.log.checkpoint(partition.leader.high_watermark)
            claimed_epoch = self.broker_epoch
            self.kill()
            self._claimed_epoch = claimed_epoch
            simulation.faults.start_later(self)

        simulation.connections.ask(
            MessageConnection(self, controller),
            lambda reply: reply(controller.shut_down(self.node_id, self.broker_epoch)),
            stop,
            simulation.draw.request_timeout_ms,
        )

    def _after(self, delay_ms: float, call: Callable[[], None]) -> None:
        self.simulation.at(self.simulation.now_ms + delay_ms, self, call, self.life)

    # -- the controller

    def to_controller(self) -> MessageConnection:
        if self._controller is None or not self._controller.is_open:
            self._controller = MessageConnection(self, self.simulation.controller)
        return self._controller

    def _register(self) -> None:
        controller, draw = self.simulation.controller, self.simulation.draw
        claimed_epoch = self._claimed_epoch
        life = self.life
        self._controller = None

        def registered(epoch: int | None) -> None:
            if epoch is None or epoch == NO_EPOCH:
                self._after(draw.heartbeat_ms, self._register)
            else:
                self.simulation.tell(self, f"registered with epoch {epoch}")
                self.broker_epoch = epoch

        self.simulation.connections.ask(
            self.to_controller(),
            lambda reply: reply(controller.register(self.node_id, life, claimed_epoch)),
            registered,
            draw.request_timeout_ms,
        )

    def _heartbeat(self) -> None:
        controller, draw = self.simulation.controller, self.simulation.draw
        self._after(draw.heartbeat_ms, self._heartbeat)
        if self._is_stopping or self.broker_epoch == NO_EPOCH:
            return
        epoch, offset = self.broker_epoch, self.image.offset

        def answered(answer: Image | int | None) -> None:
            if isinstance(answer, Image):
                self.hear(answer)
            elif answer is not None and epoch == self.broker_epoch:
                # A late request of an earlier life has been registered.
                self.simulation.checker.counters["registrations again"] += 1
                self.broker_epoch = NO_EPOCH
                self._register()

        self.simulation.connections.ask(
            self.to_controller(),
            lambda reply: reply(controller.heartbeat(self.node_id, epoch, offset)),
            answered,
            draw.request_timeout_ms,
        )

    def hear(self, image: Image) -> None:
        """Take over a newer image."""
        known = image.brokers[self.node_id]
        if image.offset < self.image.offset or known.epoch != self.broker_epoch:
            return
        self.image = image
        for partition in self.partitions:
            self.take_role(partition)

    def partition_state(self, index: int) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[index]

    def may_be_in_sync(self, node_id: int, broker_epoch: int) -> bool:
        known = self.image.brokers[node_id]
        return known.active and broker_epoch in (NO_EPOCH, known.epoch)

    def live_epoch(self, node_id: int) -> int:
        known = self.image.brokers[node_id]
        return NO_EPOCH if known.fenced else known.epoch

    # -- roles

    def take_role(self, partition: SimPartition) -> None:
        """Lead or follow, as the image says. A truncation that runs ends before."""
        state = self.partition_state(partition.index)
        if state.partition_epoch < partition.leader.partition_epoch:
            return
        if state.leader != self.node_id:
            partition.follow(state)
            self._follow(partition, state)
            return
        if partition.contact is not None:
            partition.contact.remove(partition)
        if not partition.is_truncating:
            partition.follower = None
            partition.lead(state)

    def _follow(self, partition: SimPartition, state: PartitionImage) -> None:
        machine, first = partition.follower, None
        if machine is None:
            if state.leader == NO_LEADER:
                return
            machine = partition.follower = PartitionFollower(
                TOPIC_ID,
                partition.index,
                partition.log,
                state.leader,
                state.leader_epoch,
                backoff_ms=self.simulation.draw.backoff_ms,
            )
            first = machine.first_step(partition.leader.high_watermark)
            unsynced = partition.log.synced_offset < partition.log.end_offset
            if first is None and partition.waits_for_sync and unsynced:
                machine.begin_work()
                partition.syncing_to = partition.log.end_offset
                self.sync_later(partition)
        machine.follow(state.leader, state.leader_epoch)
        contact = partition.contact
        if contact is not None and contact.leader_id != state.leader:
            contact.remove(partition)
        if state.leader == NO_LEADER:
            return
        if partition.contact is None:
            contact = self.contacts.get(state.leader)
            if contact is None:
                contact = self.contacts[state.leader] = LeaderContact(self, state.leader)
            contact.add(partition)
        elif contact is not None:
            contact.fetcher.changed(machine)
            contact.look()
        if first is not None and partition.contact is not None:
            partition.contact.perform(partition, machine, first)

    def offset_of(self, index: int, epoch: int, what: str) -> int | KafkaError:
        """Answer ListOffsets of a replica."""
        partition = self.partitions[index]
        try:
            partition.leader.check_epoch(epoch)
            if not partition.leading:
                raise NotLeaderOrFollower
        except KafkaError as error:
            return error
        return partition.log.end_offset if what is LATEST else partition.log.start_offset

    # -- work at intervals

    def _look_for_laggards(self) -> None:
        lag_ms = self.simulation.draw.lag_ms
        for partition in self.partitions:
            if partition.leading:
                proposal = partition.leader.lagging(self.simulation.now_ms, lag_ms)
                if proposal is not None:
                    self.isr_changes.propose(partition.as_partition, proposal)
        self._after(lag_ms / 2, self._look_for_laggards)

    def _flush(self) -> None:
        """Write checkpoints; sync what no follower and no producer waits for."""
        for partition in self.partitions:
            partition.log.checkpoint(partition.leader.high_watermark)
            if not partition.waits_for_sync:
                partition.log.synced_offset = partition.log.end_offset
        gap_ms = self.simulation.draw.flush_gap_ms
        self._after(self.simulation.chance.uniform(0.5, 1.5) * gap_ms, self._flush)

    def sync_later(self, partition: SimPartition) -> None:
        end_offset = partition.log.end_offset
        self._after(self.simulation.draw_disk_ms(), lambda: partition.synced(end_offset))
