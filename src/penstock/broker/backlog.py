"""Requests that wait for work off the loop, and when the sockets are read no further.

Nearly every request is done with in the turn it comes in, and takes no memory after that. Those
that wait for a worker (to be looked into, to be recompressed) are copied, and counted here. Beyond
queued.max.requests of them, or queued.max.request.bytes, the connections that add to them are
held; each request that is done with lets the one go on that has waited longest.
"""

from typing import TYPE_CHECKING

from penstock.broker.frames import FramePool

if TYPE_CHECKING:
    from penstock.broker.connection import Connection


class Backlog:
    """All such requests of a node. Their bytes count among those of frames under way."""

    def __init__(self, frames: FramePool, requests_max: int) -> None:
        self._frames = frames
        self._requests_max = requests_max
        self._held: dict[Connection, None] = {}
        self.requests = 0

    @property
    def full(self) -> bool:
        return self.requests >= self._requests_max or self._frames.full

    def enter(self, connection: "Connection", size: int) -> None:
        """A request keeps `size` bytes until `leave`; its connection may have to wait."""
        self.requests += 1
        self._frames.count(size)
        if self.full and connection not in self._held and not connection.closing:
            self._held[connection] = None
            connection.hold()

    def leave(self, size: int) -> None:
        self.requests -= 1
        self._frames.count(-size)
        assert self.requests >= 0, "only what has entered leaves"
        # One at a time, since each will bring a request or two; but nobody waits for nothing.
        while self._held and not (self.full and self.requests):
            connection = next(iter(self._held))
            del self._held[connection]
            connection.release()
            if self.requests:
                break
