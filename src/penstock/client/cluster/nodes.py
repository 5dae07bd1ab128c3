"""Connections to the nodes of a cluster."""

from collections.abc import Callable

from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated
from penstock.client.transport.security import Security
from penstock.client.transport.sockets import wait_for_any
from penstock.client.values import Broker
from penstock.errors import BrokerNotAvailable
from penstock.wire.messages.k03_metadata import MetadataRequest, MetadataResponse

PORT_DEFAULT = 9092


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Parse `host:port,...`. Raise ValueError with the wrong part."""
    found: list[tuple[str, int]] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon:
            host, port = part, str(PORT_DEFAULT)
        if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
            raise ValueError(f"{part!r} is not host:port, e.g. 127.0.0.1:9092")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ValueError("no address is given, e.g. 127.0.0.1:9092")
    return found


class Nodes:
    """The connections of a client; each is opened at first use and kept while it works.

    A connection whose authentication is about to expire is replaced; its requests in flight finish.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "penstock",
        timeout_ms: int = 30_000,
        security: Security | None = None,
        connect: Callable[[str, int], Connection] | None = None,
    ) -> None:
        """Keep the bootstrap addresses and open no connection yet. `connect` replaces the function
        that opens one."""
        self._bootstrap = parse_bootstrap(bootstrap)
        self._open_one = connect or (
            lambda host, port: Connection(
                host, port, client_id=client_id, timeout_ms=timeout_ms, security=security
            )
        )
        self._open: dict[tuple[str, int], Connection] = {}
        self._expired: list[Connection] = []
        self._brokers: dict[int, Broker] = {}
        self._controller_id = -1

    def close(self) -> None:
        for connection in (*self._open.values(), *self._expired):
            connection.close()
        self._open.clear()
        self._expired.clear()

    def any(self) -> Connection:
        """Return a connection to a node that answers; known nodes are tried first."""
        known = [(each.host, each.port) for each in self._brokers.values()]
        problems: list[str] = []
        for address in dict.fromkeys([*self._open, *self._bootstrap, *known]):
            try:
                return self._connect(address)
            except NotAuthenticated:
                raise  # the other nodes would reject it too, and may lock the account
            except CannotReach as problem:
                problems.append(str(problem))
        raise CannotReach("; ".join(problems))

    def node(self, node_id: int) -> Connection:
        """Return a broker's connection. Raise BrokerNotAvailable if the cluster has no such
        broker."""
        if node_id not in self._brokers:
            self.refresh()
        if node_id not in self._brokers:
            known = ", ".join(map(str, sorted(self._brokers))) or "none"
            raise BrokerNotAvailable(f"there is no broker {node_id}; there is {known}")
        broker = self._brokers[node_id]
        return self._connect((broker.host, broker.port))

    def controller(self) -> Connection:
        """Return the node that takes changes of the cluster. With KRaft any broker forwards them,
        so another one stands in for a node that is away."""
        if self._controller_id not in self._brokers:
            self.refresh()
        if self._controller_id in self._brokers:
            try:
                return self.node(self._controller_id)
            except NotAuthenticated:
                raise
            except CannotReach:
                return self.any()
        return self.any()

    def refresh(self) -> MetadataResponse:
        """Ask any node for the brokers, without topics."""
        return self.metadata(MetadataRequest(topics=[], allow_auto_topic_creation=False))

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        """Ask any node, and remember the brokers of its response."""
        try:
            answer = self.any().request(request, MetadataResponse)
        except NotAuthenticated:
            raise
        except CannotReach:
            # The node has ended since its connection was opened; `any` opens another one.
            answer = self.any().request(request, MetadataResponse)
        self._brokers = {
            each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
            for each in answer.brokers
        }
        self._controller_id = answer.controller_id
        return answer

    @property
    def brokers(self) -> tuple[Broker, ...]:
        return tuple(self._brokers[node_id] for node_id in sorted(self._brokers))

    def _connect(self, address: tuple[str, int]) -> Connection:
        known = self._open.get(address)
        if known is not None and not known.closed and not known.expired and not _ended(known):
            return known
        if known is not None:
            self._retire(known)
            del self._open[address]
        self._open[address] = self._open_one(*address)
        return self._open[address]

    def _retire(self, connection: Connection) -> None:
        """Close the connection once no request is in flight."""
        self._expired.append(connection)
        for each in self._expired:
            if not each.under_way:
                each.close()
        self._expired = [each for each in self._expired if not each.closed]


def _ended(connection: Connection) -> bool:
    """Return whether the server has closed an idle connection."""
    return not connection.under_way and bool(wait_for_any([connection.link], 0))
