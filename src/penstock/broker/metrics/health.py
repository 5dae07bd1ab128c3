"""Readiness of a node, with reasons, for load balancers and supervisors."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


class Check(NamedTuple):
    """One condition; `reason` is empty if the condition holds."""

    name: str
    reason: str


def readiness(broker: "Broker | None") -> list[Check]:
    """Return all conditions. `broker` is None while the node opens its directories."""
    if broker is None:
        return [Check("started", "the node is starting")]
    started = "" if broker.ready else "the logs are being opened or recovered"
    stopping = "the node is stopping" if broker.stopping else ""
    working = [each for each in broker.replicas.directories if not each.failed]
    total = len(broker.replicas.directories)
    directories = "" if working else f"none of {total} log directories works"
    leads = broker.metadata.describe().leader_id == broker.node_id
    metadata = "" if leads else "the metadata log has no leader"
    return [
        Check("started", started),
        Check("not_stopping", stopping),
        Check("metadata", metadata),
        Check("directories", directories),
    ]
