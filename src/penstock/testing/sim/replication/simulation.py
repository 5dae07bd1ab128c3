"""One seed: a heap of events, the nodes, their faults, and whole in-sync sets in the end."""

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.controller.image import Image
from penstock.testing.sim.invariants import InvariantBroken
from penstock.testing.sim.replication.checker import ReplicationChecker
from penstock.testing.sim.replication.connections import Endpoint, SimConnections
from penstock.testing.sim.replication.draws import DeathMix, ReplicationDraw, draw_replication
from penstock.testing.sim.replication.faults import ReplicationFaults
from penstock.testing.sim.replication.replicating_node import ReplicatingNode
from penstock.testing.sim.replication.sim_controller import CONTROLLER_ID, SimController
from penstock.testing.sim.replication.sim_partition import SimPartition
from penstock.testing.sim.replication.storage import ReplicatedBatch, new_batch

ANY_LIFE = -1
RECORDS_MAX = 4
TURNS_MAX = 50_000
CHECK_GAP_MS = 5.0


@dataclass(frozen=True, slots=True)
class ReplicationRun:
    """The result of a seed: events counted by name, and a digest of all events in order."""

    seed: int
    counters: Counter[str]
    trace: str


class ReplicationSimulation:
    """The time, the random numbers and the events of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now_ms = 0.0
        self.draw: ReplicationDraw = draw_replication(self.chance)
        self.checker = ReplicationChecker(self.draw.partitions)
        if self.draw.deaths is not DeathMix.POWER:
            self.checker.holders = self._holders
        self.story: list[str] | None = None  # notable events, one line each, if asked for
        self.is_healed = False
        self._events: list[tuple[float, int, Endpoint | None, int, Callable[[], None]]] = []
        self._order = 0
        self._turns = 0
        self._produced = 0
        self._trace = hashlib.blake2b(digest_size=16)
        self.connections = SimConnections(self)
        self.controller = SimController(self)
        self.faults = ReplicationFaults(self)
        ids = range(1, self.draw.nodes + 1)
        self.nodes = {node_id: ReplicatingNode(self, node_id) for node_id in ids}

    @property
    def mix(self) -> ReplicationDraw:
        return self.draw

    @property
    def is_whole(self) -> bool:
        """Return whether all replicas are in sync, in the lives that their nodes have now."""
        brokers = self.controller.image.brokers
        return self.controller.is_whole and all(
            node.life and node.broker_epoch == brokers[node.node_id].epoch
            for node in self.nodes.values()
        )

    def draw_disk_ms(self) -> float:
        return self.chance.random() * 2 * self.draw.sync_ms

    def new_batch(self, offset: int, epoch: int, records: int, value: bytes) -> ReplicatedBatch:
        return new_batch(offset, epoch, records, value)

    def _holders(self, index: int, end_offset: int) -> int:
        """Return how many replicas hold the committed records of a partition, durably if that is
        promised."""
        durably = self.draw.deaths is DeathMix.FSYNC
        return sum(
            self.checker.holds_committed(index, node.logs[index], end_offset)
            and (not durably or node.logs[index].synced_offset >= end_offset)
            for node in self.nodes.values()
        )

    # -- events

    def at(
        self, at_ms: float, node: Endpoint | None, call: Callable[[], None], life: int = ANY_LIFE
    ) -> None:
        """Run `call` at a node, in any life or in one only, when the node does not pause."""
        self._order += 1
        heapq.heappush(self._events, (at_ms, self._order, node, life, call))

    def _turn(self) -> None:
        at_ms, order, node, life, call = heapq.heappop(self._events)
        self.now_ms = max(self.now_ms, at_ms)
        self._turns += 1
        if node is not None:
            if life not in (ANY_LIFE, node.life):
                return
            if node.paused_until_ms > self.now_ms:
                heapq.heappush(self._events, (node.paused_until_ms, order, node, life, call))
                return
        call()
        self._trace.update(b"%d %.3f;" % (order, self.now_ms))

    def _every(self, gap_ms: float, call: Callable[[], None]) -> None:
        """Run `call` again and again with random gaps around `gap_ms`, until the faults end."""

        def tick() -> None:
            if not self.is_healed:
                call()
                self.at(self.now_ms + self.chance.uniform(0.3, 1.7) * gap_ms, None, tick)

        self.at(self.chance.random() * gap_ms, None, tick)

    def tell(self, node: Endpoint, event: object) -> None:
        """Note an event in the story of the seed."""
        if self.story is not None:
            name = "controller" if node.node_id == CONTROLLER_ID else f"node {node.node_id}"
            self.story.append(f"{self.now_ms:9.3f} {name}: {event}")

    def publish(self, image: Image) -> None:
        """Send an image to all nodes that the controller reaches."""
        for node in self.nodes.values():
            if node.life and (CONTROLLER_ID, node.node_id) not in self.connections.blocked:
                delay_ms = self.chance.random() * 2 * self.draw.network_ms
                self.at(self.now_ms + delay_ms, node, partial(node.hear, image), node.life)

    # -- a run

    def run(self) -> ReplicationRun:
        """Run the seed to its end. Raise InvariantBroken if the nodes did wrong."""
        for node_id, node in self.nodes.items():
            node.start(registered_epoch=node_id)
        self._every(self.draw.produce_gap_ms, self._produce)
        self._every(self.draw.delete_gap_ms, self._delete_records)
        self._every(self.draw.fault_gap_ms, self.faults.inject)
        self._check_sessions()
        while self.now_ms < self.draw.faults_end_ms:
            self._turn()
        self.is_healed = True
        self.faults.heal_all()
        self._settle()
        counters = self.checker.counters
        counters["turns"] += self._turns
        counters["batches committed"] += sum(
            len(each.committed.batches) for each in self.checker.histories
        )
        return ReplicationRun(self.seed, counters, self._trace.hexdigest())

    def _check_sessions(self) -> None:
        self.controller.fence_silent()
        self.at(self.now_ms + self.draw.session_ms / 8, self.controller, self._check_sessions)

    def _leaders(self) -> list[SimPartition]:
        """Return the replicas that take themselves for leaders, and do not pause."""
        return [
            partition
            for node in self.nodes.values()
            if node.life and node.paused_until_ms <= self.now_ms
            for partition in node.partitions
            if partition.leading
        ]

    def _produce(self) -> None:
        if int(self.now_ms / self.draw.burst_ms) % 2:
            return
        for leader in self._leaders():
            self._produced += 1
            leader.append(self.chance.randint(1, RECORDS_MAX), b"%d" % self._produced)

    def _delete_records(self) -> None:
        leaders = self._leaders()
        if leaders:
            leader = self.chance.choice(leaders)
            start, end = leader.log.start_offset, leader.leader.high_watermark
            if end > start:
                self.checker.counters["deleted records"] += 1
                leader.delete_before(self.chance.randint(start + 1, end))

    def _settle(self) -> None:
        """Run until all in-sync sets are whole, and all replicas have a last record."""
        deadline_ms = self.now_ms + self.draw.settle_ms
        check_ms, is_last = 0.0, False
        while True:
            self._turn()
            if self.now_ms > deadline_ms or self._turns > TURNS_MAX:
                raise InvariantBroken(self._disagreement())
            if self.now_ms < check_ms:
                continue
            check_ms = self.now_ms + CHECK_GAP_MS
            leaders = self._present_leaders()
            if len(leaders) < self.draw.partitions or not self.is_whole:
                is_last = False
            elif not is_last:
                for leader in leaders:
                    self._produced += 1
                    leader.append(1, b"last %d" % self._produced)
                is_last = True
            elif all(map(self._is_everywhere, leaders)):
                for leader in leaders:
                    self.checker.check_acknowledged(leader)
                return

    def _present_leaders(self) -> list[SimPartition]:
        """Return the leaders that the controller knows, and that know of it."""
        found = []
        for state in self.controller.partitions.values():
            node = self.nodes.get(state.leader)
            if node is not None and node.life:
                partition = node.partitions[state.partition_id]
                if partition.leading and partition.leader.epoch == state.leader_epoch:
                    found.append(partition)
        return found

    def _is_everywhere(self, leader: SimPartition) -> bool:
        log = leader.log
        return leader.leader.high_watermark == log.end_offset and all(
            other.logs[leader.index].end_offset == log.end_offset
            and other.logs[leader.index].start_offset >= log.start_offset
            and other.partitions[leader.index].leader.high_watermark == log.end_offset
            for other in self.nodes.values()
        )

    def _disagreement(self) -> str:
        lines = [f"no whole sets {self.draw.settle_ms:.0f} ms after the last fault:"]
        for state in self.controller.partitions.values():
            lines.append(f"  {state}")
        for node in self.nodes.values():
            for each in node.partitions:
                machine = each.follower
                following = f" {machine.state.value} {machine.reason}" if machine else ""
                lines.append(
                    f"  {each}: leading={each.leading} epoch={each.leader.epoch} "
                    f"log={each.log.start_offset}-{each.log.end_offset} "
                    f"watermark={each.leader.high_watermark} pending={each.leader.pending}"
                    f"{following}"
                )
        return "\n".join(lines)


def simulate_replication(seed: int) -> ReplicationRun:
    """Run one seed. Raise InvariantBroken if an invariant breaks or a set is never whole."""
    return ReplicationSimulation(seed).run()
