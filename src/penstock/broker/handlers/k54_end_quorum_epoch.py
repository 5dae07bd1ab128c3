"""EndQuorumEpoch, v0-v1: the leader of the metadata quorum resigns.  v1: voter keys."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: EndQuorumEpochRequest) -> None:
    broker.metadata.receive(message, request.reply)
