"""One seed: a heap of events, the replicas, their faults, and the end in agreement."""

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from penstock.raft.replica import ReplicaSettings
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import Voters
from penstock.testing.sim.invariants import InvariantBroken
from penstock.testing.sim.quorum.checker import QuorumChecker
from penstock.testing.sim.quorum.draws import QuorumDraw, draw_quorum, voter_of
from penstock.testing.sim.quorum.faults import FaultInjector
from penstock.testing.sim.quorum.sim_network import QuorumNetwork
from penstock.testing.sim.quorum.sim_replica import SimReplica

CLOCK_DRIFT = 0.01
DISK_TAIL_CHANCE = 0.03
DISK_TAIL_FACTOR = 10.0
TURNS_MAX = 200_000
AGREEMENT_CHECK_MS = 5.0


@dataclass(frozen=True, slots=True)
class QuorumRun:
    """The result of a seed: events counted by name, and a digest of all events in order."""

    seed: int
    counters: Counter[str]
    trace: str


class QuorumSimulation:
    """The time, the random numbers and the events of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now_ms = 0.0
        self.draw: QuorumDraw = draw_quorum(seed, self.chance)
        self.checker = QuorumChecker(self.draw.voters)
        self.network = QuorumNetwork(self, is_encoded=self.draw.is_encoded)
        self.network.loss_chance = self.draw.loss_chance
        self.replicas: dict[int, SimReplica] = {}
        self._snapshot_voters: dict[MetadataSnapshotId, tuple[int, Voters]] = {}
        self._events: list[tuple[float, int, SimReplica | None, int, Callable[[], None]]] = []
        self._order = 0
        self._turns = 0
        self.story: list[str] | None = None  # notable events, one line each, if asked for
        self._proposed = 0
        self._trace = hashlib.blake2b(digest_size=16)
        voter_ids = [voter.node_id for voter in self.draw.voters]
        for node_id in (*voter_ids, *self.draw.observer_ids):
            rate = 1.0 + self.chance.uniform(-CLOCK_DRIFT, CLOCK_DRIFT)
            me = voter_of(node_id, with_directory=True)
            replica = SimReplica(self, me, rate, votes=node_id in voter_ids)
            self.replicas[node_id] = replica
            self.checker.watch(node_id, replica.disk)
        self.faults = FaultInjector(self)

    @property
    def mix(self) -> QuorumDraw:
        return self.draw

    # -- what replicas draw and ask

    def random_below(self, limit: int) -> int:
        return self.chance.randrange(limit)

    def draw_disk_ms(self) -> float:
        delay_ms = self.chance.random() * 2 * self.draw.sync_ms
        return delay_ms * DISK_TAIL_FACTOR if self.chance.random() < DISK_TAIL_CHANCE else delay_ms

    def settings_of(self, replica: SimReplica) -> ReplicaSettings:
        if replica.votes:
            return self.draw.replica
        return self.draw.observer

    def snapshot_data(
        self, snapshot_id: MetadataSnapshotId, kraft_version: int, voters: Voters
    ) -> bytes:
        """Return the bytes of a snapshot, equal on all replicas."""
        self._snapshot_voters[snapshot_id] = (kraft_version, voters)
        begin = b"%d-%d " % snapshot_id
        return begin + bytes(self.draw.snapshot_bytes)

    def snapshot_voters(self, snapshot_id: MetadataSnapshotId) -> tuple[int, Voters]:
        return self._snapshot_voters[snapshot_id]

    # -- events

    def at(self, at_ms: float, replica: SimReplica, call: Callable[[], None]) -> None:
        """Run `call` in the present life of a replica."""
        self._order += 1
        heapq.heappush(self._events, (at_ms, self._order, replica, replica.life, call))

    def after(self, delay_ms: float, replica: SimReplica, call: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, replica, call)

    def deliver(self, delay_ms: float, replica: SimReplica, call: Callable[[], None]) -> None:
        """Run `call` at a replica, in its present life or a later one."""
        self._order += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._order, replica, -1, call))

    def every(self, gap_ms: float, call: Callable[[], None]) -> None:
        """Run `call` again and again with random gaps around `gap_ms`, until the faults end."""

        def tick() -> None:
            if self.now_ms < self.draw.faults_end_ms:
                call()
                self.outside(self.chance.uniform(0.3, 1.7) * gap_ms, tick)

        self.outside(self.chance.random() * gap_ms, tick)

    def outside(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Run `call` as an event of no replica."""
        self._order += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._order, None, -1, call))

    def _turn(self) -> None:
        at_ms, order, replica, life, call = heapq.heappop(self._events)
        self.now_ms = max(self.now_ms, at_ms)
        self._turns += 1
        if replica is not None:
            if replica.paused_until_ms > self.now_ms:
                heapq.heappush(self._events, (replica.paused_until_ms, order, replica, life, call))
                return
            if life not in (-1, replica.life):
                return
        call()
        self._trace.update(b"%d %.3f;" % (order, self.now_ms))

    def tell(self, replica: SimReplica, event: object) -> None:
        """Note an event in the story of the seed."""
        if self.story is not None:
            self.story.append(f"{self.now_ms:9.3f} node {replica.node_id}: {event}")

    # -- a run

    def run(self) -> QuorumRun:
        """Run the seed to its end. Raise InvariantBroken if the quorum did wrong."""
        for replica in self.replicas.values():
            replica.start()
        self.every(self.draw.proposal_gap_ms, self._propose)
        self.every(self.draw.snapshot_gap_ms, self._take_snapshot)
        self.every(self.draw.fault_gap_ms, self.faults.inject)
        while self.now_ms < self.draw.faults_end_ms:
            self._turn()
        self.faults.heal_all()
        self._settle()
        counters = self.checker.counters
        counters["turns"] += self._turns
        counters["batches committed"] += len(self.checker.committed.batches)
        return QuorumRun(self.seed, counters, self._trace.hexdigest())

    def _propose(self) -> None:
        for replica in self.replicas.values():
            self._proposed += 1
            if replica.propose(b"%d" % self._proposed):
                self.checker.counters["proposals"] += 1

    def _take_snapshot(self) -> None:
        replicas = list(self.replicas.values())
        replicas[self.random_below(len(replicas))].take_snapshot()

    def _settle(self) -> None:
        """Run until all replicas agree on a leader and have a last record committed."""
        deadline_ms = self.now_ms + self.draw.settle_ms
        target: tuple[int, int] | None = None  # epoch and end offset of the last record
        check_at_ms = self.now_ms
        while True:
            self._turn()
            if self.now_ms > deadline_ms or self._turns > TURNS_MAX:
                raise InvariantBroken(self._disagreement(target))
            if self.now_ms < check_at_ms:
                continue
            check_at_ms = self.now_ms + AGREEMENT_CHECK_MS
            target = self._next_target(target)
            if target is not None and self._agree(*target):
                return

    def _next_target(self, target: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the record to wait for; a new leader appends another one."""
        leaders = [r for r in self.replicas.values() if r.machine and r.machine.is_leader]
        if len(leaders) != 1 or leaders[0].machine is None:
            return target
        leader, machine = leaders[0], leaders[0].machine
        if target is not None and target[0] == machine.epoch:
            return target
        self._proposed += 1
        if leader.propose(b"last %d" % self._proposed):
            return machine.epoch, machine.end_offset
        return target

    def _agree(self, epoch: int, end_offset: int) -> bool:
        machines = [replica.machine for replica in self.replicas.values()]
        return all(
            machine is not None
            and machine.epoch == epoch
            and machine.leader_id == machines[0].leader_id  # type: ignore[union-attr]
            and machine.high_watermark >= end_offset
            for machine in machines
        )

    def _disagreement(self, target: tuple[int, int] | None) -> str:
        lines = [f"no agreement {self.draw.settle_ms:.0f} ms after the last fault, on {target}:"]
        for replica in self.replicas.values():
            machine = replica.machine
            assert machine is not None
            role = type(machine.replica.role).__name__
            lines.append(
                f"  node {replica.node_id}: {role} epoch={machine.epoch} leader={machine.leader_id}"
                f" end={machine.end_offset} committed={machine.high_watermark}"
            )
        return "\n".join(lines)


def simulate(seed: int) -> QuorumRun:
    """Run one seed. Raise InvariantBroken if an invariant breaks or the quorum never agrees."""
    return QuorumSimulation(seed).run()
