"""Real sockets: what is sent from a file, and who is let in."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.real.network import SocketPeer, TurnBuffer
from penstock.real.world import RealWorld
from penstock.testing import Cluster
from penstock.world import FileRange

SOCKET_SECONDS_MAX = 10.0
TURNS_MAX = 100


class Ended:
    """A receiver that waits for its end."""

    room = None

    def __init__(self) -> None:
        self.was_closed = False
        self.was_sent = False

    def filled(self, size: int) -> None: ...
    def received(self, data: memoryview) -> None: ...

    def sent(self) -> None:
        self.was_sent = True

    def closed(self) -> None:
        self.was_closed = True


@pytest.fixture
def world() -> Iterator[RealWorld]:
    made = RealWorld()
    yield made
    made.close()


def send_range(world: RealWorld, root: Path, *, promised: int) -> tuple[Ended, bytes]:
    """Send `promised` bytes of a file of 1000; what became of it, and what arrived."""
    file = world.disk(str(root)).open("a.log", create=True)
    file.append([b"x" * 1_000])
    ours, theirs = socket.socketpair()
    with theirs:
        receiver = Ended()
        peer = SocketPeer(world.loop, _as_tcp(ours), ("test", 0), TurnBuffer())
        peer.attach(receiver)
        peer.send([b"header", FileRange(file, 0, promised)])
        for _ in range(TURNS_MAX):
            if receiver.was_closed or receiver.was_sent:
                break
            world.loop.turn()
        peer.vanish()
        theirs.settimeout(SOCKET_SECONDS_MAX)
        arrived = b""
        while more := theirs.recv(65_536):
            arrived += more
    return receiver, arrived


def _as_tcp(sock: socket.socket) -> socket.socket:
    """A pair of sockets knows nothing of TCP's options."""

    class Pair(socket.socket):
        def setsockopt(self, *_arguments: object) -> None:
            pass

    return Pair(sock.family, sock.type, sock.proto, sock.detach())


def test_a_range_of_a_file_arrives(world: RealWorld, tmp_path: Path) -> None:
    receiver, arrived = send_range(world, tmp_path, promised=1_000)
    assert arrived == b"header" + b"x" * 1_000
    assert not receiver.was_closed


def test_a_file_that_comes_up_short_ends_the_connection(world: RealWorld, tmp_path: Path) -> None:
    """What would follow is no answer, and the peer would wait for the rest for ever."""
    receiver, arrived = send_range(world, tmp_path, promised=1_001)
    assert receiver.was_closed
    assert arrived == b"header" + b"x" * 1_000


def test_a_connection_that_would_take_a_descriptor_of_files_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.real.network.connection_fd_max", lambda: 0)
    with (
        Cluster() as cluster,
        socket.create_connection(cluster.address, SOCKET_SECONDS_MAX) as client,
    ):
        assert client.recv(1) == b""
        assert not cluster.broker.listeners[0].connections
