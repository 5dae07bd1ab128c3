"""FetchSnapshot, v0-v1: a part of a snapshot of the metadata.  v1: voter keys."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: FetchSnapshotRequest) -> None:
    broker.metadata.receive(message, request.reply)
