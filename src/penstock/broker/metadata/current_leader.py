"""The leader that the errors of Produce and Fetch name (KIP-951).

A client that asked the wrong node goes to the leader at once, without a request for metadata.
"""

from typing import NamedTuple

from penstock.controller.image import Image
from penstock.wire.structures import NodeEndpoint


class CurrentLeader(NamedTuple):
    """The leader of a partition in the image. There is no endpoint for a broker that is fenced or
    has no such listener."""

    leader_id: int
    leader_epoch: int
    endpoint: NodeEndpoint | None


def find_leader(
    image: Image, listener: str, topic: str | bytes, index: int
) -> CurrentLeader | None:
    """Return the leader as clients of a listener reach it; None without such a partition. `topic`
    is a name or an id."""
    found = image.leader_of(topic, index)
    if found is None:
        return None
    leader_id, leader_epoch = found
    broker = image.brokers.get(leader_id)
    if broker is None or broker.fenced:
        return CurrentLeader(leader_id, leader_epoch, None)
    address = broker.endpoint(listener)
    endpoint = None
    if address is not None:
        endpoint = NodeEndpoint(
            node_id=leader_id, host=address.host, port=address.port, rack=broker.rack
        )
    return CurrentLeader(leader_id, leader_epoch, endpoint)
