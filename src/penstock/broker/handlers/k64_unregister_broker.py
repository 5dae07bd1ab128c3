"""UnregisterBroker, v0: forgets a broker that will not come back. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k64_unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: UnregisterBrokerRequest) -> None:
    def rejected(error: KafkaError) -> UnregisterBrokerResponse:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)

    broker.ask_controller(request, message, rejected)
