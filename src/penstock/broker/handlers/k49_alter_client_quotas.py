"""AlterClientQuotas, v0-v1. Answered by the controller."""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def denied(message: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """Return the error for each entry."""
    entries = [
        ResponseEntryData(error_code=error.code, error_message=error.message, entity=each.entity)
        for each in message.entries
    ]
    return AlterClientQuotasResponse(entries=entries)


def handle(broker: "Broker", request: ClientRequest, message: AlterClientQuotasRequest) -> None:
    broker.ask_controller(request, message, partial(denied, message))
