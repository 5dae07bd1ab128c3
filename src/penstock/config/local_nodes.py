"""The settings that make several nodes on one machine a cluster.

`penstock start --nodes` and `penstock.testing` begin with them. All other settings are those of a
single node.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.config.listeners import Address, VoterAddress

CLIENT_LISTENER, CONTROLLER_LISTENER = "PLAINTEXT", "CONTROLLER"
REPLICAS_MAX = 3


class LocalNode(NamedTuple):
    """A node of a cluster on this machine: a broker if it has an address for clients, a controller
    if it has one for controllers."""

    node_id: int
    client: Address | None
    controller: Address | None

    @property
    def voter(self) -> VoterAddress:
        assert self.controller is not None, f"node {self.node_id} is no controller"
        return VoterAddress(self.node_id, self.controller)


def membership_settings(node: LocalNode) -> dict[str, str]:
    """Return the id of a node, its roles, and where it listens. The caller adds where the
    controllers are: `controller.quorum.voters` or `controller.quorum.bootstrap.servers`."""
    roles, listeners = [], []
    if node.client is not None:
        roles.append("broker")
        listeners.append(f"{CLIENT_LISTENER}://{node.client}")
    if node.controller is not None:
        roles.append("controller")
        listeners.append(f"{CONTROLLER_LISTENER}://{node.controller}")
    return {
        "process.roles": ",".join(roles),
        "node.id": str(node.node_id),
        "listeners": ",".join(listeners),
        "controller.listener.names": CONTROLLER_LISTENER,
    }


def replication_settings(brokers: int) -> dict[str, str]:
    """Return the replicas of new topics and of the cluster's own topics: three, or one on each of
    fewer brokers. All but one must be in sync for acks=all, so the loss of one broker stops no
    producer."""
    replicas = min(brokers, REPLICAS_MAX)
    factor, in_sync = str(replicas), str(max(1, replicas - 1))
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def controllers_of(nodes: Sequence[LocalNode]) -> list[LocalNode]:
    return [each for each in nodes if each.controller is not None]
