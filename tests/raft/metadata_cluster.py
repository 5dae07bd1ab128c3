"""Metadata of several nodes on simulated disks: quorum, runtime and controller, with a plain wire.

Faults come from one seed: kills, losses of power, cut paths, pauses. The images that nodes publish
are compared at equal offsets, and each delta with the difference of its images.
"""

from collections.abc import Callable
from typing import Any

from penstock.broker.metadata.quorum_controller import QuorumController, SnapshotPolicy
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.metadata.stored_log import open_stored_log
from penstock.config.broker import BrokerConfig
from penstock.controller.config_rules import TableRules
from penstock.controller.delta import Delta
from penstock.controller.image import BROKER, ConfigResourceId, Image
from penstock.controller.settings import ControllerSettings
from penstock.errors import KafkaError
from penstock.raft.quorum import QuorumSettings
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.raft.replica import ReplicaSettings
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.testing.sim.world import Simulation, SimWorld, WorldDisk
from penstock.wire.messages import k44_incremental_alter_configs as k44

CLUSTER = "cluster"
WIRE_MS = (0.1, 4.0)
KEY = "log.retention.ms"
ALL_BROKERS = ConfigResourceId(BROKER, "")


def voter(node_id: int) -> QuorumVoter:
    return QuorumVoter(node_id, bytes(16), (VoterEndpoint("C", f"node-{node_id}", 9093),))


class MetadataNode:
    """One node: a life after the other on the same disk."""

    def __init__(self, cluster: "MetadataCluster", node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.name = f"node-{node_id}"
        self.disks: dict[str, WorldDisk] = {}
        self.world: SimWorld
        self.metadata: QuorumController | None = None
        self.image = Image()

    def start(self) -> None:
        cluster = self.cluster
        self.world = world = SimWorld(cluster.simulation, self.name, disks=self.disks)
        self.disks = world.disks
        disk = world.disk("data")
        self.image = Image()
        self.metadata = QuorumController(
            disk,
            world.clock,
            world.timers,
            world.entropy,
            me=QuorumVoter(self.node_id, bytes([self.node_id]) * 16, voter(self.node_id).endpoints),
            quorum=QuorumSettings(cluster.replica_settings, cluster.voters, is_sole=False),
            transport=self,
            controller=ControllerSettings(cluster_id=CLUSTER, node_id=self.node_id),
            rules=TableRules(BrokerConfig({})),
            snapshots=SnapshotPolicy(cluster.snapshot_bytes, 60_000),
            open_log=open_stored_log(disk, METADATA_DIRECTORY, world.clock, cluster.segment_bytes),
            failed=self._fail,
            unreadable=self._fail,
        )
        self.metadata.on_image(self._follow)
        self.metadata.start()

    def _fail(self, reason: object) -> None:
        raise AssertionError(f"{self.name}: {reason}")

    def _follow(self, image: Image, delta: Delta) -> None:
        self.cluster.judge(self, image, delta)
        self.image = image

    def die(self, *, power: bool) -> None:
        self.metadata = None
        self.world.kill()
        self.disks = self.world.disks_after_power_loss() if power else self.world.disks_after_kill()

    # QuorumTransport

    def send(
        self,
        node_id: int,
        _endpoint: VoterEndpoint | None,
        request: QuorumRequest,
        timeout_ms: float,
        answered: Callable[[QuorumResponse | None], None],
    ) -> None:
        world, pending = self.world, [answered]

        def finish(response: QuorumResponse | None) -> None:
            if pending:
                pending.pop()(response)

        def failed() -> None:
            finish(None)

        self.cluster.simulation.schedule(timeout_ms, world, failed, "timeout")
        self.cluster.deliver(self, node_id, request, finish)


class MetadataCluster:
    """The nodes, their wire, and the judge of their images."""

    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.simulation = Simulation(seed)
        self.chance = self.simulation.chance
        self.voters = tuple(voter(each) for each in range(1, nodes + 1))
        self.replica_settings = ReplicaSettings(
            cluster_id=CLUSTER,
            election_timeout_ms=self.chance.randint(50, 200),
            fetch_timeout_ms=self.chance.randint(100, 300),
            election_backoff_ms_max=100,
            request_timeout_ms=self.chance.randint(100, 300),
            fetch_wait_ms_max=50,
            fetch_snapshot_bytes_max=self.chance.choice((200, 100_000)),
        )
        self.snapshot_bytes = self.chance.choice((600, 3_000, 1 << 20))
        self.segment_bytes = self.chance.choice((2_000, 1 << 20))
        self.nodes = {each: MetadataNode(self, each) for each in range(1, nodes + 1)}
        self.cut: dict[tuple[int, int], None] = {}
        self.images: dict[int, Image] = {}  # the first published one at each offset
        self.acknowledged: dict[str, int] = {}  # values by their order
        self.installs = 0
        self._last_value = 0
        for node in self.nodes.values():
            node.start()

    @property
    def live(self) -> list[MetadataNode]:
        return [each for each in self.nodes.values() if each.metadata is not None]

    @property
    def active(self) -> MetadataNode | None:
        """Return the active controller of the highest epoch."""
        found = [
            each for each in self.live if each.metadata is not None and each.metadata.is_active
        ]
        return max(found, key=lambda each: each.metadata.active_controller[1], default=None)  # type: ignore[union-attr]

    # The wire

    def deliver(
        self,
        sender: MetadataNode,
        node_id: int,
        request: QuorumRequest,
        finish: Callable[[QuorumResponse | None], None],
    ) -> None:
        receiver, sender_world = self.nodes[node_id], sender.world

        def arrive() -> None:
            if receiver.metadata is not None and (sender.node_id, node_id) not in self.cut:
                receiver.metadata.receive(request, reply)

        def reply(response: QuorumResponse) -> None:
            if (node_id, sender.node_id) not in self.cut:
                self.simulation.schedule(
                    self._wire_ms(), sender_world, lambda: finish(response), "answer"
                )

        if receiver.metadata is not None:
            self.simulation.schedule(self._wire_ms(), receiver.world, arrive, "request")

    def _wire_ms(self) -> float:
        return self.chance.uniform(*WIRE_MS)

    # Work and faults

    def propose(self) -> None:
        """Change a setting at the active controller; note the value if it is acknowledged."""
        active = self.active
        if active is None or active.metadata is None:
            return
        self._last_value += 1
        order, value = self._last_value, str(100_000 + self._last_value)
        config = k44.AlterableConfig(name=KEY, config_operation=0, value=value)
        resource = k44.AlterConfigsResource(
            resource_type=BROKER, resource_name="", configs=[config]
        )

        def done(result: Any) -> None:
            if not isinstance(result, KafkaError) and not result.responses[0].error_code:
                self.acknowledged[value] = order

        request = k44.IncrementalAlterConfigsRequest(resources=[resource])
        active.metadata.submit(request, 1, done)

    def disturb(self) -> None:
        """Do one fault of those that a quorum survives."""
        chance = self.chance
        node = chance.choice(list(self.nodes.values()))
        match chance.choice(("kill", "power", "start", "start", "cut", "heal", "pause")):
            case "kill" | "power" as death:
                if node.metadata is not None and len(self.live) > len(self.nodes) // 2 + 1:
                    node.die(power=death == "power")
            case "start":
                if node.metadata is None:
                    node.start()
            case "cut":
                other = chance.choice([each for each in self.nodes if each != node.node_id])
                self.cut[node.node_id, other] = None
                if chance.random() < 0.5:
                    self.cut[other, node.node_id] = None
            case "heal":
                self.cut.clear()
            case "pause":
                if node.metadata is not None:
                    node.world.pause(chance.uniform(1, 400))

    def run(self, faults: int) -> None:
        """Work beside faults, heal, and judge the end."""
        for _ in range(faults):
            for _ in range(self.chance.randint(1, 6)):
                self.simulation.run_for(self.chance.uniform(5, 60))
                self.propose()
            self.disturb()
        self.cut.clear()
        for node in self.nodes.values():
            if node.metadata is None:
                node.start()
        self.simulation.run_until(lambda: self.active is not None, 10_000)
        acknowledged = len(self.acknowledged)

        def goes_on() -> bool:
            self.propose()
            return len(self.acknowledged) > acknowledged

        self.simulation.run_until(goes_on, 10_000)
        self.simulation.run_until(self._agree, 10_000)

    def _agree(self) -> bool:
        active = self.active
        return active is not None and all(
            each.image.offset == active.image.offset for each in self.live
        )

    def judge(self, node: MetadataNode, image: Image, delta: Delta) -> None:
        """Check that images at one offset are equal, move on, and hold what was acknowledged."""
        assert image.offset > node.image.offset, "a node never publishes an older image"
        known = self.images.setdefault(image.offset, image)
        assert known == image, f"two images at offset {image.offset}"
        before, after = node.image.config(ALL_BROKERS), image.config(ALL_BROKERS)
        assert (before != after) <= (ALL_BROKERS in delta.configs), "the delta names the change"
        self.installs += len(delta.configs) > 1

    def judge_end(self) -> None:
        """Check that no acknowledged change is lost: the last one stands, or a later one."""
        last = int(self.nodes[1].image.config(ALL_BROKERS)[KEY]) - 100_000
        assert last >= max(self.acknowledged.values()), "an acknowledged change is lost"
