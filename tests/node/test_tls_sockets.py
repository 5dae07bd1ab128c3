"""Encrypted connections of the real world: what arrives, who is let in, and what is limited."""

import contextlib
import random
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tls_stores import Stores

from penstock.real import tls, tls_handshake
from penstock.real.network import SocketListening
from penstock.real.tls_channel import TlsChannel
from penstock.real.world import RealWorld
from penstock.tls_context import client_context
from penstock.world import FileRange, Peer, TlsFailed, TlsSettings

TURNS_MAX = 20_000
WAIT_MS_MAX = 10_000.0
LARGE = 3 * 1024 * 1024


class Heard:
    """A receiver that keeps what comes, in room of its own if it has some."""

    def __init__(self, peer: Peer, room_bytes: int = 0) -> None:
        self.peer = peer
        self.data = bytearray()
        self.was_sent = False
        self.was_closed = False
        self._space = bytearray(room_bytes)
        self.room: memoryview | None = memoryview(self._space) if room_bytes else None

    def received(self, data: memoryview) -> None:
        self.data += data

    def filled(self, size: int) -> None:
        self.data += self._space[:size]

    def sent(self) -> None:
        self.was_sent = True

    def closed(self) -> None:
        self.was_closed = True


class TwoEnds:
    """A listener and its clients in one world."""

    def __init__(self, world: RealWorld, stores: Stores) -> None:
        self.world = world
        self.servers: list[Heard] = []
        self.clients: list[Heard] = []
        self.failures: list[str] = []
        self.rejected: list[str] = []
        ca = stores.authority.certificate_pem()
        server = stores.server.key_pem() + stores.server.certificate_pem()
        client = stores.client.key_pem() + stores.client_chain_pem
        self.server_tls = TlsSettings(identity=server, trusted=ca)
        self.client_tls = TlsSettings(identity=client, trusted=ca)
        self.listening: SocketListening

    def listen(self, room_bytes: int = 0, **changes: str) -> None:
        def accept(peer: Peer) -> Heard:
            self.servers.append(Heard(peer, room_bytes))
            return self.servers[-1]

        self.listening = self.world.network.listen(
            "127.0.0.1",
            0,
            accept,
            tls=replace(self.server_tls, **changes),  # type: ignore[arg-type]
            rejected=lambda _address, reason: self.rejected.append(reason),
        )

    def connect(self, host: str = "localhost", settings: TlsSettings | None = None) -> None:
        def opened(peer: Peer) -> Heard:
            self.clients.append(Heard(peer))
            return self.clients[-1]

        port = self.listening.address[1]
        chosen = settings or self.client_tls
        self.world.network.connect(host, port, opened, self.failures.append, WAIT_MS_MAX, chosen)

    def both(self) -> tuple[Heard, Heard]:
        """The ends of one new connection: the server's, the client's."""
        self.connect()
        self.until(lambda: bool(self.servers and self.clients))
        return self.servers[-1], self.clients[-1]

    def until(self, condition: Callable[[], bool]) -> None:
        deadline_ms = self.world.loop.mono_ms() + WAIT_MS_MAX
        timer = self.world.loop.at(deadline_ms, lambda: None)
        for _ in range(TURNS_MAX):
            if condition():
                timer.cancel()
                return
            assert self.world.loop.mono_ms() < deadline_ms, "it did not come about"
            self.world.loop.turn()
        raise AssertionError("it did not come about")

    def raw_client(self) -> socket.socket:
        return socket.create_connection(self.listening.address, 10)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture(params=[True, False], ids=["workers decrypt", "the loop decrypts"])
def ends(
    stores: Stores, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TwoEnds]:
    threshold = 32 * 1024 if request.param else 1 << 62
    monkeypatch.setattr(tls, "RECEIVED_BY_WORKER_MIN", threshold)
    monkeypatch.setattr(tls, "RECORDS_PER_TURN_MAX", 7)
    world = RealWorld()
    yield TwoEnds(world, stores)
    world.close()


@pytest.mark.parametrize("size", [1, 40_000, LARGE])
@pytest.mark.parametrize("room_bytes", [0, 5_000])
def test_bytes_arrive_as_they_were_sent(ends: TwoEnds, size: int, room_bytes: int) -> None:
    ends.listen(room_bytes)
    server, client = ends.both()
    data = random.Random(size).randbytes(size)
    client.peer.send((data,))
    ends.until(lambda: len(server.data) == size)
    assert server.data == data
    server.peer.send((data[:10], data[10:]))
    ends.until(lambda: len(client.data) == size)
    assert client.data == data


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_versions_are_spoken(ends: TwoEnds, version: str) -> None:
    ends.listen()
    ends.client_tls = replace(ends.client_tls, versions=(version, version))
    server, client = ends.both()
    client.peer.send((b"hello",))
    ends.until(lambda: server.data == b"hello")


def test_sizes_mixed_in_both_directions_keep_their_order(ends: TwoEnds) -> None:
    chance = random.Random(7)
    ends.listen(9_000)
    server, client = ends.both()
    sent = {server: bytearray(), client: bytearray()}
    for _ in range(60):
        one = chance.choice((server, client))
        data = chance.randbytes(chance.choice((3, 2_000, 33_000, 70_000, 300_000)))
        one.peer.send((data[: len(data) // 2], data[len(data) // 2 :]))
        sent[one] += data
        paused = chance.choice((server, client))
        paused.peer.pause()
        for _ in range(chance.randrange(4)):
            ends.world.loop.at(0, lambda: None)
            ends.world.loop.turn()
        paused.peer.resume()
    ends.until(lambda: len(server.data) == len(sent[client]))
    ends.until(lambda: len(client.data) == len(sent[server]))
    assert server.data == sent[client] and client.data == sent[server]
    assert not server.peer.unsent_bytes and not client.peer.unsent_bytes


def test_ranges_of_a_file_arrive_between_other_parts(ends: TwoEnds, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(LARGE)
    file = ends.world.disk(str(tmp_path)).open("a.log", create=True)
    file.append([content])
    ends.listen()
    server, client = ends.both()
    server.peer.send([b"head", FileRange(file, 10, LARGE - 10), b"tail"])
    assert server.peer.unsent_bytes == LARGE - 10 + 8
    ends.until(lambda: len(client.data) == LARGE - 10 + 8)
    assert client.data == b"head" + content[10:] + b"tail"
    ends.until(lambda: server.was_sent)


def test_a_file_that_comes_up_short_ends_the_connection(ends: TwoEnds, tmp_path: Path) -> None:
    file = ends.world.disk(str(tmp_path)).open("a.log", create=True)
    file.append([b"x" * 1_000])
    ends.listen()
    server, client = ends.both()
    server.peer.send([b"head", FileRange(file, 0, 1_001)])
    ends.until(lambda: server.was_closed and client.was_closed)


def test_nothing_is_handed_over_during_a_pause(ends: TwoEnds) -> None:
    ends.listen()
    server, client = ends.both()
    client.peer.send((b"x" * 100_000,))
    ends.until(lambda: bool(server.data))
    server.peer.pause()
    before = len(server.data)
    client.peer.send((b"x" * LARGE,))
    for _ in range(50):
        ends.world.loop.at(0, lambda: None)
        ends.world.loop.turn()
    assert len(server.data) == before
    server.peer.resume()
    ends.until(lambda: len(server.data) == 100_000 + LARGE)


def test_all_bytes_before_an_end_arrive(ends: TwoEnds) -> None:
    ends.listen()
    server, client = ends.both()
    client.peer.send((b"x" * LARGE,))
    ends.until(lambda: not client.peer.unsent_bytes)
    client.peer.close()
    ends.until(lambda: server.was_closed and client.was_closed)
    assert len(server.data) == LARGE


def test_a_client_is_known_by_its_certificate(ends: TwoEnds, stores: Stores) -> None:
    ends.listen(client_auth="required")
    server, client = ends.both()
    assert server.peer.identity == stores.client.der
    assert client.peer.identity == stores.server.der


def test_a_client_without_a_certificate_is_rejected(ends: TwoEnds) -> None:
    ends.listen(client_auth="required")
    ends.connect(settings=replace(ends.client_tls, identity=""))
    ends.until(lambda: bool(ends.rejected))
    assert "peer did not return a certificate" in ends.rejected[0]
    assert not ends.servers


def test_another_host_name_is_rejected_unless_unchecked(ends: TwoEnds) -> None:
    ends.listen()
    ends.connect("127.0.0.1")
    ends.until(lambda: bool(ends.failures))
    assert "the certificate is not accepted: IP address mismatch" in ends.failures[0]
    ends.connect("127.0.0.1", replace(ends.client_tls, check_host=False))
    ends.until(lambda: bool(ends.servers))


def test_a_server_of_an_unknown_authority_is_rejected(ends: TwoEnds) -> None:
    ends.listen()
    ends.connect(settings=replace(ends.client_tls, trusted=None, identity=""))
    ends.until(lambda: bool(ends.failures))
    assert "the certificate is not accepted" in ends.failures[0]
    ends.until(lambda: bool(ends.rejected))
    assert "unknown ca" in ends.rejected[0]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\0\0\0\x10\0\x12\0\0", "it speaks Kafka's protocol without TLS"),
        (b"GET /metrics HTTP/1.1\r\n", "it speaks HTTP without TLS"),
        (b"SSH-2.0-x\r\n", "it sent bytes that begin no TLS handshake"),
        (b"\x16\x03\x01\x00\x05xxxxx", "the TLS handshake failed: "),
    ],
)
def test_a_peer_that_speaks_no_tls_is_named(ends: TwoEnds, sent: bytes, reason: str) -> None:
    ends.listen()
    with ends.raw_client() as client:
        client.sendall(sent)
        ends.until(lambda: bool(ends.rejected))
    assert ends.rejected[0].startswith(reason)


def test_a_handshake_has_a_deadline(ends: TwoEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_handshake, "HANDSHAKE_MS_MAX", 20.0)
    ends.listen()
    with ends.raw_client():
        ends.until(lambda: ends.rejected == ["the TLS handshake took too long"])


def test_a_handshake_has_a_limit_of_bytes(ends: TwoEnds) -> None:
    ends.listen()
    with ends.raw_client() as client:
        client.setblocking(False)
        # A record that is never complete, and another one behind it.
        sent = client.send(b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(100_000))
        assert sent > tls_handshake.HANDSHAKE_BYTES_MAX
        ends.until(lambda: bool(ends.rejected))


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_end_a_handshake_and_nothing_else(ends: TwoEnds, seed: int) -> None:
    chance = random.Random(seed)
    ends.listen()
    with ends.raw_client() as client:
        client.sendall(b"\x16\x03\x01" + chance.randbytes(chance.randrange(2, 3_000)))
        client.shutdown(socket.SHUT_WR)
        ends.until(lambda: bool(ends.rejected))
    ends.both()


def test_bytes_that_are_no_record_end_the_connection(ends: TwoEnds) -> None:
    ends.listen()
    with ends.raw_client() as client:
        client.setblocking(False)
        channel = TlsChannel(client_context(ends.client_tls), "localhost")
        received = b""

        def has_shaken_hands() -> bool:
            nonlocal received
            with contextlib.suppress(BlockingIOError):
                received = client.recv(65_536)
            done = channel.shake_hands(received)
            received = b""
            client.send(channel.take())
            return done

        ends.until(has_shaken_hands)
        ends.until(lambda: bool(ends.servers))
        client.send(channel.write(b"whole"))
        ends.until(lambda: ends.servers[0].data == b"whole")
        changed = bytearray(channel.write(b"changed"))
        changed[-1] ^= 1
        client.send(changed)
        ends.until(lambda: ends.servers[0].was_closed)
    assert ends.servers[0].data == b"whole"


@pytest.mark.parametrize("limit", ["HANDSHAKES_MAX", "HANDSHAKES_PER_ADDRESS_MAX"])
def test_the_oldest_handshake_ends_beyond_a_limit(
    ends: TwoEnds, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(tls_handshake, limit, 2)
    ends.listen()
    silent = [ends.raw_client() for _ in range(3)]
    ends.until(lambda: len(ends.rejected) == 1)
    assert "2 newer TLS handshakes are under way" in ends.rejected[0]
    ends.until(lambda: is_closed(silent[0]))
    ends.both()
    for each in silent:
        each.close()


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_reloaded_settings_are_for_later_connections(ends: TwoEnds, stores: Stores) -> None:
    ends.listen()
    server, client = ends.both()
    other = stores.client.key_pem() + stores.client_chain_pem
    ends.listening.reload(replace(ends.server_tls, identity=other))
    ends.client_tls = replace(ends.client_tls, check_host=False)
    ends.servers.clear()
    ends.clients.clear()
    _, newer = ends.both()
    assert newer.peer.identity == stores.client.der
    client.peer.send((b"still here",))
    ends.until(lambda: server.data == b"still here")


def test_settings_are_tried_in_a_handshake_with_themselves(ends: TwoEnds, stores: Stores) -> None:
    network = ends.world.network
    results: list[TlsFailed | None] = []
    node = replace(ends.server_tls, client_auth="required", trusts_itself=True)
    strange = replace(node, trusted=stores.client.certificate_pem())
    stolen = replace(node, identity=stores.client.key_pem() + stores.server.certificate_pem())
    for settings in (node, strange, stolen, replace(strange, trusts_itself=False)):
        network.prepare_tls(settings, results.append)
        ends.until(lambda: len(results) == 1)
        result = results.pop()
        if settings in (strange, stolen):
            with pytest.raises(TlsFailed):
                network.prepare_tls_now(settings)
            assert result is not None
        else:
            network.prepare_tls_now(settings)
            assert result is None


def test_a_cancelled_attempt_calls_nobody(ends: TwoEnds) -> None:
    ends.listen()
    opened: list[Peer] = []
    attempt = ends.world.network.connect(
        "localhost",
        ends.listening.address[1],
        lambda peer: Heard(opened[0] if opened else peer),
        ends.failures.append,
        WAIT_MS_MAX,
        ends.client_tls,
    )
    attempt.cancel()
    ends.both()
    assert not opened and not ends.failures


def test_secrets_are_not_printed(ends: TwoEnds) -> None:
    assert "PRIVATE" not in repr(ends.server_tls)
