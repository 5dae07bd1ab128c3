"""Faults of a simulated quorum: drawn one after the other, each healed after a while."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.raft.quorum_events import ResignRequested, ShutdownRequested

if TYPE_CHECKING:
    from penstock.testing.sim.quorum.sim_replica import SimReplica
    from penstock.testing.sim.quorum.simulation import QuorumSimulation

DOWN_MS = (1.0, 120.0)
PARTITION_MS = (20.0, 200.0)
PAUSE_MS = (10.0, 200.0)
SLOW_DISK_MS = (30.0, 200.0)
FULL_DISK_MS = (10.0, 150.0)
SHUTDOWN_MS = 60.0
QUICK_START_MS = (0.0, 3.0)


class FaultInjector:
    """Draws faults and heals them."""

    def __init__(self, simulation: "QuorumSimulation") -> None:
        self._simulation = simulation
        self._network = simulation.network
        self._counters = simulation.checker.counters
        kinds: list[tuple[int, Callable[[], None]]] = [
            (4, self._lose_power),
            (3, self._kill),
            (1, self._lose_all_power),
            (3, self._pause),
            (3, self._isolate),
            (3, self._split),
            (2, self._block_one_direction),
            (3, self._slow_disk),
            (2, self._fill_disk),
            (1, self._resign),
            (1, self._shut_down),
        ]
        self._kinds = [kind for weight, kind in kinds for _ in range(weight)]

    def inject(self) -> None:
        self._kinds[self._simulation.random_below(len(self._kinds))]()

    # -- victims: leaders suffer more often than their share

    def _victim(self) -> "SimReplica":
        chance = self._simulation.chance
        replicas = list(self._simulation.replicas.values())
        leaders = [each for each in replicas if each.machine and each.machine.is_leader]
        if leaders and chance.random() < 0.4:
            return chance.choice(leaders)
        return chance.choice(replicas)

    def _heal_after(self, span_ms: tuple[float, float], heal: Callable[[], None]) -> None:
        self._simulation.outside(self._simulation.chance.uniform(*span_ms), heal)

    # -- ends of processes

    def _end(self, victim: "SimReplica", *, with_power: bool) -> None:
        if victim.machine is None:
            return
        if with_power:
            self._counters["losses of power"] += 1
            victim.lose_power()
        else:
            self._counters["kills"] += 1
            victim.kill()
        self._heal_after(DOWN_MS, lambda: self._start(victim))

    def _start(self, victim: "SimReplica") -> None:
        if victim.machine is None:
            victim.paused_until_ms = 0.0
            victim.start()

    def maybe_crash_voter(self, voter: "SimReplica") -> None:
        """Crash a voter right after its vote has left, and start it again soon, now and then."""

        def crash() -> None:
            self._counters["crashes after a vote"] += 1
            voter.lose_power()
            self._heal_after(QUICK_START_MS, lambda: self._start(voter))

        self._maybe_soon(voter, 1.0, crash)

    def maybe_disturb_leader(self, leader: "SimReplica") -> None:
        """Crash or isolate a leader soon after its election, now and then."""

        def disturb() -> None:
            if self._simulation.random_below(2):
                self._counters["isolations after an election"] += 1
                self._isolate_node(leader.node_id)
            else:
                self._counters["crashes after an election"] += 1
                leader.lose_power()
                self._heal_after(QUICK_START_MS, lambda: self._start(leader))

        self._maybe_soon(leader, 15.0, disturb)

    def _maybe_soon(self, victim: "SimReplica", within_ms: float, hit: Callable[[], None]) -> None:
        """Let a fault hit a dangerous moment in the present life of a node."""
        simulation = self._simulation
        if simulation.now_ms >= simulation.draw.faults_end_ms:
            return
        if simulation.chance.random() >= simulation.draw.moment_fault_chance:
            return
        life = victim.life

        def hit_if_alive() -> None:
            if victim.life == life and victim.machine is not None:
                hit()

        simulation.outside(simulation.chance.random() * within_ms, hit_if_alive)

    def _lose_power(self) -> None:
        self._end(self._victim(), with_power=True)

    def _kill(self) -> None:
        self._end(self._victim(), with_power=False)

    def _lose_all_power(self) -> None:
        self._counters["losses of all power"] += 1
        for replica in self._simulation.replicas.values():
            self._end(replica, with_power=True)

    def _shut_down(self) -> None:
        victim = self._victim()
        self._counters["shutdowns"] += 1
        life = victim.life
        victim.step(ShutdownRequested())

        def end() -> None:
            if victim.life == life:
                self._end(victim, with_power=False)

        self._simulation.outside(SHUTDOWN_MS, end)

    # -- time, disks and leaders

    def _pause(self) -> None:
        self._counters["pauses"] += 1
        victim = self._victim()
        span_ms = self._simulation.chance.uniform(*PAUSE_MS)
        victim.paused_until_ms = self._simulation.now_ms + span_ms

    def _slow_disk(self) -> None:
        self._counters["slow disks"] += 1
        victim = self._victim()
        victim.has_slow_disk = True

        def heal() -> None:
            victim.has_slow_disk = False

        self._heal_after(SLOW_DISK_MS, heal)

    def _fill_disk(self) -> None:
        self._counters["full disks"] += 1
        victim = self._victim()
        victim.has_full_disk = True

        def heal() -> None:
            victim.has_full_disk = False

        self._heal_after(FULL_DISK_MS, heal)

    def _resign(self) -> None:
        for replica in self._simulation.replicas.values():
            if replica.machine is not None and replica.machine.is_leader:
                replica.step(ResignRequested(replica.machine.epoch))

    # -- the network

    def _block(self, pairs: list[tuple[int, int]]) -> None:
        blocked = self._network.blocked
        for pair in pairs:
            blocked[pair] = True

        def heal() -> None:
            for pair in pairs:
                blocked.pop(pair, None)

        self._heal_after(PARTITION_MS, heal)

    def _isolate(self) -> None:
        """Cut one node off, in both directions."""
        self._counters["isolations"] += 1
        self._isolate_node(self._victim().node_id)

    def _isolate_node(self, victim_id: int) -> None:
        others = [node_id for node_id in self._simulation.replicas if node_id != victim_id]
        self._block([pair for each in others for pair in ((victim_id, each), (each, victim_id))])

    def _split(self) -> None:
        """Split the nodes into two sides."""
        self._counters["splits"] += 1
        sides = {
            node_id: self._simulation.chance.random() < 0.5 for node_id in self._simulation.replicas
        }
        self._block([(a, b) for a in sides for b in sides if sides[a] != sides[b]])

    def _block_one_direction(self) -> None:
        """Lose all that one node sends, or all that it should receive."""
        self._counters["one-way partitions"] += 1
        victim_id = self._victim().node_id
        others = [node_id for node_id in self._simulation.replicas if node_id != victim_id]
        outbound = self._simulation.chance.random() < 0.5
        self._block([(victim_id, each) if outbound else (each, victim_id) for each in others])

    def heal_all(self) -> None:
        """End all faults: every node lives, nothing is lost or slow."""
        self._network.blocked.clear()
        self._network.loss_chance = 0.0
        for replica in self._simulation.replicas.values():
            replica.has_slow_disk = False
            replica.has_full_disk = False
            replica.paused_until_ms = 0.0
            if replica.machine is not None and replica.machine.replica.shutting_down:
                replica.kill()
            self._start(replica)
