"""Faults of a simulated cluster: drawn one after the other, each healed after a while.

They stay within the promises of a cluster: no voter starts on an older copy of its disk, and only
brokers that do not vote get empty disks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.testing.sim.cluster.draws import BROKER, Hazard
from penstock.testing.sim.cluster.promises import UncleanDeaths
from penstock.testing.sim.cluster.sim_cluster import SimNode
from penstock.testing.sim.world import WorldDisk
from penstock.wire.messages.k64_unregister_broker import UnregisterBrokerRequest

if TYPE_CHECKING:
    from penstock.testing.sim.cluster.simulation import ClusterSimulation

DOWN_MS = (5.0, 1_500.0)
PAUSE_MS = (20.0, 1_500.0)
CUT_MS = (50.0, 1_500.0)
SLOW_DISK_MS = (200.0, 1_000.0)
SLOW_SYNC_MS = (60.0, 400.0)
FULL_DISK_MS = (50.0, 600.0)
ROT_MS = (50.0, 600.0)
BACKUP_AGE_MS = (100.0, 2_500.0)
RECENT_MS = (50.0, 600.0)  # the age of a backup with most partitions, but not all their records
DOUBLE_MS = (1_000.0, 4_000.0)
WALL_JUMP_MS = (-3_600_000, 3_600_000)
STOP_GAP_MS = (0.0, 200.0)  # between the stops of all nodes
LOOK_MS = 20.0
ROLLING_GAP_MS = (50.0, 600.0)
MOMENT_MS = 30.0
PARTITION_MOMENT_SHARE = 0.2
MARKER_MOMENT_SHARE, REVOCATION_MOMENT_SHARE = 0.3, 3.0
MARKER_CUT_SESSIONS = (1.2, 3.0)


class ClusterFaults:
    """Draws faults and heals them."""

    def __init__(self, simulation: "ClusterSimulation") -> None:
        self._run = simulation
        self._chance = simulation.chance
        self._network = simulation.cluster.simulation.network
        self._counters = simulation.checker.counters
        self._are_over = False
        self._double: SimNode | None = None  # a second process with the id of a broker
        self._kept_down: dict[int, None] = {}  # nodes that wait until all are down
        self._loses_files = simulation.draw.hazard is Hazard.DISKS
        self._disk_faults = 0  # full disks and rot that have not ended
        self._deaths = UncleanDeaths(simulation.draw.deaths_max, self._all_whole)
        kinds: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (3, self._cut_power),
            (1, self._cut_all_power),
            (3, self._stop),
            (1, self._roll),
            (1, self._restart_all),
            (3, self._pause),
            (3, self._isolate),
            (2, self._split),
            (2, self._cut_one_direction),
            (2, self._vanish),
            (2, self._slow_disk),
            (2, self._fill_disk),
            (1, self._jump),
            (1, self._unregister),
            *([(8, self._rot)] if simulation.draw.rots else []),
        ]
        if self._loses_files:
            kinds += [(3, self._swap_disk), (3, self._start_double), (6, self._restore_disk)]
            kinds += [(4, self._restart_all)]
        self._kinds = [kind for weight, kind in kinds for _ in range(weight)]

    def inject(self) -> None:
        self._counters["faults"] += 1
        kind = self._chance.choice(self._kinds)
        self._run.tell(kind.__name__.strip("_").replace("_", " "))
        kind()

    # -- deaths within the promises

    def _all_whole(self) -> bool:
        return not self._disk_faults and self._run.is_whole

    def _may_die(self) -> bool:
        """Count an unclean death; return False if the promises do not cover it now."""
        if self._deaths.try_one():
            return True
        self._counters["deaths left out"] += 1
        return False

    # -- victims: the active controller suffers more often than its share

    def _victim(self) -> SimNode | None:
        running = self._run.cluster.running
        active = self._run.cluster.active
        if active is not None and self._chance.random() < 0.3:
            return active
        return self._chance.choice(running) if running else None

    def _after(self, span_ms: tuple[float, float], call: Callable[[], None]) -> None:
        self._run.later(self._chance.uniform(*span_ms), call)

    # -- ends of processes and machines

    def start(self, node: SimNode) -> None:
        """Start a node, or try again a little later: its disk may be full."""
        if not node.is_over or node.node_id in self._kept_down:
            return
        drift = self._run.draw.clock_drift
        node.clock_rate = 1.0 + self._chance.uniform(-drift, drift)
        node.end_rot()
        node.start()
        if node.failure is not None:
            self._counters["starts without room on the disk"] += 1
            return  # the run starts it again
        self._run.tell(f"node {node.node_id} starts")
        node.world.disk_ms_max = self._run.draw.disk_ms
        self._run.started(node)

    def _restart_later(self, node: SimNode) -> None:
        self._after(DOWN_MS, lambda: self.start(node))

    def _kill(self) -> None:
        node = self._victim()
        if node is not None and self._may_die():
            self._kill_node(node)

    def _kill_node(self, node: SimNode) -> None:
        self._counters["kills"] += 1
        self._run.tell(f"node {node.node_id} is killed")
        node.kill()
        self._restart_later(node)

    def _cut_power(self) -> None:
        node = self._victim()
        if node is not None and self._may_die():
            self._lose_power(node, machine=False)

    def _vanish(self) -> None:
        """Let a machine lose power without a reset of its connections."""
        node = self._victim()
        if node is not None and self._may_die():
            self._lose_power(node, machine=True)

    def _lose_power(self, node: SimNode, *, machine: bool) -> None:
        """Cut the power of a node; kill it where files have to keep all that was written."""
        if not self._run.draw.loses_power:
            self._kill_node(node)
            return
        self._counters["vanished machines"] += machine
        self._counters["losses of power"] += 1
        self._run.tell(f"node {node.node_id} loses power")
        node.cut_power(machine=machine)
        self._restart_later(node)

    def _cut_all_power(self) -> None:
        if self._deaths.is_limited:
            return
        self._counters["losses of all power"] += 1
        for node in self._run.cluster.running:
            self._lose_power(node, machine=False)

    def _stop(self) -> None:
        node = self._victim()
        if node is not None and (node.is_ready or self._may_die()):
            self._counters["clean stops"] += 1
            self._stop_and_start(node, DOWN_MS, lambda: None)

    def _stop_and_start(
        self,
        node: SimNode,
        gap_ms: tuple[float, float],
        started: Callable[[], None],
        stopped: Callable[[], None] = lambda: None,
    ) -> None:
        """Stop a node cleanly, wait for its end, and start it again."""
        life = node.lives

        def start() -> None:
            if node.lives == life:
                self.start(node)
                started()

        def start_later() -> None:
            stopped()
            self._after(gap_ms, start)

        self._stop_cleanly(node, start_later)

    def _stop_cleanly(self, node: SimNode, stopped: Callable[[], None]) -> None:
        """Stop a node; call `stopped` at its end, unless another life has begun by then."""
        life = node.lives
        self._run.tell(f"node {node.node_id} stops")
        node.stop()

        def look() -> None:
            if node.lives != life:
                return
            if node.is_over:
                stopped()
            else:
                self._run.later(10.0, look)

        look()

    def _roll(self) -> None:
        """Restart all nodes, one after the other."""
        self._counters["rolling restarts"] += 1
        waiting = list(self._run.cluster.running)

        def next_one() -> None:
            while waiting and waiting[0].is_over:
                waiting.pop(0)
            if waiting and not self._are_over and (waiting[0].is_ready or self._may_die()):
                self._stop_and_start(
                    waiting.pop(0), ROLLING_GAP_MS, lambda: self._after(ROLLING_GAP_MS, next_one)
                )

        next_one()

    def _restart_all(self) -> None:
        """Stop all nodes, one after the other, and start them in another order. With the hazard of
        disks one of them comes back without some of its files."""
        nodes = list(self._run.cluster.running)
        self._chance.shuffle(nodes)
        # The first replicas that stop leave the sets, the last ones stay eligible.
        brokers = [each for each in nodes if each.is_broker][1:]
        damaged = self._chance.choice(brokers) if self._loses_files and brokers else None
        older = damaged.record_disks if damaged is not None else []
        backup = self._chance.choice(older).backup() if older else None

        def begin() -> None:
            if self._are_over:
                return
            if self._kept_down or not self._all_whole():
                self._run.later(LOOK_MS, begin)
                return
            self._counters["restarts of all"] += 1
            loses = damaged is not None and self._run.can_lose_directory(damaged.node_id)
            may_lose = loses and self._may_die()
            self._stop_all(
                nodes, lambda: self._damage(damaged, backup) if damaged and may_lose else None
            )

        self._after(RECENT_MS if damaged is not None else (0.0, 0.0), begin)

    def _stop_all(self, nodes: list[SimNode], stopped: Callable[[], None]) -> None:
        """Stop nodes in this order; then call `stopped`, and start them in another order."""
        waiting = list(nodes)
        ending: list[tuple[SimNode, object]] = []  # and which life of the node
        self._kept_down = {node.node_id: None for node in nodes}

        def stop_next() -> None:
            if waiting and not self._are_over:
                node = waiting.pop(0)
                if not node.is_over:
                    self._run.tell(f"node {node.node_id} stops")
                    ending.append((node, node.node))
                    node.stop()
                self._after(STOP_GAP_MS, stop_next)
            else:
                look()

        def look() -> None:
            # A broker that stops waits for a controller: its stop may end after all faults.
            lives = any(not node.is_over and node.node is life for node, life in ending)
            if lives or (not self._are_over and not all(each.is_over for each in nodes)):
                self._run.later(LOOK_MS, look)
                return
            self._kept_down.clear()
            stopped()
            for node in self._chance.sample(nodes, len(nodes)):
                self._after(ROLLING_GAP_MS, lambda node=node: self.start(node))  # type: ignore[misc]

        stop_next()

    def _damage(self, node: SimNode, backup: WorldDisk | None) -> None:
        """Replace a disk of a stopped node by an older one, or remove a partition from it."""
        if self._are_over or not node.is_over:
            return
        if backup is not None and self._chance.random() < 0.7:
            self._counters["restored disks"] += 1
            self._run.tell(f"node {node.node_id} gets an older {backup.root}")
            node.restore(backup)
        elif name := node.remove_partition(self._chance):
            self._counters["removed partitions"] += 1
            self._run.tell(f"node {node.node_id} loses {name}")

    def _swap_disk(self) -> None:
        """Give a broker that does not vote an empty disk."""
        brokers = [each for each in self._run.cluster.running if each.roles == BROKER]
        if not brokers:
            return
        node = self._chance.choice(brokers)
        if not self._run.can_lose_directory(node.node_id) or not self._may_die():
            return
        self._counters["swapped disks"] += 1
        node.kill()
        node.replace_disks()
        self._restart_later(node)

    def _restore_disk(self) -> None:
        """Give a node an older copy of a disk that holds no vote."""
        node = self._victim()
        if node is None or not node.record_disks or not node.is_ready:
            return
        backup = self._chance.choice(node.record_disks).backup()

        def swap() -> None:
            if node.is_over or self._are_over or not self._run.can_lose_directory(node.node_id):
                return
            if not self._may_die():
                return
            self._counters["restored disks"] += 1
            self._run.tell(f"node {node.node_id} gets an older {backup.root}")
            if self._chance.random() < 0.5:
                node.kill()
                node.restore(backup)
                self._restart_later(node)
            else:
                self._stop_and_start(node, DOWN_MS, lambda: None, lambda: node.restore(backup))

        self._after(BACKUP_AGE_MS, swap)

    # -- registrations

    def _unregister(self) -> None:
        """Remove a registration, as an operator may; a live broker registers again."""
        asked = self._victim()
        image = self._run.newest_image
        if asked is None or not image.brokers:
            return
        self._counters["brokers unregistered"] += 1
        request = UnregisterBrokerRequest(broker_id=self._chance.choice(sorted(image.brokers)))
        asked.broker.metadata.submit(request, 0, lambda _response: None)

    def _start_double(self) -> None:
        """Start a second process with the id of a broker that does not vote, for a while."""
        brokers = [each for each in self._run.cluster.nodes.values() if each.roles == BROKER]
        if not brokers or self._double is not None:
            return
        node = self._chance.choice(brokers)
        if not self._run.can_lose_directory(node.node_id) or not self._may_die():
            return
        self._counters["second processes of a broker"] += 1
        self._double = double = self._run.cluster.make_node(
            node.node_id, BROKER, f"{node.host}-double"
        )
        double.start()
        if double.failure is None:
            self._run.started(double)
        if self._chance.random() < 0.8 and not node.is_over:
            # Longer than a session, mostly: then the second process can register.
            sessions = self._chance.uniform(0.8, 2.0)
            node.world.pause(sessions * self._run.draw.session_ms)
        self._after(DOUBLE_MS, self._end_double)

    def _end_double(self) -> None:
        double, self._double = self._double, None
        if double is not None and not double.is_over:
            double.kill()

    # -- dangerous moments

    def maybe_disturb_leader(self, node_id: int) -> None:
        """Let a fault hit a node a moment after it leads another partition, or after its in-sync
        set has changed. One election moves many partitions."""
        self.maybe_disturb(node_id, PARTITION_MOMENT_SHARE)

    def maybe_disturb(self, node_id: int, share: float = 1.0) -> None:
        """Let a fault hit a node a moment after an election or a committed change, now and then."""
        run = self._run
        if self._are_over or self._chance.random() >= run.draw.moment_fault_chance * share:
            return
        node = run.cluster.nodes[node_id]
        life = node.lives

        def hit() -> None:
            if node.lives != life or node.is_over or self._are_over:
                return
            self._counters["faults at a dangerous moment"] += 1
            if self._chance.random() < 0.5 and self._may_die():
                self._lose_power(node, machine=False)
            else:
                self._isolate_node(node)

        run.later(self._chance.uniform(0.0, MOMENT_MS), hit)

    def maybe_cut_off_coordinator(self, node_id: int, share: float = MARKER_MOMENT_SHARE) -> None:
        """Cut a node off whose markers have just left, for longer than a session, now and then.
        These arrive when another coordinator has ended the transaction."""
        run = self._run
        if self._are_over or self._chance.random() >= run.draw.moment_fault_chance * share:
            return
        self._counters["coordinators cut off"] += 1
        sessions = self._chance.uniform(*MARKER_CUT_SESSIONS)
        span_ms = (sessions * run.draw.session_ms,) * 2
        self._isolate_node(run.cluster.nodes[node_id], span_ms)

    def maybe_cut_off_new_owner(self, node_id: int) -> None:
        """Cut a coordinator off from the leaders during a take-over: the former owner goes on."""
        self.maybe_cut_off_coordinator(node_id, REVOCATION_MOMENT_SHARE)

    # -- time and disks

    def _pause(self) -> None:
        node = self._victim()
        if node is not None:
            self._counters["pauses"] += 1
            self._run.tell(f"node {node.node_id} is paused")
            node.world.pause(self._chance.uniform(*PAUSE_MS))

    def _jump(self) -> None:
        """Let the wall clock of a node jump."""
        node = self._victim()
        if node is not None:
            self._counters["wall clock jumps"] += 1
            node.skew_ms = node.world.skew_ms = self._chance.randint(*WALL_JUMP_MS)

    def _slow_disk(self) -> None:
        node = self._victim()
        if node is None:
            return
        self._counters["slow disks"] += 1
        world = node.world
        world.disk_ms_max = self._chance.uniform(*SLOW_SYNC_MS)

        def heal() -> None:
            world.disk_ms_max = self._run.draw.disk_ms

        self._after(SLOW_DISK_MS, heal)

    def _fill_disk(self) -> None:
        node = self._victim()
        if node is None or not self._may_die():
            return
        self._counters["full disks"] += 1
        self._disk_faults += 1
        disk = self._chance.choice(list(node.world.disks.values()))
        self._run.tell(f"the disk {disk.root} of node {node.node_id} is full")
        disk.is_full = True

        def heal() -> None:
            disk.is_full = False
            self._disk_faults -= 1

        self._after(FULL_DISK_MS, heal)

    def _rot(self) -> None:
        """Let a record of a node's metadata log be unreadable for a while, from its append on."""
        node = self._victim()
        if node is None or not self._may_die():
            return
        self._counters["bit rot"] += 1
        self._disk_faults += 1
        self._run.tell(f"the disk of node {node.node_id} rots")
        disk = node.metadata_disk
        disk.rot_next(f"{METADATA_DIRECTORY}/")

        def heal() -> None:
            disk.end_rot()
            self._disk_faults -= 1

        self._after(ROT_MS, heal)

    # -- the network

    @property
    def _hosts(self) -> list[str]:
        return [each.host for each in self._run.cluster.nodes.values()]

    def _cut(self, pairs: list[tuple[str, str]], span_ms: tuple[float, float] = CUT_MS) -> None:
        for source, target in pairs:
            self._network.cut(source, target)

        def heal() -> None:
            for source, target in pairs:
                self._network.restore(source, target)

        self._after(span_ms, heal)

    def _isolate(self) -> None:
        node = self._victim()
        if node is not None:
            self._isolate_node(node)

    def _isolate_node(self, node: SimNode, span_ms: tuple[float, float] = CUT_MS) -> None:
        """Cut a node off from the others, in both directions. Clients still reach it."""
        self._counters["isolations"] += 1
        self._run.tell(f"node {node.node_id} is isolated")
        others = [each for each in self._hosts if each != node.host]
        pairs = [pair for each in others for pair in ((node.host, each), (each, node.host))]
        self._cut(pairs, span_ms)

    def _split(self) -> None:
        self._counters["splits"] += 1
        sides = {host: self._chance.random() < 0.5 for host in self._hosts}
        self._cut([(a, b) for a in sides for b in sides if sides[a] != sides[b]])

    def _cut_one_direction(self) -> None:
        node = self._victim()
        if node is None:
            return
        self._counters["one-way partitions"] += 1
        others = [each for each in self._hosts if each != node.host]
        outbound = self._chance.random() < 0.5
        self._cut([(node.host, each) if outbound else (each, node.host) for each in others])

    def heal_all(self) -> None:
        """End all faults: every node lives, nothing is cut, paused, slow or full."""
        self._are_over = True
        self._kept_down.clear()
        self._end_double()
        self._network.heal()
        for node in self._run.cluster.nodes.values():
            if node.lives:
                node.world.paused_until_ms = 0.0
                node.world.disk_ms_max = self._run.draw.disk_ms
                for disk in node.world.disks.values():
                    disk.is_full = False
                    disk.end_rot()
            self.start(node)
