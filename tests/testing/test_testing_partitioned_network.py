"""The network of a node that a test can partition, with real sockets."""

import socket
from collections.abc import Callable, Iterator

import pytest

from penstock.real.world import RealWorld
from penstock.testing.partitioned_network import PartitionedNetwork
from penstock.world import Peer

TURNS_MAX = 500
QUIET_TURNS = 5
SOCKET_SECONDS_MAX = 10.0


class SilentReceiver:
    """The near end of a connection, which only exists."""

    room: memoryview | None = None

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def filled(self, size: int) -> None: ...

    def received(self, data: memoryview) -> None: ...

    def sent(self) -> None: ...

    def closed(self) -> None: ...


@pytest.fixture
def world() -> Iterator[RealWorld]:
    made = RealWorld()
    yield made
    made.close()


@pytest.fixture
def network(world: RealWorld) -> PartitionedNetwork:
    made = world.network = PartitionedNetwork(world.loop)
    return made


def turn(
    world: RealWorld, condition: Callable[[], bool] = lambda: False, turns: int = QUIET_TURNS
) -> bool:
    """Turn the loop until the condition holds; return whether it does."""
    for _ in range(turns):
        if condition():
            return True
        world.loop.at(world.loop.mono_ms() + 1, lambda: None)
        world.loop.turn()
    return condition()


@pytest.mark.parametrize("end", ["close", "finish"])
def test_the_end_of_a_connection_reaches_the_other_node_when_the_network_heals(
    world: RealWorld, network: PartitionedNetwork, end: str
) -> None:
    opened: list[SilentReceiver] = []

    def open_receiver(peer: Peer) -> SilentReceiver:
        opened.append(SilentReceiver(peer))
        return opened[0]

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SOCKET_SECONDS_MAX)
        host, port = address = server.getsockname()
        network.connect(host, port, open_receiver, pytest.fail)
        assert turn(world, lambda: bool(opened), TURNS_MAX)
        far, _ = server.accept()
        with far:
            network.cut([address])
            opened[0].peer.send([b"last words"])
            getattr(opened[0].peer, end)()
            turn(world)
            far.setblocking(False)
            with pytest.raises(BlockingIOError):
                far.recv(1)
            network.cut([])
            turn(world)
            far.settimeout(SOCKET_SECONDS_MAX)
            assert (far.recv(100), far.recv(100)) == (b"last words", b"")
