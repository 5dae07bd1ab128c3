"""AllocateProducerIds, v0: a block of unused producer ids for one broker."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: AllocateProducerIdsRequest) -> None:
    def rejected(error: KafkaError) -> AllocateProducerIdsResponse:
        return AllocateProducerIdsResponse(error_code=error.code)

    broker.ask_controller(request, message, rejected)
