"""A simulated node whose connections belong to the callers of access_cases.py."""

import sys
from pathlib import Path
from typing import Any

from access_requests import ADMIN, CALLER, NOBODY

from penstock.broker.network.connection import BrokerConnection
from penstock.credentials.principal import Caller, Principal
from penstock.testing.sim.world import WorldDisk
from penstock.wire.apis import response_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.schema import schema_of

sys.path.insert(0, str(Path(__file__).parent.parent / "broker"))
from simulated_node import Bench, FakePeer

HOST = "127.0.0.1"
SETTINGS = {
    "listeners": "PLAINTEXT://node:9092,CONTROLLER://node:9093",
    "controller.listener.names": "CONTROLLER",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
}
SIZE_BYTES = 4


class SimulatedServer:
    """One node, one connection for each caller and listener."""

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        disks: dict[str, WorldDisk] | None = None,
    ) -> None:
        """Start a node; `disks` are those of one that has stopped."""
        self.bench = Bench({**SETTINGS, **(settings or {})}, disks=disks)
        self._connections: dict[tuple[str, bool], tuple[BrokerConnection, FakePeer]] = {}

    def __enter__(self) -> "SimulatedServer":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.bench.stopped:
            self.bench.stop()

    def connect(
        self, caller: str, *, controller: bool = False
    ) -> tuple[BrokerConnection, FakePeer]:
        """Return a new connection of a caller."""
        listener = self.bench.broker.listeners[int(controller)]
        connection, peer = self.bench.connect(FakePeer((HOST, 5_000)), listener)
        if caller != NOBODY:
            connection.caller = Caller(Principal(caller), HOST)
        return connection, peer

    def send(self, connection: BrokerConnection, message: Any, version: int) -> int:
        """Send a request; return its key."""
        key = schema_of(type(message)).key
        assert key is not None, "a request has a key"
        self.bench.receive(connection, request_frame(key, version, 7, "test", message))
        return key

    def ask(self, caller: str, message: Any, version: int, *, controller: bool = False) -> Any:
        place = caller, controller
        if place not in self._connections or self._connections[place][1].closed:
            self._connections[place] = self.connect(caller, controller=controller)
        connection, peer = self._connections[place]
        key = self.send(connection, message, version)
        self.bench.simulation.run_until(lambda: bool(peer.sent) or peer.closed)
        assert not peer.closed, f"API {key} v{version} closed its connection"
        return answer_in(peer, key, version)

    def pause(self) -> None:
        self.bench.settle()


def answer_in(peer: FakePeer, key: int, version: int) -> Any:
    """Return the only answer that a peer was sent; take it away."""
    frame = bytes(peer.sent[SIZE_BYTES:])
    peer.sent.clear()
    _, position = parse_response_header(key, version, frame)
    return read(response_class(key), version, frame, position)


__all__ = ["ADMIN", "CALLER", "NOBODY", "SimulatedServer", "answer_in"]
