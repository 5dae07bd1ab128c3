"""The broker as batches see it on their way to a partition."""

from typing import Protocol

from penstock.broker.produce.unpacking import Unpacking
from penstock.broker.request import ClientConnection
from penstock.world import World


class RequestBackpressure(Protocol):
    """Counts requests that wait for work off the loop (network/backpressure.py)."""

    def enter(self, connection: ClientConnection, size: int) -> None: ...

    def leave(self, size: int) -> None: ...


class ProduceBroker(Protocol):
    world: World
    wall_ms: int
    unpacking: Unpacking

    @property
    def backpressure(self) -> RequestBackpressure: ...

    def touch(self) -> None: ...
