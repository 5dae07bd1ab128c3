"""The metrics port of the node at a bootstrap address, read from the node's configuration.

Another node of the same machine may hold the default port, so every answer is compared with the
expected node.
"""

from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.connection.access import Access, connect
from penstock.cli.connection.results import value_of
from penstock.cli.terminal.output import CommandFailed, ExitCode, WrongUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.admin.blocking import Admin
    from penstock.client.values import Broker

KEY = "metrics.listener"
ANSWER_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024
ANY_INTERFACE = ("", "0.0.0.0", "::")
SAY_ADDRESS = "--address HOST:PORT names it: the node's banner says `metrics on`"


class AskedNode(NamedTuple):
    """A node, and where it serves metrics."""

    cluster_id: str
    node_id: int
    address: str

    def check(self, cluster_id: str, node_id: int, address: str) -> None:
        """Raise CommandFailed if another node answered at `address`."""
        if (cluster_id, node_id) != (self.cluster_id, self.node_id):
            raise CommandFailed(
                f"at {address} answers node {node_id} of cluster {cluster_id}, and not node "
                f"{self.node_id} of cluster {self.cluster_id}; {SAY_ADDRESS}"
            )


def node_at(access: Access, address: str | None) -> AskedNode:
    """Return the node at the bootstrap address; raise CommandFailed if the address of its metrics
    is neither given nor configured."""
    with connect(access) as admin:
        cluster = admin.describe_cluster()
        broker = _broker_at(access.bootstrap, cluster.brokers)
        return AskedNode(
            cluster.cluster_id, broker.node_id, address or metrics_address(admin, broker)
        )


def metrics_address(admin: "Admin", broker: "Broker") -> str:
    """Return HOST:PORT of a broker's metrics; raise CommandFailed if the broker serves none."""
    from penstock.client.values import Resource, ResourceType

    resource = Resource(ResourceType.BROKER, str(broker.node_id))
    found = value_of(admin.describe_configs([resource], keys=[KEY])[resource])
    values = [each.value for each in found if each.name == KEY]
    if not values:
        raise CommandFailed(f"broker {broker.node_id} has no {KEY}: it is no node of Penstock")
    if not values[0]:
        raise CommandFailed(f"node {broker.node_id} serves no metrics: its {KEY} is empty")
    host, _, port = values[0].rpartition(":")
    if port == "0":
        raise CommandFailed(f"node {broker.node_id} serves metrics on a free port; {SAY_ADDRESS}")
    return f"{broker.host if host.strip('[]') in ANY_INTERFACE else host}:{port}"


class MetricsPage(NamedTuple):
    status: int
    body: bytes


def read_page(address: str, path: str) -> MetricsPage:
    """Return a page of the metrics port; raise CommandFailed if nothing answers there."""
    host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
    if not host or not port.isdecimal():
        raise WrongUsage(f"--address {address}: must be HOST:PORT")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return MetricsPage(answer.status, answer.read(ANSWER_BYTES_MAX))
    except (OSError, HTTPException) as problem:
        raise CommandFailed(
            f"nothing answers at {address} ({problem}). Is a node running there, with "
            "metrics.listener at this address? Its banner says `metrics on`; --address HOST:PORT "
            "names another one",
            ExitCode.CANNOT_REACH,
        ) from None
    finally:
        connection.close()


def _broker_at(bootstrap: str, brokers: "Sequence[Broker]") -> "Broker":
    from penstock.client.cluster.nodes import parse_bootstrap

    named = parse_bootstrap(bootstrap)
    for address in named:
        for each in brokers:
            if (each.host, each.port) == address:
                return each
    if len(brokers) == 1:
        return brokers[0]
    known = ", ".join(f"{each.host}:{each.port}" for each in brokers)
    raise CommandFailed(f"{bootstrap} is the address of none of the brokers; name one of {known}")
