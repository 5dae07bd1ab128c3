"""The fetches of a simulated node from one leader: requests, and the steps of their answers."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import KafkaError
from penstock.replication.fetcher import FetcherSettings, ReplicaFetcher
from penstock.replication.follower import PartitionFollower
from penstock.replication.follower_steps import (
    Append,
    AskEnd,
    AskStart,
    FailReplica,
    FollowerStep,
    StartAt,
    TruncateTo,
)
from penstock.testing.sim.replication.connections import MessageConnection
from penstock.testing.sim.replication.sim_partition import SimPartition
from penstock.testing.sim.replication.storage import batches_in
from penstock.wire.messages.k01_fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from penstock.testing.sim.replication.replicating_node import ReplicatingNode

LATEST, EARLIEST = "latest", "earliest"
RESPONSE_BYTES_MAX = 2000
SYNC_WAIT_FACTOR = 2.0  # of the sync time; a partition that takes longer is left out


class LeaderContact:
    """One fetcher, with one request in flight."""

    def __init__(self, node: "ReplicatingNode", leader_id: int) -> None:
        draw = node.simulation.draw
        settings = FetcherSettings(
            node.node_id,
            wait_ms_max=draw.fetch_wait_ms,
            response_bytes_max=RESPONSE_BYTES_MAX,
            partition_bytes_max=draw.partition_bytes_max,
            backoff_ms=draw.backoff_ms,
        )
        self._node = node
        self._simulation = node.simulation
        self._counters = node.simulation.checker.counters
        self.leader_id = leader_id
        self.fetcher = ReplicaFetcher(leader_id, settings, node.broker_epoch)
        self._connection: MessageConnection | None = None
        self._syncing: dict[SimPartition, None] = {}  # the next fetch waits for their syncs
        self._look_ms = 0.0
        self._is_over = False

    def add(self, partition: SimPartition) -> None:
        assert partition.follower is not None
        partition.contact = self
        self.fetcher.add(partition.follower)
        self.look()

    def remove(self, partition: SimPartition) -> None:
        assert partition.follower is not None
        partition.contact = None
        self._syncing.pop(partition, None)
        self.fetcher.remove(partition.follower.topic_id, partition.index)
        if not len(self.fetcher):
            self._is_over = True
            if self._connection is not None:
                self._connection.is_open = False
            del self._node.contacts[self.leader_id]
        else:
            self.look()

    # -- requests

    def _look_at(self, at_ms: float) -> None:
        if self._look_ms <= self._simulation.now_ms or at_ms < self._look_ms:
            self._look_ms = at_ms
            node = self._node
            self._simulation.at(at_ms, node, lambda: self._look_late(at_ms), node.life)

    def _look_late(self, at_ms: float) -> None:
        if at_ms == self._look_ms:
            self._syncing.clear()
            self.look()

    def look(self) -> None:
        """Send the next fetch, if one is due."""
        fetcher, simulation = self.fetcher, self._simulation
        if self._is_over or fetcher.in_flight or self._syncing:
            return
        fetcher.registered(self._node.broker_epoch)
        request = fetcher.next_request(simulation.now_ms)
        if request is not None:
            self._send(request)
        at_ms = fetcher.next_look_ms()
        if fetcher.resume_ms > simulation.now_ms:
            at_ms = fetcher.resume_ms
        if at_ms is not None:
            self._look_at(at_ms)

    def _send(self, request: FetchRequest) -> None:
        simulation, node = self._simulation, self._node
        leader = simulation.nodes[self.leader_id]
        if self._connection is None or not self._connection.is_open:
            self._connection = MessageConnection(node, leader)
        simulation.faults.maybe_end_follower(node.node_id)
        simulation.connections.ask(
            self._connection,
            lambda reply: leader.sessions.serve(request, reply),
            self._answered,
            simulation.draw.request_timeout_ms,
        )

    def _answered(self, response: FetchResponse | None) -> None:
        now_ms = self._simulation.now_ms
        if self._is_over:
            return
        if response is None:
            self.fetcher.failed(now_ms)
            self._look_at(self.fetcher.resume_ms)
            return
        for machine, step in self.fetcher.answered(response, now_ms):
            partition = self._node.partitions[machine.partition]
            if partition.follower is machine and partition.contact is self:
                self.perform(partition, machine, step)
        self.look()

    # -- steps

    def perform(
        self, partition: SimPartition, machine: PartitionFollower, step: FollowerStep
    ) -> None:
        """Do what the machine of a follower has decided."""
        self._simulation.tell(self._node, f"{partition}: {_in_words(step)}")
        match step:
            case Append():
                if step.restart_at is None:
                    self._store(partition, machine, step)
                else:
                    self._counters["logs begun again inside a batch"] += 1
                    epoch = machine.leader_epoch
                    self._truncate(
                        partition,
                        machine,
                        step.restart_at,
                        lambda: self._store_again(partition, machine, step, epoch),
                        restart=True,
                    )
            case TruncateTo():
                self._counters["truncations"] += 1
                self._truncate(partition, machine, step.offset, lambda: self._finished(machine))
            case StartAt():
                self._counters["logs begun behind deleted records"] += 1
                self._truncate(
                    partition,
                    machine,
                    step.offset,
                    lambda: self._finished(machine),
                    restart=True,
                )
            case AskEnd():
                self._counters["followers out of range"] += 1
                self._ask(partition, machine, LATEST, step.leader_epoch)
            case AskStart():
                self._ask(partition, machine, EARLIEST, step.leader_epoch)
            case FailReplica():
                self._counters["failed replicas"] += 1
            case _:
                pass

    def _finished(self, machine: PartitionFollower) -> None:
        machine.finished()
        if not self._is_over:
            self.fetcher.changed(machine)
            self.look()

    def _store_again(
        self, partition: SimPartition, machine: PartitionFollower, step: Append, epoch: int
    ) -> None:
        if machine.leader_epoch == epoch:
            self._store(partition, machine, step)
        else:
            self._finished(machine)

    def _store(self, partition: SimPartition, machine: PartitionFollower, step: Append) -> None:
        if len(step.records):
            partition.store(batches_in(step.records))
        partition.follow_offsets(step.high_watermark, step.log_start)
        if not len(step.records):
            return
        if partition.waits_for_sync:
            self.wait_for_sync(partition)
        else:
            machine.finished()
            self.fetcher.changed(machine)

    def wait_for_sync(self, partition: SimPartition) -> None:
        """Let the next fetch wait for the sync of a log, for a moment."""
        self._syncing[partition] = None
        partition.syncing_to = partition.log.end_offset
        self._node.sync_later(partition)
        wait_ms = SYNC_WAIT_FACTOR * self._simulation.draw.sync_ms
        self._look_at(self._simulation.now_ms + wait_ms)

    def synced(self, partition: SimPartition, machine: PartitionFollower) -> None:
        """Fetch again for a follower whose records are durable."""
        self.fetcher.changed(machine)
        self._syncing.pop(partition, None)
        self.look()

    def _truncate(
        self,
        partition: SimPartition,
        machine: PartitionFollower,
        offset: int,
        then: Callable[[], None],
        *,
        restart: bool = False,
    ) -> None:
        log, node = partition.log, self._node
        partition.syncing_to = -1
        partition.is_truncating = True
        cut = log.start_offset if restart else offset
        self._simulation.checker.note_truncation(partition, cut, machine.leader_epoch)
        (log.restart_at if restart else log.truncate_to)(offset)
        partition.was_truncated()

        def done() -> None:
            partition.is_truncating = False
            if partition.contact is None:
                machine.finished()
                node.take_role(partition)
            else:
                then()
                self.look()

        delay_ms = self._simulation.draw_disk_ms()
        self._simulation.at(self._simulation.now_ms + delay_ms, node, done, node.life)

    # -- questions

    def _ask(
        self, partition: SimPartition, machine: PartitionFollower, what: str, epoch: int
    ) -> None:
        leader = self._simulation.nodes[self.leader_id]

        def answered(offset: int | KafkaError | None) -> None:
            if partition.follower is not machine or partition.contact is not self:
                return
            now_ms = self._simulation.now_ms
            if isinstance(offset, int):
                known = machine.end_known if what is LATEST else machine.start_known
                step = known(epoch, offset)
            else:
                error = offset or KafkaError("no answer")
                step = machine.question_failed(epoch, error, now_ms)
            if step is not None:
                self.perform(partition, machine, step)
            self.fetcher.changed(machine)
            self.look()

        self._simulation.connections.ask(
            MessageConnection(self._node, leader),
            lambda reply: reply(leader.offset_of(partition.index, epoch, what)),
            answered,
            self._simulation.draw.request_timeout_ms,
        )


def _in_words(step: FollowerStep) -> str:
    """Return a step in words; records by their size."""
    if not isinstance(step, Append):
        return str(step)
    first = "" if step.restart_at is None else f"begin at {step.restart_at}, "
    return (
        f"{first}append {len(step.records)} bytes, watermark {step.high_watermark}, "
        f"log start {step.log_start}"
    )
