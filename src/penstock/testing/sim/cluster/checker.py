"""Invariants of a cluster, checked at the events that can break them.

The checker sees every quorum, every published image and every acknowledgement of every node. Its
`committed` history grows with the first node that commits a batch; all others have to commit the
same bytes.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.metadata.quorum_controller import QuorumController
from penstock.controller.broker_sessions import BrokerSessions, FenceStaleBroker
from penstock.controller.delta import Delta
from penstock.controller.image import BrokerImage, Image, PartitionImage
from penstock.errors import DuplicateBrokerRegistration, StaleBrokerEpoch
from penstock.model import TopicPartition
from penstock.raft.quorum import Quorum
from penstock.raft.quorum_effects import (
    HighWatermarkMoved,
    InstallSnapshot,
    LeadershipGained,
    LeadershipLost,
    QuorumEffect,
    SendRequest,
    TruncateLog,
)
from penstock.raft.quorum_state import NO_NODE
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.testing.sim.cluster.image_comparison import ImageComparison
from penstock.testing.sim.cluster.metadata_history import BatchHistory, read_history
from penstock.testing.sim.cluster.partition_checker import PartitionChecker
from penstock.testing.sim.cluster.sim_cluster import SimNode
from penstock.testing.sim.invariants import InvariantBroken, require
from penstock.testing.sim.world import Simulation
from penstock.wire.messages.k52_vote import VoteRequest
from penstock.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest
from penstock.wire.messages.k62_broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.k63_broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

SLOWEST_CLOCK = 0.98  # of two clocks with drift, one beside the other


class ClusterChecker:
    """All that the nodes of one run have shown (observation.NodeObserver)."""

    def __init__(self, simulation: Simulation, session_ms: float, *, may_lose: bool) -> None:
        self.counters: Counter[str] = Counter()
        self.partitions = PartitionChecker(self.counters, may_lose=may_lose)
        self.committed = BatchHistory()
        self.newest_image = Image()
        self.on_leader: Callable[[int], None] = lambda _node_id: None
        self.on_in_sync_change: Callable[[int], None] = lambda _leader_id: None
        self.on_markers: Callable[[int], None] = lambda _node_id: None
        self.on_revocation: Callable[[int], None] = lambda _node_id: None
        self.tell: Callable[[str], None] = lambda _event: None
        self._simulation = simulation
        self._session_ms = session_ms
        self._logs: dict[Quorum, BatchHistory] = {}
        self._watermarks: dict[Quorum, int] = {}
        self._leaders: dict[int, int] = {}  # by epoch
        self._last_leader = NO_NODE
        self._resigned: set[tuple[int, int]] = set()
        self._votes: dict[tuple[int, int], int] = {}
        self._batches: dict[tuple[int, int], int] = {}  # checksums by epoch and base offset
        self._images: dict[int, Image] = {}
        self._comparison = ImageComparison()
        self._brokers: dict[Broker, SimNode] = {}
        # Of each id and epoch of a broker: the last contact, and the epoch of the controller.
        self._contacts: dict[tuple[int, int], tuple[float, int]] = {}
        # By incarnation: the contacts of its broker id when its registration was decided.
        self._asked: dict[bytes, dict[int, tuple[float, int]]] = {}
        self._stopped: set[tuple[int, int]] = set()  # brokers that were allowed to stop
        self._arrivals: dict[tuple[BrokerSessions, int, int], float] = {}  # at each controller

    def watch(self, node: SimNode) -> None:
        """Watch the present life of a node."""
        metadata = node.node.metadata
        assert metadata is not None, "a started node has metadata"
        self._brokers[node.broker] = node
        self._history(metadata._quorum)  # read before any record rots
        metadata.on_image(self.published)

    def count(self, event: str) -> None:
        self.counters[event] += 1

    def coordinates(self, node_id: int, *, revokes: bool) -> None:
        (self.on_revocation if revokes else self.on_markers)(node_id)

    # -- the quorum

    def performs(self, quorum: Quorum, effect: QuorumEffect) -> None:
        match effect:
            case HighWatermarkMoved():
                self._committed_up_to(quorum, effect.offset)
            case LeadershipGained():
                self._gained(quorum, effect)
            case LeadershipLost():
                self.tell(f"node {_id_of(quorum)} leads no longer")
                self.counters["leaderships lost"] += 1
            case TruncateLog():
                self._truncates(quorum, effect.offset)
            case InstallSnapshot():
                self.counters["snapshots installed"] += 1
                end_offset = effect.snapshot_id.end_offset
                require(
                    end_offset <= self.committed.end_offset,
                    f"the snapshot at {end_offset} holds uncommitted records",
                )
                self._history(quorum).batches.clear()
            case SendRequest(request=VoteRequest(topics=[topic])) if not topic.partitions[
                0
            ].pre_vote:
                self.voted(quorum, topic.partitions[0].replica_epoch, _id_of(quorum))
            case SendRequest(request=EndQuorumEpochRequest()):
                key = (_id_of(quorum), quorum.epoch)
                if key not in self._resigned:
                    self._resigned.add(key)
                    self.counters["resignations"] += 1

    def stores(self, quorum: Quorum, data: bytes) -> None:
        known = quorum in self._logs
        history = self._history(quorum)
        added = history.append(data) if known else history.batches[-1:]
        for batch in added:
            checksum = self._batches.setdefault((batch.epoch, batch.base_offset), batch.checksum)
            require(
                checksum == batch.checksum,
                f"node {_id_of(quorum)} has another batch at {batch.base_offset} of epoch "
                f"{batch.epoch} than a node before",
            )

    def _history(self, quorum: Quorum) -> BatchHistory:
        found = self._logs.get(quorum)
        if found is None:
            log = quorum._log
            assert log is not None, "a quorum that does something has a log"
            found = self._logs[quorum] = read_history(log)
        return found

    def voted(self, quorum: Quorum, epoch: int, candidate_id: int) -> None:
        voter_id = _id_of(quorum)
        first = self._votes.setdefault((voter_id, epoch), candidate_id)
        require(
            first == candidate_id,
            f"node {voter_id} voted for {first} and {candidate_id} in epoch {epoch}",
        )

    def _gained(self, quorum: Quorum, effect: LeadershipGained) -> None:
        node_id = _id_of(quorum)
        first = self._leaders.setdefault(effect.epoch, node_id)
        require(first == node_id, f"nodes {first} and {node_id} lead epoch {effect.epoch}")
        self.counters["elections"] += 1
        if self._last_leader not in (NO_NODE, node_id):
            self.counters["controller fail-overs"] += 1
        self._last_leader = node_id
        self.tell(f"node {node_id} leads epoch {effect.epoch}")
        self.on_leader(node_id)

    def _truncates(self, quorum: Quorum, offset: int) -> None:
        self.counters["truncations"] += 1
        self.tell(f"node {_id_of(quorum)} truncates to {offset}")
        history = self._history(quorum)
        low = self._watermarks.get(quorum, 0)
        require(
            offset >= low, f"node {_id_of(quorum)} truncates to {offset}, below its watermark {low}"
        )
        history.truncate(offset)

    def _committed_up_to(self, quorum: Quorum, offset: int) -> None:
        node_id, history, committed = _id_of(quorum), self._history(quorum), self.committed
        before = self._watermarks.get(quorum, 0)
        require(offset >= before, f"the watermark of node {node_id} moves back to {offset}")
        self._watermarks[quorum] = offset
        for batch in history.between(before, offset):
            if batch.base_offset < committed.end_offset:
                require(
                    committed.ending_at(batch.end_offset) == batch,
                    f"node {node_id} commits another batch at {batch.base_offset}",
                )
            else:
                require(
                    batch.base_offset == committed.end_offset,
                    f"node {node_id} commits {batch.base_offset} with a gap before it",
                )
                committed.batches.append(batch)
        require(
            offset <= committed.end_offset,
            f"node {node_id} commits up to {offset} without having the records",
        )

    def writes_snapshot(self, quorum: Quorum, snapshot_id: MetadataSnapshotId) -> None:
        """Check that a snapshot ends at a committed batch."""
        self.counters["snapshots written"] += 1
        batch = self.committed.ending_at(snapshot_id.end_offset)
        require(
            batch is not None and batch.epoch == snapshot_id.epoch,
            f"node {_id_of(quorum)} writes a snapshot of uncommitted records at "
            f"{snapshot_id.end_offset}",
        )

    # -- images

    def published(self, image: Image, delta: Delta) -> None:
        if image.offset < 0:
            return  # of the snapshot that formatting wrote: each node has its own, with its time
        known = self._images.setdefault(image.offset, image)
        if known is not image:
            if not self._comparison.are_equal(known, image):
                raise InvariantBroken(f"two images at {image.offset} differ: {known} and {image}")
            return
        if image.offset <= self.newest_image.offset:
            return
        before, self.newest_image = self.newest_image, image
        self._partitions_changed(before, image, delta)
        if delta.brokers:
            for broker_id in sorted(delta.brokers):
                self._broker_changed(before.brokers.get(broker_id), image.brokers.get(broker_id))

    def _partitions_changed(self, before: Image, after: Image, delta: Delta) -> None:
        """Count elections and changes of in-sync sets."""
        for name, indexes in delta.changed_partitions:
            topic, former = after.topics.get(name), before.topics.get(name)
            if topic is None or former is None:
                continue
            for index in indexes:
                if index in former.partitions:
                    self._partition_changed(former.partitions[index], topic.partitions[index])

    def _partition_changed(self, before: PartitionImage, after: PartitionImage) -> None:
        if len(after.isr) < len(before.isr):
            self.counters["in-sync sets shrunk"] += 1
        elif len(after.isr) > len(before.isr):
            self.counters["in-sync sets joined"] += 1
        if after.isr != before.isr and after.leader >= 0:
            self.on_in_sync_change(after.leader)
        if after.leader >= 0 and after.leader_epoch != before.leader_epoch:
            if after.leader in before.eligible_leaders:
                self.counters["elections of eligible leaders"] += 1
            elif before.last_known_leaders == (after.leader,) and not before.isr:
                self.counters["elections of last known leaders"] += 1

    def _broker_changed(self, before: BrokerImage | None, after: BrokerImage | None) -> None:
        if before is None or after is None:
            return
        self.tell(f"broker {after.broker_id}: epoch {after.epoch} fenced={after.fenced}")
        if after.epoch != before.epoch:
            self.counters["re-registrations"] += 1
            if not before.fenced:
                self._check_replaced(before, after)
        elif after.fenced and not before.fenced:
            self.counters["fenced brokers"] += 1
        elif before.fenced and not after.fenced:
            self._check_eligible(after)

    def _check_eligible(self, broker: BrokerImage) -> None:
        """Check that a broker which may lead from now on has all committed records of the
        partitions that it is eligible for."""
        for known, node in self._brokers.items():
            if node.broker is not known or node.node_id != broker.broker_id:
                continue  # of an earlier life, or of another node
            if node.broker_epoch != broker.epoch:
                continue
            for topic, partition in self.newest_image.partitions():
                if node.node_id in (*partition.isr, *partition.eligible_leaders):
                    name = TopicPartition(topic.name, partition.partition_id)
                    self.partitions.check_eligible(name, known)

    def _check_replaced(self, before: BrokerImage, after: BrokerImage) -> None:
        """Check that an unfenced incarnation was silent for a session when another took over, or
        was allowed to stop. A new controller knows of no contact with an earlier one."""
        known = self._asked.get(after.incarnation_id, {})
        silent_ms, epoch = known.get(before.epoch, (0.0, -1))
        is_stopped = (before.broker_id, before.epoch) in self._stopped
        if is_stopped or epoch != self.newest_image.epoch:
            return
        require(
            silent_ms >= self._session_ms * SLOWEST_CLOCK,
            f"broker {before.broker_id} is registered again in epoch {after.epoch}, and epoch "
            f"{before.epoch} was in contact {silent_ms:.0f} ms before",
        )

    # -- brokers

    def heartbeat_arrived(
        self, controller: QuorumController, message: BrokerHeartbeatRequest
    ) -> None:
        key = (message.broker_id, message.broker_epoch)
        self._arrivals[controller._sessions, *key] = self._simulation.now_ms
        if controller.is_active:
            epoch = controller.active_controller[1]
            self._contacts[key] = self._simulation.now_ms, epoch

    def registration_arrived(self, message: BrokerRegistrationRequest) -> None:
        now_ms = self._simulation.now_ms
        known = {
            broker_epoch: (now_ms - contact_ms, epoch)
            for (broker_id, broker_epoch), (contact_ms, epoch) in self._contacts.items()
            if broker_id == message.broker_id
        }
        self._asked.setdefault(message.incarnation_id, known)

    def finds_stale(self, sessions: BrokerSessions, stale: FenceStaleBroker) -> None:
        arrived_ms = self._arrivals.get((sessions, stale.broker_id, stale.broker_epoch))
        if arrived_ms is None:
            return
        silent_ms = self._simulation.now_ms - arrived_ms
        require(
            silent_ms >= self._session_ms * SLOWEST_CLOCK,
            f"broker {stale.broker_id} counts as silent, and its heartbeat came {silent_ms:.0f} ms "
            "before",
        )

    def controller_answered(self, message: Any, response: Any) -> None:
        code = getattr(response, "error_code", -1)
        if code and isinstance(message, BrokerRegistrationRequest):
            self._asked.pop(message.incarnation_id, None)
        if code == DuplicateBrokerRegistration.code:
            self.counters["duplicate registrations rejected"] += 1
        elif code == StaleBrokerEpoch.code:
            self.counters["stale broker epochs rejected"] += 1
        elif not code and isinstance(response, BrokerHeartbeatResponse):
            self._heartbeat_accepted(message)
            if response.should_shut_down:
                self._stopped.add((message.broker_id, message.broker_epoch))

    def _heartbeat_accepted(self, message: BrokerHeartbeatRequest) -> None:
        """Check that a heartbeat is of the newest incarnation that is committed."""
        known = self.newest_image.brokers.get(message.broker_id)
        require(
            known is None or known.epoch <= message.broker_epoch,
            f"a heartbeat of broker {message.broker_id} in the old epoch {message.broker_epoch} "
            f"was accepted, after {known.epoch if known else None}",
        )

    def serves(self, broker: Broker, what: str) -> None:
        """Check that a broker which acknowledges or reads records is none that its image has
        fenced."""
        node = self._brokers.get(broker)
        if node is None:
            return
        known: Any = broker.metadata.image.brokers.get(node.node_id)
        require(
            known is not None and not known.fenced,
            f"broker {node.node_id} {what} records while its own image has it fenced",
        )
        require(
            known.epoch == node.broker_epoch,
            f"broker {node.node_id} {what} records in epoch {node.broker_epoch}, and "
            f"its image has {known.epoch}",
        )


def _id_of(quorum: Quorum) -> int:
    return quorum._me.node_id
