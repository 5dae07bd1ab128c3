"""Real outbound connections: names, addresses, deadlines, and a reason for every failure."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.real import outbound
from penstock.real.world import RealWorld
from penstock.world import Peer

TURNS_MAX = 200


class Greeted:
    """A receiver that has sent a greeting while its connection was opened."""

    room: memoryview | None = None

    def __init__(self, peer: Peer, greeting: bytes = b"") -> None:
        self.data = b""
        self.ended = False
        if greeting:
            peer.send([greeting])

    def filled(self, size: int) -> None: ...

    def received(self, data: memoryview) -> None:
        self.data += bytes(data)

    def sent(self) -> None: ...

    def closed(self) -> None:
        self.ended = True


@pytest.fixture
def world() -> Iterator[RealWorld]:
    made = RealWorld()
    yield made
    made.close()


def turn_until(world: RealWorld, condition: Callable[[], bool]) -> None:
    world.loop.at(world.loop.mono_ms() + 10_000, lambda: None)
    for _ in range(TURNS_MAX):
        if condition():
            return
        world.loop.turn()
    raise AssertionError("the condition never held")


def failure(world: RealWorld, host: str, port: int, timeout_ms: float = 10_000) -> str:
    reasons: list[str] = []
    world.network.connect(host, port, Greeted, reasons.append, timeout_ms)
    assert not reasons, "no callback within the call"
    turn_until(world, lambda: bool(reasons))
    (reason,) = reasons
    return reason


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_bytes_sent_while_a_connection_opens_arrive(world: RealWorld, host: str) -> None:
    accepted: list[Greeted] = []

    def accept(peer: Peer) -> Greeted:
        accepted.append(Greeted(peer))
        return accepted[0]

    listening = world.network.listen("127.0.0.1", 0, accept)
    port = listening.address[1]
    world.network.connect(host, port, lambda peer: Greeted(peer, b"hello"), pytest.fail)
    turn_until(world, lambda: bool(accepted) and accepted[0].data == b"hello")
    listening.close()


def test_where_nothing_listens_the_reason_says_so(world: RealWorld) -> None:
    assert failure(world, "127.0.0.1", closed_port()) == "nothing listens there"


def test_a_name_without_an_address_is_named(world: RealWorld) -> None:
    reason = failure(world, "no-such-host.invalid", 9092)
    assert reason.startswith("the name no-such-host.invalid has no address: ")


def test_a_name_is_looked_up_off_the_loop(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def look_up(_host: str, _port: int) -> list[object]:
        threads.append(threading.get_ident())
        return []

    monkeypatch.setattr(outbound, "_addresses_of", look_up)
    assert failure(world, "some-host", 9092) == "some-host has no address"
    assert threads
    assert threading.get_ident() not in threads


def test_the_next_address_of_a_name_is_tried(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Peer] = []
    listening = world.network.listen("127.0.0.1", 0, Greeted)
    first = (socket.AF_INET, ("127.0.0.1", closed_port()))
    second = (socket.AF_INET, listening.address)
    monkeypatch.setattr(outbound, "_addresses_of", lambda _host, _port: [first, second])

    def accept(peer: Peer) -> Greeted:
        opened.append(peer)
        return Greeted(peer)

    world.network.connect("some-host", 9092, accept, pytest.fail)
    turn_until(world, lambda: bool(opened))
    listening.close()


def test_a_connection_that_hangs_ends_at_its_deadline(world: RealWorld) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):  # takes the only place
            assert failure(world, "127.0.0.1", port, 50) == "no connection within 50 ms"


def test_a_cancelled_attempt_calls_nothing_back(world: RealWorld) -> None:
    opened: list[Peer] = []

    def accept(peer: Peer) -> Greeted:
        opened.append(peer)
        return Greeted(peer)

    listening = world.network.listen("127.0.0.1", 0, Greeted)
    world.network.connect(*listening.address, accept, pytest.fail, 1).cancel()
    later: list[None] = []
    world.loop.at(world.loop.mono_ms() + 20, lambda: later.append(None))
    turn_until(world, lambda: bool(later))
    assert not opened
    listening.close()


def test_an_ended_attempt_keeps_no_descriptor(world: RealWorld) -> None:
    failure(world, "127.0.0.1", closed_port())
    watched = len(world.loop.handlers)
    failure(world, "127.0.0.1", closed_port())
    assert len(world.loop.handlers) == watched
