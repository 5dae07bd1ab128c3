"""Real sockets: what is sent from a file, and who is let in."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.real.sockets import SocketPeer, TurnBuffer
from penstock.real.world import RealWorld
from penstock.testing import Cluster
from penstock.world import File, FileRange, Peer, Tuning

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


def turn_until(world: RealWorld, condition: Callable[[], bool]) -> None:
    world.loop.at(world.loop.mono_ms() + SOCKET_SECONDS_MAX * 1000, lambda: None)
    for _ in range(TURNS_MAX):
        if condition():
            return
        world.loop.turn()
    raise AssertionError("it did not come about")


def test_nobody_is_accepted_while_a_listener_is_paused(world: RealWorld) -> None:
    came: list[Peer] = []

    def accept(peer: Peer) -> Ended:
        came.append(peer)
        listening.pause()  # also in the middle of those who came together
        return Ended()

    listening = world.network.listen("127.0.0.1", 0, accept)
    clients = [socket.create_connection(listening.address, SOCKET_SECONDS_MAX) for _ in range(3)]
    for count in (1, 2, 3):
        turn_until(world, lambda count=count: len(came) == count)  # type: ignore[misc]
        world.loop.soon(lambda: None)
        world.loop.turn()
        assert len(came) == count
        listening.resume()
    for client in clients:
        client.close()
    listening.close()


def test_sockets_get_the_buffers_that_were_asked_for(world: RealWorld) -> None:
    sizes: list[tuple[int, int]] = []

    def accept(peer: Peer) -> Ended:
        assert isinstance(peer, SocketPeer)
        sock = socket.socket(fileno=os.dup(peer.fileno()))
        with sock:
            sizes.append(
                (
                    sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
                    sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
                )
            )
        return Ended()

    tuning = Tuning(send_buffer_bytes=30_000, receive_buffer_bytes=40_000)
    listening = world.network.listen("127.0.0.1", 0, accept, tuning)
    with socket.create_connection(listening.address, SOCKET_SECONDS_MAX):
        turn_until(world, lambda: bool(sizes))
    listening.close()
    # Linux counts its own needs in, and doubles what it was told.
    assert sizes[0] in [(30_000, 40_000), (60_000, 80_000)]


def test_work_runs_on_as_many_threads_as_were_asked_for(world: RealWorld) -> None:
    done: list[None] = []

    def run(count: int) -> None:
        done.clear()
        for _ in range(count):
            world.workers.run(lambda: None, (), lambda _result, _failure: done.append(None))
        turn_until(world, lambda: len(done) == count)

    world.workers.use(1)
    run(10)
    assert world.workers.threads == 1
    world.workers.use(3)
    run(10)
    assert world.workers.threads == 3
    world.workers.use(2)
    run(10)
    assert world.workers.threads == 2


def send_slowly(
    world: RealWorld, file: File, size: int, meanwhile: Callable[[], None]
) -> tuple[Ended, bytes]:
    """More than the socket takes at once; `meanwhile` comes when it has taken what it can."""
    ours, theirs = socket.socketpair()
    with theirs:
        receiver = Ended()
        peer = SocketPeer(world.loop, _as_tcp(ours), ("test", 0), TurnBuffer())
        peer.attach(receiver)
        peer.send([b"header", FileRange(file, 0, size)])
        assert peer.unsent_bytes > 0, "a socket takes less than this"
        meanwhile()
        theirs.setblocking(False)
        arrived = b""
        while not receiver.was_closed and not receiver.was_sent:
            arrived += _take(theirs)
            world.loop.turn()
        peer.vanish()
        arrived += _take(theirs)
    return receiver, arrived


def _take(sock: socket.socket) -> bytes:
    taken = b""
    try:
        while more := sock.recv(1 << 20):
            taken += more
    except BlockingIOError:
        pass
    return taken


@pytest.mark.parametrize("whole_directory", [False, True])
def test_a_range_of_a_file_that_is_parked_and_renamed_meanwhile_arrives(
    world: RealWorld, tmp_path: Path, whole_directory: bool
) -> None:
    """As a deletion, or a swap of compacted segments, renames what is still being read."""
    content = os.urandom(4 * 1024 * 1024)
    disk = world.disk(str(tmp_path))
    disk.make_directory("t-0")
    file = disk.open("t-0/a.log", create=True)
    file.append([content])

    def rename() -> None:
        file.park()
        if whole_directory:
            disk.rename_now("t-0", "t-0.0123-delete")
            disk.remove_now("t-0.0123-delete")
        else:
            disk.rename_now("t-0/a.log", "t-0/a.log.deleted")

    receiver, arrived = send_slowly(world, file, len(content), rename)
    assert not receiver.was_closed
    assert arrived == b"header" + content


def test_a_range_keeps_its_file_open_from_its_making_on(world: RealWorld, tmp_path: Path) -> None:
    """Its answer may wait behind others for a while."""
    disk = world.disk(str(tmp_path))
    file = disk.open("a.log", create=True)
    file.append([b"x" * 1_000])
    file.park()
    piece = FileRange(file, 0, 1_000)
    file.park()
    disk.rename_now("a.log", "a.log.deleted")
    ours, theirs = socket.socketpair()
    with theirs:
        peer = SocketPeer(world.loop, _as_tcp(ours), ("test", 0), TurnBuffer())
        peer.attach(Ended())
        peer.send([piece])
        peer.vanish()
        theirs.settimeout(SOCKET_SECONDS_MAX)
        assert theirs.recv(2_000) == b"x" * 1_000


def test_a_file_is_closed_when_it_is_parked_and_its_ranges_are_gone(
    world: RealWorld, tmp_path: Path
) -> None:
    file = world.disk(str(tmp_path)).open("a.log", create=True)
    file.append([b"x"])
    before = len(os.listdir("/proc/self/fd"))
    pieces = [FileRange(file, 0, 1), FileRange(file, 0, 1)]
    file.park()
    assert len(os.listdir("/proc/self/fd")) == before
    pieces.clear()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_where_descriptors_run_short_ranges_hold_none_and_a_lost_file_ends_the_connection(
    world: RealWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = world.disk(str(tmp_path))
    monkeypatch.setattr(disk.descriptors, "held_fd_max", 0)
    file = disk.open("a.log", create=True)
    file.append([b"x" * 4 * 1024 * 1024])

    def rename() -> None:
        file.park()
        disk.rename_now("a.log", "a.log.deleted")

    receiver, _ = send_slowly(world, file, file.size, rename)
    assert receiver.was_closed
