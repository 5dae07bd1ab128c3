"""Requests of this node to the active controller on another node, one attempt each."""

from collections.abc import Callable
from typing import TypeVar

from penstock.broker.links.link_connection import LinkRequest
from penstock.broker.links.links import LinkPurpose, Links
from penstock.errors import NotController
from penstock.world import Timers

R = TypeVar("R")

# The id and the address of the leader of the quorum; None while no leader is known.
FindController = Callable[[], tuple[int, tuple[str, int]] | None]


class ControllerChannel:
    """The link to the leader of the quorum, as this node knows it."""

    def __init__(self, links: Links, timers: Timers, find: FindController) -> None:
        self._links = links
        self._timers = timers
        self._find = find

    def send(
        self,
        message: object,
        expect: type[R],
        purpose: LinkPurpose,
        timeout_ms: float,
        answered: Callable[[R | Exception], None],
    ) -> LinkRequest[R] | None:
        """Send a request once. `answered` gets, on a later turn, the response, LinkFailed,
        UnsupportedVersion, or NotController while no controller is known."""
        found = self._find()
        if found is None:
            failure = NotController("no active controller is known")
            self._timers.soon(lambda: answered(failure))
            return None
        node_id, address = found
        link = self._links.to(node_id, address, purpose)
        return link.request(message, expect, timeout_ms, answered)
