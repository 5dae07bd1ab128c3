"""Requests of this node to other brokers, by their ids."""

from collections.abc import Callable
from typing import TypeVar

from penstock.broker.links.link_connection import LinkFailed
from penstock.broker.links.links import BETWEEN_BROKERS, LinkPurpose, Links
from penstock.controller.delta import Delta
from penstock.controller.image import Image
from penstock.world import Timers

R = TypeVar("R")


class BrokerLinks:
    """The links to the addresses that brokers have registered. `find` returns the address of a
    broker that is alive, None for any other."""

    def __init__(
        self, links: Links, timers: Timers, find: Callable[[int], tuple[str, int] | None]
    ) -> None:
        self._links = links
        self._timers = timers
        self._find = find

    def send(
        self,
        node_id: int,
        message: object,
        expect: type[R],
        purpose: LinkPurpose,
        timeout_ms: float,
        answered: Callable[[R | Exception], None],
    ) -> None:
        """Send a request once. `answered` gets, on a later turn, the response, LinkFailed or
        UnsupportedVersion."""
        address = self._find(node_id)
        if address is None:
            failure = LinkFailed(f"broker {node_id} is away", unsent=True)
            self._timers.soon(lambda: answered(failure))
            return
        self._links.to(node_id, address, purpose).request(message, expect, timeout_ms, answered)

    def close(self, node_id: int, purpose: LinkPurpose) -> None:
        """Close the connection of a purpose; its requests fail. A later one connects again."""
        self._links.end(node_id, purpose)

    def follow(self, image: Image, delta: Delta) -> None:
        """Close the links to brokers whose registration has ended. A controller with the same id
        keeps its links."""
        for broker_id in delta.brokers:
            if broker_id not in image.brokers:
                for purpose in BETWEEN_BROKERS:
                    self._links.end(broker_id, purpose)
