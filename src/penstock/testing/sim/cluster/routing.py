"""Clients of a simulated cluster: one connection per node, routing by Metadata, time limits.

A script is a generator of calls and pauses. A call returns the response, or None after a
broken connection or its time limit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from penstock.model import NO_LEADER_EPOCH, TopicPartition
from penstock.testing.sim.client import METADATA, SimConnection
from penstock.testing.sim.cluster.sim_cluster import CLIENT_PORT
from penstock.testing.sim.script import ScriptPause
from penstock.testing.sim.world import Simulation, SimWorld
from penstock.wire.messages import k03_metadata
from penstock.world import Peer

T = TypeVar("T")
Answered: TypeAlias = Callable[[Any], None]  # gets the response, or None

METADATA_VERSION = 12
CALL_MS_MAX = 2_500.0
CONNECT_MS_MAX = 1_000.0


class RoutedCall(NamedTuple):
    """A request to a node."""

    node_id: int
    key: int
    version: int
    message: Any
    limit_ms: float = CALL_MS_MAX


RoutedScript: TypeAlias = Generator[RoutedCall | ScriptPause, Any, T]


class _NodeConnection:
    """The connection to one node; calls wait until it is open."""

    def __init__(self, client: "RoutingClient", node_id: int) -> None:
        self._client = client
        self._node_id = node_id
        self._open: SimConnection | None = None
        self._waiting: list[tuple[RoutedCall, Answered]] = []
        client.world.network.connect(
            f"node-{node_id}", CLIENT_PORT, self._opened, self._failed, CONNECT_MS_MAX
        )

    def request(self, call: RoutedCall, reply: Answered) -> None:
        if self._open is None:
            self._waiting.append((call, reply))
        else:
            self._open.request(call.key, call.version, call.message, reply)

    def close(self) -> None:
        if self._open is not None:
            self._open.peer.close()

    def _opened(self, peer: Peer) -> SimConnection:
        self._open = opened = SimConnection(self._client.name, peer, self._lost)
        waiting, self._waiting = self._waiting, []
        for call, reply in waiting:
            opened.request(call.key, call.version, call.message, reply)
        return opened

    def _failed(self, _reason: str) -> None:
        waiting, self._waiting = self._waiting, []
        self._lost()
        for _call, reply in waiting:
            reply(None)

    def _lost(self) -> None:
        self._client.forget(self._node_id, self)


class RoutingClient(ABC):
    """Runs its script, one step after the other."""

    def __init__(self, simulation: Simulation, name: str, broker_ids: tuple[int, ...]) -> None:
        self.world = SimWorld(simulation, name)
        self.name = name
        self.chance = simulation.chance
        self.is_over = False
        self.broker_ids = broker_ids
        self.leaders: dict[str, dict[int, int]] = {}  # by topic and partition, as last described
        self.leader_epochs: dict[TopicPartition, int] = {}  # the highest known ones
        self._connections: dict[int, _NodeConnection] = {}
        self._script: RoutedScript[None] | None = None
        self._step = 0

    @abstractmethod
    def script(self) -> RoutedScript[None]:
        """Yield all steps, in order."""

    def start(self) -> None:
        self._script = self.script()
        self.world.timers.soon(lambda: self._go_on(None))

    def stop(self) -> None:
        """End at this moment."""
        self.is_over = True
        self._step += 1
        self.world.kill()

    def forget(self, node_id: int, connection: _NodeConnection) -> None:
        if self._connections.get(node_id) is connection:
            del self._connections[node_id]

    # -- execution

    def _go_on(self, response: Any) -> None:
        assert self._script is not None, "a script has begun"
        self._step += 1
        try:
            step = self._script.send(response)
        except StopIteration:
            self.is_over = True
            return
        if isinstance(step, ScriptPause):
            self._at(step.duration_ms, lambda: self._go_on(None))
        else:
            self._call(step)

    def _call(self, call: RoutedCall) -> None:
        connection = self._connections.get(call.node_id)
        if connection is None:
            connection = self._connections[call.node_id] = _NodeConnection(self, call.node_id)
        step = self._step

        def answered(response: Any) -> None:
            if step == self._step:
                self._go_on(response)

        def give_up() -> None:
            self.forget(call.node_id, connection)
            connection.close()
            self._go_on(None)

        connection.request(call, answered)
        self._at(call.limit_ms, give_up)

    def _at(self, delay_ms: float, call: Callable[[], None]) -> None:
        """RoutedCall later, if the script has not advanced by then."""
        step = self._step

        def due() -> None:
            if step == self._step:
                call()

        self.world.timers.at(self.world.clock.mono_ms() + delay_ms, due)

    # -- steps of many scripts

    def rest(self, mean_ms: float) -> ScriptPause:
        return ScriptPause(self.chance.uniform(0.2, 1.8) * mean_ms)

    def any_broker(self) -> int:
        return self.chance.choice(self.broker_ids)

    def describe(self, topics: Mapping[str, object], node_id: int) -> RoutedScript[bool]:
        """Ask a node for the leaders of topics; return whether it answered."""
        wanted = [k03_metadata.MetadataRequestTopic(name=name) for name in topics]
        message = k03_metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = yield RoutedCall(node_id, METADATA, METADATA_VERSION, message)
        if response is None:
            return False
        for topic in response.topics:
            if not topic.error_code:
                self.leaders[topic.name] = {
                    each.partition_index: each.leader_id
                    for each in topic.partitions
                    if self._is_newest(topic.name, each)
                }
        return True

    def _is_newest(self, topic: str, partition: k03_metadata.MetadataResponsePartition) -> bool:
        """Return whether no later leader of a partition is known. A node that is cut off describes
        former leaders."""
        topic_partition = TopicPartition(topic, partition.partition_index)
        known = self.leader_epochs.get(topic_partition, NO_LEADER_EPOCH)
        self.leader_epochs[topic_partition] = max(known, partition.leader_epoch)
        return partition.leader_epoch >= known

    def note_leader_epoch(self, partition: TopicPartition, epoch: int) -> None:
        """Forget the known leader if an epoch is later than its own: a record or a committed offset
        may name the epoch of a successor."""
        if epoch > self.leader_epochs.get(partition, NO_LEADER_EPOCH):
            self.leader_epochs[partition] = epoch
            self.leaders.pop(partition.topic, None)

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the leader as last described, or -1."""
        return self.leaders.get(topic, {}).get(partition, -1)
