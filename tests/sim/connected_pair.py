"""Two simulated processes with a connection between them."""

from penstock.testing.sim.world import Simulation, SimWorld
from penstock.world import Peer


class Noting:
    """A receiver that keeps copies of what it got, and the views themselves."""

    def __init__(self) -> None:
        self.room: memoryview | None = None
        self.pieces: list[bytes] = []
        self.views: list[memoryview] = []
        self.ended = False

    def filled(self, size: int) -> None:
        raise AssertionError(f"there was no room for {size} bytes")

    def received(self, data: memoryview) -> None:
        self.pieces.append(bytes(data))
        self.views.append(data)

    def sent(self) -> None:
        pass

    def closed(self) -> None:
        self.ended = True

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


class Pair:
    """Two processes with a connection between them."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.near, self.far = Noting(), Noting()
        self.server = SimWorld(self.simulation, "server")
        self.client = SimWorld(self.simulation, "client")
        self.peers: dict[str, Peer] = {}

        def accept(peer: Peer) -> Noting:
            self.peers["far"] = peer
            return self.far

        def opened(peer: Peer) -> Noting:
            self.peers["near"] = peer
            return self.near

        self.server.network.listen("server", 1, accept)
        self.client.network.connect("server", 1, opened, lambda _reason: None)
        self.simulation.run_until(lambda: len(self.peers) == 2)
