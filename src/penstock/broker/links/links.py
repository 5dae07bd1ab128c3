"""All links of a node: one for each node and purpose, so that no heartbeat waits behind a fetch."""

from collections.abc import Callable
from enum import Enum

from penstock.broker.links.link import Link, LinkSettings, LinkWorld
from penstock.world import TlsSettings


class LinkPurpose(Enum):
    """The requests that share a connection."""

    QUORUM = "quorum"  # fetches of metadata, which wait at the peer
    VOTE = "vote"  # elections, which must not wait
    HEARTBEAT = "heartbeat"
    SHORT = "short"  # everything else that a controller answers soon
    TRANSACTION = "transaction"  # markers and questions between coordinators and leaders
    FETCH = "fetch"  # replication, which waits at the peer
    OFFSETS = "offsets"  # questions of followers about the ends of logs


# Sent to the listener of brokers; all others go to that of controllers.
BETWEEN_BROKERS = (LinkPurpose.TRANSACTION, LinkPurpose.FETCH, LinkPurpose.OFFSETS)


class Links:
    """Makes links, and replaces a link whose node has moved."""

    def __init__(
        self,
        world: LinkWorld,
        settings: LinkSettings,
        to_brokers: LinkSettings | None = None,
        find_tls: Callable[[LinkPurpose], TlsSettings | None] = lambda _purpose: None,
    ) -> None:
        """Make links with `settings`, or those between brokers with `to_brokers`. `find_tls`
        returns the present settings of TLS for a purpose."""
        self._world = world
        self._settings = settings
        self._to_brokers = to_brokers or settings
        self._find_tls = find_tls
        self._links: dict[tuple[int, LinkPurpose], Link] = {}
        self.is_closed = False

    def to(self, node_id: int, address: tuple[str, int], purpose: LinkPurpose) -> Link:
        """Return the link to a node at its present address."""
        link = self._links.get((node_id, purpose))
        if link is not None and link.address == address:
            return link
        if link is not None:
            link.close()
        settings = self._to_brokers if purpose in BETWEEN_BROKERS else self._settings
        link = self._links[node_id, purpose] = Link(
            self._world, *address, settings, lambda: self._find_tls(purpose)
        )
        return link

    def end(self, node_id: int, purpose: LinkPurpose) -> None:
        """Close the link of one purpose."""
        link = self._links.pop((node_id, purpose), None)
        if link is not None:
            link.close()

    def close(self) -> None:
        self.is_closed = True
        links, self._links = self._links, {}
        for link in links.values():
            link.close()
