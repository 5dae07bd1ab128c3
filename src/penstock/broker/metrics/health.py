"""Whether a node is fit to be sent clients, and if not, why: for those who restart or route."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


class Check(NamedTuple):
    """One condition; `reason` says what is wrong, and is empty if nothing is."""

    name: str
    reason: str


def readiness(broker: "Broker | None") -> list[Check]:
    """All that must hold. `broker` is None as long as the node is opening its directories."""
    if broker is None:
        return [Check("started", "the node is starting")]
    started = "" if broker.ready else "the logs are being opened or recovered"
    stopping = "the node is stopping" if broker.stopping else ""
    working = [each for each in broker.hosting.directories if not each.failed]
    total = len(broker.hosting.directories)
    directories = "" if working else f"none of {total} log directories works"
    leads = broker.metadata.describe().leader_id == broker.node_id
    metadata = "" if leads else "the metadata log has no leader"
    return [
        Check("started", started),
        Check("not_stopping", stopping),
        Check("metadata", metadata),
        Check("directories", directories),
    ]
