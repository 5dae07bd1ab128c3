"""BeginQuorumEpoch, v0-v1: another controller leads the metadata quorum.  v1: voter keys."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: BeginQuorumEpochRequest) -> None:
    broker.metadata.receive(message, request.reply)
