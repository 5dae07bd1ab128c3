"""Vote, v0-v2: another controller asks for this one's vote.  v1: voter keys.  v2: pre-vote.

The metadata quorum answers, after its vote is on disk.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.wire.messages.k52_vote import VoteRequest

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: VoteRequest) -> None:
    broker.metadata.receive(message, request.reply)
