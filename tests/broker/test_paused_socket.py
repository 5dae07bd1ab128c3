"""A socket that is not read from: its bytes stay where they are, its end is noticed."""

import socket
import struct
from collections.abc import Iterator

import pytest

from penstock.real.loop import Loop
from penstock.real.network import SocketNetwork
from penstock.world import Peer

TURNS_MAX = 1_000


class Heard:
    """A receiver that notes what it is told."""

    room = None

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.data = b""
        self.ended = False

    def received(self, data: memoryview) -> None:
        self.data += data

    def filled(self, size: int) -> None:
        raise AssertionError(f"{size} bytes went into room that nobody offered")

    def sent(self) -> None:
        pass

    def closed(self) -> None:
        self.ended = True


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def connected(loop: Loop) -> tuple[Heard, socket.socket]:
    heard: list[Heard] = []

    def accept(peer: Peer) -> Heard:
        heard.append(Heard(peer))
        peer.pause()
        return heard[0]

    listening = SocketNetwork(loop).listen("127.0.0.1", 0, accept)
    client = socket.create_connection(listening.address)
    while not heard:
        turn(loop)
    listening.close()
    return heard[0], client


def turn(loop: Loop) -> None:
    loop.soon(lambda: None)  # do not fall asleep
    loop.turn()


def test_a_paused_peer_is_read_when_it_is_resumed(loop: Loop) -> None:
    heard, client = connected(loop)
    with client:
        client.sendall(b"later")
        for _ in range(10):
            turn(loop)
        assert heard.data == b""
        heard.peer.resume()
        for _ in range(TURNS_MAX):
            turn(loop)
            if heard.data:
                break
        assert heard.data == b"later"


def test_the_end_of_a_paused_peer_is_seen_on_request(loop: Loop) -> None:
    heard, client = connected(loop)
    assert not heard.peer.has_ended()
    client.close()
    for _ in range(TURNS_MAX):
        turn(loop)
        if heard.peer.has_ended():
            break
    assert heard.peer.has_ended() and not heard.ended


def test_a_paused_peer_with_unread_bytes_has_not_ended(loop: Loop) -> None:
    heard, client = connected(loop)
    client.sendall(b"unread")
    client.close()
    for _ in range(10):
        turn(loop)
    assert not heard.peer.has_ended()


def test_a_paused_peer_that_resets_is_gone_and_its_bytes_are_not_handed_over(loop: Loop) -> None:
    heard, client = connected(loop)
    client.sendall(b"never")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    for _ in range(TURNS_MAX):
        turn(loop)
        if heard.ended:
            break
    assert heard.ended
    assert heard.data == b""
