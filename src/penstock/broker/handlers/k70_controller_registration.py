"""ControllerRegistration, v0: a controller makes its addresses and features known."""

from typing import TYPE_CHECKING

from penstock.broker.handlers.k62_broker_registration import check_sizes
from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: ControllerRegistrationRequest
) -> None:
    check_sizes(message.listeners, message.features)

    def rejected(error: KafkaError) -> ControllerRegistrationResponse:
        return ControllerRegistrationResponse(error_code=error.code, error_message=error.message)

    broker.ask_controller(request, message, rejected)
