"""One seed of a whole cluster: nodes, clients, faults, and the end in service.

When the faults are over, the cluster has bounded virtual time until one controller is active, all
images have every broker unfenced, all in-sync sets are whole and each partition serves. Then the
answers that clients got are compared with the images and logs.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from penstock.controller.image import ConfigResourceId, Image
from penstock.model import TopicPartition
from penstock.testing.sim.cluster.actors import (
    CONFIG,
    TOPIC_RESOURCE,
    AdminActor,
    ReaderActor,
)
from penstock.testing.sim.cluster.checker import ClusterChecker
from penstock.testing.sim.cluster.deliveries import DeliveryClients
from penstock.testing.sim.cluster.draws import (
    IDEMPOTENT,
    LEADER_ONLY,
    PLAIN,
    ClusterDraw,
    Hazard,
    draw_cluster,
)
from penstock.testing.sim.cluster.faults import ClusterFaults
from penstock.testing.sim.cluster.ledger import ClusterLedger
from penstock.testing.sim.cluster.observation import observed, silenced
from penstock.testing.sim.cluster.producers import (
    IdempotentProducer,
    LeaderProducer,
    ProducerActor,
)
from penstock.testing.sim.cluster.promises import ReplicaSets
from penstock.testing.sim.cluster.routing import RoutedScript, RoutingClient
from penstock.testing.sim.cluster.sim_cluster import SimCluster, SimNode
from penstock.testing.sim.invariants import InvariantBroken, require
from penstock.testing.sim.script import ScriptPause
from penstock.testing.sim.world import Simulation, SimWorld

FIRST_START_MS = 200.0
LATE_START_MS = (500.0, 3_000.0)
LOOK_MS = 10.0
STEPS_MAX = 400_000
FINAL_CALL_PAUSE_MS = 20.0
PRODUCERS = {PLAIN: ProducerActor, IDEMPOTENT: IdempotentProducer, LEADER_ONLY: LeaderProducer}


@dataclass(frozen=True, slots=True)
class ClusterSimRun:
    """The result of a seed: events counted by name, and a digest of all events in order."""

    seed: int
    counters: Counter[str]
    trace: str


class FinalReader(ReaderActor):
    """Writes to each partition once more, and reads it from its first offset to its end."""

    def __init__(self, run: "ClusterSimulation", partitions: list[TopicPartition]) -> None:
        super().__init__(run, "final-reader")
        self.partitions = partitions
        self.waits_for = ""

    def script(self) -> RoutedScript[None]:
        producer = ProducerActor(self.run, "final-producer")
        producer.leaders = self.leaders
        for partition in self.partitions:
            self.waits_for = f"a produce to {partition}"
            while not (yield from producer.produce(partition)):
                yield ScriptPause(FINAL_CALL_PAUSE_MS)
            self.waits_for = f"a fetch of {partition}"
            # A new leader may not know yet that the last records are committed.
            acknowledged = self.ledger.acknowledged.get(partition, {})
            is_bound = partition not in self.ledger.unbound
            due_offset = max(acknowledged, default=-1) + 1 if is_bound else 0
            end_offset = -1
            while end_offset < 0 or self.positions[partition] < max(end_offset, due_offset):
                end_offset = yield from self.read(partition)
                if end_offset < 0:
                    yield ScriptPause(FINAL_CALL_PAUSE_MS)


class FinalAdmin(AdminActor):
    """Creates a topic by each broker."""

    def script(self) -> RoutedScript[None]:
        for node_id in self.run.broker_ids:
            while not (yield from self.create(node_id)):
                yield ScriptPause(FINAL_CALL_PAUSE_MS)


class ClusterSimulation:
    """The nodes, the clients and the faults of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(f"cluster {seed}")
        self.draw: ClusterDraw = draw_cluster(seed, self.chance)
        self.cluster = SimCluster(
            seed, self.draw.roles, self.draw.settings, kraft_version=self.draw.kraft_version
        )
        self.simulation: Simulation = self.cluster.simulation
        self.checker = ClusterChecker(
            self.simulation, self.draw.session_ms, may_lose=self.draw.may_lose
        )
        self.ledger = ClusterLedger(unbound=self.checker.partitions.lost)
        if not self.draw.breaks_connections:
            self.simulation.network.chop_chance = 0.0
        self.clients: list[RoutingClient] = []
        self.deliveries = DeliveryClients(self, self.cluster) if self.draw.delivers else None
        self.story: list[str] | None = None  # notable events, one line each, if asked for
        self._outside = SimWorld(self.simulation, "outside")
        self._number = 0
        self.sets = ReplicaSets(self.cluster, loses_disks=self.draw.hazard is Hazard.DISKS)
        self.faults = ClusterFaults(self)
        self.checker.on_leader = self.faults.maybe_disturb
        self.checker.partitions.on_leader = self.faults.maybe_disturb_leader
        self.checker.on_markers = self.faults.maybe_cut_off_coordinator
        self.checker.on_revocation = self.faults.maybe_cut_off_new_owner
        self.checker.on_in_sync_change = self.faults.maybe_disturb_leader
        self.checker.partitions.trimmed = self.ledger.trimmed
        self.checker.tell = self.checker.partitions.tell = self.tell

    @property
    def mix(self) -> ClusterDraw:
        return self.draw

    def tell(self, event: str) -> None:
        """Note an event in the story of the seed."""
        if self.story is not None:
            self.story.append(f"{self.simulation.now_ms:9.3f} {event}")

    # -- what actors and faults ask and report

    @property
    def newest_image(self) -> Image:
        return self.checker.newest_image

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(each.node_id for each in self.cluster.nodes.values() if each.is_broker)

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def count(self, event: str) -> None:
        self.checker.count(event)

    def committed_end(self, partition: TopicPartition) -> int:
        history = self.checker.partitions.committed.get(partition)
        return 0 if history is None else history.end_offset

    def taken_over(self, producer_id: int, producer_epoch: int) -> None:
        self.checker.partitions.seal(producer_id, producer_epoch)

    def change_acknowledged(self) -> None:
        active = self.cluster.active
        if active is not None:
            self.faults.maybe_disturb(active.node_id)

    def later(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Run `call` as an event of no node."""
        self.simulation.schedule(delay_ms, self._outside, call, "outside")

    def started(self, node: SimNode) -> None:
        if self.draw.cold_chance and self.chance.random() < self.draw.cold_chance:
            for disk in node.world.disks.values():
                disk.cold = True
        self.checker.watch(node)

    @property
    def is_whole(self) -> bool:
        """Return whether all nodes serve, and all in-sync sets of the newest image are whole."""
        nodes = self.cluster.nodes.values()
        return all(each.is_ready for each in nodes) and self._is_complete(self.newest_image)

    def can_lose_directory(self, node_id: int) -> bool:
        """Return whether min.insync.replicas replicas of each partition are left without a node."""
        image = self.newest_image
        return all(
            len([each for each in self.sets.online(image, *both) if each != node_id])
            >= self.draw.min_insync
            for both in image.partitions()
        )

    # -- a run

    def run(self) -> ClusterSimRun:
        """Run the seed to its end. Raise AssertionError if the cluster did wrong."""
        with observed(self.checker), silenced():
            self._live()
            self.faults.heal_all()
            self.tell("all faults are over")
            healed_ms = self.simulation.now_ms
            self._wait(self._is_in_order, self._disorder)
            self._stop_clients()
            self._serve()
            if self.deliveries is not None:
                self._deliver(self.deliveries)
            self.checker.counters["ms until service"] += int(self.simulation.now_ms - healed_ms)
            self._judge()
        counters = self.checker.counters
        counters["turns"] += self.simulation.turns
        counters["connects that hang"] += self.simulation.network.hung
        counters["changes acknowledged"] += self.ledger.changes
        counters["records acknowledged"] += self.ledger.records
        counters["batches committed"] += len(self.checker.committed.batches)
        return ClusterSimRun(self.seed, counters, self.simulation.trace)

    def _live(self) -> None:
        draw, chance = self.draw, self.chance
        for node in self.cluster.nodes.values():
            span = LATE_START_MS if node.node_id in draw.late_ids else (0.0, FIRST_START_MS)
            self.later(chance.uniform(*span), lambda node=node: self.faults.start(node))  # type: ignore[misc]
        self.clients += [AdminActor(self, f"admin-{n}") for n in range(draw.admins)]
        self.clients += [
            PRODUCERS[kind](self, f"{kind}-producer-{n}") for n, kind in enumerate(draw.producers)
        ]
        self.clients += [ReaderActor(self, f"reader-{n}") for n in range(draw.readers)]
        for client in self.clients:
            client.start()
        if self.deliveries is not None:
            self.deliveries.start()
            self._every(draw.fault_gap_ms, self.deliveries.disturb)
        self._every(draw.fault_gap_ms, self.faults.inject)
        if draw.breaks_connections:
            self._every(draw.fault_gap_ms / 4, self.simulation.network.break_one)
        while self.simulation.now_ms < draw.faults_end_ms:
            self._step()

    def _every(self, gap_ms: float, call: Callable[[], object]) -> None:
        def tick() -> None:
            if self.simulation.now_ms < self.draw.faults_end_ms:
                call()
                self.later(self.chance.uniform(0.3, 1.7) * gap_ms, tick)

        self.later(self.chance.random() * gap_ms, tick)

    def _step(self) -> None:
        if not self.simulation.step() or self.simulation.turns > STEPS_MAX:
            raise InvariantBroken(f"no end after {self.simulation.turns} turns")
        while self.cluster.failed:
            self._ended(self.cluster.failed.pop(0))

    def _ended(self, node: SimNode) -> None:
        """Judge the reason of a node that has stopped by itself."""
        failure, node.failure = node.failure, None
        if failure is None:
            return  # the next life has begun
        text = failure
        has_rotten = self.draw.rots and "is damaged at offset" in text
        require(has_rotten or "injected" in text, f"node {node.node_id} gave up: {failure}")
        if has_rotten:
            self.checker.count("rotten records found")
        self.checker.count("nodes that gave up")
        self.later(100.0, lambda: self.faults.start(node))

    def _stop_clients(self) -> None:
        for client in self.clients:
            client.stop()

    # -- the end in service

    def _wait(self, condition: Callable[[], bool], describe: Callable[[], str]) -> None:
        """Run until the condition holds; look at it now and then."""
        deadline_ms = self.simulation.now_ms + self.draw.settle_ms
        look_ms = self.simulation.now_ms
        while True:
            if self.simulation.now_ms >= look_ms:
                if condition():
                    return
                look_ms = self.simulation.now_ms + LOOK_MS
            if self.simulation.now_ms > deadline_ms:
                raise InvariantBroken(
                    f"not in service {self.draw.settle_ms:.0f} ms after the last fault:\n"
                    + describe()
                )
            self._step()

    def _is_in_order(self) -> bool:
        nodes = self.cluster.nodes.values()
        for node in nodes:
            if node.is_over:
                self.faults.start(node)  # a stop that began before the end of the faults
        if not all(each.is_ready for each in nodes):
            return False
        if sum(each.broker.metadata.is_active for each in nodes) != 1:
            return False
        return all(self._is_complete(each.image) for each in nodes)

    def _is_complete(self, image: Image) -> bool:
        """Return whether an image has all brokers unfenced, and all in-sync sets whole."""
        for broker_id in self.broker_ids:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced:
                return False
            if broker.epoch != self.cluster.nodes[broker_id].broker_epoch:
                return False
        return next(self.sets.broken(image), None) is None

    def _can_serve(self, partition: TopicPartition) -> bool:
        """Return whether enough replicas of a partition still have their directories."""
        image = self.newest_image
        topic = image.topics.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            return True
        known = topic.partitions[partition.partition]
        enough = len(self.sets.online(image, topic, known)) >= self.draw.min_insync
        return enough and not self.sets.is_left_behind(image, topic, known)

    def _disorder(self) -> str:
        lines = []
        for node in self.cluster.nodes.values():
            if node.is_over:
                lines.append(f"  node {node.node_id}: down")
                continue
            image, view = node.image, node.broker.metadata.describe()
            brokers = {
                each.broker_id: "fenced" if each.fenced else "serves"
                for each in image.brokers.values()
            }
            broken = [
                f"{name}: leader {each.leader} of {each.replicas}, in sync {each.isr}, eligible "
                f"{each.eligible_leaders}, last leader {each.last_known_leaders}"
                for name, each in self.sets.broken(image)
            ]
            lines.append(
                f"  node {node.node_id}: ready={node.is_ready} "
                f"active={node.broker.metadata.is_active} leader={view.leader_id} "
                f"epoch={view.epoch} image={image.offset} brokers={brokers} "
                f"sets that are not whole={broken}"
            )
        return "\n".join(lines)

    def _serve(self) -> None:
        """Let each broker serve admin requests, and each partition a produce and a fetch."""
        partitions = [
            partition
            for fate in self.ledger.living
            for index in range(fate.partitions)
            if self._can_serve(partition := TopicPartition(fate.name, index))
        ]
        admin, reader = FinalAdmin(self, "final-admin"), FinalReader(self, partitions)
        for client in (admin, reader):
            client.start()
        self._wait(
            lambda: admin.is_over and reader.is_over,
            lambda: f"{reader.waits_for} or admin ({admin.is_over})\n{self._disorder()}",
        )
        self._final_positions = reader.positions
        for client in (admin, reader):
            client.stop()

    def _deliver(self, deliveries: DeliveryClients) -> None:
        """Let each group and each transaction come to its end."""
        deliveries.calm_down()
        self._wait(lambda: not deliveries.unrest(), lambda: str(deliveries.unrest()))
        readers = deliveries.readers()
        for reader in readers:
            reader.start()
        self._wait(lambda: all(each.is_over for each in readers), lambda: "reads to the end")
        deliveries.finish()
        self._wait(lambda: deliveries.are_over, lambda: "clients that finish")
        deliveries.judge()

    # -- the answers that clients got

    def _judge(self) -> None:
        image = self.newest_image
        for fate in self.ledger.topics.values():
            if fate.is_deleted:
                require(image.topic(fate.topic_id) is None, f"{fate.name} was deleted, and is back")
            elif not fate.is_uncertain:
                topic = image.topics.get(fate.name)
                require(
                    topic is not None and topic.topic_id == fate.topic_id,
                    f"{fate.name} was created, and is gone",
                )
                assert topic is not None, "checked above"
                require(
                    len(topic.partitions) >= fate.partitions, f"{fate.name} has lost partitions"
                )
                configs = image.configs.get(ConfigResourceId(TOPIC_RESOURCE, fate.name), {})
                require(
                    fate.config is None or configs.get(CONFIG) == fate.config,
                    f"{fate.name} has lost its {CONFIG} {fate.config}: {dict(configs)}",
                )
        self._judge_records()

    def _judge_records(self) -> None:
        """Compare all that was acknowledged or read with the logs as they are in the end."""
        for partition, end_offset in self._final_positions.items():
            seen = self.ledger.seen.get(partition, {})
            if partition in self.ledger.unbound:
                continue
            require(
                len(set(seen.values())) == len(seen),
                f"{partition} has a record twice: {Counter(seen.values()).most_common(1)}",
            )
            trimmed = self.ledger.trimmed.get(partition, 0)
            for offset, value in self.ledger.acknowledged.get(partition, {}).items():
                require(
                    offset < trimmed or seen.get(offset) == value,
                    f"{partition} has lost the acknowledged record at {offset} of {end_offset}",
                )


def simulate(seed: int) -> ClusterSimRun:
    """Run one seed. Raise AssertionError if an invariant breaks or the cluster does not serve."""
    return ClusterSimulation(seed).run()
