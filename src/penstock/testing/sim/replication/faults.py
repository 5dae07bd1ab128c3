"""Faults of simulated nodes: drawn one after the other within what is promised, each healed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.testing.sim.replication.draws import DeathMix
from penstock.testing.sim.replication.sim_controller import CONTROLLER_ID

if TYPE_CHECKING:
    from penstock.testing.sim.replication.replicating_node import ReplicatingNode
    from penstock.testing.sim.replication.simulation import ReplicationSimulation

DOWN_MS = (1.0, 150.0)
PAUSE_MS = (5.0, 150.0)
PARTITION_MS = (10.0, 200.0)
SOON_MS = 10.0
QUICK_START_MS = (0.0, 5.0)
RETURN_CUT_OFF_CHANCE = 0.3
FETCH_FAULT_SHARE = 0.3  # a seed has many fetches


class ReplicationFaults:
    """Draws faults and heals them."""

    def __init__(self, simulation: "ReplicationSimulation") -> None:
        self._simulation = simulation
        self._counters = simulation.checker.counters
        self._deaths = 0  # unclean ones, since all sets were whole
        kinds: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (3, self._lose_power),
            (1, self._end_all),
            (3, self._stop_cleanly),
            (3, self._pause),
            (4, self._isolate),
            (3, self._split),
            (3, self._cut_pair),
            (2, self._block_one_direction),
            (2, simulation.controller.elect_preferred),
        ]
        self._kinds = [kind for weight, kind in kinds for _ in range(weight)]

    def inject(self) -> None:
        self._simulation.chance.choice(self._kinds)()

    def _victim(self) -> "ReplicatingNode":
        """Return a node, one that leads more often than its share."""
        chance, nodes = self._simulation.chance, list(self._simulation.nodes.values())
        leaders = [each for each in nodes if each.life and any(p.leading for p in each.partitions)]
        return chance.choice(leaders if leaders and chance.random() < 0.4 else nodes)

    def _heal_after(self, span_ms: tuple[float, float], heal: Callable[[], None]) -> None:
        simulation = self._simulation
        simulation.at(simulation.now_ms + simulation.chance.uniform(*span_ms), None, heal)

    # -- ends of processes

    def _may_die(self) -> bool:
        """Return whether one more unclean death is within what is promised."""
        draw = self._simulation.draw
        if draw.deaths is not DeathMix.POWER:
            return True
        if self._simulation.is_whole:
            self._deaths = 0
        return self._deaths + 1 < draw.min_insync

    def _end(
        self,
        victim: "ReplicatingNode",
        *,
        with_power: bool,
        down_ms: tuple[float, float] = DOWN_MS,
    ) -> None:
        if not victim.life or not self._may_die():
            return
        self._deaths += 1
        if with_power and self._simulation.draw.deaths is not DeathMix.KILLS:
            self._counters["losses of power"] += 1
            victim.lose_power()
        else:
            self._counters["kills"] += 1
            victim.kill()
        self.start_later(victim, down_ms)
        if self._simulation.chance.random() < RETURN_CUT_OFF_CHANCE:
            # The controller hears the new life before the leaders do; their last fetches are old.
            self._counters["returns while cut off from nodes"] += 1
            self._cut_off(victim.node_id, [])

    def start_later(
        self, victim: "ReplicatingNode", down_ms: tuple[float, float] = DOWN_MS
    ) -> None:
        self._heal_after(down_ms, lambda: self._start(victim))

    def _start(self, victim: "ReplicatingNode") -> None:
        if not victim.life:
            victim.paused_until_ms = 0.0
            victim.start()

    def _kill(self) -> None:
        self._end(self._victim(), with_power=False)

    def _lose_power(self) -> None:
        self._end(self._victim(), with_power=True)

    def _end_all(self) -> None:
        """End all processes at nearly the same time."""
        self._counters["ends of all"] += 1
        with_power = self._simulation.chance.random() < 0.5
        for node in self._simulation.nodes.values():
            self._end(node, with_power=with_power)

    def _stop_cleanly(self) -> None:
        victim = self._victim()
        if victim.life and victim.paused_until_ms <= self._simulation.now_ms:
            self._counters["clean stops"] += 1
            victim.stop_cleanly()

    def maybe_disturb_leader(self, node_id: int) -> None:
        """End or isolate a node soon after its election, now and then."""
        simulation = self._simulation
        if (
            simulation.is_healed
            or simulation.chance.random() >= simulation.draw.moment_fault_chance
        ):
            return

        def disturb() -> None:
            self._counters["faults after an election"] += 1
            if simulation.chance.random() < 0.5:
                self._isolate_node(node_id)
            else:
                self._end(simulation.nodes[node_id], with_power=True)

        self._heal_after((0.0, SOON_MS), disturb)

    def maybe_end_follower(self, node_id: int) -> None:
        """End a node while its fetch is on the way, and cut the next life off from the leader."""
        simulation = self._simulation
        chance = 0.0 if simulation.is_healed else simulation.draw.moment_fault_chance
        if simulation.chance.random() >= chance * FETCH_FAULT_SHARE:
            return

        def end() -> None:
            self._counters["faults during a fetch"] += 1
            self._end(simulation.nodes[node_id], with_power=True, down_ms=QUICK_START_MS)
            self._cut_off(node_id, [])

        self._heal_after((0.0, 0.0), end)

    def maybe_end_member(self, node_id: int) -> None:
        """End a node while it is about to join an in-sync set, and start it again soon."""
        simulation = self._simulation
        chance = 0.0 if simulation.is_healed else simulation.draw.moment_fault_chance
        if simulation.chance.random() >= chance:
            return

        def end() -> None:
            self._counters["faults during a join"] += 1
            self._end(simulation.nodes[node_id], with_power=True, down_ms=QUICK_START_MS)

        self._heal_after((0.0, SOON_MS), end)

    # -- time and network

    def _pause(self) -> None:
        self._counters["pauses"] += 1
        span_ms = self._simulation.chance.uniform(*PAUSE_MS)
        self._victim().paused_until_ms = self._simulation.now_ms + span_ms

    def _isolate(self) -> None:
        self._counters["isolations"] += 1
        self._isolate_node(self._victim().node_id)

    def _isolate_node(self, victim_id: int) -> None:
        """Cut one node off from all, or only from the controller."""
        if self._simulation.chance.random() < 0.7:
            self._cut_off(victim_id, [CONTROLLER_ID])
        else:
            self._block([(victim_id, CONTROLLER_ID), (CONTROLLER_ID, victim_id)])

    def _cut_off(self, victim_id: int, others: list[int]) -> None:
        """Cut one node off from all nodes and from others, in both directions."""
        others = [*others, *(each for each in self._simulation.nodes if each != victim_id)]
        self._block([pair for each in others for pair in ((victim_id, each), (each, victim_id))])

    def _cut_pair(self) -> None:
        """Cut two nodes off from each other; the controller reaches both."""
        self._counters["cuts between two nodes"] += 1
        one, other = self._simulation.chance.sample(list(self._simulation.nodes), 2)
        self._block([(one, other), (other, one)])

    def _split(self) -> None:
        self._counters["splits"] += 1
        chance = self._simulation.chance
        sides = {each: chance.random() < 0.5 for each in (CONTROLLER_ID, *self._simulation.nodes)}
        self._block([(a, b) for a in sides for b in sides if sides[a] != sides[b]])

    def _block_one_direction(self) -> None:
        """Lose all that one node sends, or all that it should receive."""
        self._counters["one-way partitions"] += 1
        victim_id = self._victim().node_id
        others = [CONTROLLER_ID, *(each for each in self._simulation.nodes if each != victim_id)]
        outbound = self._simulation.chance.random() < 0.5
        self._block([(victim_id, each) if outbound else (each, victim_id) for each in others])

    def _block(self, pairs: list[tuple[int, int]]) -> None:
        blocked = self._simulation.connections.blocked
        for pair in pairs:
            blocked[pair] = None

        def heal() -> None:
            for pair in pairs:
                blocked.pop(pair, None)

        self._heal_after(PARTITION_MS, heal)

    def heal_all(self) -> None:
        """End all faults: every node lives, and nothing is lost."""
        self._simulation.connections.blocked.clear()
        self._simulation.connections.loss_chance = 0.0
        for node in self._simulation.nodes.values():
            node.paused_until_ms = 0.0
            self._start(node)
