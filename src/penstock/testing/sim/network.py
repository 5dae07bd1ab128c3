"""Connections in memory with the faults of TCP.

Bytes arrive late and in pieces of any size. A paused reader makes the sender's bytes pile up. A
connection can break at any moment, with a part of the bytes in flight still arriving. A receiver's
buffer is overwritten when its turn ends.

Paths between hosts can be cut, in one direction or both. Bytes, ends and attempts to connect then
wait for the path, as TCP repeats unacknowledged bytes. A machine can vanish without a reset: its
peers notice by their own time limits, or when another process answers at its host.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product
from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

from penstock.testing.sim.tls import certificate_of, check_settings, handshake_problem
from penstock.world import (
    FileRange,
    Part,
    Peer,
    Receiver,
    Rejected,
    TlsFailed,
    TlsSettings,
    Tuning,
)

if TYPE_CHECKING:
    from penstock.testing.sim.world import SimTimer, Simulation, SimWorld

WINDOW_BYTES = (
    4 * 1024,
    64 * 1024,
    256 * 1024,
    1024 * 1024,
)  # window sizes of a sender, one of these
DELAY_MS_MAX = 3.0
CONNECT_MS_MAX = 5.0
HANDSHAKE_MS_MAX = 10.0
TIMEOUT_MS = 10_000.0
FIRST_PORT = 40_000
SCRIBBLE = 0xDD
CHOP_CHANCE = 0.3  # that bytes in flight arrive in two pieces, or more
_ARRIVAL = Struct(">II")


class SimPeer:
    """One end of a connection for the process at this end (world.Peer)."""

    def __init__(
        self, network: "SimNetwork", world: "SimWorld", address: tuple[str, int], window: int
    ) -> None:
        self._network = network
        self._simulation = network.simulation
        self._window = window
        self.world = world
        self.host = world.network.host_name()
        self.address = address
        self.identity: bytes | None = None
        self.other: SimPeer | None = None
        self.receiver: Receiver | None = None
        self.paused = False
        self.unsent_bytes = 0
        self.received_bytes = 0
        self._unsent: deque[Part] = deque()
        self._wire = bytearray()  # in flight to this end
        self._ended = False  # no more bytes will come from the other end
        self._arriving = False  # an event for this end is in the heap
        self._finishing = False  # further input is discarded

    # -- sending

    def send(self, parts: Sequence[Part]) -> None:
        if self.receiver is None and self.other is None:
            return  # closed
        for part in parts:
            size = part.size if isinstance(part, FileRange) else len(part)
            self._unsent.append(part if isinstance(part, FileRange) else memoryview(bytes(part)))
            self.unsent_bytes += size
        if self.receiver is not None:
            self.push()

    def attach(self, receiver: Receiver) -> None:
        self.receiver = receiver
        if self._unsent:
            self.push()
        self.expect()

    def hand_over(self, receiver: Receiver) -> None:
        if self.receiver is not None:
            self.receiver = receiver

    def push(self) -> None:
        """Put as many bytes on the wire as the window takes."""
        other = self.other
        if other is None:
            self._push_into_void()
            return
        while self._unsent and len(other._wire) < self._window:
            data = self._take(self._window - len(other._wire))
            if data is None:
                self.drop()
                return
            other._wire += data
        other.expect()

    def _push_into_void(self) -> None:
        """Drop this connection, as after a reset, if the other host is reachable."""
        if self._network.reaches(self.host, self.address[0]):
            self._simulation.schedule(0.0, self.world, self.drop, "broken")

    def _take(self, size_max: int) -> bytes | None:
        """Return the next bytes to send; None if a file is shorter than promised."""
        first = self._unsent.popleft()
        if isinstance(first, FileRange):
            size = min(size_max, first.size)
            data = first.file.read_now(first.position, size)
            if len(data) < size:
                return None
            if size < first.size:
                self._unsent.appendleft(first.after(size))
        else:
            data = bytes(first[:size_max])
            if size_max < len(first):
                self._unsent.appendleft(first[size_max:])
        self.unsent_bytes -= len(data)
        return data

    def _writable(self) -> None:
        if self.receiver is not None and self._unsent:
            self.push()
            if not self._unsent and self.receiver is not None:
                self.receiver.sent()

    # -- receiving

    def expect(self) -> None:
        """Schedule a look at the input."""
        if self._arriving or self.paused or self.receiver is None:
            return
        if not self._network.has_path(self.address[0], self.host):
            return
        if self._wire or self._ended:
            self._arriving = True
            chance = self._simulation.chance
            delay_ms = chance.choice((0.0, 0.1, chance.uniform(0.0, DELAY_MS_MAX)))
            self._simulation.schedule(delay_ms, self.world, self._arrive, "arrive")

    def _arrive(self) -> None:
        self._arriving = False
        receiver = self.receiver
        if receiver is None or self.paused:
            return
        if not self._network.has_path(self.address[0], self.host):
            return
        if not self._wire:
            if self._ended:
                self.drop()
            return
        self._hand_over(receiver)
        if self.other is not None and self.other._unsent:
            self._simulation.schedule(0.0, self.other.world, self.other._writable, "writable")
        self.expect()

    def _hand_over(self, receiver: Receiver) -> None:
        chance = self._simulation.chance
        there = len(self._wire)
        size = there
        if chance.random() >= 1.0 - self._network.chop_chance:
            size = chance.choice((1, chance.randint(1, there)))
        room = receiver.room
        if room is not None:
            size = min(size, len(room))
        data = bytearray(self._wire[:size])
        del self._wire[:size]
        self.received_bytes += size
        self._simulation.note_bytes(_ARRIVAL.pack(size, crc32(data)))
        if self._finishing:
            return
        if room is not None:
            room[:size] = data
            receiver.filled(size)
        else:
            self.world.network.lend(data)
            receiver.received(memoryview(data))

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.expect()

    def has_ended(self) -> bool:
        return self._ended and not self._wire

    # -- ending

    def finish(self) -> None:
        self._finishing = True
        if self.other is not None:
            self.other._ended = True
            self.other.expect()
        self.resume()

    def close(self) -> None:
        self._simulation.schedule(0.0, self.world, self.drop, "close")

    def drop(self) -> None:
        """Close this end; the other end notices after the bytes in flight, or a part of them."""
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            return
        self.let_go()
        receiver.closed()

    def let_go(self) -> None:
        self.receiver = None
        self._unsent.clear()
        self.unsent_bytes = 0
        self._network.forget(self)
        other, self.other = self.other, None
        if other is not None:
            other.other = None
            other.end()

    def end(self) -> None:
        """Note that the other end is gone."""
        chance = self._simulation.chance
        if self._wire and chance.random() < 0.5:
            del self._wire[chance.randrange(len(self._wire)) :]
        self._ended = True
        if self._unsent:
            self._push_into_void()
        self.expect()

    def orphan(self) -> None:
        """Note that the other machine vanished: nothing arrives any more, not even an end."""
        self.other = None
        self._wire.clear()

    def path_healed(self) -> None:
        """Go on with bytes that waited for the path."""
        self.expect()
        if self._unsent and self.receiver is not None:
            self.push()


class SimListening:
    def __init__(
        self,
        network: "SimNetwork",
        world: "SimWorld",
        address: tuple[str, int],
        accept: Callable[[Peer], Receiver],
        tls: TlsSettings | None,
        rejected: Rejected,
    ) -> None:
        self._network = network
        self.world = world
        self.address = address
        self.accept = accept
        self.tls = tls
        self.rejected = rejected
        self.paused = False
        self.waiting: list[Callable[[], None]] = []  # connections that came during a pause

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Accept the waiting connections one by one, until the next pause."""
        self.paused = False
        self._let_in()

    def _let_in(self) -> None:
        if self.waiting and not self.paused:
            self.waiting.pop(0)()
            self._network.simulation.schedule(0.0, self.world, self._let_in, "accept")

    def reload(self, tls: TlsSettings) -> None:
        self.tls = tls

    def close(self) -> None:
        if self._network.listening.get(self.address) is self:
            del self._network.listening[self.address]


class SimConnecting:
    """An attempt to connect (world.Connecting)."""

    def __init__(
        self,
        network: "SimNetwork",
        world: "SimWorld",
        target: tuple[str, int],
        opened: Callable[[Peer], Receiver],
        failed: Callable[[str], None],
        tls: TlsSettings | None,
    ) -> None:
        self._tls = tls
        self._network = network
        self._world = world
        self._target = target
        self._opened = opened
        self._failed = failed
        self._deadline: SimTimer | None = None
        self._over = False

    def begin(self, timeout_ms: float | None = None) -> None:
        """Set out for the target; with a time limit at the first time."""
        simulation = self._network.simulation
        if timeout_ms is not None:
            text = f"no connection within {timeout_ms:.0f} ms"
            self._deadline = simulation.schedule(
                timeout_ms, self._world, lambda: self._fail(text), "connect"
            )
        delay_ms = simulation.chance.uniform(0.0, CONNECT_MS_MAX)
        simulation.schedule(delay_ms, self._world, self._arrive, "connect")

    def cancel(self) -> None:
        self._over = True
        self._network.hanging.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def _fail(self, reason: str) -> None:
        if not self._over:
            self.cancel()
            self._failed(reason)

    def _arrive(self) -> None:
        if self._over:
            return
        network, near_host = self._network, self._world.network.host_name()
        if not network.reaches(near_host, self._target[0]):
            network.hanging[self] = None
            network.hung += 1
            return
        ends = network.connect(self._world, near_host, self._target)
        if ends is None:
            self._fail("nothing listens there")
            return
        near, far, listening = ends
        if self._tls is None and listening.tls is None:
            self._open(near, far, listening)
        else:
            self._shake_hands(near, far, listening)

    def _open(self, near: SimPeer, far: SimPeer, listening: SimListening) -> None:
        self.cancel()
        near.attach(self._opened(near))
        self._network.simulation.schedule(
            0.0, listening.world, lambda: self._accept(far, listening), "accept"
        )

    def _shake_hands(self, near: SimPeer, far: SimPeer, listening: SimListening) -> None:
        """Open the connection if both sides accept each other, and no accident happens."""
        simulation = self._network.simulation
        reason = "it speaks Kafka's protocol without TLS"
        problem = reason if self._tls is None else handshake_problem(self._tls, listening.tls)
        if problem is None and simulation.chance.random() < self._network.handshake_failures:
            problem = "the TLS handshake took too long"
        near.identity = certificate_of(listening.tls)
        asked = listening.tls is not None and listening.tls.client_auth != "none"
        far.identity = certificate_of(self._tls) if asked else None

        def end() -> None:
            if problem is None and not self._over:
                self._open(near, far, listening)
                return
            near.let_go()
            self._network.forget(far)
            if problem is not None and listening.tls is not None and listening.world.alive:
                listening.rejected(far.address, problem)
            self._fail(problem or "")

        delay_ms = simulation.chance.uniform(0.0, HANDSHAKE_MS_MAX)
        simulation.schedule(delay_ms, self._world, end, "handshake")

    def _accept(self, far: SimPeer, listening: SimListening) -> None:
        if listening.paused:
            listening.waiting.append(lambda: self._accept(far, listening))
            return
        far.attach(listening.accept(far))


class SimNetwork:
    """All listeners, and every connection between them."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.listening: dict[tuple[str, int], SimListening] = {}
        self.peers: dict[SimPeer, None] = {}
        self.down_hosts: set[str] = set()
        self.hanging: dict[SimConnecting, None] = {}  # attempts without a path
        self.hung = 0  # attempts that had no path at first
        self.handshake_failures = 0.0  # share of the handshakes that fail by accident
        self.chop_chance = CHOP_CHANCE
        self._cuts: set[tuple[str, str]] = set()  # from host, to host
        self._next_port = FIRST_PORT

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def forget(self, peer: SimPeer) -> None:
        self.peers.pop(peer, None)

    def connect(
        self, world: "SimWorld", host: str, target: tuple[str, int]
    ) -> tuple[SimPeer, SimPeer, SimListening] | None:
        listening = self.listening.get(target)
        if listening is None or not listening.world.alive:
            return None
        chance = self.simulation.chance
        near = SimPeer(self, world, target, chance.choice(WINDOW_BYTES))
        from_address = (host, self.free_port())
        far = SimPeer(self, listening.world, from_address, chance.choice(WINDOW_BYTES))
        near.other, far.other = far, near
        self.peers[near] = self.peers[far] = None
        return near, far, listening

    # Paths between hosts

    def has_path(self, source: str, target: str) -> bool:
        return (source, target) not in self._cuts

    def reaches(self, source: str, target: str) -> bool:
        """Return whether the machine at `target` can answer `source`."""
        there = self.has_path(source, target) and self.has_path(target, source)
        return there and target not in self.down_hosts

    def cut(self, source: str, target: str) -> None:
        """Cut the path from one host to another; the path back stays."""
        self._cuts.add((source, target))

    def separate(self, *sides: Iterable[str]) -> None:
        """Cut all paths between the hosts of different sides."""
        for one, other in permutations([tuple(side) for side in sides], 2):
            self._cuts.update(product(one, other))

    def restore(self, source: str, target: str) -> None:
        """Restore the path from one host to another."""
        self._cuts.discard((source, target))
        self.go_on()

    def heal(self) -> None:
        """Restore all paths."""
        self._cuts.clear()
        self.go_on()

    def go_on(self) -> None:
        """Deliver all that waited for a path."""
        hanging, self.hanging = self.hanging, {}
        for attempt in hanging:
            attempt.begin()
        for peer in list(self.peers):
            peer.path_healed()

    def break_one(self) -> bool:
        """Break a connection at random, for both ends; return False if there is none."""
        if not self.peers:
            return False
        peer = self.simulation.chance.choice(list(self.peers))
        self.simulation.schedule(0.0, peer.world, peer.drop, "break")
        return True


class HostNetwork:
    """The network as one process sees it (world.Network)."""

    def __init__(self, network: SimNetwork, world: "SimWorld", host: str) -> None:
        self._network = network
        self._world = world
        self._host = host
        self._lent: list[bytearray] = []

    def host_name(self) -> str:
        return self._host

    def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Peer], Receiver],
        tuning: Tuning | None = None,  # noqa: ARG002  # nothing to tune here
        tls: TlsSettings | None = None,
        rejected: Rejected = lambda _address, _reason: None,
    ) -> SimListening:
        address = (host or self._host, port or self._network.free_port())
        if address in self._network.listening:
            raise OSError(98, "Address already in use")
        if self._host in self._network.down_hosts:
            self._network.down_hosts.discard(self._host)
            self._network.go_on()
        listening = SimListening(self._network, self._world, address, accept, tls, rejected)
        self._network.listening[address] = listening
        return listening

    def connect(
        self,
        host: str,
        port: int,
        opened: Callable[[Peer], Receiver],
        failed: Callable[[str], None],
        timeout_ms: float = TIMEOUT_MS,
        tls: TlsSettings | None = None,
    ) -> "SimConnecting":
        attempt = SimConnecting(self._network, self._world, (host, port), opened, failed, tls)
        attempt.begin(timeout_ms)
        return attempt

    def prepare_tls(self, tls: TlsSettings, done: Callable[[TlsFailed | None], None]) -> None:
        def prepared(_result: None, failure: BaseException | None) -> None:
            assert failure is None or isinstance(failure, TlsFailed), failure
            done(failure)

        self._world.workers.run(check_settings, (tls,), prepared)

    def prepare_tls_now(self, tls: TlsSettings) -> None:
        check_settings(tls)

    def lend(self, data: bytearray) -> None:
        """Lend bytes that a receiver may read until its turn ends."""
        self._lent.append(data)

    def turn_ended(self) -> None:
        for data in self._lent:
            data[:] = bytes([SCRIBBLE]) * len(data)
        self._lent.clear()

    def vanish(self, *, machine: bool = False) -> None:
        """Stop all listeners and break all connections of a dead process. If its `machine` is gone
        too, no peer hears of that."""
        network = self._network
        for address in [at for at, each in network.listening.items() if each.world is self._world]:
            del network.listening[address]
        if machine:
            network.down_hosts.add(self._host)
        for peer in [each for each in network.peers if each.world is self._world]:
            if machine and peer.other is not None:
                peer.other.orphan()
                peer.other = None
            peer.let_go()
