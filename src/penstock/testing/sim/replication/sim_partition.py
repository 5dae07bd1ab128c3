"""One replica of one life of a simulated node: leader or follower, and its waiting producers.

The fetch sessions of a broker take the object for one of the broker's partitions.
"""

from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.broker.partitions.partition import Partition, ReplicaWatcher
from penstock.controller.image import PartitionImage
from penstock.replication import watermarks
from penstock.replication.follower import PartitionFollower
from penstock.replication.leader import PartitionLeader
from penstock.testing.sim.invariants import require
from penstock.testing.sim.replication.draws import DeathMix
from penstock.testing.sim.replication.storage import ReplicatedBatch, SimReplicaLog

if TYPE_CHECKING:
    from penstock.testing.sim.replication.leader_contact import LeaderContact
    from penstock.testing.sim.replication.replicating_node import ReplicatingNode


class UnacknowledgedBatch(NamedTuple):
    batch: ReplicatedBatch
    epoch: int


class SimPartition:
    """A replica. The log is that of the disk, all else begins with each life."""

    def __init__(self, node: "ReplicatingNode", index: int, log: SimReplicaLog) -> None:
        self.node = node
        self.simulation = node.simulation
        self.index = index
        self.log = log
        self.waits_for_sync = node.simulation.draw.deaths is DeathMix.FSYNC
        draw = node.simulation.draw
        known = watermarks.restart_watermark(log.stored_watermark, log.start_offset, log.end_offset)
        self.leader = PartitionLeader(
            node.node_id,
            -1,
            (),
            known,
            replicas=(),
            is_eligible=node.may_be_in_sync,
            live_epoch=node.live_epoch,
            lag_ms_max=draw.lag_ms,
        )
        self.leader.require(draw.min_insync, draw.nodes)
        self.follower: PartitionFollower | None = None
        self.contact: LeaderContact | None = None
        self.is_truncating = False
        self.syncing_to = -1  # the follower's records below it are not synced so far
        self.replica_watchers: dict[ReplicaWatcher, None] = {}
        self._waiting: list[UnacknowledgedBatch] = []

    def __str__(self) -> str:
        return f"{self.index} on node {self.node.node_id}"

    @property
    def leading(self) -> bool:
        return self.leader.leading

    @property
    def as_partition(self) -> Partition:
        """Return this object as the sessions of a broker take it."""
        return cast("Partition", self)

    # -- roles

    def lead(self, state: PartitionImage) -> None:
        leader, now_ms = self.leader, self.simulation.now_ms
        if self.leading and state.leader_epoch == leader.epoch:
            if leader.update(state.partition_epoch, state.isr, state.replicas, now_ms):
                self.watermark_moved()
        else:
            self._waiting.clear()
            self.log.begin_epoch(state.leader_epoch)
            leader.begin(
                state.leader_epoch,
                state.partition_epoch,
                state.isr,
                state.replicas,
                self.log.end_offset,
                now_ms,
            )
            self.simulation.checker.note_leader(self)
        self.count()
        self.isr_changed()

    def follow(self, state: PartitionImage) -> None:
        self.leader.follow(state.leader_epoch, state.partition_epoch, state.replicas)
        self._waiting.clear()

    # -- the leader's records

    def append(self, records: int, value: bytes) -> None:
        """Append a batch of a producer with acks=all."""
        leader, checker = self.leader, self.simulation.checker
        if leader.below_min_insync:
            checker.counters["not enough replicas"] += 1
            return
        require(
            leader.epoch == self.node.partition_state(self.index).leader_epoch,
            f"{self} appends in epoch {leader.epoch} after a later one was heard of",
        )
        batch = self.simulation.new_batch(self.log.end_offset, leader.epoch, records, value)
        checker.note_append(self, batch)
        self.log.append(batch)
        self._waiting.append(UnacknowledgedBatch(batch, leader.epoch))
        leader.appended(self.log.end_offset)
        for watcher in self.replica_watchers:
            watcher.partition_changed()
        self.written()

    def written(self) -> None:
        """Count appended records at once, or after their sync."""
        if self.waits_for_sync:
            self.node.sync_later(self)
        elif self.leading:
            self.count()

    def synced(self, end_offset: int) -> None:
        """Note the end of a sync that began when the log ended at `end_offset`."""
        log = self.log
        log.synced_offset = max(log.synced_offset, min(end_offset, log.end_offset))
        if self.leading:
            self.count()
        machine = self.follower
        if machine is not None and 0 <= self.syncing_to <= log.synced_offset:
            self.syncing_to = -1
            machine.finished()
            if self.contact is not None:
                self.contact.synced(self, machine)

    def count(self) -> None:
        log = self.log
        counted = log.synced_offset if self.waits_for_sync else log.end_offset
        if self.leader.advance(counted, self.simulation.now_ms):
            self.watermark_moved()

    def watermark_moved(self) -> None:
        """Acknowledge what is committed now, and notify the sessions of followers."""
        leader, checker = self.leader, self.simulation.checker
        checker.note_commit(self, self.node.node_id)
        while self._waiting and self._waiting[0].batch.end_offset <= leader.high_watermark:
            waiting = self._waiting.pop(0)
            require(waiting.epoch == leader.epoch, f"{self} acknowledges an older epoch")
            if leader.below_min_insync_at_ack:
                checker.counters["not enough replicas after the append"] += 1
            else:
                checker.note_acknowledged(self.index, waiting.batch)
        for watcher in self.replica_watchers:
            watcher.watermark_moved()

    def isr_changed(self) -> None:
        """Let followers that have left the set join again, with their next fetches."""
        for watcher in self.replica_watchers:
            watcher.isr_changed()

    def follower_fetched(self) -> None:
        """Do nothing: no deletion of records waits here for the followers."""

    def delete_before(self, offset: int) -> None:
        """Delete records as DeleteRecords does: durably, before it counts."""
        history = self.simulation.checker.histories[self.index]
        history.deleted_to = max(history.deleted_to, offset)
        self.log.stored_start = max(self.log.stored_start, offset)
        self.log.advance_start(offset)
        for watcher in self.replica_watchers:
            watcher.watermark_moved()

    # -- the follower's records

    def store(self, batches: list[ReplicatedBatch]) -> None:
        for batch in batches:
            self.simulation.checker.note_append(self, batch)
            self.log.append(batch)

    def follow_offsets(self, leader_watermark: int, log_start: int) -> None:
        """Take over the high watermark of the leader, then the start of its log."""
        leader, log = self.leader, self.log
        leader.high_watermark = watermarks.follower_watermark(
            leader_watermark, log.start_offset, log.end_offset
        )
        log_start = min(log_start, leader.high_watermark)
        if log_start > log.start_offset:
            log.advance_start(log_start)
        self.simulation.checker.check_watermark(self)

    def was_truncated(self) -> None:
        leader, log = self.leader, self.log
        leader.high_watermark = max(log.start_offset, min(leader.high_watermark, log.end_offset))
