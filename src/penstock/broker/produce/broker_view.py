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
    @property
    def world(self) -> World: ...

    @property
    def wall_ms(self) -> int: ...

    @property
    def backpressure(self) -> RequestBackpressure: ...

    @property
    def unpacking(self) -> Unpacking: ...

    def touch(self) -> None: ...
