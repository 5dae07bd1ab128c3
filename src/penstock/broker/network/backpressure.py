"""Backpressure: limits on requests that wait for work off the loop.

Nearly every request ends in its turn, and takes no memory after that. Requests that wait for a
worker (validation, recompression) are copied, and counted here. Beyond queued.max.requests or
queued.max.request.bytes, connections that add such requests are held. Each request that ends
releases the connection that has waited longest.
"""

from penstock.broker.network.frames import FramePool
from penstock.broker.request import ClientConnection


class Backpressure:
    """All waiting requests of a node. Their bytes count as frame memory."""

    def __init__(self, frames: FramePool, requests_max: int) -> None:
        self._frames = frames
        self._requests_max = requests_max
        self._held: dict[ClientConnection, None] = {}
        self.requests = 0

    @property
    def full(self) -> bool:
        return self.requests >= self._requests_max or self._frames.full

    def enter(self, connection: ClientConnection, size: int) -> None:
        """Count a request of `size` bytes until `leave`; hold its connection beyond the limits."""
        self.requests += 1
        self._frames.count(size)
        if self.full and connection not in self._held and not connection.closing:
            self._held[connection] = None
            connection.hold()

    def leave(self, size: int) -> None:
        self.requests -= 1
        self._frames.count(-size)
        assert self.requests >= 0, "only what has entered leaves"
        # One connection at a time, since each brings requests; all of them when no request waits.
        while self._held and not (self.full and self.requests):
            connection = next(iter(self._held))
            del self._held[connection]
            connection.release()
            if self.requests:
                break
