"""A cluster of real nodes in one simulation: each node is a world of its own, on its own host.

The nodes are controllers and brokers at once, unless `roles` says otherwise. Their quorum is
static, or with kraft.version 1 its voters are in the metadata log. Kills and power cuts leave the
disks for the next life of a node.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.metadata.storage_format import FormatRequest, format_now
from penstock.config.broker import BrokerConfig
from penstock.log.directory import DirectoryKind, partition_directories
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.node import PenstockNode, opening
from penstock.raft.voters import QuorumVoter, VoterEndpoint, Voters
from penstock.testing.sim.world import Simulation, SimWorld, WorldDisk

CLUSTER_ID = "simulated-cluster-0000"
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
COMBINED = "broker,controller"


class SimNode:
    """One node: a life after the other on the same disks."""

    def __init__(
        self,
        cluster: "SimCluster",
        node_id: int,
        settings: Mapping[str, str],
        host: str,
        voters: Voters,
    ) -> None:
        """Make a node; its first start formats its disks with the `voters`, if there are any."""
        self.node_id = node_id
        self.cluster_id = CLUSTER_ID
        self.roles = settings["process.roles"]
        self.host = host
        self.is_ready = False
        self.is_over = True  # before the first life, after a stop and after a kill
        self.failure: str | None = None  # of the last life that ended by itself
        self.lives = 0
        self.clock_rate = 1.0  # of the next life
        self.skew_ms = 0
        self.world: SimWorld
        self.node: PenstockNode
        self._cluster = cluster
        self._settings = settings
        self._voters = voters
        self._disks: dict[str, WorldDisk] = {}
        config = BrokerConfig.of(settings)
        self._roots = tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))

    @property
    def metadata_disk(self) -> WorldDisk:
        return self.world.disk(self._roots[0])

    @property
    def record_disks(self) -> list[WorldDisk]:
        """Return the disks that hold no vote: those without metadata, and all of a node that does
        not vote."""
        votes = "controller" in self.roles
        return [self.world.disk(root) for root in self._roots[1 if votes else 0 :]]

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def broker(self) -> Broker:
        assert self.node.broker is not None, "a started node has a broker"
        return self.node.broker

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of the registration that this life knows of."""
        return self.node._broker_epoch

    @property
    def image(self) -> Any:
        return self.broker.metadata.image

    def start(self) -> None:
        """Begin a life; the node is ready later, or `failure` says why there is none."""
        assert self.is_over, "a node runs once at a time"
        self.world = SimWorld(
            self._cluster.simulation,
            f"{self.host}-{self.lives}",
            host=self.host,
            disks=self._disks,
            skew_ms=self.skew_ms,
            clock_rate=self.clock_rate,
        )
        self._disks = self.world.disks
        if not self._disks:
            self._format()
        self.lives += 1
        self.is_ready = self.is_over = False
        self.failure = None
        self.node = PenstockNode(self.world, BrokerConfig.of(self._settings))
        try:
            self.node.start(self._has_become_ready, self._has_ended)
        except opening.StartRefused as problem:
            self._note_failure(str(problem))
            self._die(self.world.disks_after_kill)

    def _note_failure(self, failure: str | None) -> None:
        self.failure = failure
        if failure is not None and self._cluster.nodes.get(self.node_id) is self:
            self._cluster.failed.append(self)

    def _format(self) -> None:
        disks = [self.world.disk(root) for root in self._roots]
        for disk in disks:
            disk.lock(".lock")
        request = FormatRequest(self.cluster_id, self.node_id, self._voters)
        format_now(disks, request, clock=self.world.clock, entropy=self.world.entropy)
        for disk in disks:
            disk.unlock()

    def _has_become_ready(self) -> None:
        self.is_ready = True

    def _has_ended(self) -> None:
        self.is_ready = False
        self._note_failure(self.node.failure)
        self.is_over = True
        self.world.kill()
        self._disks = self.world.disks_after_kill()

    def stop(self) -> None:
        """Begin a clean stop; `is_over` tells its end."""
        self.node.stop()

    def kill(self) -> None:
        self._die(self.world.disks_after_kill)

    def cut_power(self, *, machine: bool = False) -> None:
        """Lose the unsynced bytes. If the `machine` vanishes too, no peer hears of the end."""
        self._die(self.world.disks_after_power_loss, machine=machine)

    def end_rot(self) -> None:
        """Let the next life read what the last one wrote."""
        for disk in self._disks.values():
            disk.end_rot()

    def replace_disks(self) -> None:
        """Give the next life empty disks, which it formats."""
        assert self.is_over, "the disks of a running node stay"
        self._disks = {}

    def restore(self, backup: WorldDisk) -> None:
        """Give the next life an older disk."""
        assert self.is_over, "the disks of a running node stay"
        self._disks[backup.root] = backup

    def remove_partition(self, chance: random.Random) -> str | None:
        """Remove the files of a partition from the disks of the next life. Return the name of their
        directory, None if there is none."""
        assert self.is_over, "the disks of a running node stay"
        found = [
            (disk, each.name)
            for disk in self._disks.values()
            for each in partition_directories(disk)
            if each.kind is DirectoryKind.LIVE and each.partition.topic != CLUSTER_METADATA_TOPIC
        ]
        if not found:
            return None
        disk, name = chance.choice(found)
        disk.remove_now(name)
        return name

    def _die(self, disks: Callable[[], dict[str, WorldDisk]], *, machine: bool = False) -> None:
        self.is_ready = False
        self.is_over = True
        self.world.kill(machine=machine)
        self._disks = disks()


class SimCluster:
    """Nodes 1 to N and their simulation."""

    def __init__(
        self,
        seed: int,
        roles: Sequence[str] = (COMBINED, COMBINED, COMBINED),
        settings: Mapping[str, str] | None = None,
        *,
        kraft_version: int = 0,
    ) -> None:
        """Make the nodes; `roles` are those of each node, `settings` are common to all."""
        self.simulation = Simulation(seed)
        self.failed: list[SimNode] = []  # nodes that have ended by themselves, and may run again
        controllers = [number for number, role in enumerate(roles, 1) if "controller" in role]
        self._voters: Voters = ()
        if kraft_version > 0:
            self._voters = tuple(map(_voter, controllers))
        self._settings = {**_quorum_settings(controllers, kraft_version), **(settings or {})}
        self.nodes = {
            node_id: self.make_node(node_id, role, f"node-{node_id}")
            for node_id, role in enumerate(roles, 1)
        }

    def make_node(self, node_id: int, roles: str, host: str) -> SimNode:
        """Return a node on a host of its own, with empty disks."""
        settings = _settings(node_id, roles, host, self._settings)
        return SimNode(self, node_id, settings, host, self._voters if "controller" in roles else ())

    def start(self) -> None:
        """Start all nodes, and wait until they serve."""
        for node in self.nodes.values():
            node.start()
        self.run_until_ready()

    def run_until_ready(self, limit_ms: float = 60_000) -> None:
        """Let time pass until every running node serves."""
        self.simulation.run_until(
            lambda: all(each.is_ready for each in self.running), limit_ms=limit_ms
        )

    @property
    def running(self) -> list[SimNode]:
        return [each for each in self.nodes.values() if not each.is_over]

    @property
    def active(self) -> SimNode | None:
        """Return the node with the active controller of the highest epoch."""
        found = [each for each in self.running if each.broker.metadata.is_active]
        return max(found, key=lambda each: each.broker.metadata.describe().epoch, default=None)

    def ask(self, node_id: int, message: Any, version: int) -> Any:
        """Submit a request for the controller on a node; return the response or the KafkaError."""
        answers: list[Any] = []
        self.nodes[node_id].broker.metadata.submit(message, version, answers.append)
        self.simulation.run_until(lambda: bool(answers))
        return answers[0]


def _voter(node_id: int) -> QuorumVoter:
    endpoint = VoterEndpoint("CONTROLLER", f"node-{node_id}", CONTROLLER_PORT)
    return QuorumVoter(node_id, b"directory-%06d" % node_id, (endpoint,))


def _quorum_settings(controllers: Sequence[int], kraft_version: int) -> dict[str, str]:
    addresses = [f"node-{node_id}:{CONTROLLER_PORT}" for node_id in controllers]
    if kraft_version > 0:
        return {"controller.quorum.bootstrap.servers": ",".join(addresses)}
    voters = (f"{node_id}@{at}" for node_id, at in zip(controllers, addresses, strict=True))
    return {"controller.quorum.voters": ",".join(voters)}


def _settings(node_id: int, roles: str, host: str, settings: Mapping[str, str]) -> dict[str, str]:
    listeners = []
    if "broker" in roles:
        listeners.append(f"PLAINTEXT://{host}:{CLIENT_PORT}")
    if "controller" in roles:
        listeners.append(f"CONTROLLER://{host}:{CONTROLLER_PORT}")
    return {
        "node.id": str(node_id),
        "process.roles": roles,
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "data",
        "metrics.listener": "",
        **settings,
    }
