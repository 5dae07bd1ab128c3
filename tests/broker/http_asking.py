"""A scraper in the simulation of a Bench."""

from simulated_node import Bench

from penstock.testing.sim.world import SimWorld
from penstock.world import Peer


class Asking:
    """One request on a connection of its own (world.Receiver)."""

    def __init__(self, peer: Peer, path: str) -> None:
        self.room: memoryview | None = None
        self.answer: tuple[int, bytes] | None = None  # status and body, when it is whole
        self._got = bytearray()
        self._peer = peer
        self._path = path

    def begin(self) -> None:
        head = f"GET {self._path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
        self._peer.send((head.encode(),))

    def received(self, data: memoryview) -> None:
        self._got += data
        head, end, body = bytes(self._got).partition(b"\r\n\r\n")
        if end:
            (length,) = (
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            if len(body) == length:
                self.answer = int(head.split(b" ")[1]), body

    def filled(self, _size: int) -> None:
        raise AssertionError("there is no room to fill")

    def sent(self) -> None:
        """Nothing waits for that."""

    def closed(self) -> None:
        """The answer was there before, or it never comes."""


class SimScraper:
    """Asks a simulated node that listens at node:9404."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._world = SimWorld(bench.simulation, "scraper")

    def ask(self, path: str) -> Asking:
        asked: list[Asking] = []

        def opened(peer: Peer) -> Asking:
            asked.append(Asking(peer, path))
            return asked[0]

        def failed(_reason: str) -> None:
            raise AssertionError("nobody listens")

        self._world.network.connect("node", 9404, opened, failed)
        self._bench.simulation.run_until(lambda: bool(asked))
        asked[0].begin()
        return asked[0]

    def get(self, path: str) -> tuple[int, bytes]:
        asking = self.ask(path)
        self._bench.simulation.run_until(lambda: asking.answer is not None)
        assert asking.answer is not None
        return asking.answer
