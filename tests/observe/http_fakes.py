"""A peer that asks an HttpServer in a simulated world, byte by byte as a test wants it."""

from collections.abc import Callable, Mapping

from penstock.observe.http import HttpRequest, Response
from penstock.observe.server import HttpServer, Reply
from penstock.testing.sim.world import Simulation, SimWorld
from penstock.world import Peer

ADDRESS = ("server", 9404)
ASK = b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n"


class Asker:
    """The client's side of one connection (world.Receiver)."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.room: memoryview | None = None
        self.got = bytearray()
        self.over = False

    def received(self, data: memoryview) -> None:
        self.got += data

    def filled(self, _size: int) -> None:
        raise AssertionError("there is no room to fill")

    def sent(self) -> None:
        """Nothing waits for that."""

    def closed(self) -> None:
        self.over = True

    @property
    def body(self) -> bytes:
        """Of the first answer, and what follows it."""
        return bytes(self.got).partition(b"\r\n\r\n")[2]

    @property
    def statuses(self) -> list[int]:
        """Of the answers that have begun to come."""
        parts = bytes(self.got).split(b"HTTP/1.1 ")[1:]
        return [int(part[:3]) for part in parts]


class ServerBench:
    """A server on one machine of a simulation, its clients on another."""

    def __init__(self, seed: int = 1) -> None:
        self.simulation = Simulation(seed)
        self.world = SimWorld(self.simulation, "server")
        self.far = SimWorld(self.simulation, "client")
        self.held: list[Reply] = []
        self.server = HttpServer(
            self.world.network,
            self.world.clock,
            self.world.timers,
            self._routes(),
            urgent=["/urgent"],
        )
        self.server.listen(*ADDRESS)

    def _routes(self) -> Mapping[str, Callable[[HttpRequest, Reply], None]]:
        def fail(_request: HttpRequest, _reply: Reply) -> None:
            raise ValueError("by design")

        return {
            "/small": lambda _request, reply: reply(Response(200, b"small\n")),
            "/urgent": lambda _request, reply: reply(Response(200, b"urgent\n")),
            "/large": lambda _request, reply: reply(Response(200, b"x" * 3_000_000)),
            "/later": lambda _request, reply: self.held.append(reply),
            "/fails": fail,
        }

    def connect(self) -> Asker:
        opened: list[Asker] = []

        def open_it(peer: Peer) -> Asker:
            opened.append(Asker(peer))
            return opened[0]

        def failed(_reason: str) -> None:
            raise AssertionError("nobody listens")

        self.far.network.connect(*ADDRESS, open_it, failed)
        self.simulation.run_until(lambda: bool(opened))
        return opened[0]

    def ask(self, data: bytes, asker: Asker | None = None) -> Asker:
        asker = asker or self.connect()
        asker.peer.send((data,))
        return asker

    def until(self, condition: Callable[[], bool]) -> None:
        self.simulation.run_until(condition, 300_000)
